"""Averages of a link over y, and over the entries of h that are known, by quadrature."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part
from ...posterior.link.adaptive import adaptive
from ...posterior.link.monotone import bisect_change
from ...posterior.link.quadrature import Piece, pieces
from ...posterior.link.rules import CUT, half_interval_rule
from ...posterior.link.work import Work
from .moments import Sums, by_label, volume
from .noise import noisy

__all__ = ["average"]

Array = NDArray[np.float64]

# Share of a grid on which an output of several entries may be infinite.
_OVERFLOW = 0.05
# Outputs that grow larger are integrated over on a logarithmic scale.
_WIDE = 1e4


def average(kernel: LinkKernel, part: Part, sums: Sums, order: int) -> tuple[Array, Array, int]:
    """Average over y and over the known entries.

    Parameters
    ----------
    kernel : LinkKernel
    part : Part
        Of this kernel.
    sums : Sums
        Which entries are wanted, and which are known.
    order : int
        Nodes per panel of the inner rules.

    Returns
    -------
    value, error : ndarray, shape (1 + n + r^2 + r^4,)
        As `Sums` orders them, n entries of r indices.
    evaluations : int

    Raises
    ------
    NotServedError
        No rule here serves this part of the link; the message says why.

    References
    ----------
    troiani2025, (15).
    """
    work = Work(kernel.text)
    if not sums.known:
        return _over_y(kernel, part, sums, {}, order, work)
    if len(sums.known) > 2:
        raise NotServedError(f"{len(sums.known)} entries of h are known at this step; a quadrature serves at most 2")
    rules = [_known_rule(part, entry, order) for entry in sums.known]
    grids = [grid.ravel() for grid in np.meshgrid(*(rule[0] for rule in rules), indexing="ij")]
    weights = rules[0][1]
    for _, w in rules[1:]:
        weights = np.multiply.outer(weights, w).ravel()
    total: Array | None = None
    error: Array | None = None
    count = 0
    for k, weight in enumerate(weights):
        if weight < 1e-18:
            continue
        known = {e: float(g[k]) for e, g in zip(sums.known, grids, strict=True)}
        value, own, used = _over_y(kernel, part, sums, known, order, work)
        total = weight * value if total is None else total + weight * value
        error = weight * own if error is None else error + weight * own
        count += used
    assert total is not None and error is not None
    return total, error, count


def _known_rule(part: Part, entry: int, order: int) -> tuple[Array, Array]:
    """Rule over a known entry, density included, cut where the link changes its form."""
    marks = {-CUT, 0.0, CUT}
    for region in part.regions:
        marks |= {b for b in region.interval(entry) if abs(b) < CUT}
    edges = np.array(sorted(marks))
    middle = 0.5 * (edges[1:] + edges[:-1])
    x, w = half_interval_rule(np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle]), order + 2, 0.2)
    return x.ravel(), (w * np.exp(-0.5 * x * x)).ravel() / math.sqrt(2 * math.pi)


def _over_y(
    kernel: LinkKernel, part: Part, sums: Sums, known: dict[int, float], order: int, work: Work
) -> tuple[Array, Array, int]:
    scope = tuple(sorted([*sums.entries, *sums.known]))
    parts = pieces(part.regions, kernel.size, scope, known, work)
    for piece in parts:
        piece.check()
        if known and len(piece.active) > 1:
            raise NotServedError(f"{len(piece.active)} coupled entries beside known ones take a quadrature too long")
    if kernel.noise > 0:
        return noisy(kernel, sums, parts, order)
    width = 1 + sums.n + sums.r**2 + sums.r**4
    value, error, count = np.zeros(width), np.zeros(width), 0
    for label, group in by_label(parts):
        moving = [k for k, number in enumerate(label) if number is None]
        if not moving:
            value += sums(volume(group, order)[None])[0]
            count += 1
        elif len(moving) == 1:
            group = [replace(piece, output=moving[0]) for piece in group if piece.free_mass > 0]
            more = _moving(sums, group, order, bool(known)) if group else None
            if more is not None:
                value, error, count = value + more[0], error + more[1], count + more[2]
        else:
            raise NotServedError(
                f"{len(moving)} outputs vary together ({'; '.join(kernel.text[part.outputs[k]] for k in moving)})"
            )
    return value, error, count


def _moving(sums: Sums, moving: Sequence[Piece], order: int, one_of_many: bool) -> tuple[Array, Array, int]:
    """Averages over the one output that varies."""
    if not one_of_many:  # once; not worth it for each of many known values
        with np.errstate(all="ignore"):
            moving = [piece.planned() if len(piece.active) > 1 else piece for piece in moving]
    start, end, least = _y_intervals(moving)
    if not len(start):
        # None of the regions can be met where the known entries lie.
        nothing = np.zeros(1 + sums.n + sums.r**2 + sums.r**4)
        return nothing, nothing, 0
    # A wide range is integrated over t = asinh(y).
    wide = float(max(np.abs(start).max(), np.abs(end).max())) > _WIDE
    if wide:
        start, end, least = _from_edges(np.unique(np.arcsinh(np.concatenate([start, end]))))
    calls = [0]

    def f(t: Array) -> Array:
        calls[0] += len(t)
        y = np.sinh(t) if wide else t
        total = np.zeros((len(y), sums.width()))
        with np.errstate(all="ignore"):  # candidates that are no solutions are NaN, and dropped
            for piece in moving:
                total += piece.density(y, order)
        return sums(total * np.cosh(t)[:, None] if wide else total)

    active = max(len(piece.active) for piece in moving)
    tolerance = {1: 1e-13, 2: 1e-11}.get(active, 1e-6) * (order / 12) ** 2
    most = {1: 60_000, 2: 6_000}.get(active, 400)
    if one_of_many:
        # One of many integrals, over the known entries; singular values of y are not near zero, so rounded.
        tolerance, most = max(tolerance, 1e-9), min(most, 4000)
    value, error = adaptive(f, start, end, least, tolerance, order=10 if active < 3 else 6, most=most)
    return value, error, calls[0]


def _y_intervals(moving: Sequence[Piece]) -> tuple[Array, Array, Array]:
    """Intervals of y between values where densities may be singular, each dense towards one end."""
    low, high = math.inf, -math.inf
    marks = {0.0}
    for piece in moving:
        values, special = _range(piece)
        # The grid misses the ends themselves, where the density may be largest.
        low, high = min(low, float(values.min()), *special), max(high, float(values.max()), *special)
        marks |= special
    edges = np.array(sorted({low, high, *(m for m in marks if low < m < high)}))
    # Neighbours that differ by rounding alone are one.
    keep = np.concatenate([[True], np.diff(edges) > 1e-12 * (1 + np.abs(edges[1:]))])
    return _from_edges(edges[keep])


def _from_edges(edges: Array) -> tuple[Array, Array, Array]:
    """Both halves of the intervals between edges, each from its edge inwards."""
    middle = 0.5 * (edges[1:] + edges[:-1])
    start = np.concatenate([edges[:-1], edges[1:]])
    end = np.concatenate([middle, middle])
    least = np.clip(np.sqrt(0.02 / np.abs(end - start)), 1e-7, 0.3)
    return start, end, least


def _range(piece: Piece) -> tuple[Array, set[float]]:
    """Values of the output on a grid over the piece, and values at critical points and corners."""
    active = piece.active
    count = {1: 4001, 2: 401}.get(len(active), 61)
    lines = [_line(*piece.limits(i), count) for i in active]
    grids = np.meshgrid(*lines, indexing="ij")
    entries = piece.entries({i: g[1:-1] if len(active) == 1 else g for i, g in zip(active, grids, strict=True)})
    with np.errstate(all="ignore"):
        values = np.broadcast_to(piece.value(entries), entries[active[0]].shape)
        ok = np.isfinite(values) & np.broadcast_to(piece.inside(entries), values.shape)
        inside = values[ok]
        # Poles are thin; what overflows has a volume.
        if len(active) > 1 and np.isinf(values).mean() > _OVERFLOW:
            raise NotServedError("it grows beyond the range of float64")
        marks = set(piece.region.critical[piece.output]) if not piece.known else set()
        origin = piece.entries({i: np.array(float(np.clip(0.0, *piece.limits(i)))) for i in active})
        marks.add(float(piece.value(origin)))
        ends = [[b for b in piece.region.interval(i) if math.isfinite(b)] for i in active]
        if len(active) == 1:
            marks |= {float(piece.value(piece.entries({active[0]: np.array(b)}))) for b in ends[0]}
            marks |= _turning_values(piece, lines[0])
        elif all(ends):
            corners = np.meshgrid(*ends, indexing="ij")
            corner = piece.entries({i: c.ravel() for i, c in zip(active, corners, strict=True)})
            marks |= {float(v) for v in np.ravel(piece.value(corner))}
    if not inside.size:
        return np.zeros(1), set()
    return inside, {m for m in marks if math.isfinite(m)}


def _line(low: float, high: float, count: int) -> Array:
    """Points of an interval, even and also dense towards its ends and towards zero, where outputs may grow large."""
    even = np.linspace(low, high, count)
    near = np.geomspace(1e-10, 0.1, max(9, count // 20))
    marks = np.array([low, high, *([0.0] if low < 0 < high else [])])
    points = np.unique(np.concatenate([even, *(m + near for m in marks), *(m - near for m in marks)]))
    return np.asarray(points[(points >= low) & (points <= high)])


def _turning_values(piece: Piece, grid: Array) -> set[float]:
    """Outputs where the slope in the only active entry changes sign."""
    entry = piece.active[0]

    def slope(x: Array) -> Array:
        return np.broadcast_to(piece.slope(piece.entries({entry: x})), x.shape)

    sign = np.sign(slope(grid))
    at = np.flatnonzero(sign[1:] * sign[:-1] < 0)
    a, b, left = grid[at], grid[at + 1], sign[at]
    a, b = bisect_change(a, b, lambda m: np.sign(slope(m)) == left)
    x = np.concatenate([0.5 * (a + b), grid[sign == 0]])
    return {float(v) for v in np.ravel(np.broadcast_to(piece.value(piece.entries({entry: x})), x.shape))}
