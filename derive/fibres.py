"""The indices that share one output: fibres of the last layer, for any rank, tied or untied.

The last layer's output is a function of its readout v = h_L B_{L-1}^T (k and q likewise if untied).  The output fixes
some products of tokens and leaves a fibre of v free.  Every fibre here comes as a change of variables
``v <-> (coordinates of y, fibre variables)`` with its exact Jacobian, so that the density of the coordinates is

    Z(y) = sum_signs Int d(fibre variables) exp(log_density) p(v),      p the density of v.

Tied, rank r: with m pivot vectors f (linear: f_i = v_i and m = min(r, M); softmax: f_i = v_i - v_z for a reference
token z and m = min(r, M - 1), since rows of a softmax fix differences of scores only) the output fixes the Gram
matrix C = f^T f and the products X = f^T g with the other tokens g.  The fibre is f -> O f, a point of m spheres, and,
for softmax with r >= M, the part of g orthogonal to f, r - m numbers that move every token alike:

    dv = 2^{-m} (det C)^{(r - M - 1)/2} dC dX dO dn.

The scores K = v^T v are those of n = 0 plus |n|^2 times the all-ones matrix, so n = 0 gives the least K that is PSD;
for r < M a softmax output fixes K itself.

Untied: with p_b = q_b (linear, N = M columns) or p_b = q_b - q_z (softmax, N = M - 1) the output fixes T = k^T p.
The fibre is GL(r) if r <= N, larger otherwise, and for softmax also the common shift of q, r more numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp
from sympy.polys.matrices import DomainMatrix

from . import symbols
from .architecture import Architecture
from .proof import prove_equal

__all__ = [
    "Fibre",
    "Range",
    "entry_jacobian",
    "fibre",
    "fibre_dimension",
    "orthogonal_frame",
    "prove_measure",
]

Range = tuple[sp.Expr, sp.Expr]
_LINE: Range = (-sp.oo, sp.oo)


@dataclass(frozen=True)
class Fibre:
    """All readouts v of a last layer that give one output y, with the measure on them.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, M x M symbols ``y<a><b>``, positive for softmax and real otherwise.
    coordinates : tuple of sympy.Expr
        Functions of y that the densities refer to, as many as y has degrees of freedom: entries y_ab for the linear
        activation, log-ratios log(y_ab/y_az) for softmax.
    data : tuple of (sympy.Symbol, sympy.Expr)
        Products of tokens that y fixes, each with its value as a function of y.
    dependent : tuple of (sympy.Expr, sympy.Expr)
        The other scores that y shows, in the form of the coordinates, each with its value in the data. The two are
        equal for every output of the layer, and that they are is the whole condition on y, up to inequalities.
    variables : tuple of sympy.Symbol
        Continuous fibre variables.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        Their ranges, one pair each.
    signs : tuple of sympy.Symbol
        Discrete fibre variables, each +1 or -1.
    readout : sympy.Matrix
        v as a function of data, variables and signs: r x M if tied, k above q (2r x M) if not.
    log_density : sympy.Expr
        log |d v / d(coordinates, variables)|, with the weight of the signs.
    """

    model: Architecture
    output: sp.Matrix
    coordinates: tuple[sp.Expr, ...]
    data: tuple[tuple[sp.Symbol, sp.Expr], ...]
    dependent: tuple[tuple[sp.Expr, sp.Expr], ...]
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    readout: sp.Matrix
    log_density: sp.Expr

    @property
    def finite(self) -> bool:
        """Whether the fibre is a finite set, so that the integral over it is a sum over signs."""
        return not self.variables

    def of_output(self) -> tuple[sp.Matrix, sp.Expr]:
        """Return readout and log-density with the data written as functions of y."""
        values = dict(self.data)
        return self.readout.xreplace(values), self.log_density.xreplace(values)


def _check(model: Architecture) -> None:
    if model.heads != 1:
        raise ValueError(
            f"fibres are derived for one head, got {model.heads} heads: each head's output is the product of a sum "
            "over blocks of coordinates, (40)-(45); use a model with heads=1"
        )
    if model.output != "last":
        raise ValueError(
            "fibres are those of the attention matrix of the last layer, got output 'sequence'; see "
            "derive.sequence_inversion"
        )


def fibre_dimension(model: Architecture) -> int:
    """Return how many continuous variables the output leaves free in the last layer's readout.

    Tied, with m = min(r, M) (linear) or min(r, M - 1) (softmax): ``r M - m (m + 1)/2 - m (M - m)``.  Untied, with N = M
    or M - 1 columns and m = min(r, N): ``2 r M - m (M + N - m)``; for rank 1 that is one scale if linear, the scale and
    the common shift of q if softmax.

    Raises
    ------
    ValueError
        For several heads or a sequence output.

    References
    ----------
    troiani2025, (6), (23); derived.
    """
    _check(model)
    rank, tokens = model.rank_vector[-1], model.tokens
    columns = tokens - 1 if model.activation == "softmax" else tokens
    pivots = min(rank, columns)
    if model.tied:
        return rank * tokens - pivots * (pivots + 1) // 2 - pivots * (tokens - pivots)
    return 2 * rank * tokens - pivots * (tokens + columns - pivots)


def _sphere(dimension: int, angles: Sequence[sp.Symbol]) -> sp.Matrix:
    """Return a rotation whose first column is the point of the unit sphere with these spherical angles."""
    turn = sp.eye(dimension)
    cosine, sine = sp.cos(angles[0]), sp.sin(angles[0])
    turn[0, 0], turn[0, 1], turn[1, 0], turn[1, 1] = cosine, -sine, sine, cosine
    if dimension == 2:
        return turn
    return sp.diag(1, _sphere(dimension - 1, angles[1:])) * turn


def orthogonal_frame(
    rank: int, columns: int
) -> tuple[sp.Matrix, tuple[sp.Symbol, ...], tuple[Range, ...], tuple[sp.Symbol, ...], sp.Expr]:
    """Parametrise m orthonormal vectors of R^r by angles, one sphere after the other.

    Parameters
    ----------
    rank, columns : int
        r >= m >= 1.

    Returns
    -------
    frame : sympy.Matrix
        r x r orthogonal; its first m columns are the vectors, the others complete them.
    angles : tuple of sympy.Symbol
        Spherical angles, (r - 1) + (r - 2) + .. of them.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        (0, pi), and (0, 2 pi) for the last angle of every sphere.
    signs : tuple of sympy.Symbol
        One sign if m = r: the last sphere is two points.
    log_density : sympy.Expr
        log of the product of the area elements of the spheres S^{r-1}, .., S^{r-m}; this measure is invariant under
        rotations (it is the Haar measure times the areas).
    """
    if not 1 <= columns <= rank:
        raise ValueError(f"columns must be 1 .. rank = {rank}, got {columns}")
    frame = sp.eye(rank)
    angles: list[sp.Symbol] = []
    ranges: list[Range] = []
    signs: list[sp.Symbol] = []
    weight = sp.S.Zero
    for column in range(columns):
        dimension = rank - column
        if dimension == 1:
            sign = sp.Symbol("sign", real=True)
            signs.append(sign)
            frame = frame * sp.diag(sp.eye(column), sp.Matrix([[sign]]))
            continue
        new = [sp.Symbol(f"theta_{column + 1}_{j + 1}", real=True) for j in range(dimension - 1)]
        frame = frame * sp.diag(sp.eye(column), _sphere(dimension, new))
        weight += sp.Add(*[(dimension - 2 - j) * sp.log(sp.sin(angle)) for j, angle in enumerate(new)])
        angles += new
        ranges += [(sp.S.Zero, sp.pi)] * (dimension - 2) + [(sp.S.Zero, 2 * sp.pi)]
    return frame, tuple(angles), tuple(ranges), tuple(signs), weight


def _upper_cholesky(gram: sp.Matrix) -> sp.Matrix:
    """Return R, upper triangular with a positive diagonal, such that R^T R is the Gram matrix."""
    size = gram.rows
    root = sp.zeros(size, size)
    for i in range(size):
        root[i, i] = sp.sqrt(gram[i, i] - sp.Add(*[root[k, i] ** 2 for k in range(i)]))
        for j in range(i + 1, size):
            root[i, j] = (gram[i, j] - sp.Add(*[root[k, i] * root[k, j] for k in range(i)])) / root[i, i]
    return root


def _inverse(matrix: sp.Matrix) -> sp.Matrix:
    return matrix.adjugate() / matrix.det(method="berkowitz")


def _pivots(model: Architecture, pivots: Sequence[int] | None, reference: int | None) -> tuple[list[int], int]:
    """Return the pivot tokens and the reference token (-1 if there is none), checked."""
    rank, tokens = model.rank_vector[-1], model.tokens
    softmax = model.activation == "softmax"
    if not softmax and reference is not None:
        raise ValueError("reference is a token of softmax outputs; other activations fix the scores themselves")
    origin = (tokens - 1 if reference is None else reference) if softmax else -1
    if softmax and not 0 <= origin < tokens:
        raise ValueError(f"reference must be a token out of 0..{tokens - 1}, got {reference}")
    count = min(rank, tokens - 1 if softmax else tokens)
    chosen = [t for t in range(tokens) if t != origin][:count] if pivots is None else list(pivots)
    if len(chosen) != count or len(set(chosen)) != count or not set(chosen) <= set(range(tokens)) - {origin}:
        raise ValueError(
            f"pivots must be {count} different tokens out of 0..{tokens - 1}, without the reference, got {pivots}"
        )
    return chosen, origin


def _output_symbols(model: Architecture) -> sp.Matrix:
    if model.activation == "softmax":
        return symbols.readout_symbols(model.tokens)[1]
    # Of either sign, so not the positive symbols that a softmax output has.
    return sp.Matrix(model.tokens, model.tokens, lambda a, b: sp.Symbol(f"y{a + 1}{b + 1}", real=True))


def fibre(
    model: Architecture,
    pivots: Sequence[int] | None = None,
    reference: int | None = None,
    inverse: Callable[[sp.Expr], sp.Expr] | None = None,
) -> Fibre:
    """Derive the fibre of the last layer of a model.

    Parameters
    ----------
    model : Architecture
        One head, output "last"; any depth, rank and number of tokens, tied or untied.
    pivots : sequence of int, optional
        Tokens, counted from 0, whose vectors span the readout: min(r, M) of them, for softmax min(r, M - 1). The
        best conditioned choice makes det C (untied: det T on the pivots) largest. Default: the first ones.
    reference : int, optional
        Softmax: the token z that differences are taken from, none of the pivots. Default: the last one.
    inverse : callable, optional
        For an activation given as a function: its inverse on one expression. The coordinates are then the scores
        beta K_ab = inverse(y_ab).

    Returns
    -------
    Fibre

    Raises
    ------
    ValueError
        For several heads, a sequence output, an activation that has no known inverse, or pivots that do not fit.

    References
    ----------
    troiani2025, (163)-(183) for rank 1 at M = 2; the rest is derived here.
    """
    _check(model)
    if model.activation not in ("softmax", "linear") and inverse is None:
        raise ValueError(
            f"the activation {model.activation_name} is a function without a known inverse; pass inverse=, a function "
            "that undoes it, to derive its fibres"
        )
    chosen, origin = _pivots(model, pivots, reference)
    y = _output_symbols(model)

    def coordinate(a: int, b: int) -> sp.Expr:
        if model.activation == "softmax":
            return sp.log(y[a, b] / y[a, origin])
        return y[a, b] if inverse is None else sp.sympify(inverse(y[a, b]))

    build = _tied if model.tied else _untied
    return build(model, y, coordinate, chosen, origin)


def _gram_symbols(size: int) -> sp.Matrix:
    def entry(i: int, j: int) -> sp.Symbol:
        return sp.Symbol(f"C_{min(i, j) + 1}_{max(i, j) + 1}", positive=True if i == j else None, real=True)

    return sp.Matrix(size, size, entry)


def _cross_symbols(size: int, others: int) -> sp.Matrix:
    return sp.Matrix(size, others, lambda i, j: sp.Symbol(f"X_{i + 1}_{j + 1}", real=True))


def _tied_readout(
    model: Architecture, pivots: list[int], root: sp.Matrix, cross: sp.Matrix, origin: int | None = None
) -> tuple[sp.Matrix, tuple[sp.Symbol, ...], tuple[Range, ...], tuple[sp.Symbol, ...], sp.Expr]:
    """Return v from the Cholesky factor and the cross products, with variables, ranges, signs and log of dO."""
    rank, tokens, size = model.rank_vector[-1], model.tokens, len(pivots)
    softmax = model.activation == "softmax"
    origin = tokens - 1 if origin is None else origin
    others = [t for t in range(tokens) if t not in pivots]
    frame, angles, ranges, signs, weight = orthogonal_frame(rank, size)
    span = frame[:, :size]
    first = span * root
    # f^T g = X has the solution g = O R^{-T} X, up to what is orthogonal to f.
    second = span * root.T.lower_triangular_solve(cross) if others else sp.zeros(rank, 0)
    shift = sp.Matrix(
        rank - size if others else 0, len(others), lambda i, j: sp.Symbol(f"n_{i + 1}_{j + 1}", real=True)
    )
    if len(shift):
        second += frame[:, size:] * shift
    columns = {b: second[:, j] for j, b in enumerate(others)}
    for i, a in enumerate(pivots):
        columns[a] = first[:, i] + columns[origin] if softmax else first[:, i]
    readout = sp.Matrix.hstack(*[columns[t] for t in range(tokens)])
    return readout, (*angles, *shift), (*ranges, *([_LINE] * len(shift))), signs, weight


def _tied(
    model: Architecture, y: sp.Matrix, coordinate: Callable[[int, int], sp.Expr], pivots: list[int], origin: int
) -> Fibre:
    rank, tokens, beta = model.rank_vector[-1], model.tokens, model.beta
    others = [t for t in range(tokens) if t not in pivots]
    size = len(pivots)
    softmax = origin >= 0
    gram, cross = _gram_symbols(size), _cross_symbols(size, len(others))
    coordinates, data = [], []
    for i, a in enumerate(pivots):
        for j, b in enumerate(pivots[i:], start=i):
            coordinates.append(coordinate(a, b))
            # v_a (v_b - v_z) - v_z (v_b - v_z) for softmax.
            value = coordinate(a, b) - coordinate(origin, b) if softmax else coordinate(a, b)
            data.append((gram[i, j], value / beta))
        for j, b in enumerate(others):
            # Softmax has the differences in its columns; the other outputs are symmetric.
            coordinates.append(coordinate(b, a) if softmax else coordinate(a, b))
            data.append((cross[i, j], coordinates[-1] / beta))
    readout, variables, ranges, signs, weight = _tied_readout(model, pivots, _upper_cholesky(gram), cross, origin)
    exponent = sp.Rational(rank - tokens - 1, 2)
    measure = weight - size * sp.log(2) + exponent * sp.log(gram.det(method="berkowitz"))
    log_density = measure - len(coordinates) * sp.log(beta)
    dependent = _tied_dependent(beta, coordinate, gram, cross, pivots, others, origin)
    return Fibre(model, y, tuple(coordinates), tuple(data), dependent, variables, ranges, signs, readout, log_density)


def _tied_dependent(
    beta: sp.Expr,
    coordinate: Callable[[int, int], sp.Expr],
    gram: sp.Matrix,
    cross: sp.Matrix,
    pivots: list[int],
    others: list[int],
    origin: int,
) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """Return the scores below the diagonal of the pivots, and those of two tokens outside the span's pivots.

    ``v_a . v_b = (f^T v_a)^T C^{-1} (f^T v_b)`` where f spans all tokens, which is so wherever it is used.
    """
    place = {b: j for j, b in enumerate(others)}
    shift = cross[:, place[origin]] if origin >= 0 else sp.zeros(len(pivots), 1)
    found = []
    for i, a in enumerate(pivots):
        # Scores with pivot j against the reference: f_j . v_a.
        found += [(coordinate(a, pivots[j]), beta * (gram[i, j] + shift[j])) for j in range(i)]
    if origin < 0:
        found += [(coordinate(b, a), beta * cross[i, j]) for i, a in enumerate(pivots) for j, b in enumerate(others)]
    rest = [b for b in others if b != origin]
    if not rest:
        return tuple(found)
    along = {b: cross[:, j] for b, j in place.items()}
    rows = others
    if origin >= 0:
        along |= {a: gram[:, i] + shift for i, a in enumerate(pivots)}
        rows = sorted(along)
    inverse = _inverse(gram)
    for b in rest:
        dual = inverse * (along[b] - shift)
        found += [(coordinate(a, b), beta * along[a].dot(dual)) for a in rows]
    return tuple(found)


def _untied(
    model: Architecture, y: sp.Matrix, coordinate: Callable[[int, int], sp.Expr], pivots: list[int], origin: int
) -> Fibre:
    rank, tokens, beta = model.rank_vector[-1], model.tokens, model.beta
    columns = [t for t in range(tokens) if t != origin]
    fixed = sp.Matrix(tokens, len(columns), lambda a, b: sp.Symbol(f"T_{a + 1}_{columns[b] + 1}", real=True))
    shift = sp.Matrix(rank if origin >= 0 else 0, 1, lambda i, _: sp.Symbol(f"u_{i + 1}", real=True))
    if rank <= len(columns):
        keys, differences, variables, measure, kept = _square_keys(rank, tokens, columns, fixed, pivots)
    else:
        keys, differences, variables, measure, kept = _wide_keys(rank, tokens, columns, fixed)
    queries = sp.zeros(rank, tokens)
    for j, b in enumerate(columns):
        queries[:, b] = differences[:, j]
    if origin >= 0:
        queries += shift * sp.ones(1, tokens)
    coordinates = tuple(coordinate(a, columns[j]) for a, j in kept)
    data = tuple((fixed[a, j], value / beta) for (a, j), value in zip(kept, coordinates, strict=True))
    variables = (*variables, *shift)
    return Fibre(
        model,
        y,
        coordinates,
        data,
        _untied_dependent(model, coordinate, fixed, columns, pivots) if rank < len(columns) else (),
        variables,
        (_LINE,) * len(variables),
        (),
        sp.Matrix.vstack(keys, queries),
        measure - len(coordinates) * sp.log(beta),
    )


def _untied_dependent(
    model: Architecture,
    coordinate: Callable[[int, int], sp.Expr],
    fixed: sp.Matrix,
    columns: list[int],
    pivots: list[int],
) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """Return the scores that follow since T has rank r: ``T_JB = T_JA T_IA^{-1} T_IB`` with the pivots in I and A."""
    keep = [columns.index(t) for t in pivots]
    rest = [j for j in range(len(columns)) if j not in keep]
    others = [t for t in range(model.tokens) if t not in pivots]
    value = fixed[others, :][:, keep] * _inverse(fixed[pivots, :][:, keep]) * fixed[pivots, :][:, rest]
    return tuple(
        (coordinate(a, columns[b]), model.beta * value[i, j]) for i, a in enumerate(others) for j, b in enumerate(rest)
    )


_Part = tuple[sp.Matrix, sp.Matrix, tuple[sp.Symbol, ...], sp.Expr, list[tuple[int, int]]]


def _square_keys(rank: int, tokens: int, columns: list[int], fixed: sp.Matrix, pivots: list[int]) -> _Part:
    """Rank r <= N: the keys of r pivot tokens are the fibre variables, an element of GL(r)."""
    others = [t for t in range(tokens) if t not in pivots]
    keep = [columns.index(t) for t in pivots]
    block = sp.Matrix(rank, rank, lambda i, j: sp.Symbol(f"k_{i + 1}_{pivots[j] + 1}", real=True))
    core = fixed[pivots, :][:, keep]
    differences = _inverse(block).T * fixed[pivots, :]
    keys = sp.zeros(rank, tokens)
    for j, a in enumerate(pivots):
        keys[:, a] = block[:, j]
    if others:
        # k_J^T p = T_J on the pivot columns, where p = k_I^{-T} T_I.
        found = block * (fixed[others, :][:, keep] * _inverse(core)).T
        for j, a in enumerate(others):
            keys[:, a] = found[:, j]
    kept = [(a, j) for a in pivots for j in range(len(columns))] + [(a, j) for a in others for j in keep]
    # dT_I = |det k_I|^N dp, and dT_J = |det p_pivots|^(M - r) dk_J.
    measure = (tokens - rank - len(columns)) * sp.log(sp.Abs(block.det(method="berkowitz")))
    measure -= (tokens - rank) * sp.log(sp.Abs(core.det(method="berkowitz")))
    return keys, differences, tuple(block), measure, kept


def _wide_keys(rank: int, tokens: int, columns: list[int], fixed: sp.Matrix) -> _Part:
    """Rank r > N: p and the last r - N rows of k are free, k_1 = p_1^{-T} (T^T - p_2^T k_2)."""
    width = len(columns)
    differences = sp.Matrix(rank, width, lambda i, j: sp.Symbol(f"p_{i + 1}_{columns[j] + 1}", real=True))
    lower = sp.Matrix(rank - width, tokens, lambda i, j: sp.Symbol(f"k_{width + i + 1}_{j + 1}", real=True))
    top, bottom = differences[:width, :], differences[width:, :]
    upper = _inverse(top).T * (fixed.T - bottom.T * lower)
    kept = [(a, j) for a in range(tokens) for j in range(width)]
    measure = -tokens * sp.log(sp.Abs(top.det(method="berkowitz")))
    return sp.Matrix.vstack(upper, lower), differences, (*differences, *lower), measure, kept


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
        see `derive.inversion.readout_jacobian`), for other pivots, and for an activation given as a function.

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
        readout, data, to_root, factor = _with_root(found)
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


def _with_root(found: Fibre) -> tuple[sp.Matrix, list[sp.Symbol], dict[sp.Symbol, sp.Expr], sp.Expr]:
    """Return the readout in R, what replaces the data, C as a function of R, and |d C / d R|."""
    model = found.model
    pivots, _ = _pivots(model, None, None)
    size = len(pivots)
    root = sp.zeros(size, size)
    for i in range(size):
        for j in range(i, size):
            root[i, j] = sp.Symbol(f"R_{i + 1}_{j + 1}", positive=True if i == j else None, real=True)
    square, gram, cross = root.T * root, _gram_symbols(size), _cross_symbols(size, model.tokens - size)
    to_root = {gram[i, j]: square[i, j] for i in range(size) for j in range(i, size)}
    data = [root[i, j] for i in range(size) for j in range(i, size)] + list(cross)
    factor = sp.Mul(*[2 * root[i, i] ** (size - i) for i in range(size)])
    return _tied_readout(model, pivots, root, cross)[0], data, to_root, factor
