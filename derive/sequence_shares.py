"""Charts of sequence outputs of several softmax layers over two tokens: every layer's share of what y shows.

B_l has the row sums (1 + c)^l. With a and b the weights that layer l's two tokens give to each other,
x and z the entries (1, 2) and (2, 1) of B_l, and T = (1 + c)^l - x - z, which is det B_l/(1 + c)^l,

    x_l = (1 + c) x_{l-1} + p_l,   z_l = (1 + c) z_{l-1} + q_l,   p_l = a_l T_{l-1},   q_l = b_l T_{l-1}.

y = B_L shows x_L and z_L. What layer l has of them, W = p + q, lies between bounds: tied layers have a + b <= 1,

    max(0, (1 + c) c^{l-1} - T_l) < W < min(x_l + z_l, T_l/c),

and p between max(0, W - z) and min(x, W). The coordinates are where W and p lie between their bounds, on the scale of a
logistic function. Every p, q, x - p and z - q is a sum of positive terms in them, however small it is, so that no digit
of a saturated layer is lost. From y and the coordinates all a_l and b_l follow, from these every layer's readout up to
its fibre (`derive.fibres`), and h_l = v_l B_{l-1}^{-T}.

Untied layers have a < 1 and b < 1 instead. Below c = 1 they may turn the difference of the tokens round (T < 0), which
the bounds leave out: for them the chart is one of c >= 1 only.

An untied layer of rank 1 leaves the scale of its keys k against the differences p of its queries. Where k and p are
standard normal, e^kappa = (2 |k|^2/p^2)^{1/4} has a density with one maximum, near kappa = 0.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import sympy as sp

from .architecture import Architecture
from .chart_parts import Chart, named_fibre
from .fibres import Fibre, fibre
from .fibres.coordinates import variables_of_readout
from .fibres.level_set import LINE
from .matrix_program import Names
from .primitives import Exp, Expit, Expm1, Largest, LogExpit, Smallest, stable
from .straightline import Assignment, Stage, straight_link

__all__ = ["is_shared", "shares_chart"]

# What float64 leaves of 1 - a where a rounds to one; what it may be off by there.
_LEAST, _ROUNDING = sp.Rational(1, 2**54), sp.Rational(1, 2**50)


def is_shared(model: Architecture) -> bool:
    """Return whether `shares_chart` serves a model."""
    sequence = model.output == "sequence" and model.layers > 1 and model.heads == 1
    return sequence and model.activation == "softmax" and model.tokens == 2


class _Solved(NamedTuple):
    """What the shares give: h_l of every layer, the logarithm of the weight, the conditions, the program."""

    h: list[sp.Matrix]
    log_weight: sp.Expr
    conditions: list[sp.Expr]
    body: tuple[Assignment, ...]


class _Layer(NamedTuple):
    """What a split gives: log a and log b, x and z of the layer before, its T, and the logarithm of the measure."""

    log_weights: list[sp.Expr]
    before: tuple[sp.Expr, sp.Expr]
    last: sp.Expr
    log_measure: sp.Expr


def shares_chart(model: Architecture) -> Chart:
    """Derive the chart of a sequence output y = B_L over two tokens, L >= 2, of any rank, tied or untied.

    Parameters
    ----------
    model : Architecture
        One that `is_shared`.

    Returns
    -------
    Chart
        Its data are log y_12 and log y_21; no entry of h is a coordinate.

    References
    ----------
    troiani2025, (25)-(26); derived.
    """
    single = [
        replace(model, layers=1, ranks=model.rank_vector[layer - 1], output="last")
        for layer in range(1, model.layers + 1)
    ]
    fibres = [_scaled(named_fibre(fibre(alone), f"layer{n}")) for n, alone in enumerate(single, start=1)]
    shares = {
        layer: tuple(sp.Symbol(f"share{layer}_{n}", real=True) for n in (1, 2)) for layer in range(2, model.layers + 1)
    }
    data = (sp.Symbol("d_1", real=True), sp.Symbol("d_2", real=True))
    output = sp.Matrix(2, 2, lambda i, j: sp.Symbol(f"y_{i + 1}_{j + 1}", positive=True))
    solved = _solve(model, data, shares, fibres)
    line = straight_link(model)
    reading = Names(line.body)
    coordinates = _read(model, fibres, reading)
    both = tuple(share for pair in shares.values() for share in pair)
    return Chart(
        model=model,
        data=data,
        output=output,
        given=(sp.log(output[0, 1]), sp.log(output[1, 0])),
        hidden=(),
        variables=(*both, *(symbol for part in fibres for symbol in part.variables)),
        ranges=(*([LINE] * len(both)), *(pair for part in fibres for pair in part.ranges)),
        signs=tuple(sign for part in fibres for sign in part.signs),
        h=sp.Matrix.vstack(*solved.h),
        log_weight=solved.log_weight,
        conditions=tuple(solved.conditions),
        body=solved.body,
        shown=(sp.log(line.outputs[0, 1]), sp.log(line.outputs[1, 0])),
        coordinates=tuple(coordinates),
        reading=tuple(reading.body),
        entries=sp.Matrix.vstack(*model.index_matrices()),
        free=model.free_means,
        least=0.5 if model.tied else 1.0,
        equations=(25, 163, 164, 165),
    )


def _solve(
    model: Architecture,
    data: tuple[sp.Symbol, sp.Symbol],
    shares: Mapping[int, tuple[sp.Symbol, ...]],
    fibres: list[Fibre],
) -> _Solved:
    """Return all indices from the data, the shares and the variables of the fibres."""
    names = Names()
    weight, h = sp.Add(*data), []
    conditions: list[sp.Expr] = []
    seen = tuple(names.put(f"x{model.layers}_{n}", Exp(value)) for n, value in enumerate(data, 1))
    for layer in range(model.layers, 0, -1):
        if layer == 1:
            log_weights, inverse = [names.put(f"loga1_{n}", sp.log(x)) for n, x in enumerate(seen, 1)], sp.eye(2)
        else:
            part = _split(model, layer, seen, shares[layer], names, conditions)
            log_weights, seen = part.log_weights, part.before
            inverse = _inverse(model, layer, part, names)
            rank = model.rank_vector[layer - 1]
            # |det B|^{-1} of a row whose mean counts, 1/T of one whose mean y does not depend on.
            weight += part.log_measure - (rank if model.tied else 2 * rank) * sp.log(part.last)
            weight -= rank * (layer - 1) * sp.log(1 + model.skip)
        scores, complements = _scores(layer, log_weights, names, conditions)
        found = _at_scores(fibres[layer - 1], scores)
        conditions += [value for symbol, value in found.data if symbol.is_positive]
        place = {symbol: names.put(symbol.name, value, **symbol.assumptions0) for symbol, value in found.data}
        weight += found.log_density.xreplace(place) - sp.Add(*complements, *log_weights)
        h.append(names.matrix(f"v{layer}", found.readout.xreplace(place)) * inverse.T)
    return _Solved(h[::-1], weight, conditions, tuple(names.body))


def _split(
    model: Architecture,
    layer: int,
    seen: tuple[sp.Expr, ...],
    shares: tuple[sp.Symbol, ...],
    names: Names,
    conditions: list[sp.Expr],
) -> _Layer:
    """Return what a layer and those before it have of x and z."""
    skip, (x, z), where = model.skip, seen, f"{layer}"
    total, rows = (1 + skip) ** layer, (1 + skip) ** (layer - 1)
    lows, highs = _bounds(model, layer, total - x - z, x + z)
    low = names.put(f"low{where}", Largest(*lows))
    range_ = names.put(f"range{where}", _least(highs) - low)
    up, down, left, right = (
        names.put(f"part{where}_{n}", stable(Expit(sign * share)))
        for n, (sign, share) in enumerate(((1, shares[0]), (-1, shares[0]), (1, shares[1]), (-1, shares[1])))
    )
    own = names.put(f"W{where}", low + range_ * up)
    # x_{l-1} + z_{l-1}, of which nothing is lost where W takes nearly all.
    others = names.put(f"V{where}", -_least([end - x - z for end in highs]) + range_ * down)
    last = names.put(f"T{layer - 1}", rows - others / (1 + skip))
    lowest, highest = [sp.S.Zero, own - z], [x, own]
    if not model.tied:
        most = (1 + skip) * _most(model, layer - 1)
        lowest += [own - last, x - most]
        highest += [last, own - z + most]
    bottom = names.put(f"bottom{where}", Largest(*lowest))
    room = names.put(f"room{where}", Smallest(*highest) - bottom)
    conditions += [range_, room, last]
    top = [Largest(*(value - end for end in highest)) for value in (x, own)]
    rising, falling = names.put(f"rise{where}", room * left), names.put(f"fall{where}", room * right)
    parts = (bottom + rising, top[1] + falling)
    earlier = (top[0] + falling, names.put(f"over{where}", Largest(*(z - own + end for end in lowest))) + rising)
    before = tuple(names.put(f"x{layer - 1}_{n}", value / (1 + skip)) for n, value in enumerate(earlier, 1))
    log_weights = [names.put(f"loga{where}_{n}", sp.log(value / last)) for n, value in enumerate(parts, 1)]
    measure = sp.log(range_) + sp.log(room) - 2 * sp.log(last) - 2 * sp.log(1 + skip)
    measure += sp.Add(*(stable(LogExpit(sign * share)) for share in shares for sign in (1, -1)))
    return _Layer(log_weights, (before[0], before[1]), last, measure)


def _bounds(model: Architecture, layer: int, after: sp.Expr, seen: sp.Expr) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return what W of a layer is larger than and smaller than, from T after it and x + z."""
    if model.tied:
        return [sp.S.Zero, (1 + model.skip) * model.skip ** (layer - 1) - after], [seen, after / model.skip]
    return [sp.S.Zero, seen - 2 * (1 + model.skip) * _most(model, layer - 1)], [seen]


def _least(values: list[sp.Expr]) -> sp.Expr:
    """Return the least of one or more values."""
    return values[0] if len(values) == 1 else Smallest(*values)


def _most(model: Architecture, layer: int) -> sp.Expr:
    """Return what entry (1, 2) of B_l cannot exceed."""
    return (1 + model.skip) ** layer - model.skip**layer


def _inverse(model: Architecture, layer: int, part: _Layer, names: Names) -> sp.Matrix:
    """Return the inverse of B_{l-1}."""
    (x, z), total = part.before, (1 + model.skip) ** (layer - 1)
    table = sp.Matrix([[total - z, -x], [-z, total - x]]) / (total * part.last)
    return names.matrix(f"inv{layer - 1}", table)


def _scores(
    layer: int, log_weights: list[sp.Expr], names: Names, conditions: list[sp.Expr]
) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return log(S_11/S_12) and log(S_21/S_22) from log S_12 and log S_21, and the logarithms of the rest."""
    complements = []
    for n, value in enumerate(log_weights, 1):
        rest = names.put(f"rest{layer}_{n}", -Expm1(value))
        conditions.append(rest + _ROUNDING)
        complements.append(names.put(f"logc{layer}_{n}", sp.log(Largest(rest, _LEAST))))
    gaps = [complements[0] - log_weights[0], log_weights[1] - complements[1]]
    return [names.put(f"g{layer}_{n}", gap) for n, gap in enumerate(gaps, 1)], complements


def _at_scores(found: Fibre, scores: list[sp.Expr]) -> Fibre:
    """Return a fibre with its data as functions of the scores."""
    place = dict(zip(found.coordinates, scores, strict=True))
    return replace(found, data=tuple((symbol, value.xreplace(place)) for symbol, value in found.data))


def _read(model: Architecture, fibres: list[Fibre], names: Names) -> list[sp.Expr]:
    """Return the shares, the variables of the fibres, and all signs, as functions of h."""
    shares: list[sp.Expr] = []
    variables: list[sp.Expr] = []
    signs: list[sp.Expr] = []
    stages = straight_link(model).stages
    for stage, rows, found in zip(stages, _rows(model), fibres, strict=True):
        if stage.layer > 1:
            shares += _shares_of(model, stage, names)
        readout = names.matrix(f"read{stage.layer}", rows * stage.before.T)
        if _is_scale(found):
            at, of = _scale_of(readout)
        else:
            at, of = variables_of_readout(found, readout, names, f"_{stage.layer}")
        variables += at
        signs += of
    return [*shares, *variables, *signs]


def _shares_of(model: Architecture, stage: Stage, names: Names) -> list[sp.Expr]:
    """Return the shares of one layer as functions of its B_{l-1}, S and B_l."""
    before, after, attention, where = stage.before, stage.after, stage.attentions[0], f"{stage.layer}"
    assert after is not None
    times = 1 + model.skip
    last = names.put(f"before{where}", before[1, 1] - before[0, 1])
    behind = names.put(f"after{where}", after[1, 1] - after[0, 1])
    p, q = (names.put(f"own{where}_{n}", attention[i, 1 - i] * last) for n, i in enumerate((0, 1)))
    x, z = (names.put(f"left{where}_{n}", times * before[i, 1 - i]) for n, i in enumerate((0, 1)))
    lows, highs = _bounds(model, stage.layer, behind, p + q + x + z)
    # The first bounds are met with full accuracy, the others where a or b is one up to the rounding of float64.
    least = _LEAST * (p + q)
    above = _least([p + q, *(Largest(p + q - end, least) for end in lows[1:])])
    below = _least([x + z, *(Largest(end - p - q, least) for end in highs[1:])])
    rising, falling = [p, z], [x, q]
    if not model.tied:
        most = times * _most(model, stage.layer - 1)
        rising += [last * attention[1, 1], most - x]
        falling += [last * attention[0, 0], most - z]
    return [sp.log(above / below), sp.log(Smallest(*rising) / Smallest(*falling))]


def _is_scale(found: Fibre) -> bool:
    """Return whether a fibre is the scale of keys of rank 1."""
    return not found.model.tied and found.readout.rows == 2


def _scaled(found: Fibre) -> Fibre:
    """Return the fibre of an untied layer of rank 1 in the logarithm of its scale and a sign; others as they are."""
    if not _is_scale(found):
        return found
    (key,) = found.variables
    name = key.name.removeprefix("k_1_1")
    scale, sign = sp.Symbol(f"kappa{name}", real=True), sp.Symbol(f"sign{name}", real=True)
    first, second = (symbol for symbol, _ in found.data)
    size = sp.Abs(first) * Exp(scale) / (2 * (first**2 + second**2)) ** sp.Rational(1, 4)
    return replace(
        found,
        variables=(scale,),
        ranges=(LINE,),
        signs=(sign,),
        readout=found.readout.xreplace({key: sign * size}),
        log_density=found.log_density + sp.log(sp.Abs(first)) + scale - sp.log(2 * (first**2 + second**2)) / 4,
    )


def _scale_of(readout: sp.Matrix) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return kappa and the sign of the first key, of keys above queries."""
    keys, difference = readout[0, :], readout[1, 0] - readout[1, 1]
    scale = sp.log(2 * (keys[0] ** 2 + keys[1] ** 2) / difference**2) / 4
    return [scale], [keys[0] / sp.Abs(keys[0])]


def _rows(model: Architecture) -> list[sp.Matrix]:
    """Return the indices of every layer, keys above queries."""
    blocks = [(block.layer, block.symbols(model.tokens, model.heads)) for block in model.index_blocks]
    return [sp.Matrix.vstack(*(h for at, h in blocks if at == layer)) for layer in range(1, model.layers + 1)]
