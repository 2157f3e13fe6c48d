"""Integrals against the spectral density of Y by residues: the error of the matrix denoiser and its duality.

Everything is written for x(u) = A/u + B/(1 - u) + C u, with u = g / sqrt(rho): A = 1/sqrt(rho), B = sqrt(rho), C =
Delta sqrt(rho).  On the support u = a + ib (b != 0) and its conjugate give the same x; outside it the physical u is
analytic, vanishes as A/x at infinity and is nowhere zero.  Hence for a polynomial R in u and 1/u, the integral of Im
R(u) over the support is -pi times the coefficient of 1/x in R(u) at infinity.

The error of the denoiser is Delta - (4 pi^2 / 3) Delta^2 int rho_Y^3 = Delta - Delta^2 (4 A^-3 / (3 pi)) J with J the
integral of |Im u|^3.  The Moebius map w = u / (u - 1) exchanges B and C and turns x into A + B + C - x, so that J of
the model with B and C exchanged is the integral of |Im w|^3 over the same support.  Exchanging B and C is rho -> rho
Delta, Delta -> 1/Delta, with x scaled by sqrt(Delta).
"""

from functools import cache

import sympy as sp

from .spectrum import position
from .symbols import g, noise, root

__all__ = ["duality_identities", "mmse_from_cube", "mmse_from_modulus", "modulus_identities", "tail_coefficient"]

_A, _B, _C = sp.symbols("A B C", positive=True)
_U = sp.Symbol("u")
_RE, _IM = sp.symbols("a b", real=True, nonzero=True)
#: |u|^2 and |1 - u|^2 in terms of a and b.
_P = _RE**2 + _IM**2
_N = (1 - _RE) ** 2 + _IM**2


def _position(u: sp.Expr, a: sp.Expr = _A, b: sp.Expr = _B, c: sp.Expr = _C) -> sp.Expr:
    return a / u + b / (1 - u) + c * u


@cache
def tail_coefficient(power: int) -> sp.Expr:
    """Coefficient of 1/x in u^power at infinity, for the physical u of x = A/u + B/(1 - u) + C u.

    Parameters
    ----------
    power : int
        Any integer; nonnegative powers beyond 1 give 0.
    """
    # The residue at infinity in x is one at u = 0: coefficient of 1/u in -u^power dx/du.
    integrand = -(_U**power) * sp.diff(_position(_U), _U)
    order = 3 + abs(power)
    return sp.expand(sp.series(sp.expand(integrand * _U**order), _U, 0, order).removeO()).coeff(_U, order - 1)


def mmse_from_cube(cube: sp.Expr) -> sp.Expr:
    """Error Delta - (4 pi^2 / 3) Delta^2 int rho_Y^3 dx, with rho_Y = sqrt(rho) |Im u| / pi.

    Parameters
    ----------
    cube : sympy.Expr
        The integral of |Im u|^3 over x.

    References
    ----------
    boncoraglio2025, (15).
    """
    return noise - sp.Rational(4, 3) * sp.pi**2 * noise**2 * (root / sp.pi) ** 3 * cube


def mmse_from_modulus(modulus: sp.Expr) -> sp.Expr:
    """Error Delta - Delta^2 int rho_Y |g|^2 dx; the cube and the modulus are related by `modulus_identities`.

    Parameters
    ----------
    modulus : sympy.Expr
        The integral of |u|^2 |Im u| over x.

    References
    ----------
    boncoraglio2025, (16).
    """
    return noise - noise**2 * root**3 / sp.pi * modulus


@cache
def modulus_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove that (15) is (16): int |Im u|^3 = (3/4) int |u|^2 |Im u|.

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.
    """
    u = _RE + sp.I * _IM
    cube, modulus = sp.symbols("cube modulus", positive=True)
    return {
        "4 b^3 = 3 |u|^2 b - Im u^3": 4 * _IM**3 - 3 * _P * _IM + sp.im(sp.expand(u**3, complex=True)),
        "Im u^3 integrates to zero": tail_coefficient(3),
        "both forms of the error": (mmse_from_cube(cube) - mmse_from_modulus(modulus)).subs(
            cube, sp.Rational(3, 4) * modulus
        ),
        # Third root v of the cubic: the product of the three roots, and |u|^2 v = A / C.
        "product of the roots": _product_of_roots() - _A / _C,
    }


def _product_of_roots() -> sp.Expr:
    cubic = sp.Poly(sp.numer(sp.together(_position(_U) - sp.Symbol("x"))), _U)
    return -cubic.TC() / cubic.LC()


@cache
def duality_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove MMSE_rho(Delta) = Delta MMSE_(rho Delta)(1 / Delta).

    The steps, with b = |Im u| on the support, P = |u|^2, N = |1 - u|^2:

    1. u and its conjugate give the same x only if A/P = B/N + C.
    2. w = u/(u - 1) solves the equation with B and C exchanged at A + B + C - x, and behaves as -u at infinity: it is
       the physical solution there.  |w|^2 = P/N and |Im w| = b/N.
    3. By step 1, C^2 P b - B^2 (P/N) (b/N) = 2 A C b - A^2 b/P: the integrals that have no closed form cancel.
    4. What is left is elementary: int b = pi A and int b/P = int Im(1/u) = pi (B + C).
    5. Put into the two sides of the duality, this leaves nothing.

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (24).
    """
    u, conjugate = _RE + sp.I * _IM, _RE - sp.I * _IM
    w, w_conjugate = u / (u - 1), conjugate / (conjugate - 1)
    same_place = -_A / _P + _B / _N + _C
    factor = _A - _C * _P + _B * _P / _N
    integrand = _C**2 * _P * _IM - _B**2 * (_P / _N) * (_IM / _N)
    elementary = 2 * _A * _C * _IM - _A**2 * _IM / _P

    values = {_A: 1 / root, _B: root, _C: noise * root}
    scale = sp.sqrt(noise)
    dual = {root: root * scale, noise: 1 / noise}
    dual_values = {symbol: value.subs(dual, simultaneous=True) for symbol, value in values.items()}
    modulus, dual_modulus = sp.symbols("modulus dual", positive=True)
    area, inverse = sp.pi * tail_coefficient(1), -sp.pi * tail_coefficient(-1)
    # Integral of |w|^2 |Im w| over the support of the model itself, by step 3.
    other = (_C**2 * modulus - 2 * _A * _C * area + _A**2 * inverse) / _B**2
    # The dual model's own x is shorter by the scale.
    right = noise * mmse_from_modulus(dual_modulus).subs(dual, simultaneous=True).subs(dual_modulus, other / scale)
    return {
        "model": _position(g / root).subs(values) - position(),
        "dual model": scale * _position(_U).subs(dual_values) - _position(_U, _A, _C, _B).subs(values),
        "1, same x": (_position(u) - _position(conjugate)) / (2 * sp.I * _IM) - same_place,
        "2, place of w": _position(_U / (_U - 1), _A, _C, _B) - (_A + _B + _C - _position(_U)),
        "2, modulus of w": w * w_conjugate - _P / _N,
        "2, imaginary part of w": (w - w_conjugate) / (2 * sp.I) + _IM / _N,
        "3, integrands": integrand - elementary + _IM * factor * same_place,
        "4, int b": area - sp.pi * _A,
        "4, int b/P": inverse - sp.pi * (_B + _C),
        "5, duality": sp.expand((mmse_from_modulus(modulus) - right).subs(values)),
    }
