"""What the attention map determines: Theta, from d^2 inputs, wherever there are two tokens."""

import sympy as sp

from .layer import attention, matrix

__all__ = ["flip_inputs", "recovered_theta", "recovery_identities", "single_token_attention"]


def flip_inputs(tokens: int, dim: int) -> dict[tuple[int, int], sp.Matrix]:
    """Inputs (a, p) whose first row is query a and whose second row is that query with coordinate p flipped.

    Parameters
    ----------
    tokens, dim : int
        k >= 2 and d. Query 0 is all ones, query a > 0 has coordinate a flipped; they span R^d. Tokens beyond the second
        repeat the first.

    Returns
    -------
    dict of (int, int) to Matrix, shape (k, d)
        d^2 of them, with entries +-1.
    """
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}: one token has attention 1 for every Theta")
    found = {}
    for a in range(dim):
        query = sp.ones(1, dim)
        if a:
            query[a] = -1
        for p in range(dim):
            other = query.copy()
            other[p] = -other[p]
            found[a, p] = sp.Matrix.vstack(query, other, *[query] * (tokens - 2))
    return found


def recovered_theta(ratios: dict[tuple[int, int], sp.Expr], dim: int) -> sp.Matrix:
    """Theta from log(A_11 / A_12) at the inputs of `flip_inputs`, in closed form.

    log(A_11 / A_12) = x^T Theta (x - x') = 2 x_p (x^T Theta)_p for the query x and x', which is x with coordinate p
    flipped. The rows x^T of the queries form a matrix of determinant (-2)^(d - 1).

    Parameters
    ----------
    ratios : dict of (int, int) to Expr
        Keys as in `flip_inputs`.
    dim : int
        d.

    Returns
    -------
    Matrix, shape (d, d)

    References
    ----------
    chen2024, (9)-(10).
    """
    queries = sp.ones(dim, dim)
    for a in range(1, dim):
        queries[a, a] = -1
    products = sp.Matrix(dim, dim, lambda a, p: ratios[a, p] / (2 * queries[a, p]))
    return (queries.inv() * products).expand()


def recovery_identities(tokens: int, dim: int) -> dict[str, sp.Expr | sp.Matrix]:
    """Differences that vanish and prove that k >= 2 tokens determine Theta.

    Parameters
    ----------
    tokens, dim : int
        k >= 2 and d; Theta is a matrix of symbols.

    Returns
    -------
    dict of str to Expr or Matrix
        Each is identically zero.

    References
    ----------
    chen2024, (9)-(10).
    """
    theta = matrix("Theta", dim, dim)
    x = matrix("x", tokens, dim)
    weights = attention(x, theta)
    exact = sp.expand((x[0, :] * theta * (x[0, :] - x[1, :]).T)[0])
    found: dict[str, sp.Expr | sp.Matrix] = {
        "log-ratio": sp.expand(_log_ratio(weights) - exact),
    }
    ratios = {}
    for key, inputs in flip_inputs(tokens, dim).items():
        assert all(entry in (1, -1) for entry in inputs)
        ratios[key] = _log_ratio(attention(inputs, theta))
    found["Theta"] = recovered_theta(ratios, dim) - theta
    return found


def _log_ratio(weights: sp.Matrix) -> sp.Expr:
    """log(A_11 / A_12) = the difference of exponents, once the common denominator cancels."""
    ratio = sp.powsimp(sp.cancel(weights[0, 0] / weights[0, 1]), force=True)
    return sp.expand(sp.expand_log(sp.log(ratio), force=True))


def single_token_attention(dim: int) -> sp.Expr:
    """Attention of one token minus 1, for any Theta: it vanishes, and so one token leaves every Theta free."""
    return attention(matrix("x", 1, dim), matrix("Theta", dim, dim))[0, 0] - 1
