"""What the first steps of the algorithm assume: the mean of the crude sum, and rows on which the heads agree."""

from itertools import product

import sympy as sp

from .layer import matrix

__all__ = ["agreement_identities", "crude_sum_bias", "crude_sum_series"]


def crude_sum_series(tokens: int, dim: int) -> tuple[sp.Matrix, sp.Matrix]:
    """Mean over all inputs of (1/k) X^T J F(X) for one head, to first order in Theta: both orders.

    The layer is linear in its heads' W, and the mean of several heads is the sum.

    Parameters
    ----------
    tokens, dim : int
        k and d; all 2^(k d) inputs are enumerated.

    Returns
    -------
    zeroth, first : Matrix, shape (d, d)
        The second is linear in Theta.

    References
    ----------
    chen2024, (22).
    """
    theta, w = matrix("Theta", dim, dim), matrix("W", dim, dim)
    zeroth, first = sp.zeros(dim, dim), sp.zeros(dim, dim)
    for entries in product((1, -1), repeat=tokens * dim):
        x = sp.Matrix(tokens, dim, entries)
        mean = sp.ones(1, tokens) * x / tokens
        # A_rj = (1 + l_rj - mean_j l_rj)/k + O(Theta^2), l_rj = x_r^T Theta x_j; the sum over r of x_r is k times the
        # mean, which takes up the 1/k in front.
        column = sp.ones(1, tokens) * x
        centred = x - sp.ones(tokens, 1) * mean
        zeroth += column.T * mean
        first += column.T * (mean * theta * centred.T * x / tokens)
    count = sp.Integer(2) ** (tokens * dim)
    return (zeroth / count * w).expand(), ((first / count).expand() * w).expand()


def crude_sum_bias(tokens: int, dim: int) -> sp.Matrix:
    """First order in Theta of the mean of the crude sum of one head, (k - 1)/k (Theta - (2/k) diag(Theta)) W.

    References
    ----------
    chen2024, (22).
    """
    theta, w = matrix("Theta", dim, dim), matrix("W", dim, dim)
    inner = theta - sp.Rational(2, tokens) * sp.diag(*theta.diagonal())
    return (sp.Rational(tokens - 1, tokens) * inner * w).expand()


def agreement_identities(tokens: int, dim: int, heads: int) -> dict[str, sp.Expr | sp.Matrix]:
    """Differences that vanish and prove what a small residual of a row says of the heads' patterns.

    1. y - alpha^T X S = B^T delta, with delta the stacked deviations A_i - alpha without their last entries and the
       rows (x_j - x_k)^T W_i in B: |delta| <= |residual| / sigma_min(B). B has m (k - 1) rows and d columns.
    2. To first order in delta, log(A_a / A_c) - log(alpha_a / alpha_c) = delta_a / alpha_a - delta_c / alpha_c.

    Parameters
    ----------
    tokens, dim, heads : int
        k, d and m; everything is a symbol.

    Returns
    -------
    dict of str to Expr or Matrix
        Each is identically zero.

    References
    ----------
    chen2024, (25)-(27).
    """
    x = matrix("x", tokens, dim)
    ws = [matrix(f"V{i}", dim, dim) for i in range(heads)]

    def pattern(name: str) -> sp.Matrix:
        free = sp.symbols(f"{name}_1:{tokens}", real=True)
        return sp.Matrix([[*free, 1 - sum(free)]])

    alpha, patterns = pattern("alpha"), [pattern(f"A{i}") for i in range(heads)]
    output = sum((a * x * w for a, w in zip(patterns, ws, strict=True)), sp.zeros(1, dim))
    residual = output - alpha * x * sum(ws, sp.zeros(dim, dim))
    rows = sp.Matrix.vstack(*[(x[j, :] - x[-1, :]) * w for w in ws for j in range(tokens - 1)])
    delta = sp.Matrix([[a[j] - alpha[j] for a in patterns for j in range(tokens - 1)]])
    size, first, second = sp.symbols("epsilon delta_a delta_c", real=True)
    one, other = sp.symbols("alpha_a alpha_c", positive=True)
    ratio = sp.log((one + size * first) / (other + size * second))
    return {
        "residual": (residual - delta * rows).expand(),
        "shape of B": sp.Matrix([rows.shape]) - sp.Matrix([[heads * (tokens - 1), dim]]),
        "first order": sp.cancel(sp.diff(ratio, size).subs(size, 0) - (first / one - second / other)),
    }
