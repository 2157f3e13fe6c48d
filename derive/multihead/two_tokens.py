"""Two tokens: the layer in its tanh form, what follows from its oddness, and that three tokens have none of it.

With v, u = (x_1 +- x_2)/2 and z = x_r^T Theta (x_1 - x_2) the attention of row r is (1 +- tanh(z/2))/2, so that a head
gives (v + tanh(z/2) u)^T W. As tanh is odd, the second part is that of (-Theta, -W).
"""

import sympy as sp

from .layer import attention, layer, matrix

__all__ = [
    "equivalence_identities",
    "flip_difference",
    "pole_identities",
    "tanh_form",
    "tanh_identities",
    "three_token_gaps",
]


def tanh_form(x: sp.Matrix, thetas: list[sp.Matrix], ws: list[sp.Matrix]) -> sp.Matrix:
    """Outputs at k = 2, v^T sum_i W_i + u^T sum_i tanh(z_r^i / 2) W_i in row r.

    Parameters
    ----------
    x : Matrix, shape (2, d)
    thetas, ws : list of Matrix, shape (d, d)

    Returns
    -------
    Matrix, shape (2, d)

    References
    ----------
    chen2024, (13).
    """
    v, u = (x[0, :] + x[1, :]) / 2, (x[0, :] - x[1, :]) / 2
    rows = []
    for r in range(2):
        row = v * sum(ws, sp.zeros(*ws[0].shape))
        for theta, w in zip(thetas, ws, strict=True):
            row += sp.tanh(sp.expand((x[r, :] * theta * u.T)[0])) * u * w
        rows.append(row)
    return sp.Matrix.vstack(*rows)


def tanh_identities(dim: int) -> dict[str, sp.Expr]:
    """Differences that vanish and prove the tanh form: of the attention weights, and of the outputs at any weights.

    Parameters
    ----------
    dim : int
        d; tokens and Theta are symbols.

    References
    ----------
    chen2024, (13).
    """
    x, theta, w = matrix("x", 2, dim), matrix("Theta", dim, dim), matrix("W", dim, dim)
    weights = attention(x, theta)
    u = (x[0, :] - x[1, :]) / 2
    found = {}
    for r in range(2):
        half = sp.expand((x[r, :] * theta * u.T)[0])
        # tanh(z/2) = (e^z - 1)/(e^z + 1), and A_r1 - A_r2 over A_r1 + A_r2 is a function of A_r1 / A_r2 = e^z.
        ratio = sp.powsimp(sp.cancel(weights[r, 0] / weights[r, 1]), force=True)
        found[f"exponent of row {r + 1}"] = sp.expand(sp.expand_log(sp.log(ratio), force=True) - 2 * half)
        found[f"sum of row {r + 1}"] = sp.cancel(weights[r, 0] + weights[r, 1]) - 1
    z, t = sp.Symbol("z", real=True), sp.Symbol("t", real=True)
    found["tanh"] = sp.tanh(z / 2).rewrite(sp.exp) - (sp.exp(z) - 1) / (sp.exp(z) + 1)
    mixed = (1 + t) / 2 * x[0, :] + (1 - t) / 2 * x[1, :]
    for c, entry in enumerate(mixed * w - ((x[0, :] + x[1, :]) / 2 + t * u) * w):
        found[f"output {c + 1}"] = entry
    return found


def flip_difference(dim: int, heads: int, flipped: tuple[int, ...]) -> sp.Matrix:
    """Outputs with the heads of a set flipped to (-Theta, -W), minus the outputs: -2 v^T sum of the flipped W.

    Parameters
    ----------
    dim, heads : int
        d and m; tokens, Theta and W are symbols.
    flipped : tuple of int
        Heads from 0 on.

    Returns
    -------
    Matrix, shape (2, d)
    """
    x = matrix("x", 2, dim)
    thetas = [matrix(f"T{i}", dim, dim) for i in range(heads)]
    ws = [matrix(f"V{i}", dim, dim) for i in range(heads)]
    signs = [-1 if i in flipped else 1 for i in range(heads)]
    other = tanh_form(
        x, [s * t for s, t in zip(signs, thetas, strict=True)], [s * w for s, w in zip(signs, ws, strict=True)]
    )
    return (other - tanh_form(x, thetas, ws)).expand()


def equivalence_identities(dim: int) -> dict[str, sp.Expr | sp.Matrix]:
    """Differences that vanish and prove the equivalences: for any k those that merge heads, for k = 2 those of signs.

    Parameters
    ----------
    dim : int
        d; tokens, Theta and W are symbols.

    Returns
    -------
    dict of str to Expr or Matrix
        Each is identically zero.

    References
    ----------
    chen2024, (11)-(17).
    """
    a, b = matrix("T0", dim, dim), matrix("T1", dim, dim)
    v, w = matrix("V0", dim, dim), matrix("V1", dim, dim)
    zero = sp.zeros(dim, dim)
    found: dict[str, sp.Expr | sp.Matrix] = {}
    for k in (2, 3):
        x = matrix("x", k, dim)
        found[f"order, k = {k}"] = layer(x, [a, b], [v, w]) - layer(x, [b, a], [w, v])
        found[f"equal Theta, k = {k}"] = (layer(x, [a, a], [v, w]) - layer(x, [a, b], [v + w, zero])).expand()
        found[f"W = 0, k = {k}"] = layer(x, [a, b], [v, zero]) - layer(x, [a], [v])
    x = matrix("x", 2, dim)
    mean = (x[0, :] + x[1, :]) / 2
    both = sp.Matrix.vstack(mean, mean)
    for flipped in ((0,), (1,), (0, 1)):
        total = sum(((v, w)[i] for i in flipped), zero)
        found[f"flip of {flipped}"] = (flip_difference(dim, 2, flipped) + 2 * both * total).expand()
    # v takes the values of every sign vector, where the tokens are equal: v^T M = 0 for all inputs only if M = 0.
    signs = sp.ones(dim, dim)
    for p in range(1, dim):
        signs[p, p] = -1
    found["span of v"] = signs.det() - (-2) ** (dim - 1)
    found["invisible pair"] = (tanh_form(x, [a, -a], [v, v]) - 2 * both * v).expand()
    found["opposite pair"] = (tanh_form(x, [a, -a], [v, w]) - tanh_form(x, [a, zero], [v - w, 2 * w])).expand()
    found["linear head"] = (tanh_form(x, [a, zero], [v, w]) - tanh_form(x, [-a, zero], [-v, w + 2 * v])).expand()
    return found


def three_token_gaps() -> dict[str, sp.Matrix]:
    """Exact differences between layers at k = 3 that would vanish if the equivalences of k = 2 held there.

    Theta = log(2) times integers, so that all attention weights are rational.

    Returns
    -------
    dict of str to Matrix, shape (3, 2)
        None of them is zero.

    References
    ----------
    chen2024, (18).
    """
    x = sp.Matrix([[1, 1], [1, -1], [-1, 1]])
    a, b = sp.Matrix([[1, 0], [2, -1]]), sp.Matrix([[0, 1], [-1, 1]])
    v, w = sp.Matrix([[1, 2], [0, -1]]), sp.Matrix([[0, 1], [1, 1]])
    zero = sp.zeros(2, 2)
    return {
        "flips with sum W = 0": _rational_layer(x, [-a, -b], [-v, v]) - _rational_layer(x, [a, b], [v, -v]),
        "invisible pair": _rational_layer(x, [a, -a], [v, v]) - _rational_layer(x, [zero], [2 * v]),
        "opposite pair": _rational_layer(x, [a, -a], [v, w]) - _rational_layer(x, [a, zero], [v - w, 2 * w]),
        "linear head": _rational_layer(x, [a, zero], [v, w]) - _rational_layer(x, [-a, zero], [-v, w + 2 * v]),
    }


def _rational_layer(x: sp.Matrix, thetas: list[sp.Matrix], ws: list[sp.Matrix]) -> sp.Matrix:
    """Outputs of the layer with Theta_i log(2) for integer Theta_i."""
    total = sp.zeros(*x.shape)
    for theta, w in zip(thetas, ws, strict=True):
        weights = (x * theta * x.T).applyfunc(lambda n: sp.Integer(2) ** n)
        for r in range(x.rows):
            total[r, :] += weights[r, :] * x * w / sum(weights[r, :])
    return total


def pole_identities(tokens: int) -> dict[str, sp.Expr]:
    """Steps that vanish, of the proof that on real inputs these equivalences are all.

    Where all tokens but the first are equal, the weight of the first is 1/(1 + (k - 1) e^-z), whose poles are at
    z = log(k - 1) + i pi (2 n + 1). Two logits z, z' = c z with real c have a pole in common only if c log(k - 1) =
    log(k - 1) and c (2 n + 1) = 2 n' + 1, so that c = 1 for k >= 3, and c is a ratio of odd numbers for k = 2.

    Parameters
    ----------
    tokens : int
        k >= 2.

    Returns
    -------
    dict of str to Expr
        Each is identically zero.

    References
    ----------
    chen2024, (19)-(20).
    """
    z, n = sp.Symbol("z"), sp.Symbol("n", integer=True)
    logits = sp.Matrix([[z, *[0] * (tokens - 1)]])
    first = sp.exp(z) / sum(logit_weight for logit_weight in logits.applyfunc(sp.exp))
    stated = 1 / (1 + (tokens - 1) * sp.exp(-z))
    pole = sp.log(tokens - 1) + sp.I * sp.pi * (2 * n + 1)
    # e^pole = (k - 1)(-1), for every integer n.
    at_pole = sp.expand(sp.exp(pole, evaluate=False).doit(), complex=False)
    return {
        "weight": sp.cancel((first - stated).subs(sp.exp(-z), 1 / sp.exp(z)).subs(sp.exp(z), sp.Symbol("e"))),
        "poles": sp.simplify(at_pole + (tokens - 1)),
    }
