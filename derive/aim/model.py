"""Moments of the model at finite dimension, by Wick's theorem: indices at given S, and the first moments of S."""

import sympy as sp

from .symbols import width

__all__ = [
    "dimension",
    "independent_overlap",
    "index_covariance",
    "mean_square_trace",
    "measurement_variance",
    "overlap_limit",
    "rank",
    "second_moment",
]

#: Dimension and rank.
dimension, rank = sp.symbols("d r", positive=True, integer=True)


def _wick(polynomial: sp.Expr, gaussians: list[sp.Symbol]) -> sp.Expr:
    """Mean of a polynomial in independent standard Gaussians: E[z^(2k)] = (2k - 1)!!."""
    total = sp.S.Zero
    for powers, coefficient in sp.Poly(sp.expand(polynomial), *gaussians).terms():
        if all(power % 2 == 0 for power in powers):
            total += coefficient * sp.prod([sp.factorial2(power - 1) for power in powers])
    return sp.expand(total)


def index_covariance(size: int) -> tuple[sp.Matrix, sp.Matrix]:
    """Covariance of (h_11, h_12, h_22) over the tokens at given symmetric S, and what (6) says: Tr S^2 / d times C.

    Parameters
    ----------
    size : int
        d.

    References
    ----------
    boncoraglio2025, (6).
    """
    s = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"S_{min(i, j)}{max(i, j)}"))
    x = [sp.Matrix(sp.symbols(f"x{a}_:{size}")) for a in (1, 2)]
    gaussians = [*x[0], *x[1]]
    h = [
        sp.expand(((x[a].T * s * x[b])[0] - (s.trace() if a == b else 0)) / sp.sqrt(size))
        for a, b in ((0, 0), (0, 1), (1, 1))
    ]
    found = sp.Matrix(3, 3, lambda i, j: _wick(h[i] * h[j], gaussians))
    return found, sp.expand((s * s).trace() / size) * sp.diag(2, 1, 2)


def measurement_variance(size: int, same_token: bool) -> tuple[sp.Expr, sp.Expr]:
    """Variance of an off-diagonal entry of Z_ab, with h_ab = Tr(S Z_ab), and what (11) says: C_ab / (2 d).

    Parameters
    ----------
    size : int
        d >= 2.
    same_token : bool
        Whether a = b.

    References
    ----------
    boncoraglio2025, (11).
    """
    x = sp.Matrix(sp.symbols(f"x1_:{size}"))
    y = x if same_token else sp.Matrix(sp.symbols(f"x2_:{size}"))
    entry = ((x * y.T + y * x.T) / 2)[0, 1] / sp.sqrt(size)
    return _wick(entry**2, sorted({*x, *y}, key=str)), (1 + sp.Integer(same_token)) / (2 * sp.Integer(size))


def second_moment(size: int, ranks: tuple[int, ...]) -> sp.Expr:
    """E Tr(S_l S_m) / d at given dimension, exactly: of one layer with itself, or of two independent ones.

    Parameters
    ----------
    size : int
        d.
    ranks : tuple of int
        The rank of one layer, or the ranks of two independent ones.

    References
    ----------
    boncoraglio2025, (5), (49).
    """
    factors = [sp.Matrix(size, r, sp.symbols(f"w{n}_:{size * r}")) for n, r in enumerate(ranks)]
    products = [w * w.T / sp.sqrt(r * size) for w, r in zip(factors, ranks, strict=True)]
    square = (products[0] * products[-1]).trace()
    return _wick(square, [entry for w in factors for entry in w]) / size


def mean_square_trace() -> sp.Expr:
    """E Tr S^2 / d = (r + d + 1) / d, which tends to 1 + rho.

    References
    ----------
    boncoraglio2025, (5).
    """
    return (rank + dimension + 1) / dimension


def overlap_limit() -> sp.Expr:
    """Q, the limit of `mean_square_trace` for d -> infinity at r = rho d."""
    return sp.limit(sp.expand(mean_square_trace().subs(rank, width * dimension)), dimension, sp.oo)


def independent_overlap(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """E Tr(S_l S_m) / d = sqrt(r_l r_m) / d of two independent layers, the product of their mean eigenvalues.

    Parameters
    ----------
    first, second : sympy.Expr
        Ranks r_l and r_m.

    References
    ----------
    boncoraglio2025, (49).
    """
    return sp.sqrt(first / dimension) * sp.sqrt(second / dimension)
