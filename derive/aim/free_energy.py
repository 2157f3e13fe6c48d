"""Logarithmic potential of the spectrum, and the identities behind the free energy."""

from functools import cache

import sympy as sp

from .residues import mmse_from_cube
from .spectrum import position
from .symbols import g, noise, root, width

__all__ = ["information_identities", "potential"]


@cache
def potential() -> sp.Expr:
    """Logarithmic potential, int rho_Y(y) log(z - y) dy, as a function of g(z) off the real axis.

    Its real part on the support is the mean of log|x - y|.

    It is the integral of g dz = d(g z) - z dg, with the constant that makes it log z at infinity.

    References
    ----------
    boncoraglio2025, (47).
    """
    # z = 1/g + rho/(sqrt(rho) - g) + Delta g, term by term; the logarithm of g is that of 1/g at infinity.
    primitive = g * position() - sp.log(g) + width * sp.log(root - g) - noise * g**2 / 2
    constant = 1 + width * sp.log(root)
    return primitive - constant


@cache
def information_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (47) and dI/dqhat = MMSE / 4.

    I = (1/2) int int rho_Y rho_Y log|x - y| - (1/4) log Delta + 1/8.  The density flows with Delta by d rho/dDelta =
    -d(rho Re g)/dx, the imaginary part of dg/dDelta = -g dg/dz; so the double integral grows at the rate 2 int rho (Re
    g)^2, which is (2 pi^2 / 3) int rho^3 since the integral of Im g^3 over the support vanishes
    (`derive.aim.residues`).

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (47)-(48).
    """
    cube, snr = sp.symbols("cube qhat", positive=True)
    slope = sp.diff(position(), g)
    # Derivative of g with respect to Delta at fixed z: dz = z_g dg + z_Delta dDelta = 0.
    flow = -sp.diff(position(), noise) / slope
    # int rho^3 = (sqrt(rho) / pi)^3 cube, as in `mmse_from_cube`.
    log_energy_rate = sp.Rational(2, 3) * sp.pi**2 * (root / sp.pi) ** 3 * cube
    information_rate = log_energy_rate / 2 - 1 / (4 * noise)
    by_snr = information_rate * sp.diff(1 / snr, snr).subs(snr, 1 / noise)
    large = sp.Symbol("epsilon", positive=True)
    return {
        "derivative of the potential": sp.diff(potential(), g) / slope - g,
        "dg/dDelta": flow + g / slope,
        "potential at infinity": sp.limit((potential() + sp.log(g)).subs(g, large), large, 0),
        "dI/dqhat": by_snr - mmse_from_cube(cube) / 4,
    }
