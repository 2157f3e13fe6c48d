"""Charts of lists of blocks: the indices of the last block that reads tokens, from what it shows.

All blocks before are coordinates as they are. The last one reads v = h B^T + t E^T, B, E and t those of the tokens that
reach it: from v its indices are h = (v - t E^T) B^{-T}, and dh = |det B|^{-rows} dv.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch

import sympy as sp

from ..architecture import Architecture
from ..chart_parts import Chart, is_shift, named_fibre
from ..fibres import Fibre, Range, fibre
from ..fibres.coordinates import data_of_readout, variables_of_readout
from ..links.activation import invertible
from ..matrix_program import Names, invert
from ..tape import Tape
from .attention import Attention
from .composition import Composition
from .masked import masked_fibre
from .protocol import Block, Place
from .readout import Readout

__all__ = ["composed_chart"]

_LINE: Range = (-sp.oo, sp.oo)


@dataclass(frozen=True)
class _Last:
    """What the last block shows, in terms of v, and v in terms of that.

    Attributes
    ----------
    output : sympy.Matrix
        Symbols of y.
    data, variables, signs, log_density, conditions
        As of a chart.
    ranges : tuple
        Of the variables.
    readout : sympy.Matrix
        v of the block's rows, rows x M.
    read : callable
        (v, names) -> data, variables, signs.
    of_scores : bool
        Whether `output` holds the scores of an activation of one's own.
    """

    output: sp.Matrix
    data: tuple[tuple[sp.Symbol, sp.Expr], ...]
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    readout: sp.Matrix
    log_density: sp.Expr
    conditions: tuple[sp.Expr, ...]
    read: Callable[[sp.Matrix, Names], list[sp.Expr]]
    of_scores: bool = False


def composed_chart(model: Composition) -> Chart:
    """Derive the chart of a list of blocks whose output has no noise.

    Parameters
    ----------
    model : Composition

    Raises
    ------
    ValueError
        What the last block shows has no coordinates here; the message says that noise has.
    """
    last, count = model.blocks[-1], len(model.blocks)
    tape = Tape((), False)
    states = model.before(tape, count - 1)
    state = states[-1].named(tape, count - 1)
    place = Place(count, model.tokens, (*states[:-1], state))
    names, reading = Names(tape.body), Names(tape.body)
    found = _shown(last, place, model)
    entries = sp.Matrix.vstack(*model.index_matrices())
    own = sum(rows for _, rows in last.roles)
    hidden = list(entries[: entries.rows - own, :])
    offset = _offset(last, place)
    if isinstance(last, Readout) and last.reads != "mlp":
        solved, weight, kept = _pooled(last, place, found, names)
        hidden += kept
        # What a class shows of the mean of the tokens.
        coordinates = _read_pooled(last, place, reading)
    else:
        inverse, determinant = (
            (state.mixing, sp.S.One) if state.mixing == sp.eye(model.tokens) else invert(names, state.mixing)
        )
        solved = (found.readout - offset) * inverse.T
        weight = found.log_density - own * sp.log(sp.Abs(determinant))
        seen = entries[entries.rows - own :, :] * state.mixing.T + offset
        v = sp.Matrix(*seen.shape, lambda k, m: reading.put(f"v_{k + 1}_{m + 1}", seen[k, m]))
        coordinates = found.read(v, reading)
    size = len(found.data)
    return Chart(
        model=model,
        data=tuple(s for s, _ in found.data),
        output=found.output,
        given=tuple(value for _, value in found.data),
        hidden=tuple(hidden),
        variables=found.variables,
        ranges=found.ranges,
        signs=found.signs,
        h=sp.Matrix.vstack(entries[: entries.rows - own, :], solved),
        log_weight=weight,
        conditions=found.conditions,
        body=tuple(names.body),
        shown=tuple(coordinates[:size]),
        coordinates=tuple(coordinates[size:]),
        reading=tuple(reading.body),
        entries=entries,
        free=model.free_means,
        of_scores=found.of_scores,
    )


def _offset(last: Block, place: Place) -> sp.Matrix:
    """T E^T of the rows of a block."""
    state = place.inputs[-1]
    parts = [
        place.overlaps(role, rows) * state.added.T if state.directions else sp.zeros(rows, place.tokens)
        for role, rows in last.roles
    ]
    return sp.Matrix.vstack(*parts)


@singledispatch
def _shown(last: Block, place: Place, model: Composition) -> _Last:
    """What the last block shows of the tokens that it reads."""
    raise ValueError(
        "tokens that leave a list of blocks have no coordinates on what they leave open of the indices; give the "
        "output noise, with which every list is served"
    )


@_shown.register
def _(last: Attention, place: Place, model: Composition) -> _Last:
    alone = last.alone(place)
    if last.mask is not None:
        own = masked_fibre(alone, last.mask)
        return _Last(
            own.output,
            own.data,
            own.variables,
            (_LINE,) * len(own.variables),
            own.signs,
            own.readout,
            own.log_density,
            own.conditions,
            lambda v, names: own.shown(v),
        )
    of_scores = callable(last.activation)
    if of_scores:
        _refuse_lost(alone)
        alone = replace(alone, activation="linear")
    found = fibre(alone)
    if model.free_means:
        found = named_fibre(found)

    def read(v: sp.Matrix, names: Names) -> list[sp.Expr]:
        variables, signs = variables_of_readout(_without_shift(found), v, names, f"_{place.number}")
        shifts = [v[last.rank + k, place.tokens - 1] for k, s in enumerate(s for s in found.variables if is_shift(s))]
        return [*data_of_readout(found, v), *variables, *shifts, *signs]

    return _Last(
        found.output,
        found.data,
        found.variables,
        found.ranges,
        found.signs,
        found.readout,
        found.log_density,
        (),
        read,
        of_scores,
    )


def _without_shift(found: Fibre) -> Fibre:
    """The same without the shift of the queries among its variables."""
    return replace(found, variables=tuple(s for s in found.variables if not is_shift(s)))


@_shown.register
def _(last: Readout, place: Place, model: Composition) -> _Last:
    if last.reads == "mean":
        raise ValueError(
            "the mean of the tokens has no coordinates on what it leaves open of the indices; give the output noise, "
            "with which every list is served"
        )
    rows, columns = (last.width, place.tokens) if last.reads == "mlp" else (1, last.width)
    output = sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"y_{i + 1}_{j + 1}", real=True))
    if last.reads == "mlp":
        if callable(last.activation):
            _refuse_lost(Architecture(1, 2, activation=last.activation, beta=sp.S.One))
        data = tuple(
            (sp.Symbol(f"d_{k + 1}_{m + 1}", real=True), output[k, m]) for k in range(rows) for m in range(columns)
        )
        readout = sp.Matrix(rows, columns, [s for s, _ in data])
        return _Last(
            output, data, (), (), (), readout, sp.S.Zero, (), lambda v, names: list(v), callable(last.activation)
        )
    if last.reads == "linear":
        data = tuple((sp.Symbol(f"d_{k + 1}", real=True), output[k]) for k in range(columns))
    else:
        output = sp.Matrix(1, columns, lambda i, j: sp.Symbol(f"y_{i + 1}_{j + 1}", positive=True))
        data = tuple(
            (sp.Symbol(f"d_{k + 1}", real=True), sp.log(output[k] / output[columns - 1])) for k in range(columns - 1)
        )
    variables = tuple(
        sp.Symbol(f"x_{k + 1}_{m + 2}", real=True) for k in range(len(data)) for m in range(place.tokens - 1)
    )
    return _Last(
        output, data, variables, (_LINE,) * len(variables), (), sp.zeros(0, 0), sp.S.Zero, (), lambda v, names: []
    )


def _refuse_lost(model: Architecture) -> None:
    """Raise where an activation may not fix what it acts on."""
    if not invertible(model):
        raise ValueError(
            f"the activation {model.activation_name} is not provably strictly monotone: its values may not fix what it "
            "acts on; give the output noise, with which every list is served"
        )


def _reflected(place: Place, last: Readout, names: Names) -> tuple[sp.Matrix, sp.Expr, sp.Expr, sp.Matrix]:
    """The pooled row p = B^T a of the mixing, its length, a sign, and the reflection of the axis to - sign p/|p|."""
    pooled = place.inputs[-1].mixing.T * last.pooling(place.tokens)
    p = sp.Matrix(place.tokens, 1, lambda m, _: names.put(f"p_{m + 1}", pooled[m]))
    length = names.put("length", sp.sqrt(sp.Add(*[x**2 for x in p])), positive=True)
    # Away from the axis, so that nothing cancels.
    side = names.put("side", p[0] / sp.sqrt(p[0] ** 2))
    w = sp.Matrix(place.tokens, 1, lambda m, _: p[m] / length + (side if m == 0 else 0))
    w = sp.Matrix(place.tokens, 1, lambda m, _: names.put(f"w_{m + 1}", w[m]))
    scale = names.put("scale", 2 / sp.Add(*[x**2 for x in w]))
    return p, length, side, sp.eye(place.tokens) - scale * w * w.T


def _pooled(last: Readout, place: Place, found: _Last, names: Names) -> tuple[sp.Matrix, sp.Expr, list[sp.Expr]]:
    """The rows of a readout from what it shows of the pooled tokens, their weight, and entries kept as they are."""
    p, length, side, reflection = _reflected(place, last, names)
    offset = (
        (_offset(last, place) * last.pooling(place.tokens)) if place.inputs[-1].directions else sp.zeros(last.width, 1)
    )
    h = place.rows("w", last.width)
    kept, common = [], sp.S.Zero
    if last.reads == "softmax":
        kept = list(h[last.width - 1, :])
        common = names.put("common", (h[last.width - 1, :] * p)[0] + offset[last.width - 1])
    rows = []
    for k, (symbol, _) in enumerate(found.data):
        # The reflection takes the first axis to - side p/|p|.
        along = -side * (symbol + common - offset[k]) / length
        rest = found.variables[k * (place.tokens - 1) : (k + 1) * (place.tokens - 1)]
        rows.append((reflection * sp.Matrix([along, *rest])).T)
    if last.reads == "softmax":
        rows.append(h[last.width - 1, :])
    return sp.Matrix.vstack(*rows), -len(found.data) * sp.log(length), kept


def _read_pooled(last: Readout, place: Place, names: Names) -> list[sp.Expr]:
    """What the readout shows of its rows, and the variables that it leaves open."""
    *_, reflection = _reflected(place, last, names)
    pooling, state = last.pooling(place.tokens), place.inputs[-1]
    h = place.rows("w", last.width)
    seen = h * state.mixing.T * pooling
    if state.directions:
        seen += _offset(last, place) * pooling
    count = last.width - (last.reads == "softmax")
    data = [seen[k] - (seen[last.width - 1] if last.reads == "softmax" else 0) for k in range(count)]
    variables = [x for k in range(count) for x in list(reflection * h[k, :].T)[1:]]
    return [*data, *variables]
