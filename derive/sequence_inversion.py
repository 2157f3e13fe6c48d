"""The reduced channel of sequence-to-sequence outputs y = B_L: any depth, rank, number of tokens and heads.

With the layer matrix A_L = c I + O, ``y = A_L B_{L-1}``, the indices h_1 .. h_{L-1} and the output fix

    Q = y B_{L-1}^{-1} - c I = O,   blocks O^(ag) = o_ag S^(g)   (one head: O = S, the attention matrix of layer L),

so one block of every column gives S^(g), and with it the readout of head g up to its fibre (`derive.fibres`).  All else
that Q shows must agree: the other blocks, and the scores that follow from the rest where the attention matrices of a
layer fill a surface only.  These are equations on h_1 .. h_{L-1}, and the density of y is

    Z_out = sum_signs Int dh_1 .. dh_{L-1} d(fibre) prod_i delta(equation_i) exp(log_integrand).

Each equation reads "score shown = score that follows", so that the change from Q to (scores kept, equations) has the
determinant of the scores alone.  Where there are more equations than the indices can answer, the outputs fill a surface
themselves: some entries of y follow from the others, Z_out is the density of the others, and the ones that follow are
integrated over as well.  By the co-area formula the delta functions leave an integral over the solutions of the
equations, with the Hausdorff measure and the weight ``det(E E^T)^{-1/2}``, E the derivative of the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from . import symbols
from .architecture import Architecture
from .channel import gaussian_log_density
from .fibres import Fibre, Range, fibre
from .matrix_program import Names, invert, log_volume
from .sequence_rank import independent_entries, output_entries
from .straightline import Assignment, straight_jacobian

__all__ = ["SequenceChannel", "missing_dimensions", "sequence_channel"]

_LINE: Range = (-sp.oo, sp.oo)


@dataclass(frozen=True)
class SequenceChannel:
    """The integrand of Z_out for y = B_L, as a straight-line program.

    All expressions use the variables, the signs, y, the constants of the model and the names of `body`.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, HM x HM symbols.
    coordinates : tuple of sympy.Symbol
        Entries of y that Z_out is the density of.
    dependent : tuple of sympy.Symbol
        Entries of y that follow from these where the outputs fill a surface only; empty otherwise. (In a softmax block
        the last column follows from the row sums; it is in neither.)
    body : tuple of (sympy.Symbol, sympy.Expr)
        Each value uses earlier names.
    attentions : tuple of sympy.Matrix
        S of every head, M x M names.
    conditions : tuple of sympy.Expr
        The integrand counts only where all of them are > 0; it is zero elsewhere.
    equations : tuple of sympy.Expr
        Must vanish; empty where every y has indices h_L for all h_1 .. h_{L-1}.
    jacobian : sympy.Matrix
        E, the derivative of the equations: one row per equation, one column per entry of `unknowns`.
    earlier : tuple of sympy.Symbol
        Entries of h_1 .. h_{L-1}.
    fibre_variables : tuple of sympy.Symbol
        Continuous variables of the last layer's indices, head by head.
    fibre_ranges : tuple of (sympy.Expr, sympy.Expr)
    signs : tuple of sympy.Symbol
        Each summed over +1 and -1.
    h : sympy.Matrix
        All indices, P x M.
    omega, covariance : sympy.Matrix
        P x M and P x P.
    log_weight : sympy.Expr
        Exponent that goes with the delta functions of the equations, without the Gaussian.
    log_surface_weight : sympy.Expr
        Exponent that goes with the Hausdorff measure on the solutions: log_weight - log sqrt(det(E E^T)).
    """

    model: Architecture
    output: sp.Matrix
    coordinates: tuple[sp.Symbol, ...]
    dependent: tuple[sp.Symbol, ...]
    body: tuple[Assignment, ...]
    attentions: tuple[sp.Matrix, ...]
    conditions: tuple[sp.Expr, ...]
    equations: tuple[sp.Expr, ...]
    jacobian: sp.Matrix
    earlier: tuple[sp.Symbol, ...]
    fibre_variables: tuple[sp.Symbol, ...]
    fibre_ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    h: sp.Matrix
    omega: sp.Matrix
    covariance: sp.Matrix
    log_weight: sp.Expr
    log_surface_weight: sp.Expr

    @property
    def variables(self) -> tuple[sp.Symbol, ...]:
        """Entries of h_1 .. h_{L-1}, then the fibre variables."""
        return (*self.earlier, *self.fibre_variables)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Ranges of the variables."""
        return (*((_LINE,) * len(self.earlier)), *self.fibre_ranges)

    @property
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        """What the equations are solved for: entries of h_1 .. h_{L-1}, then the entries of y that follow.

        An output that was observed has the latter's values; then the solutions are those in h_1 .. h_{L-1} alone.
        """
        return (*self.earlier, *self.dependent)

    @property
    def dimension(self) -> int:
        """How many continuous variables y leaves free: those of the solutions, and those of the fibre."""
        return len(self.unknowns) - len(self.equations) + len(self.fibre_variables)

    @property
    def finite(self) -> bool:
        """Whether Z_out is a sum over points: the solutions and the signs."""
        return self.dimension == 0

    @property
    def log_gaussian(self) -> sp.Expr:
        """Value of log N(h; omega, V); with symbols for V it grows with P!, so put numbers in first, by `at`."""
        return gaussian_log_density(self.h, self.omega, self.covariance)

    @property
    def log_integrand(self) -> sp.Expr:
        """Exponent of the integrand beside the delta functions, where the conditions hold."""
        return self.log_gaussian + self.log_weight

    @property
    def log_surface_integrand(self) -> sp.Expr:
        """Exponent of the integral over the solutions: ``Z_out = sum_signs Int dH(unknowns) d(fibre) exp(..)``.

        H is the Hausdorff measure of dimension (unknowns - equations): counting where the solutions are points.
        """
        return self.log_gaussian + self.log_surface_weight

    def at(self, omega: sp.Matrix, covariance: sp.Matrix) -> SequenceChannel:
        """Return the channel with values (or other expressions) for omega (P x M) and V (P x P)."""
        return replace(self, omega=omega, covariance=covariance)


def _alone(model: Architecture) -> Architecture:
    """Return one head of the last layer, whose attention matrix is observed."""
    if model.output != "sequence":
        raise ValueError("the output must be 'sequence', y = B_L (25); for the last attention matrix see derive.fibres")
    return replace(model, layers=1, ranks=model.rank_vector[-1], output="last", heads=1)


def missing_dimensions(model: Architecture, inverse: Callable[[sp.Expr], sp.Expr] | None = None) -> int:
    """Return how many equations the output y = B_L puts on h_1 .. h_{L-1}, for L >= 2.

    Degrees of freedom of Q = y B_{L-1}^{-1} - c I (rows of every block of fixed sum for softmax) less those of the last
    layer's attention matrices. For one head it is zero for softmax with M = 2, tied or untied, and for untied layers
    with r >= M - 1 (linear: r >= M).

    Parameters
    ----------
    model : Architecture
        Output "sequence".
    inverse : callable, optional
        As for `sequence_channel`.

    References
    ----------
    troiani2025, (25)-(26), (31)-(32); derived.
    """
    return len(output_entries(model)) - model.heads * len(fibre(_alone(model), inverse=inverse).coordinates)


def sequence_channel(
    model: Architecture,
    readouts: Sequence[sp.Matrix] | None = None,
    pivots: Sequence[int] | None = None,
    reference: int | None = None,
    inverse: Callable[[sp.Expr], sp.Expr] | None = None,
) -> SequenceChannel:
    """Derive the reduced channel of a sequence output.

    With ``dy = |det B_{L-1}/det kappa|^{HM} dQ`` (kappa = prod_{l<L} (c I + o_l), the row sums of B_{L-1}, for softmax;
    one head: (1 + c)^{L-1}; det kappa is left out for other activations), ``dQ^(ag) = |o_ag|^D dS^(g)`` for the block
    that gives S (D its degrees of freedom), ``dS = prod S_ij d(scores)`` for softmax, and ``dh_L = |det B_{L-1}|^{-n}
    dv dw``, n the number of rows of all readouts: v those of `fibre`, w the rest of ``h_L B_{L-1}^T``, which y does not
    see (none for one head).

    Parameters
    ----------
    model : Architecture
        Output "sequence".
    readouts : sequence of sympy.Matrix, optional
        For several heads: the readout weights o of all layers, H x H each, exact; default the symbols of the model,
        none of them zero.
    pivots, reference, inverse
        As for `fibre`: the tokens that span the readout of the last layer, and the inverse of an activation given as a
        function.

    Returns
    -------
    SequenceChannel

    Raises
    ------
    ValueError
        For another output, an activation without a known inverse, readouts of another shape, or a head of the last
        layer that no block of y reads out.

    References
    ----------
    troiani2025, (25)-(26), (31)-(32), (163)-(170); derived.
    """
    alone = _alone(model)
    found = fibre(alone, pivots, reference, inverse)
    heads, tokens, width = model.heads, model.tokens, model.heads * model.tokens
    softmax = model.activation == "softmax"
    constants, weights = _readouts(model, readouts)
    y = found.output if heads == 1 else sp.Matrix(width, width, lambda i, j: _entry(i, j))
    mixing, slopes, names = _earlier(model, constants)
    inverted, determinant = invert(names, mixing)
    shown = names.matrix("A", y * inverted)
    block = names.matrix("Q", shown - model.skip * sp.eye(width))
    parts = [_head(model, found, names, block, weights, head) for head in range(heads)]
    attentions = tuple(part.attention for part in parts)
    equations = [*(e for part in parts for e in part.equations), *_blocks(model, block, weights, parts)]

    copies = [part.fibre for part in parts]
    log_weight = sp.Add(*[copy.log_density + _log_scores(copy, attentions[n]) for n, copy in enumerate(copies)])
    log_weight -= _degrees(alone) * sp.Add(*[sp.log(sp.Abs(weights[part.seen, n])) for n, part in enumerate(parts)])
    log_weight -= (width + heads * found.readout.rows) * sp.log(sp.Abs(determinant))
    if softmax:
        log_weight += width * sp.log(sp.Abs(_row_sums(model, constants)))
    last, unseen = _last_rows(model, copies, inverted)

    places = output_entries(model)
    kept = independent_entries(model, constants) if equations else places
    dependent = [place for place in places if place not in set(kept)]
    matrices = model.index_matrices()[:-1]
    earlier = tuple(entry for matrix in matrices for entry in matrix)
    jacobian, correction = sp.zeros(0, len(earlier)), sp.S.Zero
    if equations:
        rates = [-shown * slope * inverted for slope in _slope_matrices(slopes, width)]
        rates += [_change(model, place) * inverted for place in dependent]
        jacobian = _derivative(names, equations, parts, block, weights, rates)
        correction = log_volume(names, jacobian)
    signs = tuple(sign for copy in copies for sign in copy.signs)
    fibre_variables = tuple(variable for copy in copies for variable in copy.variables)
    return SequenceChannel(
        model=model,
        output=y,
        coordinates=tuple(y[i, j] for i, j in kept),
        dependent=tuple(y[i, j] for i, j in dependent),
        body=tuple(names.body),
        attentions=attentions,
        conditions=tuple(c for part in parts for c in part.conditions),
        equations=tuple(equations),
        jacobian=jacobian,
        earlier=earlier,
        fibre_variables=(*fibre_variables, *unseen),
        fibre_ranges=(*(pair for copy in copies for pair in copy.ranges), *((_LINE,) * len(unseen))),
        signs=signs,
        h=sp.Matrix.vstack(*matrices, last),
        omega=symbols.omega_matrix(model.indices, tokens),
        covariance=symbols.weight_covariance(model.indices),
        log_weight=log_weight,
        log_surface_weight=log_weight - correction,
    )


def _entry(i: int, j: int) -> sp.Symbol:
    return sp.Symbol(f"y_{i + 1}_{j + 1}", real=True)


def _degrees(alone: Architecture) -> int:
    """Return the degrees of freedom of an M x M matrix of the activation's kind."""
    return len(output_entries(alone))


def _readouts(model: Architecture, readouts: Sequence[sp.Matrix] | None) -> tuple[dict[sp.Symbol, sp.Expr], sp.Matrix]:
    """Return values of the readout symbols that are given, and o of the last layer (1 for one head), checked."""
    wanted = model.readouts
    given = wanted if readouts is None else tuple(sp.Matrix(matrix) for matrix in readouts)
    if len(given) != len(wanted) or any(matrix.shape != (model.heads, model.heads) for matrix in given):
        raise ValueError(
            f"readouts must be {len(wanted)} matrices o (30), {model.heads} x {model.heads} each, got shapes "
            f"{[matrix.shape for matrix in given]}"
        )
    constants = {s: v for old, new in zip(wanted, given, strict=True) for s, v in zip(old, new, strict=True) if s != v}
    last = given[-1] if given else sp.eye(1)
    for head in range(model.heads):
        if all(last[a, head].is_zero for a in range(model.heads)):
            raise ValueError(
                f"column {head + 1} of o_{model.layers} (30) is zero: y does not depend on the indices of head "
                f"{head + 1} of layer {model.layers}; leave the head out, or give it a readout"
            )
    return constants, last


def _row_sums(model: Architecture, constants: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Return det kappa: B^(ab) 1 = kappa_ab 1 for softmax layers."""
    if model.heads == 1:
        return (1 + model.skip) ** (model.layers - 1)
    sums = [model.skip * sp.eye(model.heads) + o.xreplace(constants) for o in model.readouts[:-1]]
    value = sp.Mul(*[matrix.det(method="berkowitz") for matrix in sums])
    if value.is_zero:
        raise ValueError(
            f"c I + o (30) is singular in a layer before the last, so that B_{model.layers - 1} is as well, for all "
            "indices, and the last layer cannot be solved for; change c or o"
        )
    return value


def _earlier(model: Architecture, constants: dict[sp.Symbol, sp.Expr]) -> tuple[sp.Matrix, sp.Matrix, Names]:
    """Return B_{L-1}, its derivatives (rows: entries, columns: earlier indices), and the program that gives both."""
    if model.layers == 1:
        width = model.heads * model.tokens
        return sp.eye(width), sp.zeros(width**2, 0), Names()
    line = straight_jacobian(replace(model, layers=model.layers - 1, ranks=model.rank_vector[:-1]))
    body = [(name, value.xreplace(constants)) for name, value in line.body]
    mixing = line.stages[-1].after
    assert mixing is not None
    return mixing.xreplace(constants), line.outputs.xreplace(constants), Names(body)


@dataclass(frozen=True)
class _Head:
    """One head of the last layer: its copy of the fibre, S as names, the block row that shows it, its equations."""

    fibre: Fibre
    attention: sp.Matrix
    seen: int
    equations: tuple[sp.Expr, ...]
    conditions: tuple[sp.Expr, ...]
    in_attention: tuple[sp.Expr, ...]


def _head(model: Architecture, found: Fibre, names: Names, block: sp.Matrix, weights: sp.Matrix, head: int) -> _Head:
    tokens = model.tokens
    # The block on the diagonal unless its readout is zero.
    rows = sorted(range(model.heads), key=lambda a: (a != head, a))
    seen = next(a for a in rows if not weights[a, head].is_zero)
    part = _block(block, seen, head, tokens) / weights[seen, head]
    softmax = model.activation == "softmax"
    where = "" if model.heads == 1 else f"{head + 1}"
    attention = names.matrix(f"S{where}", part, **({"positive": True} if softmax else {"real": True}))
    place: dict[sp.Expr, sp.Expr] = dict(zip(found.output, attention, strict=True))
    if model.heads > 1:
        own = [*(s for s, _ in found.data), *found.variables, *found.signs]
        place |= {s: sp.Symbol(f"{s.name}_head{where}", **s.assumptions0) for s in own}
    values = {s: value.xreplace(place) for s, value in found.data}
    data = tuple((s.xreplace(place), values[s]) for s, _ in found.data)
    for symbol, value in data:
        names.body.append((symbol, value))
    copy = Fibre(
        found.model,
        attention,
        tuple(value.xreplace(place) for value in found.coordinates),
        data,
        tuple((shown.xreplace(place), value.xreplace(place)) for shown, value in found.dependent),
        tuple(s.xreplace(place) for s in found.variables),
        found.ranges,
        tuple(s.xreplace(place) for s in found.signs),
        found.readout.xreplace(place),
        found.log_density.xreplace(place),
    )
    # Differences in terms of the data to be evaluated, in terms of S to be differentiated.
    equations = tuple(shown - value for shown, value in copy.dependent)
    return _Head(copy, attention, seen, equations, _conditions(copy), tuple(e.xreplace(dict(data)) for e in equations))


def _block(matrix: sp.Matrix, row: int, column: int, tokens: int) -> sp.Matrix:
    return matrix[row * tokens : (row + 1) * tokens, column * tokens : (column + 1) * tokens]


def _blocks(model: Architecture, block: sp.Matrix, weights: sp.Matrix, parts: list[_Head]) -> list[sp.Expr]:
    """Return the equations of the blocks of Q that show an attention matrix once more."""
    tokens = model.tokens
    places = output_entries(parts[0].fibre.model)
    found = []
    for head, part in enumerate(parts):
        for row in (a for a in range(model.heads) if a != part.seen):
            again = _block(block, row, head, tokens) - weights[row, head] * part.attention
            found += [again[i, j] for i, j in places]
    return found


def _log_scores(found: Fibre, attention: sp.Matrix) -> sp.Expr:
    """Return log|d scores / d S| of one head."""
    if found.model.activation == "softmax":
        return -sp.Add(*[sp.log(entry) for entry in attention])
    shown = [*found.coordinates, *(value for value, _ in found.dependent)]
    rates = [sp.diff(value, symbol) for value in shown for symbol in value.free_symbols & set(attention)]
    return sp.Add(*[sp.log(sp.Abs(rate)) for rate in rates])


def _last_rows(model: Architecture, copies: list[Fibre], inverted: sp.Matrix) -> tuple[sp.Matrix, list[sp.Symbol]]:
    """Return h_L from the readouts of all heads and what y does not see of ``h_L B_{L-1}^T``, and the latter."""
    tokens, rank = model.tokens, model.rank_vector[-1]
    rows, unseen = [], []
    for head, copy in enumerate(copies):
        for number, role in enumerate(("h",) if model.tied else ("k", "q")):
            parts = []
            for b in range(model.heads):
                name = f"w{head + 1}{role}_{b + 1}"
                free = sp.Matrix(rank, tokens, lambda i, j, name=name: sp.Symbol(f"{name}_{i + 1}_{j + 1}", real=True))
                parts.append(copy.readout[number * rank : (number + 1) * rank, :] if b == head else free)
                unseen += [] if b == head else list(free)
            indices = sp.Matrix.hstack(*parts) * inverted.T
            rows += [indices[:, b * tokens : (b + 1) * tokens] for b in range(model.heads)]
    return sp.Matrix.vstack(*rows), unseen


def _slope_matrices(slopes: sp.Matrix, width: int) -> list[sp.Matrix]:
    return [sp.Matrix(width, width, list(slopes[:, n])) for n in range(slopes.cols)]


def _change(model: Architecture, place: tuple[int, int]) -> sp.Matrix:
    """Return d y for one of its independent entries; the last of its row in a softmax block makes up for it."""
    width, tokens = model.heads * model.tokens, model.tokens
    change = sp.zeros(width, width)
    row, column = place
    change[row, column] = 1
    if model.activation == "softmax":
        change[row, column // tokens * tokens + tokens - 1] = -1
    return change


def _derivative(
    names: Names,
    equations: list[sp.Expr],
    parts: list[_Head],
    block: sp.Matrix,
    weights: sp.Matrix,
    rates: list[sp.Matrix],
) -> sp.Matrix:
    """Return E by the chain rule through S and Q, entry by entry as names."""
    tokens = parts[0].fibre.model.tokens
    named = [names.matrix(f"Q_d{n}", rate) for n, rate in enumerate(rates, start=1)]
    slopes: dict[sp.Symbol, list[sp.Expr]] = {symbol: [rate[k] for rate in named] for k, symbol in enumerate(block)}
    for head, part in enumerate(parts):
        scale = weights[part.seen, head]
        rows = [_block(rate, part.seen, head, tokens) / scale for rate in named]
        slopes |= {symbol: [row[k] for row in rows] for k, symbol in enumerate(part.attention)}
    plain = [e for part in parts for e in part.in_attention]
    plain += equations[len(plain) :]
    found = sp.zeros(len(plain), len(rates))
    for i, equation in enumerate(plain):
        inner = sorted(equation.free_symbols & slopes.keys(), key=lambda s: s.name)
        partial = {s: names.put(f"E_{i + 1}_{s.name}", sp.diff(equation, s)) for s in inner}
        for n in range(len(rates)):
            value = sp.Add(*[factor * slopes[s][n] for s, factor in partial.items()])
            found[i, n] = names.put(f"E_{i + 1}_{n + 1}", value)
    return found


def _conditions(found: Fibre) -> tuple[sp.Expr, ...]:
    """Return what must be positive: softmax entries, and the Gram matrix of a tied readout by its leading minors."""
    conditions = list(found.output) if found.model.activation == "softmax" else []
    if found.model.tied:
        gram = [symbol for symbol, _ in found.data if symbol.name.startswith("C_")]
        size = int((sp.sqrt(8 * len(gram) + 1) - 1) / 2)
        matrix = sp.zeros(size, size)
        for symbol in gram:
            i, j = (int(part) - 1 for part in symbol.name.split("_")[1:3])
            matrix[i, j] = matrix[j, i] = symbol
        for order in range(1, size + 1):
            conditions.append(matrix[:order, :order].det(method="berkowitz"))
    return tuple(conditions)
