"""Spectrum of Y = S + sqrt(Delta) Z for S = W W^T / sqrt(r d) and Z from the GOE, by free addition.

S is a sum of r = rho d independent terms w w^T / sqrt(r d), each of rank one with eigenvalue 1 / sqrt(rho): a free
Poisson law of rate rho and jump 1 / sqrt(rho), whose free cumulants are k_n = rho (1 / sqrt(rho))^n.  Free cumulants
add, and the semicircle of the noise has k_2 = Delta alone.
"""

from functools import cache

import sympy as sp

from .symbols import g, noise, root, width, z

__all__ = [
    "discriminant",
    "edge_quartic",
    "free_cumulant",
    "moments",
    "position",
    "r_transform",
    "rie",
    "rie_slope",
    "stieltjes_cubic",
    "subordinated_cubic",
]


def free_cumulant(order: int) -> sp.Expr:
    """Free cumulant k_n = rho (1 / sqrt(rho))^n of S in the limit d -> infinity.

    Parameters
    ----------
    order : int
        n >= 1.

    References
    ----------
    boncoraglio2025, (4).
    """
    if order < 1:
        raise ValueError(f"order must be >= 1 (boncoraglio2025, (4)), got {order}")
    return width * (1 / root) ** order


@cache
def r_transform() -> sp.Expr:
    """R(g) = sum_n k_(n+1) g^n of S, the geometric series summed: rho / (sqrt(rho) - g)."""
    # SymPy sums the series on its disc of convergence; beyond it R is its continuation.
    ratio = sp.cancel(free_cumulant(3) / free_cumulant(2)) * g
    return sp.cancel(free_cumulant(1) / (1 - ratio))


@cache
def position() -> sp.Expr:
    """z(g) = 1/g + R_S(g) + Delta g, the inverse of the Stieltjes transform of Y."""
    return 1 / g + r_transform() + noise * g


@cache
def stieltjes_cubic() -> sp.Poly:
    """Cubic of g(z), with leading coefficient Delta.

    References
    ----------
    boncoraglio2025, (12).
    """
    numerator = sp.Poly(sp.numer(sp.together(position() - z)), g)
    return numerator * (noise / numerator.LC())


@cache
def subordinated_cubic() -> sp.Poly:
    """Return the same cubic by subordination: the Stieltjes transform of S alone at z - Delta g.

    The quadratic of S is (z - 1/g - R_S(g)) times its denominators; adding a semicircle shifts z by Delta g.
    """
    quadratic = sp.numer(sp.together(1 / g + r_transform() - z))
    shifted = sp.Poly(quadratic.subs(z, z - noise * g), g)
    return shifted * (noise / shifted.LC())


@cache
def edge_quartic() -> sp.Poly:
    """Quartic in g whose real roots are the edges: dz/dg = 0, with leading coefficient Delta.

    References
    ----------
    boncoraglio2025, (14).
    """
    numerator = sp.Poly(sp.numer(sp.together(sp.diff(position(), g))), g)
    return numerator * (noise / numerator.LC())


@cache
def discriminant() -> sp.Poly:
    """Discriminant of the cubic as a polynomial of degree four in z; the support is where it is negative."""
    return sp.Poly(sp.expand(sp.discriminant(stieltjes_cubic().as_expr(), g)), z)


def moments(count: int, with_noise: bool = True) -> list[sp.Expr]:
    """Moments m_0 .. m_count of Y, or of S, from the series of the Stieltjes transform at infinity.

    Parameters
    ----------
    count : int
        Highest order, >= 0.
    with_noise : bool
        False for S itself.
    """
    # z = 1/g + R(g): m_n is the coefficient of g^n in (1 + g R(g))^(n+1) / (n + 1), by Lagrange inversion.
    cumulants = [free_cumulant(n) + (noise if n == 2 and with_noise else 0) for n in range(1, count + 1)]
    found: list[sp.Expr] = [sp.S.One]
    powers = sp.Poly(1 + sum((k * g**n for n, k in enumerate(cumulants, 1)), sp.S.Zero), g)
    product = powers
    for n in range(1, count + 1):
        product = sp.Poly({m: c for m, c in (product * powers).terms() if m[0] <= count}, g)
        found.append(sp.expand(product.coeff_monomial(g**n) / (n + 1)))
    return found


@cache
def rie(real_part: sp.Symbol) -> sp.Expr:
    """Eigenvalue of the posterior mean, f = x - 2 Delta Re g(x), from the conditional expectation of S given Y.

    Subordination gives tau(S (z - Y)^-1) = omega g - 1 at omega = z - Delta g; f is the ratio of its imaginary part on
    the real axis to that of g.

    Parameters
    ----------
    real_part : sympy.Symbol
        Stands for Re g(x).

    References
    ----------
    boncoraglio2025, (17).
    """
    x, height = sp.symbols("x b", real=True)
    value = real_part + sp.I * height
    transform = sp.expand((x - noise * value) * value - 1)
    return sp.cancel(sp.im(sp.expand(transform, complex=True)) / height).subs(x, z)


@cache
def rie_slope() -> sp.Expr:
    """Derivative of x - 2 Delta g(x) along z, implicit in g; its real part is f'(x)."""
    return 1 - 2 * noise / sp.cancel(sp.diff(position(), g))
