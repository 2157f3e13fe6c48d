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

from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy as sp

from . import symbols
from .architecture import Architecture
from .fibres import Fibre, fibre
from .matrix_program import Names, invert, log_volume
from .sequence_channel import LINE, SequenceChannel
from .sequence_heads import Head, differentiate, log_scores, read_head, repeated_blocks
from .sequence_rank import independent_entries, output_entries
from .straightline import straight_jacobian

__all__ = ["missing_dimensions", "sequence_channel"]


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
    constants, weights = _readouts(model, readouts)
    y = found.output if heads == 1 else sp.Matrix(width, width, lambda i, j: _entry(i, j))
    mixing, slopes, names = _earlier(model, constants)
    inverted, determinant = invert(names, mixing)
    shown = names.matrix("A", y * inverted)
    block = names.matrix("Q", shown - model.skip * sp.eye(width))
    parts = [read_head(model, found, names, block, weights, head) for head in range(heads)]
    attentions = tuple(part.attention for part in parts)
    equations = [*(e for part in parts for e in part.equations), *repeated_blocks(model, block, weights, parts)]

    copies = [part.fibre for part in parts]
    log_weight = _log_weight(model, constants, weights, parts, determinant)
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
        jacobian = differentiate(names, equations, parts, block, weights, rates)
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
        fibre_ranges=(*(pair for copy in copies for pair in copy.ranges), *((LINE,) * len(unseen))),
        signs=signs,
        h=sp.Matrix.vstack(*matrices, last),
        omega=symbols.omega_matrix(model.indices, tokens),
        covariance=symbols.weight_covariance(model.indices),
        log_weight=log_weight,
        log_surface_weight=log_weight - correction,
    )


def _entry(i: int, j: int) -> sp.Symbol:
    return sp.Symbol(f"y_{i + 1}_{j + 1}", real=True)


def _log_weight(
    model: Architecture,
    constants: dict[sp.Symbol, sp.Expr],
    weights: sp.Matrix,
    parts: Sequence[Head],
    determinant: sp.Expr,
) -> sp.Expr:
    """Return the exponent that goes with the delta functions of the equations, without the Gaussian."""
    width, rows = model.heads * model.tokens, parts[0].fibre.readout.rows
    value = sp.Add(*[part.fibre.log_density + log_scores(part.fibre, part.attention) for part in parts])
    value -= _degrees(_alone(model)) * sp.Add(*[sp.log(sp.Abs(weights[part.seen, n])) for n, part in enumerate(parts)])
    value -= (width + model.heads * rows) * sp.log(sp.Abs(determinant))
    if model.activation == "softmax":
        value += width * sp.log(sp.Abs(_row_sums(model, constants)))
    return value


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
