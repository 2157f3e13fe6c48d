"""Noise on the indices: an output of h + z, z Gaussian with the covariance Delta_n C of which h has V C given omega.

The sum of both is Gaussian with the covariance (V + Delta_n) C, so that Z_out of any activation is that without noise
at V + Delta_n; its slopes in omega are, too. Noise has the symmetry of h, z_ab = z_ba, as if S had an own GOE part in
every sample; the argument takes no more than that z has a Gaussian law.
"""

from functools import cache

import sympy as sp

from .symbols import overlap, variance

__all__ = ["label_noise", "noise_identities", "noisy_covariance", "noisy_indices"]

#: Delta_n, the variance of the noise on an index over 1 + delta_ab.
label_noise = sp.Symbol("Delta_n", positive=True)


def noisy_indices() -> tuple[sp.Expr, sp.Expr]:
    """Variance of h + z over C, and the share of h in it.

    References
    ----------
    boncoraglio2025, (57).
    """
    total = variance + label_noise
    return total, variance / total


def noisy_covariance(entry: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """Covariance of h + z in units of V + Delta_n, where that of h is V times ``entry`` and that of z Delta_n C.

    References
    ----------
    boncoraglio2025, (57).
    """
    total, _ = noisy_indices()
    return (variance * entry + label_noise * spread) / total


@cache
def noise_identities() -> dict[str, sp.Expr]:
    """Differences that vanish and prove (57), for one entry; the entries are independent.

    Returns
    -------
    dict of str to sympy.Expr
        Each is identically zero.

    References
    ----------
    boncoraglio2025, (57).
    """
    h, s, omega = sp.symbols("h s omega", real=True)
    c = sp.Symbol("C", positive=True)
    total, share = noisy_indices()

    def log_density(x: sp.Expr, mean: sp.Expr, spread: sp.Expr) -> sp.Expr:
        return -((x - mean) ** 2) / (2 * spread) - sp.log(2 * sp.pi * spread) / 2

    # h given s = h + z and omega.
    mean, left = omega + share * (s - omega), variance * label_noise * c / total
    joint = log_density(s, h, label_noise * c) + log_density(h, omega, variance * c)
    parts = log_density(s, omega, total * c) + log_density(h, mean, left)
    # V sum C E g^2 and the same at V + Delta_n, where g is the same function of omega and y.
    square = sp.Symbol("C_g_g", positive=True)
    # What is known after Gaussian noise of variance Delta_n C alone: the linear output.
    linear = variance * c * sp.diff(log_density(s, omega, total * c), omega) ** 2
    return {
        "law of h + z": sp.expand_log(sp.expand(joint - parts), force=True).simplify(),
        "F": variance * square - share * (total * square),
        "q/V": sp.cancel((overlap / variance) * share - overlap / total),
        "linear": sp.cancel(linear.subs(s, omega + sp.sqrt(total * c)) - share),
    }
