"""Averages of a link over y, and over the entries of h that are known, by quadrature."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part
from ...posterior.link.adaptive import adaptive
from ...posterior.link.outputs import output_edges
from ...posterior.link.quadrature import Piece, by_label, pieces
from ...posterior.link.rules import CUT, GradedRule, half_interval_rule
from ...posterior.link.work import Work
from .moments import Sums, volume
from .noise import noisy

__all__ = ["average"]

Array = NDArray[np.float64]


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
    if kernel.label_noise is not None:
        labels = kernel.label_noise.mixed(np.array([volume(group, order) for _, group in by_label(parts)]))
        return sums(labels).sum(axis=0), np.zeros(1 + sums.n + sums.r**2 + sums.r**4), len(labels)
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
            moving = [
                piece.planned(GradedRule(5), GradedRule(7)) if len(piece.active) > 1 else piece for piece in moving
            ]
    start, end, least = _from_edges(output_edges(moving))
    if not len(start):
        # None of the regions can be met where the known entries lie.
        nothing = np.zeros(1 + sums.n + sums.r**2 + sums.r**4)
        return nothing, nothing, 0
    # Outputs that grow larger are integrated over on a logarithmic scale.
    # A wide range is integrated over t = asinh(y).
    wide = float(max(np.abs(start).max(), np.abs(end).max())) > 1e4
    if wide:
        start, end, least = _from_edges(np.unique(np.arcsinh(np.concatenate([start, end]))))
    calls = [0]

    def f(t: Array) -> Array:
        calls[0] += len(t)
        y = np.sinh(t) if wide else t
        total = np.zeros((len(y), sums.width()))
        with np.errstate(all="ignore"):  # candidates that are no solutions are NaN, and dropped
            for piece in moving:
                total += piece.density(y, GradedRule(order))
        return sums(total * np.cosh(t)[:, None] if wide else total)

    active = max(len(piece.active) for piece in moving)
    tolerance = {1: 1e-13, 2: 1e-11}.get(active, 1e-6) * (order / 12) ** 2
    most = {1: 60_000, 2: 6_000}.get(active, 400)
    if one_of_many:
        # One of many integrals, over the known entries; singular values of y are not near zero, so rounded.
        tolerance, most = max(tolerance, 1e-9), min(most, 4000)
    value, error = adaptive(f, start, end, least, tolerance, order=10 if active < 3 else 6, most=most)
    return value, error, calls[0]


def _from_edges(edges: Array) -> tuple[Array, Array, Array]:
    """Both halves of the intervals between edges, each from its edge inwards."""
    middle = 0.5 * (edges[1:] + edges[:-1])
    start = np.concatenate([edges[:-1], edges[1:]])
    end = np.concatenate([middle, middle])
    least = np.clip(np.sqrt(0.02 / np.abs(end - start)), 1e-7, 0.3)
    return start, end, least
