"""The measure on a fibre: in terms of the entries of the output, and its proof by differentiation."""

import sympy as sp
from sympy.polys.matrices import DomainMatrix

from ..architecture import Architecture
from ..proof import prove_equal
from .last_layer import fibre, pivot_tokens
from .level_set import Fibre
from .tied import cross_symbols, gram_symbols, tied_readout


def entry_jacobian(found: Fibre) -> tuple[tuple[sp.Symbol, ...], sp.Expr]:
    """Return independent entries of y and |d entries / d coordinates|, to turn densities into those of entries.

    For softmax the coordinates of row a are the log-ratios of its columns b in a set S_a against the reference; at
    given log-ratios of the other columns, which earlier rows fix, the entries y_ab, b in S_a, have the Jacobian
    ``prod_{b in S_a} y_ab * sum_{b not in S_a} y_ab``.

    Parameters
    ----------
    found : Fibre
        Of the linear activation, or of softmax with rank r >= M - 1 and the default pivots and reference.

    Returns
    -------
    entries : tuple of sympy.Symbol
        One per coordinate, in their order.
    jacobian : sympy.Expr
        Positive function of y; divide exp(log_density) by it.

    Raises
    ------
    ValueError
        For softmax of rank r < M - 1, where y lies on a curved surface that entries do not label row by row (rank 1:
        see `derive.readout.readout_jacobian`), for other pivots, and for an activation given as a function.

    References
    ----------
    troiani2025, (182) at rank 1, M = 2; derived.
    """
    model, y = found.model, found.output
    if model.activation == "linear":
        return tuple(entry for entry in found.coordinates), sp.S.One
    if model.activation != "softmax":
        raise ValueError("entries are offered for softmax and linear outputs; the coordinates are the scores here")
    last = model.tokens - 1
    if model.rank_vector[-1] < last or found != fibre(model):
        raise ValueError(
            f"entries label softmax outputs for rank >= tokens - 1 = {last} with the default pivots only, got rank "
            f"{model.rank_vector[-1]}; keep the log-ratios"
        )
    entries, jacobian = [], sp.S.One
    kept: dict[int, list[int]] = {}
    for value in found.coordinates:
        # log(y_ab/y_az) names its entry.
        (symbol,) = [s for s in value.free_symbols if s not in y[:, last]]
        row, column = divmod(list(y).index(symbol), model.tokens)
        kept.setdefault(row, []).append(column)
        entries.append(symbol)
    for row, columns in kept.items():
        jacobian *= sp.Mul(*[y[row, b] for b in columns])
        jacobian *= sp.Add(*[y[row, b] for b in range(model.tokens) if b not in columns])
    return tuple(entries), jacobian


def prove_measure(model: Architecture) -> None:
    """Prove the Jacobian of a fibre by differentiation, exactly.

    The determinant of d v / d(data, variables) must be that of `fibre`. Tied, it is taken with the Cholesky factor R in
    place of C, with the known ``|d C / d R| = 2^m prod_i R_ii^{m - i + 1}``, and with tangents of half the angles, so
    that every entry is rational. Ranks and tokens up to 2 x 3 take about a second.

    Raises
    ------
    ProofError
        If the determinants differ.
    """
    found = fibre(model)
    # d(data)/d(coordinates) is triangular with 1/beta on its diagonal.
    log_density = found.log_density + len(found.coordinates) * sp.log(model.beta)
    if model.tied:
        readout, data, to_root, factor = with_root(found)
    else:
        readout, data, to_root, factor = found.readout, [symbol for symbol, _ in found.data], {}, sp.S.One
    jacobian = sp.Matrix(list(readout)).jacobian([*data, *found.variables])
    tangents = {a: sp.Symbol(f"t_{k}", positive=True) for k, a in enumerate(found.variables) if a.name[0] == "t"}
    rational = {sp.cos(a): (1 - t**2) / (1 + t**2) for a, t in tangents.items()}
    rational |= {sp.sin(a): 2 * t / (1 + t**2) for a, t in tangents.items()}
    rational |= dict.fromkeys(found.signs, sp.S.One)
    matrix = DomainMatrix.from_Matrix(jacobian.xreplace(rational).applyfunc(sp.cancel)).to_field()
    determinant = sp.factor(matrix.domain.to_sympy(matrix.det()))
    # Squares are rational where the exponent of det C is a half, and forget the order of the rows.
    claim = (factor**2 * sp.exp(2 * log_density).xreplace(to_root)).xreplace(rational)
    what = f"measure of the fibre of rank {model.rank_vector[-1]}, {model.tokens} tokens"
    prove_equal(sp.cancel(determinant**2 / claim), sp.S.One, what)


def with_root(found: Fibre) -> tuple[sp.Matrix, list[sp.Symbol], dict[sp.Symbol, sp.Expr], sp.Expr]:
    """Return the readout in R, what replaces the data, C as a function of R, and |d C / d R|."""
    model = found.model
    pivots, _ = pivot_tokens(model, None, None)
    size = len(pivots)
    root = sp.zeros(size, size)
    for i in range(size):
        for j in range(i, size):
            root[i, j] = sp.Symbol(f"R_{i + 1}_{j + 1}", positive=True if i == j else None, real=True)
    square, gram, cross = root.T * root, gram_symbols(size), cross_symbols(size, model.tokens - size)
    to_root = {gram[i, j]: square[i, j] for i in range(size) for j in range(i, size)}
    data = [root[i, j] for i in range(size) for j in range(i, size)] + list(cross)
    factor = sp.Mul(*[2 * root[i, i] ** (size - i) for i in range(size)])
    return tied_readout(model, pivots, root, cross)[0], data, to_root, factor
