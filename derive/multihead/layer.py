"""The layer in symbols, its derivatives in Theta and W, and proofs that they are those of the specification."""

import sympy as sp

__all__ = ["attention", "derivative_identities", "layer", "matrix", "scores", "symbolic_attention"]


def matrix(name: str, rows: int, columns: int) -> sp.Matrix:
    """Matrix of independent real symbols."""
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i + 1}{j + 1}", real=True))


def scores(x: sp.Matrix, theta: sp.Matrix) -> sp.Matrix:
    """Logits X Theta X^T, shape (k, k).

    Parameters
    ----------
    x : Matrix, shape (k, d)
    theta : Matrix, shape (d, d)
    """
    return (x * theta * x.T).expand()


def symbolic_attention(logits: sp.Matrix) -> sp.Matrix:
    """Row-wise softmax of a matrix of logits."""
    weights = logits.applyfunc(sp.exp)
    return sp.Matrix(*logits.shape, lambda r, j: weights[r, j] / sum(weights[r, :]))


def attention(x: sp.Matrix, theta: sp.Matrix) -> sp.Matrix:
    """Attention matrix softmax(X Theta X^T), row-wise, shape (k, k).

    Parameters
    ----------
    x : Matrix, shape (k, d)
    theta : Matrix, shape (d, d)

    References
    ----------
    chen2024, (2).
    """
    return symbolic_attention(scores(x, theta))


def layer(x: sp.Matrix, thetas: list[sp.Matrix], ws: list[sp.Matrix]) -> sp.Matrix:
    """Outputs sum_i softmax(X Theta_i X^T) X W_i, shape (k, d).

    Parameters
    ----------
    x : Matrix, shape (k, d)
    thetas, ws : list of Matrix, shape (d, d)

    References
    ----------
    chen2024, (1).
    """
    total = sp.zeros(*x.shape)
    for theta, w in zip(thetas, ws, strict=True):
        total += attention(x, theta) * x * w
    return total


def derivative_identities(tokens: int, dim: int) -> dict[str, sp.Expr]:
    """Differences that vanish and prove the derivatives of one head; those of several heads add.

    1. dA_j / dl_q = A_j (delta_jq - A_q) for the softmax of logits l, by differentiation.
    2. l_j = x_r^T Theta x_j, so that dl_j / dTheta_pq = x_rp x_jq.
    3. By the chain rule dF_rc / dTheta_pq = x_rp (Cov_A(x) W)_qc, with Cov_A(x) the covariance of the tokens under the
       weights A.
    4. dF_rc / dW_ae = (A X)_ra delta_ce.

    Parameters
    ----------
    tokens, dim : int
        k and d; the tokens, Theta and W are symbols.

    Returns
    -------
    dict of str to Expr
        Each is identically zero.

    References
    ----------
    chen2024, (7)-(8).
    """
    x, theta, w = matrix("x", tokens, dim), matrix("Theta", dim, dim), matrix("W", dim, dim)
    logits, weights = sp.symbols(f"l_1:{tokens + 1}", real=True), sp.symbols(f"e_1:{tokens + 1}", positive=True)
    named = dict(zip(map(sp.exp, logits), weights, strict=True))
    soft = symbolic_attention(sp.Matrix([logits]))
    a = soft.subs(named)
    found: dict[str, sp.Expr] = {}
    for j in range(tokens):
        for q in range(tokens):
            stated = a[j] * (sp.Integer(j == q) - a[q])
            found[f"1, dA_{j + 1}/dl_{q + 1}"] = sp.diff(soft[j], logits[q]).subs(named) - stated
    exact = scores(x, theta)
    for p in range(dim):
        for q in range(dim):
            for j in range(tokens):
                found[f"2, {j + 1}, {p + 1}{q + 1}"] = sp.diff(exact[0, j], theta[p, q]) - x[0, p] * x[j, q]
    # From here on the weights are symbols that sum to one, and everything is a polynomial in them.
    free = sp.symbols(f"a_1:{tokens}", positive=True)
    a = sp.Matrix([[*free, 1 - sum(free)]])
    mean = a * x
    covariance = sp.zeros(dim, dim)
    for j in range(tokens):
        centred = x[j, :] - mean
        covariance += a[j] * centred.T * centred
    stated_w = covariance * w
    values, output = x * w, mean * w
    for c in range(dim):
        # dF_rc / dl_q by step 1.
        slopes = [sum(a[j] * (sp.Integer(j == q) - a[q]) * values[j, c] for j in range(tokens)) for q in range(tokens)]
        for p in range(dim):
            for q in range(dim):
                chained = sum(slopes[j] * x[0, p] * x[j, q] for j in range(tokens))
                found[f"3, c = {c + 1}, {p + 1}{q + 1}"] = chained - x[0, p] * stated_w[q, c]
                found[f"4, c = {c + 1}, {p + 1}{q + 1}"] = sp.diff(output[c], w[p, q]) - mean[p] * sp.Integer(q == c)
    return found
