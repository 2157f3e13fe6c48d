"""From the output y of a tied rank-1 last layer back to its readout row v, and the Jacobian of that change.

The link depends on the last layer's indices through ``v = h_L B_{L-1}^T`` alone.  For a rank-1 last layer y
fixes v up to a common sign.  At M = 2 both branches and the Jacobian are solved for by SymPy from the link itself; for
any M see `softmax_readout` and `readout_jacobian`, and `derive.fibres` for higher ranks and untied layers.
"""

from dataclasses import dataclass

import sympy as sp
from sympy.polys.matrices import DomainMatrix

from . import symbols
from .architecture import Architecture
from .mixing import activate
from .primitives import elementary
from .proof import prove_equal

__all__ = [
    "Inversion",
    "domain_slack",
    "invert",
    "log_odds",
    "prove_readout_jacobian",
    "readout_jacobian",
    "softmax_readout",
]


@dataclass(frozen=True)
class Inversion:
    """Readout branches and Jacobian of a rank-1 last layer at M = 2.

    Attributes
    ----------
    model : Architecture
    kept : tuple of sympy.Symbol
        The two independent entries of y.
    branches : tuple of sympy.Matrix
        Rows v(y), shape 1 x 2; the second is the negative of the first.
    jacobian_of_v : sympy.Expr
        |d kept / d (v_1, v_2)| as a function of v.
    jacobian : sympy.Expr
        The same as a function of y.
    slack : sympy.Expr
        y is in the range of the link only where this is >= 0; the branches are finite where it is > 0.
    """

    model: Architecture
    kept: tuple[sp.Symbol, sp.Symbol]
    branches: tuple[sp.Matrix, sp.Matrix]
    jacobian_of_v: sp.Expr
    jacobian: sp.Expr
    slack: sp.Expr


def log_odds(y: sp.Matrix) -> tuple[sp.Expr, sp.Expr]:
    """Return l_1 = log(y_11/y_12) and l_2 = log(y_22/y_21) of a 2 x 2 softmax output.

    As rows sum to one these are log(1/y_12 - 1) and log(1/y_21 - 1), without the cancellation of 1 - y.

    References
    ----------
    troiani2025, (179)-(181).
    """
    return sp.log(y[0, 0] / y[0, 1]), sp.log(y[1, 1] / y[1, 0])


def _check_known(model: Architecture) -> None:
    if not model.single or not isinstance(model.activation, str):
        raise ValueError(
            "the readout is inverted here for tied softmax or linear attention with one head and the last layer "
            f"observed, (6)-(7), got {model.name}; see derive.fibres and derive.sequence_inversion"
        )


def domain_slack(model: Architecture) -> sp.Expr:
    """Return the expression of y that must be >= 0 for y to be in the range of the link.

    For softmax it is ``1 - y_12 - y_21``, proved to have the sign of ``l_1 + l_2``: with odds e^{l_1},
    e^{l_2} it equals (e^{l_1 + l_2} - 1)/((1 + e^{l_1})(1 + e^{l_2})).  For the linear activation it is
    ``y_11``.

    References
    ----------
    troiani2025, (177) for softmax, (172) for linear.
    """
    _check_known(model)
    if model.activation == "linear":
        return symbols.y11
    first, second = sp.symbols("l_1 l_2", real=True)
    y12, y21 = 1 / (1 + sp.exp(first)), 1 / (1 + sp.exp(second))
    claim = (sp.exp(first + second) - 1) / ((1 + sp.exp(first)) * (1 + sp.exp(second)))
    prove_equal(1 - y12 - y21, claim, "range of the softmax link at M = 2, (177)")
    return 1 - symbols.y12 - symbols.y21


def invert(model: Architecture) -> Inversion:
    """Solve the link of a rank-1 last layer at M = 2 for its readout row.

    Parameters
    ----------
    model : Architecture
        M = 2 and rank 1 in the last layer; any depth.

    Returns
    -------
    Inversion
        For softmax ``v = +-(l_1, -l_2)/sqrt(beta (l_1 + l_2))`` and the Jacobian of (y_12, y_21),
        ``2 beta (l_1 + l_2) y_11 y_12 y_21 y_22``; for linear
        ``v = +-(sqrt(y_11/beta), y_12/sqrt(beta y_11))`` and the Jacobian of (y_11, y_12), ``2 beta y_11``.

    Raises
    ------
    ValueError
        If M is not 2 or the last layer has more than one index.
    ProofError
        If a branch does not solve the equations.

    References
    ----------
    troiani2025, (171)-(174) for linear, (175)-(183) for softmax.
    """
    _check_known(model)
    if model.tokens != 2 or model.rank_vector[-1] != 1:
        raise ValueError(
            "the readout is inverted for 2 tokens and rank 1 in the last layer, got "
            f"{model.tokens} tokens and rank {model.rank_vector[-1]}; see softmax_readout and readout_jacobian for "
            "more tokens, and derive.fibres for more indices"
        )
    v, y = symbols.readout_symbols(2)
    return _invert_softmax(model, v, y) if model.activation == "softmax" else _invert_linear(model, v, y)


def _positive_branch(solutions: list[tuple[sp.Expr, sp.Expr]], sample: dict[sp.Symbol, int]) -> sp.Matrix:
    """Return the solution that is positive in its first entry at a sample point."""
    for solution in solutions:
        if solution[0].subs(sample).is_positive:
            return sp.Matrix([list(solution)])
    raise ValueError("no solution with a positive first entry")


def _determinant(outputs: tuple[sp.Expr, sp.Expr], v: sp.Matrix) -> sp.Expr:
    return sp.Matrix(2, 2, lambda i, j: sp.diff(outputs[i], v[j])).det()


def _invert_linear(model: Architecture, v: sp.Matrix, y: sp.Matrix) -> Inversion:
    output = activate(model, v.T * v)
    kept = (y[0, 0], y[0, 1])
    equations = [output[0, 0] - kept[0], output[0, 1] - kept[1]]
    branch = _positive_branch(sp.solve(equations, list(v)), {kept[0]: 1, kept[1]: 1, model.beta: 1})
    at_branch = dict(zip(v, branch, strict=True))
    # The remaining entry is redundant: y_22 = y_12^2/y_11 on the range of the link.
    prove_equal(output[1, 1].subs(at_branch), kept[1] ** 2 / kept[0], "rank one of the linear output, (172)")
    determinant = _determinant((output[0, 0], output[0, 1]), v)
    jacobian = 2 * model.beta * kept[0]
    # 2 beta^2 v_1^2 is a square, hence its own absolute value.
    prove_equal(determinant, 2 * model.beta**2 * v[0] ** 2, "Jacobian of the linear readout in v, (174)")
    prove_equal(determinant.subs(at_branch), jacobian, "Jacobian of the linear readout in y, (174)")
    return Inversion(model, kept, (branch, -branch), determinant, jacobian, domain_slack(model))


def _invert_softmax(model: Architecture, v: sp.Matrix, y: sp.Matrix) -> Inversion:
    output = activate(model, v.T * v)
    kept = (y[0, 1], y[1, 0])
    # Each row's odds turn the equations into the quadratic system (180), which the link itself must confirm.
    first, second = sp.symbols("l_1 l_2", positive=True)
    quadratic = (model.beta * (v[0] ** 2 - v[0] * v[1]), model.beta * (v[1] ** 2 - v[0] * v[1]))
    for entry, odds in zip((output[0, 1], output[1, 0]), quadratic, strict=True):
        prove_equal(elementary(entry), 1 / (1 + sp.exp(odds)), "odds of the softmax output, (180)")
    solved = sp.solve([quadratic[0] - first, quadratic[1] - second], list(v))
    branch = _positive_branch(solved, {first: 1, second: 2, model.beta: 1})
    scale = sp.sqrt(model.beta * (first + second))
    prove_equal(
        branch.applyfunc(lambda entry: entry**2),
        sp.Matrix([[first**2, second**2]]) / scale**2,
        "solutions, (181)",
    )
    branch = sp.Matrix([[first, -second]]) / scale
    at_branch = dict(zip(v, branch, strict=True))
    for odds, value in zip(quadratic, (first, second), strict=True):
        prove_equal(odds.subs(at_branch), value, "branch of the softmax readout, (181)")
    product = output[0, 0] * output[0, 1] * output[1, 0] * output[1, 1]
    determinant = _determinant((output[0, 1], output[1, 0]), v)
    in_v = 2 * model.beta**2 * (v[0] - v[1]) ** 2 * product
    # The determinant is minus a product of squares and of positive numbers, so minus it is the absolute
    # value.
    prove_equal(-determinant, in_v, "Jacobian of the softmax readout in v, (182)")
    prove_equal((model.beta * (v[0] - v[1]) ** 2).subs(at_branch), first + second, "square of the difference, (181)")
    l_1, l_2 = log_odds(y)
    in_y = 2 * model.beta * (l_1 + l_2) * y[0, 0] * y[0, 1] * y[1, 0] * y[1, 1]
    rows = branch.subs({first: l_1, second: l_2}, simultaneous=True)
    return Inversion(model, kept, (rows, -rows), in_v, in_y, domain_slack(model))


def softmax_readout(y: sp.Matrix, beta: sp.Expr, pair: tuple[int, int] = (0, 1)) -> sp.Matrix:
    """Return the readout row v of a rank-1 softmax output for any number of tokens.

    For the reference tokens i, j the differences d_ij = log(y_ii/y_ij) give
    ``beta (v_i - v_j)^2 = d_ij + d_ji`` and every entry follows from
    ``beta v_k (v_i - v_j) = log(y_ki/y_kj)``.

    Parameters
    ----------
    y : sympy.Matrix
        Output, shape M x M, rows summing to one, M >= 2.
    beta : sympy.Expr
        Inverse temperature.
    pair : (int, int)
        Reference tokens i != j, counted from 0; best conditioned where |v_i - v_j| is largest.

    Returns
    -------
    sympy.Matrix
        The branch with v_i > v_j, shape 1 x M; the other branch is its negative.

    Raises
    ------
    ValueError
        If y is not square with at least two tokens or the pair is no pair of distinct tokens.

    References
    ----------
    troiani2025, (175)-(181) at M = 2; the formula for any M is derived here.
    """
    size = y.shape[0]
    if y.shape != (size, size) or size < 2:
        raise ValueError(f"y must be square with at least 2 tokens, got shape {y.shape}")
    i, j = pair if isinstance(pair, tuple) and len(pair) == 2 else (0, 0)
    if i == j or not all(isinstance(k, int) and 0 <= k < size for k in (i, j)):
        raise ValueError(f"pair must be two different tokens out of 0..{size - 1}, got {pair}")
    squared = sp.log(y[i, i] / y[i, j]) + sp.log(y[j, j] / y[j, i])
    scale = sp.sqrt(beta * squared)
    return sp.Matrix(1, size, lambda _, k: sp.log(y[k, i] / y[k, j]) / scale)


def readout_jacobian(model: Architecture, pair: tuple[int, int] = (0, 1)) -> tuple[tuple[sp.Symbol, ...], sp.Expr]:
    """Return M independent entries of a rank-1 output, and |d entries / d v|, for any number of tokens.

    For M >= 3 the outputs fill a surface of dimension M in the space of M x M matrices; M of their entries label it.
    Linear: row i, ``2 beta^M |v_i|^M``.  Softmax: row i without y_ii, and y_ji, with

        2 beta^M prod_k y_ik |v_i|^{M-2} |v_i - v_j| y_ji |v_i - sum_k y_jk v_k|.

    The density of the entries is the sum over +-v of the density of v, divided by this.

    Parameters
    ----------
    model : Architecture
        Tied, one head, rank 1 in the last layer.
    pair : (int, int)
        Tokens i != j, counted from 0; best conditioned where |v_i| and |v_i - v_j| are large.

    Returns
    -------
    entries : tuple of sympy.Symbol
        The kept entries.
    jacobian : sympy.Expr
        Function of the entries of y and v, symbols of `symbols.readout_symbols`.

    Raises
    ------
    ValueError
        For other models or a pair that is none.

    References
    ----------
    troiani2025, (174), (182) at M = 2; derived for any M.
    """
    _check_known(model)
    size = model.tokens
    if model.rank_vector[-1] != 1:
        raise ValueError(f"needs rank 1 in the last layer, got {model.rank_vector[-1]}; see derive.fibres")
    i, j = pair if isinstance(pair, tuple) and len(pair) == 2 else (0, 0)
    if i == j or not all(isinstance(k, int) and 0 <= k < size for k in (i, j)):
        raise ValueError(f"pair must be two different tokens out of 0..{size - 1}, got {pair}")
    v, y = symbols.readout_symbols(size)
    if model.activation == "linear":
        return tuple(y[i, :]), 2 * model.beta**size * sp.Abs(v[i]) ** size
    entries = (*[y[i, k] for k in range(size) if k != i], y[j, i])
    mean = sp.Add(*[y[j, k] * v[k] for k in range(size)])
    row = sp.Mul(*y[i, :])
    spread = sp.Abs(v[i]) ** (size - 2) * sp.Abs(v[i] - v[j])
    return entries, 2 * model.beta**size * row * spread * y[j, i] * sp.Abs(v[i] - mean)


def prove_readout_jacobian(model: Architecture) -> None:
    """Prove `readout_jacobian` by differentiation of the link; a second for 3 tokens.

    Raises
    ------
    ProofError
        If the squares of the two determinants differ.
    """
    v, y = symbols.readout_symbols(model.tokens)
    entries, claim = readout_jacobian(model)
    output = elementary(activate(model, v.T * v))
    place = {symbol: value for symbol, value in zip(y, output, strict=True)}
    derivative = sp.Matrix([place[entry] for entry in entries]).jacobian(list(v))
    # One name per exponential makes both sides rational.
    names: dict[sp.Expr, sp.Symbol] = {}
    for a in range(model.tokens):
        for b in range(a, model.tokens):
            names[sp.exp(model.beta * v[a] * v[b])] = sp.Symbol(f"e_{a + 1}_{b + 1}", positive=True)
    matrix = DomainMatrix.from_Matrix(derivative.subs(names).applyfunc(sp.cancel)).to_field()
    determinant = matrix.domain.to_sympy(matrix.det())
    plain = claim.subs(place).replace(sp.Abs, lambda value: value).subs(names)
    ratio = sp.cancel(determinant / sp.cancel(plain))
    prove_equal(ratio**2, sp.S.One, f"Jacobian of the rank-1 readout at M = {model.tokens}")
