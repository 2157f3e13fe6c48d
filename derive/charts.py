"""Charts of the surface {h : g(h) = y}: coordinates on the indices that share an output, for every architecture.

A posterior given y lives on that surface. A chart is the change of variables

    h  <->  (data, x, signs, free means),

data what y fixes, x the coordinates that it leaves open: the indices of the layers before the last, whatever blocks of
the last layer's indices its readout does not fix, and the variables of the readout's fibre (`derive.fibres`). For
softmax layers with keys and queries the means of the queries over the tokens do not matter to y at all: they are the
"free means", of which the chart has none; their Gaussian is integrated exactly. With the log-weight of the chart,

    Z_out(y; omega, V) = const * sum_signs Int dx exp(log_weight) p(h without the free means).

The last attention matrix as output (6): v = h_L B_{L-1}^T is read from y up to its fibre and solved for h_L, the weight
|det B_{L-1}|^{-rows} that of the fibre apart. Several heads: head a reads v^(a) = sum_b h^(a,b) B^{(ab)T}, which is
solved for the block b = a. Sequence outputs (25): the channel of `derive.sequence_inversion`, where y puts no equation
on the layers before the last.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy as sp

from .architecture import Architecture
from .chart_parts import Chart, is_shift, named_fibre
from .fibres import Fibre, fibre
from .fibres.coordinates import data_of_readout, variables_of_readout
from .links.activation import invertible
from .matrix_program import Names, invert
from .mixing import activate_score
from .sequence_inversion import missing_dimensions, sequence_channel
from .sequence_shares import is_shared, shares_chart
from .straightline import Assignment, straight_link

__all__ = ["chart"]

Inverse = Callable[[sp.Expr], sp.Expr]


def chart(
    model: Architecture,
    pivots: Sequence[int] | None = None,
    reference: int | None = None,
    inverse: Inverse | None = None,
) -> Chart:
    """Derive the chart of a model that solves for the indices of its last layer.

    Parameters
    ----------
    model : Architecture
    pivots, reference, inverse
        As for `derive.fibres.fibre`.

    Returns
    -------
    Chart

    Raises
    ------
    ValueError
        An activation that is neither given with its inverse nor provably strictly monotone; a sequence output that puts
        equations on the layers before the last, so that they are no coordinates.

    References
    ----------
    troiani2025, (163)-(170), Corollary E.1, for tied layers of rank 1; the rest is derived.
    """
    if is_shared(model):
        return shares_chart(model)
    if model.output == "sequence":
        return _of_sequence(model, pivots, reference, inverse)
    last = _alone(model)
    if callable(model.activation) and inverse is None:
        if not invertible(model):
            raise ValueError(
                f"the activation {activate_score(model, sp.Symbol('z', real=True))} is not provably strictly monotone "
                "in z: its attention matrices may not fix the scores that made them"
            )
        # They show what their scores show.
        last = replace(last, activation="linear")
    found = fibre(last, pivots, reference, inverse)
    copies = [named_fibre(found, _of_head(model, head)) for head in range(1, model.heads + 1)]
    mixing, mixed = _mixing(model)
    reading, complete = Names(mixed), Names(mixed)
    shown, coordinates = _read(model, copies, mixing, reading)
    blocks: dict[int, sp.Matrix] = {}
    weight = sp.S.Zero
    for head, copy in enumerate(copies, start=1):
        own = _own(mixing, head, head, model.tokens)
        inverse_block, determinant = _inverted(complete, own, head)
        blocks |= _solved(model, head, copy, mixing, inverse_block, complete)
        weight += copy.log_density - copy.readout.rows * sp.log(sp.Abs(determinant))
    rows = [blocks.get(b.start, b.symbols(model.tokens, model.heads)) for b in model.index_blocks]
    kept = [b for b in model.index_blocks if b.start not in blocks]
    return Chart(
        model=model,
        data=tuple(symbol for copy in copies for symbol, _ in copy.data),
        output=sp.Matrix.vstack(*(copy.output for copy in copies)),
        given=tuple(value for copy in copies for _, value in copy.data),
        hidden=tuple(entry for b in kept for entry in b.symbols(model.tokens, model.heads)),
        variables=tuple(symbol for copy in copies for symbol in copy.variables),
        ranges=tuple(pair for copy in copies for pair in copy.ranges),
        signs=tuple(sign for copy in copies for sign in copy.signs),
        h=sp.Matrix.vstack(*rows),
        log_weight=weight,
        conditions=(),
        body=tuple(complete.body),
        shown=tuple(shown),
        coordinates=tuple(coordinates),
        reading=tuple(reading.body),
        entries=sp.Matrix.vstack(*model.index_matrices()),
        free=model.free_means,
        of_scores=last.activation != model.activation,
    )


def _of_sequence(
    model: Architecture, pivots: Sequence[int] | None, reference: int | None, inverse: Inverse | None
) -> Chart:
    """Return the chart of a sequence output."""
    if model.layers > 1 and (missing := missing_dimensions(model, inverse)) > 0:
        raise ValueError(
            f"the output of {model.name} with {model.layers} layers puts {missing} equations on the layers before the "
            "last: they are no coordinates of the indices that share it (derive.sequence_inversion)"
        )
    found = sequence_channel(model, pivots=pivots, reference=reference, inverse=inverse)
    if found.equations:
        raise ValueError(f"the output of {model.name} shows its attention matrices more than once (30)")
    line = straight_link(model)
    reading = Names(line.body)
    dropped = {s: sp.S.Zero for s in found.fibre_variables if is_shift(s)}
    mixing, _ = _mixing(model)
    single = fibre(_alone(model), pivots, reference, inverse)
    copies = [named_fibre(single, _of_head(model, head)) for head in range(1, model.heads + 1)]
    _, coordinates = _read(model, copies, mixing, reading)
    kept = [(s, pair) for s, pair in zip(found.fibre_variables, found.fibre_ranges, strict=True) if s not in dropped]
    return Chart(
        model=model,
        data=tuple(found.output),
        output=found.output,
        given=tuple(found.output),
        hidden=found.earlier,
        variables=tuple(symbol for symbol, _ in kept),
        ranges=tuple(pair for _, pair in kept),
        signs=found.signs,
        h=found.h.xreplace(dropped),
        log_weight=found.log_weight,
        conditions=found.conditions,
        body=found.body,
        shown=tuple(line.outputs),
        coordinates=tuple(coordinates),
        reading=tuple(reading.body),
        entries=sp.Matrix.vstack(*model.index_matrices()),
        free=model.free_means,
        equations=(25, 163, 164, 165),
    )


def _alone(model: Architecture) -> Architecture:
    """Return one head of the last layer, whose attention matrix is observed."""
    return replace(model, layers=1, ranks=model.rank_vector[-1], output="last", heads=1)


def _of_head(model: Architecture, head: int) -> str:
    """Return what the symbols of a head's fibre are named after."""
    return f"head{head}" if model.heads > 1 else ""


def _mixing(model: Architecture) -> tuple[sp.Matrix, tuple[Assignment, ...]]:
    """Return B_{L-1} in the names of a program, and the program."""
    if model.layers == 1:
        return sp.eye(model.heads * model.tokens), ()
    before = replace(model, layers=model.layers - 1, ranks=model.rank_vector[:-1], output="sequence")
    line = straight_link(before)
    return line.outputs, line.body


def _own(mixing: sp.Matrix, row: int, column: int, tokens: int) -> sp.Matrix:
    """Return one block of B, heads counted from 1."""
    return mixing[(row - 1) * tokens : row * tokens, (column - 1) * tokens : column * tokens]


def _inverted(names: Names, block: sp.Matrix, head: int) -> tuple[sp.Matrix, sp.Expr]:
    """Return the inverse of one block and its determinant, in names of its own."""
    if block == sp.eye(block.rows):
        return block, sp.S.One
    inner = Names()
    inverse, determinant = invert(inner, block)
    place = {symbol: sp.Symbol(f"head{head}_{symbol.name}", **symbol.assumptions0) for symbol, _ in inner.body}
    names.body += [(place[symbol], value.xreplace(place)) for symbol, value in inner.body]
    return inverse.xreplace(place), determinant.xreplace(place)


def _read(
    model: Architecture, copies: Sequence[Fibre], mixing: sp.Matrix, names: Names
) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return the data of all heads, and then the variables and signs of their fibres, as functions of h."""
    shown: list[sp.Expr] = []
    variables: list[sp.Expr] = []
    signs: list[sp.Expr] = []
    for head, copy in enumerate(copies, start=1):
        rows = []
        for role in ("h",) if model.tied else ("k", "q"):
            total = sp.zeros(model.rank_vector[-1], model.tokens)
            for b in model.index_blocks:
                if (b.layer, b.head, b.role) == (model.layers, head, role):
                    total += b.symbols(model.tokens, model.heads) * _own(mixing, head, b.block, model.tokens).T
            rows.append(names.matrix(f"v{head}{role}", total))
        readout = sp.Matrix.vstack(*rows)
        shown += data_of_readout(copy, readout)
        found, sides = variables_of_readout(copy, readout, names, f"_{head}")
        variables += found
        signs += sides
    return shown, [*variables, *signs]


def _solved(
    model: Architecture, head: int, copy: Fibre, mixing: sp.Matrix, inverse: sp.Matrix, names: Names
) -> dict[int, sp.Matrix]:
    """Return the blocks of h_L that a head's readout is solved for, by their first row."""
    tokens, rank = model.tokens, model.rank_vector[-1]
    found = {}
    for number, role in enumerate(("h",) if model.tied else ("k", "q")):
        left = copy.readout[number * rank : (number + 1) * rank, :]
        left = names.matrix(f"r{head}{role}", left)
        own = -1
        for b in model.index_blocks:
            if (b.layer, b.head, b.role) != (model.layers, head, role):
                continue
            if b.block == head:
                own = b.start
            else:
                left = left - b.symbols(tokens, model.heads) * _own(mixing, head, b.block, tokens).T
        found[own] = left * inverse.T
    return found
