"""Proof by interval arithmetic that a link carries linear information: that E[h_i f(y)] is not zero for some f.

Space is cut into boxes on which h_i has one sign. On each box the link lies between bounds that interval arithmetic
gives, and so does f(y) for the two bounded functions z/(1 + |z|) and 1/(1 + |z|) of z = s (y - c); the rest of space
counts with |f| <= 1. If the bounds of the sum exclude zero, E[h_i | y] does not vanish.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from .branches import Region

__all__ = ["Interval", "correlation_proved", "enclose"]

Array = NDArray[np.float64]
Interval = tuple[Array, Array]

# Boxes per axis by the number of entries, and the end of the cube that they fill.
_BOXES = {1: 20_000, 2: 400, 3: 64}
_EDGE = 5.0
# Relative width of a rounded result: numpy's functions are good to some units in the last place.
_ROUNDING = 1e-14
# E[h_i f(y)] over sample points below this is not worth the attempt.
_WORTH = 5e-3
_POINTS = 4000
_SCALES = (0.5, 2.0)


def _wide(low: Array, high: Array) -> Interval:
    """Round outwards; what is undefined is unbounded."""
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    with np.errstate(invalid="ignore"):
        return low - _ROUNDING * np.abs(low) - 1e-300, high + _ROUNDING * np.abs(high) + 1e-300


def _add(a: Interval, b: Interval) -> Interval:
    with np.errstate(invalid="ignore"):
        return _wide(a[0] + b[0], a[1] + b[1])


def _multiply(a: Interval, b: Interval) -> Interval:
    with np.errstate(invalid="ignore", over="ignore"):
        products = [x * y for x in a for y in b]
    # 0 times infinity: an end that is exactly zero times numbers that are finite.
    products = [np.where(np.isnan(product), 0.0, product) for product in products]
    return _wide(np.minimum.reduce(products), np.maximum.reduce(products))


def _reciprocal(a: Interval) -> Interval:
    low, high = a
    with np.errstate(divide="ignore"):
        one, two = 1 / low, 1 / high
    across = (low < 0) & (high > 0)
    low_end = np.where(across | (high == 0), -np.inf, two)
    high_end = np.where(across | (low == 0), np.inf, one)
    return _wide(low_end, high_end)


def _monotone(function: Callable[[Array], Array]) -> Callable[[Interval], Interval]:
    def image(a: Interval) -> Interval:
        with np.errstate(all="ignore"):
            return _wide(function(a[0]), function(a[1]))

    return image


def _cosine(a: Interval) -> Interval:
    """Between the ends, but for the tops at even and the bottoms at odd multiples of pi."""
    low, high = a
    finite = np.isfinite(low) & np.isfinite(high) & (np.abs(low) < 1e8) & (np.abs(high) < 1e8)
    u, v = np.where(finite, low, 0.0), np.where(finite, high, 7.0)

    def holds(start: float) -> NDArray[np.bool_]:
        # A margin for the rounding of the ends.
        return np.asarray(np.floor((v - start) / (2 * np.pi) + 1e-7) > np.floor((u - start) / (2 * np.pi) - 1e-7))

    ends = np.cos(u), np.cos(v)
    bottom, top = np.where(holds(np.pi), -1.0, np.minimum(*ends)), np.where(holds(0.0), 1.0, np.maximum(*ends))
    slack = 1e-7
    return np.maximum(bottom - slack, -1.0), np.minimum(top + slack, 1.0)


def _hyperbolic_cosine(a: Interval) -> Interval:
    low, high = _size(a)
    return _monotone(np.cosh)((low, high))


def _size(a: Interval) -> Interval:
    low, high = a
    nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return nearest, np.maximum(np.abs(low), np.abs(high))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[float])(np.clip(x, -30.0, 30.0)))


_FUNCTIONS: dict[type, Callable[[Interval], Interval]] = {
    sp.exp: _monotone(np.exp),
    sp.tanh: _monotone(np.tanh),
    sp.sinh: _monotone(np.sinh),
    sp.erf: _monotone(_erf),
    sp.cosh: _hyperbolic_cosine,
    sp.cos: _cosine,
}


def _power(base: Interval, exponent: sp.Rational) -> Interval:
    if exponent.is_negative:
        return _reciprocal(_power(base, -exponent))
    if not exponent.is_Integer:
        # Only where the base is not negative is the link real.
        return _monotone(lambda x: np.maximum(x, 0.0) ** float(exponent))(base)
    n = int(exponent)
    return _monotone(lambda x: x**n)(base if n % 2 else _size(base))


def enclose(expr: sp.Expr, boxes: dict[sp.Symbol, Interval]) -> Interval:
    """Bounds of a smooth expression on boxes.

    Parameters
    ----------
    expr : sympy.Expr
        Sums, products, rational powers, exp, log, tanh, sinh, cosh, erf, sin and cos of the symbols.
    boxes : dict
        Lower and upper ends of each symbol, arrays of one shape.

    Returns
    -------
    tuple of two ndarray
        Infinite where there is no bound.

    Raises
    ------
    NotImplementedError
        Another function.
    """
    if expr.is_Symbol:
        return boxes[expr]
    if not expr.free_symbols:
        value = np.array(float(sp.N(expr, 20)))
        return _wide(value, value)
    if isinstance(expr, (sp.Add, sp.Mul)):
        combine = _add if isinstance(expr, sp.Add) else _multiply
        total = enclose(expr.args[0], boxes)
        for part in expr.args[1:]:
            total = combine(total, enclose(part, boxes))
        return total
    if isinstance(expr, sp.Pow) and expr.exp.is_Rational:
        return _power(enclose(expr.base, boxes), expr.exp)
    if isinstance(expr, sp.log):
        return _monotone(lambda x: np.log(np.maximum(x, 0.0)))(enclose(expr.args[0], boxes))
    if isinstance(expr, sp.sin):
        return _cosine(_add(enclose(expr.args[0], boxes), _wide(np.array(-np.pi / 2), np.array(-np.pi / 2))))
    if expr.func in _FUNCTIONS:
        return _FUNCTIONS[expr.func](enclose(expr.args[0], boxes))
    raise NotImplementedError(f"no bounds for {expr.func.__name__}")


def _on_regions(
    number: int, regions: Sequence[Region], boxes: dict[sp.Symbol, Interval], shape: tuple[int, ...]
) -> Interval:
    """Bounds of an output on boxes: over the regions that may meet each of them."""
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for region in regions:
        may = np.ones(shape, dtype=bool)
        for h, (start, end) in region.bounds.items():
            may &= (boxes[h][1] >= float(start) - 1e-9) & (boxes[h][0] <= float(end) + 1e-9)
        for condition in region.conditions:
            may &= np.broadcast_to(enclose(condition, boxes)[1] > 0, shape)
        own_low, own_high = enclose(region.outputs[number], boxes)
        low = np.where(may, np.minimum(low, own_low), low)
        high = np.where(may, np.maximum(high, own_high), high)
    return low, high


def _ratio(z: Array) -> Array:
    """z/(1 + |z|), with its limits at infinity."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(z), np.sign(z), z / (1 + np.abs(z)))


def _features(y: Interval, centre: float, scale: float) -> list[Interval]:
    z = scale * (y[0] - centre), scale * (y[1] - centre)
    near, far = (np.abs(_ratio(end)) for end in _size(z))
    # 1/(1 + |z|) = 1 - |z|/(1 + |z|).
    return [(_ratio(z[0]) - _ROUNDING, _ratio(z[1]) + _ROUNDING), (1 - far - _ROUNDING, 1 - near + _ROUNDING)]


def _masses(ends: Array) -> tuple[Array, Array]:
    """Integrals of 1 and of x against the normal density between neighbouring ends."""
    below = 0.5 * (1 + _erf(ends / math.sqrt(2)))
    density = np.exp(-0.5 * ends**2) / math.sqrt(2 * math.pi)
    return np.diff(below), -np.diff(density)


def correlation_proved(number: int, regions: Sequence[Region], flipped: Sequence[sp.Symbol] = ()) -> bool:
    """Whether bounds show that E[h_i f(y)] is not zero for an entry h_i and a bounded f of one output.

    Parameters
    ----------
    number : int
        Which output.
    regions : sequence of Region
        Of the link, as `split` gives them.
    flipped : sequence of sympy.Symbol
        Entries with E[h_i | y] = 0: not worth trying.

    Returns
    -------
    bool
        False if nothing was shown; also for more than three entries, and for functions without bounds.
    """
    used = {s for r in regions for e in (r.outputs[number], *r.conditions) for s in (*e.free_symbols, *r.bounds)}
    entries = sorted(used, key=lambda s: s.name)
    tried = [axis for axis, h in enumerate(entries) if h not in flipped]
    if not 1 <= len(entries) <= max(_BOXES) or not tried:
        return False
    # The scale of the features: over points taken as boxes of no size.
    points = np.random.default_rng(0).normal(size=(len(entries), _POINTS))
    try:
        y = np.mean(
            _on_regions(number, regions, {h: (x, x) for h, x in zip(entries, points, strict=True)}, (_POINTS,)), axis=0
        )
    except NotImplementedError:
        return False
    finite = np.isfinite(y)
    if finite.mean() < 0.5:
        return False
    points, y = points[:, finite], y[finite]
    centres = sorted({float(np.quantile(y, q)) for q in (0.25, 0.5, 0.75)})
    width = float(np.quantile(np.abs(y - np.median(y)), 0.6)) or float(np.std(y))
    if not 0 < width < math.inf:
        return False
    candidates = []
    for centre, scale, kind in itertools.product(centres, _SCALES, range(2)):
        f = _features((y, y), centre, scale / width)[kind][0]
        for axis in tried:
            size = abs(float(np.mean(points[axis] * f)))
            candidates.append((size, axis, centre, scale / width, kind))
    best = [c for c in sorted(candidates, reverse=True) if c[0] > _WORTH][:2]
    if not best:
        return False
    ends = np.linspace(-_EDGE, _EDGE, _BOXES[len(entries)] + 1)
    shape = (len(ends) - 1,) * len(entries)
    axes = np.meshgrid(*[np.arange(len(ends) - 1)] * len(entries), indexing="ij")
    bounds = _on_regions(
        number, regions, {h: (ends[k], ends[k + 1]) for h, k in zip(entries, axes, strict=True)}, shape
    )
    mass, mean = _masses(ends)
    tail = 1 - float(mass.sum())
    for _, axis, centre, scale, kind in best:
        weight = np.ones(shape)
        for other, k in enumerate(axes):
            weight = weight * (mean if other == axis else mass)[k]
        low, high = _features(bounds, centre, scale)[kind]
        least = float(np.sum(np.minimum(weight * low, weight * high)))
        most = float(np.sum(np.maximum(weight * low, weight * high)))
        # |f| <= 1 outside the cube, and 1e-9 for the rounding of the weights.
        outside = 2 * math.exp(-0.5 * _EDGE**2) / math.sqrt(2 * math.pi) + (len(entries) - 1) * tail + 1e-9
        if least > outside or most < -outside:
            return True
    return False
