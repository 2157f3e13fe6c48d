"""One untied layer of rank 1: the operator (15) from the posterior moments of the scale that the output leaves free."""

from dataclasses import dataclass
from functools import cache

import sympy as sp

from .. import symbols


@cache
def fibre_moment(power: int, rho: sp.Symbol) -> sp.Expr:
    """Return the integral of r^p exp(-r^2/2 - rho^2/(2 r^2)) over r > 0, a Bessel function of order (p + 1)/2.

    Two Gaussian vectors whose outer product is observed keep one scale r free: (r, rho/r) are their norms.

    Parameters
    ----------
    power : int
        p. An even one gives an elementary function.
    rho : sympy.Symbol
        Positive.
    """
    if power % 2:
        # r^2 = rho e^x turns it into the integral of exp(-rho cosh x) cosh(nu x), which defines K_nu.
        order = sp.Rational(power + 1, 2)
        return rho**order * sp.besselk(order, rho)
    r = sp.Symbol("r", positive=True)
    made = sp.integrate(r**power * sp.exp(-(r**2) / 2 - rho**2 / (2 * r**2)), (r, 0, sp.oo))
    return sp.simplify(made.rewrite(sp.exp))


@cache
def _norm_product(power: int, first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """Return E |z|^p E |z'|^p of standard Gaussian vectors of these sizes, which differ by 0 or 1."""
    r, n = sp.symbols("r n", positive=True)
    over, under = (
        sp.integrate(r ** (n - 1 + k) * sp.exp(-(r**2) / 2), (r, 0, sp.oo), conds="none") for k in (power, 0)
    )
    ratio = over / under
    # As one quotient of gamma functions of n, which is rational for sizes n, n - 1 and for even powers.
    product = sp.powsimp(sp.expand_func(sp.gammasimp(ratio * ratio.subs(n, n - (first - second)))))
    return product.subs(n, first)


def scale_mean_square(tokens: sp.Expr) -> sp.Expr:
    """Return E[E[|k|^2 | k q^T]^2] of two Gaussian vectors of size M, as one integral.

    The norms have density (r t)^{M-1} e^{-(r^2 + t^2)/2}; given rho = r t, that of r is e^{-r^2/2 -
    rho^2/(2 r^2)}/r, so E[|k|^2|rho] = rho K_1(rho)/K_0(rho), and rho has density proportional to rho^{M-1}
    K_0(rho).  No closed form of the integral is known.

    Parameters
    ----------
    tokens : sympy.Expr
        M >= 1.

    Returns
    -------
    sympy.Expr
        With a ``sympy.Integral``.

    References
    ----------
    Derived here.
    """
    rho, s = sp.Symbol("rho", positive=True), sp.Symbol("s", positive=True)
    density = fibre_moment(-1, rho)
    mean = fibre_moment(1, rho) / density
    # The Mellin transform of K_0 is what normalises the density.
    total = sp.gammasimp(sp.integrate(rho ** (s - 1) * density, (rho, 0, sp.oo), conds="none")).subs(s, tokens)
    integrand = sp.powsimp(rho ** (tokens - 1) * density * mean**2)
    return sp.Integral(integrand, (rho, 0, sp.oo)) / total


@dataclass(frozen=True)
class UntiedOperator:
    """The operator (15) of one untied layer of rank 1, in the symmetric matrices over (k, q).

    By the reflection k -> -k of the law it does not mix the diagonal with the cross term:
    ``F(M)_kk = kk M_kk + cross M_qq``, ``F(M)_qq = cross M_kk + qq M_qq``, ``F(M)_kq = off M_kq``.

    Attributes
    ----------
    kk, qq, cross, off : sympy.Expr
        In M; with an unevaluated integral for the linear activation.
    """

    kk: sp.Expr
    qq: sp.Expr
    cross: sp.Expr
    off: sp.Expr

    @property
    def top(self) -> sp.Expr:
        """The larger eigenvalue of the diagonal part; every other one, `off` included, is smaller."""
        if self.kk == self.qq:
            return self.kk + self.cross
        half = sp.factor((self.kk - self.qq) / 2)
        return sp.factor(sp.factor((self.kk + self.qq) / 2) + sp.sqrt(sp.factor(half**2 + self.cross**2)))

    @property
    def direction(self) -> sp.Matrix:
        """Its eigenvector, diagonal with positive entries, Frobenius norm 1."""
        if self.kk == self.qq:
            return sp.eye(2) / sp.sqrt(2)
        ratio = sp.factor((self.top - self.kk) / self.cross)
        return sp.diag(1, ratio) / sp.sqrt(1 + ratio**2)


@cache
def untied_operator(tokens: sp.Expr = symbols.tokens, activation: str = "softmax") -> UntiedOperator:
    """Derive the operator (15) of one untied layer of rank 1.

    Softmax rows of k_a q_b fix k_a (q_b - q_c): with d the part of q orthogonal to the all-ones vector, they fix
    k d^T and leave free the mean of q, which the output carries no information on, and one scale: the
    directions of k and d (up to a common sign) and rho = |k||d| are known.  The norms have densities r^{M-1}
    e^{-r^2/2} and t^{M-2} e^{-t^2/2} (M - 1 dimensions), so that given rho that of r is e^{-r^2/2 - rho^2/(2 r^2)},
    for any M.  The linear activation fixes k q^T, with M dimensions for both.

    The output does not change under (k, q) -> (-k, -q), so E[k|y] = E[q|y] = 0 and zero overlap is a fixed point of the
    state evolution at every alpha. The direction that leaves it first is diagonal: keys and queries gain overlap with
    their own weights, each through the other; the cross overlap M_kq is stable up to a larger alpha, for every M.

    With E[|k|^2|y] = a(rho), E[|d|^2|y] = b(rho) and unit directions u, w: G^kk = a u u^T - I,
    G^qq = b w w^T - Q, G^kq = rho u w^T, where Q is the projection on the space of d.

    Parameters
    ----------
    tokens : sympy.Expr
        M >= 2; a symbol gives formulas.
    activation : {"softmax", "linear"}

    References
    ----------
    troiani2025, (15), (19)-(24); derived here.
    """
    rho = sp.Symbol("rho", positive=True)
    # Dimensions of k and of the part of q that is seen, and the power of r in the density of |k| given rho.
    n_k, n_q = tokens, tokens - 1 if activation == "softmax" else tokens
    power = 0 if activation == "softmax" else -1
    density = fibre_moment(power, rho)
    a = sp.expand(sp.cancel(fibre_moment(power + 2, rho) / density))
    b = sp.expand(sp.cancel(rho**2 * fibre_moment(power - 2, rho) / density)) if power == 0 else a

    def mean(polynomial: sp.Expr) -> sp.Expr:
        # rho = |k||d| with independent norms.
        terms = sp.Poly(polynomial, rho).terms()
        return sp.factor(sp.Add(*[c * _norm_product(exponent, n_k, n_q) for (exponent,), c in terms]))

    cross = mean(rho**2)
    if power == 0:
        kk, qq = mean(a**2 - 2 * a + n_k), mean(b**2 - 2 * b + n_q)
        # tr(G^kk G^qq) + tr(G^kq G^qk) with E (u.w)^2 = 1/M and E |Q u|^2 = n_q/M.
        off = mean(a * b / n_k - a * n_q / n_k - b + n_q) + cross / n_k
    else:
        square = scale_mean_square(tokens)
        # E a = E|k|^2 = M by the tower property.
        kk = qq = square - n_k
        off = square / n_k - n_k + cross / n_k
    return UntiedOperator(kk, qq, cross, sp.factor(off) if power == 0 else sp.expand(off))
