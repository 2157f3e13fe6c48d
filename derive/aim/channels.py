"""Output channels that fix linear functionals of the indices: the linear one, and softmax at any number of tokens.

The indices h_ab (a <= b) are Gaussian with mean omega_ab and variance V C_ab, C_ab = 1 + delta_ab, independent of each
other. Vectors below hold the entries a <= b row by row.

Softmax.  Row a of y fixes h_ab up to a shift r_a of that row: l_ab = log(y_ab) / beta = h_ab - r_a.  Since h is
symmetric, l_ab - l_aT + l_Ta - l_TT = h_ab - h_TT =: phi_ab, so that y fixes h up to one common shift c = h_TT, and
nothing more: K is the number of entries less one.  Given y the exponent is -(1/2V) sum_(a<=b) (phi_ab + c - omega_ab)^2
/ C_ab, and a sum over a <= b with weights 1/C_ab is half the sum over all T^2 entries.  With e = phi - omega and <e>
its mean over all T^2 entries the integral over c leaves -(1/2V) sum_(a<=b) (e_ab - <e>)^2 / C_ab; differentiating, g_ab
= (e_ab - <e>) / (V C_ab) for any T.
"""

from functools import cache

import sympy as sp

from .symbols import beta, variance

__all__ = [
    "entries",
    "functional_count",
    "functional_gradient",
    "information",
    "residual",
    "shift_functionals",
    "softmax_gradient",
    "softmax_gradient_by_integration",
    "softmax_indices",
    "variances",
]


def entries(tokens: int) -> list[tuple[int, int]]:
    """Pairs (a, b) with a <= b, counted from zero."""
    return [(a, b) for a in range(tokens) for b in range(a, tokens)]


def variances(tokens: int) -> sp.Matrix:
    """Diagonal matrix of C_ab = 1 + delta_ab over the entries a <= b."""
    return sp.diag(*[1 + int(a == b) for a, b in entries(tokens)])


@cache
def residual(tokens: int) -> sp.Matrix:
    """Symbols e_ab of phi - omega (or of h - omega) over the entries a <= b, as a column."""
    return sp.Matrix([sp.Symbol(f"e_{a + 1}{b + 1}", real=True) for a, b in entries(tokens)])


def functional_count(tokens: int, channel: str) -> sp.Expr:
    """Number K of linear functionals of h that an output fixes, for a symbolic or a given T.

    Parameters
    ----------
    tokens : int or sympy.Symbol
    channel : {"linear", "softmax"}

    Raises
    ------
    ValueError
        Any other channel: it fixes no linear functionals.

    References
    ----------
    boncoraglio2025, (25)-(27).
    """
    size = sp.sympify(tokens) * (tokens + 1) / 2
    if channel == "linear":
        return size
    if channel == "softmax":
        return sp.expand(size - 1)
    raise ValueError(f"channel must be 'linear' or 'softmax' (boncoraglio2025, (25)-(27)), got {channel!r}")


def functional_gradient(functionals: sp.Matrix, error: sp.Matrix) -> sp.Matrix:
    """Return g = M^T (M C M^T)^(-1) M e / V for a channel that fixes M h, with e = h - omega.

    Parameters
    ----------
    functionals : sympy.Matrix
        M, shape (K, T (T + 1) / 2), of full row rank.
    error : sympy.Matrix
        e, a column over the entries a <= b.

    References
    ----------
    boncoraglio2025, (25).
    """
    size = functionals.cols
    tokens = (sp.integer_nthroot(8 * size + 1, 2)[0] - 1) // 2
    gram = functionals * variances(tokens) * functionals.T
    return functionals.T * gram.inv() * functionals * error / variance


def information(gradient: sp.Matrix, error: sp.Matrix) -> sp.Expr:
    """F = V sum_(a<=b) C_ab E[g_ab^2] for a g that is linear in e = h - omega, of covariance V C.

    References
    ----------
    boncoraglio2025, (10).
    """
    slope = gradient.jacobian(error)
    tokens = (sp.integer_nthroot(8 * len(error) + 1, 2)[0] - 1) // 2
    spread = variances(tokens)
    return sp.cancel((spread * slope * (variance * spread) * slope.T).trace() * variance)


def shift_functionals(tokens: int) -> sp.Matrix:
    """M of the softmax channel: every h_ab less h_TT, the last entry."""
    size = len(entries(tokens))
    return sp.eye(size)[: size - 1, :] - sp.Matrix(size - 1, size, lambda i, j: int(j == size - 1))


def softmax_indices(output: sp.Matrix) -> sp.Matrix:
    """Return phi, the indices up to a common shift, from an output y of softmax: shape (T, T).

    Parameters
    ----------
    output : sympy.Matrix
        y, shape (T, T), positive.

    References
    ----------
    boncoraglio2025, (28).
    """
    tokens = output.rows
    logs = output.applyfunc(lambda y: sp.expand_log(sp.log(y), force=True) / beta)
    last = tokens - 1
    return sp.Matrix(tokens, tokens, lambda a, b: logs[a, b] - logs[a, last] + logs[last, a] - logs[last, last])


def mean_residual(error: sp.Matrix, tokens: int) -> sp.Expr:
    """Mean over all T^2 entries of a symmetric matrix given by its entries a <= b."""
    total = sum((e * (1 if a == b else 2) for e, (a, b) in zip(error, entries(tokens), strict=True)), sp.S.Zero)
    return total / tokens**2


def softmax_gradient(tokens: int, error: sp.Matrix) -> sp.Matrix:
    """Return g_ab = (e_ab - <e>) / (V C_ab) with e = phi - omega, as a column over a <= b.

    References
    ----------
    boncoraglio2025, (30).
    """
    mean = mean_residual(error, tokens)
    spread = variances(tokens)
    return sp.Matrix([(e - mean) / (variance * spread[i, i]) for i, e in enumerate(error)])


def softmax_gradient_by_integration(tokens: int, precision: sp.Matrix | None = None) -> tuple[sp.Expr, sp.Matrix]:
    """Most likely shift c* and g by integrating the Gaussian weight over the shift, e as in `residual`.

    Parameters
    ----------
    tokens : int
    precision : sympy.Matrix, optional
        Inverse of the covariance of the indices in units of V, symmetric; default that of diag(C_ab).

    Returns
    -------
    sympy.Expr
        c*, the maximiser over c of the weight of phi + c.
    sympy.Matrix
        Gradient of log Z_out with respect to omega, a column over a <= b.

    References
    ----------
    boncoraglio2025, (29)-(30).
    """
    error = residual(tokens)
    shift = sp.Symbol("c", real=True)
    moved = error + shift * sp.ones(len(error), 1)
    weights = variances(tokens).inv() if precision is None else precision
    exponent = sp.expand(-(moved.T * weights * moved)[0] / (2 * variance))
    quadratic, linear, constant = (exponent.coeff(shift, k) for k in (2, 1, 0))
    # int exp(q c^2 + l c + k) dc is exp(k - l^2 / (4 q)) times a constant.
    log_z = constant - linear**2 / (4 * quadratic)
    best = sp.cancel(-linear / (2 * quadratic))
    # d/d omega = -d/de
    return best, sp.Matrix([sp.cancel(-sp.diff(log_z, e)) for e in error])
