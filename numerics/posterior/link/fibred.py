"""A quadrature rule for h ~ N(0, I) whose nodes are grouped by the output that they give: a rule for every fibre.

E f(h) = sum over outputs y of sum over the nodes of the fibre {h : g(h) = y} of weight times f(node). Nothing in it
depends on the overlap: a posterior at any (y, omega, V) is a sum over the nodes of one fibre, whatever its dimension.
Fibres are points, curves, surfaces or, where the output is discrete, all of a region. Noise mixes the fibres.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part
from ...quadrature.rules import normal_qmc
from .mixing import MOST, LabelMixing, Mixing, gaussian_mixing
from .outputs import output_edges, output_rule
from .quadrature import Piece, by_label, pieces
from .rules import AnalyticRule, normal_density
from .work import Work

__all__ = ["Fibre", "FibredRule", "Nodes", "Plan", "Steps", "best_plan", "fibred_rule"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Share of the mass of a fibre, and of all, that nodes and fibres may have that are left out: below the error of a rule.
_LEAST = {1: 1e-15, 2: 1e-13, 3: 2e-8}
# Rules whose difference tells the best order of integration over the entries of a fibre.
_TRIED = (AnalyticRule(0.33), AnalyticRule(0.25))
# Entries of level sets that charts may share: those of surfaces take too many nodes.
_BY_CHARTS = 2
# Nodes of all fibres.
_MOST_NODES = 6_000_000


class Plan(NamedTuple):
    """Order of integration on all pieces, of which each has its own where there is none; or all charts share them."""

    order: tuple[int, ...] = ()
    shared: bool = False

    def of(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Pieces that are integrated so."""
        if self.shared:
            return [chart for piece in pieces for chart in piece.by_charts()]
        if self.order:
            return [piece.ordered(self.order) for piece in pieces]
        return [piece.planned(*_TRIED) if len(piece.active) > 1 else piece for piece in pieces]


class Steps(NamedTuple):
    """Steps of the rule over the outputs, and along each entry within the fibres, as of `AnalyticRule`.

    Where there is noise, `noise` are those of its density, in its standard deviations. `plan` is how all pieces are
    integrated.
    """

    outer: float
    inner: tuple[float, ...]
    noise: float
    plan: Plan = Plan()

    def along(self, piece: Piece, entries: Sequence[int]) -> AnalyticRule:
        """Rule along some entries of a piece."""
        return AnalyticRule(min((self.inner[piece.scope.index(entry)] for entry in entries), default=1.0))


# Steps by which plans are told apart, by the number of entries.
_COARSE = {1: 0.36, 2: 0.2, 3: 0.36}


class Fibre(NamedTuple):
    """Nodes of one output.

    Attributes
    ----------
    points : ndarray, shape (n, k)
        Entries of h.
    weight : ndarray, shape (n,)
        With the density of N(0, I), over the slope, times the weight of the output.
    measure : float
        Weight of the output: its share is the density of the output times this.
    solved : int
        Entries of h that the output fixes up to finitely many choices.
    output : float
        The output, NaN where there are several.
    """

    points: Array
    weight: Array
    measure: float
    solved: int
    output: float = math.nan


class Nodes(NamedTuple):
    """Nodes of all fibres, one fibre after the other.

    Attributes
    ----------
    points : ndarray, shape (n, k)
    weight : ndarray, shape (n,)
    ends : ndarray of int, shape (fibres + 1,)
        Where the nodes of each fibre begin.
    measure : ndarray, shape (fibres,)
        Weights of the outputs.
    """

    points: Array
    weight: Array
    ends: IntArray
    measure: Array


@dataclass(frozen=True)
class FibredRule:
    """Fibres of a rule for N(0, I), by ascending output where noise mixes them.

    Attributes
    ----------
    fibres : tuple of Fibre
    defect : float
        Largest difference of its moments up to the second from those of N(0, I).
    mixing : Mixing, optional
        Of the fibres by the noise of the output, or of the labels.
    """

    fibres: tuple[Fibre, ...]
    defect: float
    mixing: Mixing | None = None

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes of all fibres together."""
        ends = np.cumsum([0, *(len(fibre.weight) for fibre in self.fibres)])
        points, weight = (np.concatenate([fibre[k] for fibre in self.fibres]) for k in range(2))
        return Nodes(points, weight, ends, np.array([fibre.measure for fibre in self.fibres]))

    @property
    def solved(self) -> float:
        """Entries of h that the output fixes on average."""
        if self.mixing is not None:
            return 0.0
        return float(sum(fibre.solved * fibre.weight.sum() for fibre in self.fibres))


def fibred_rule(kernel: LinkKernel, part: Part, steps: Steps, noise: float = 0.0) -> FibredRule:
    """Rule whose nodes are grouped by the outputs of one part of a link.

    Parameters
    ----------
    kernel : LinkKernel
        Without Gaussian noise.
    part : Part
        Of this kernel, of at most three entries.
    steps : Steps
    noise : float
        Variance of the noise of the output.

    Raises
    ------
    NotServedError
        More entries, or outputs that vary together, or no closed form of the fibres; the message says which.
    """
    scope = tuple(sorted(part.entries))
    made = pieces(part.regions, kernel.size, scope, {}, Work(kernel.text))
    for piece in made:
        piece.check()
    widest = steps.noise * math.sqrt(noise) if noise else math.inf
    with np.errstate(all="ignore"):
        found = list(_fibres(kernel, made, steps, widest))
    total = sum(float(fibre.weight.sum()) for fibre in found)
    least = _LEAST[len(scope)]
    kept = [_trimmed(fibre, least) for fibre in found if len(found) * fibre.weight.sum() > least * total]
    if not kept:
        raise NotServedError("no node of a rule for h gives an output")
    mixing: Mixing | None = None
    if noise:
        kept.sort(key=lambda fibre: fibre.output)
        mixing = gaussian_mixing([fibre.output for fibre in kept], steps.noise, math.sqrt(noise))
    elif kernel.label_noise is not None:
        mixing = LabelMixing(kernel.label_noise.mixed(np.eye(len(kept))))
    return FibredRule(tuple(kept), _defect(kept), mixing)


def best_plan(kernel: LinkKernel, part: Part) -> Plan:
    """Plan by which a coarse rule has the moments of h best."""
    scope = tuple(sorted(part.entries))
    made = [p for p in pieces(part.regions, kernel.size, scope, {}, Work(kernel.text)) if None in p.label]
    choice = [Plan(order) for order in (made[0].orders if made else []) if all(order in piece.orders for piece in made)]
    if len(scope) == _BY_CHARTS and made and all(len(piece.solvable) == _BY_CHARTS for piece in made):
        choice.append(Plan(shared=True))
    if len(choice) < 2:
        return Plan()
    found, step = {}, _COARSE[len(scope)]
    for plan in choice:
        with suppress(NotServedError):
            found[plan] = fibred_rule(kernel, part, Steps(step, (step,) * len(scope), 1.0, plan)).defect
    return min(found, key=found.__getitem__, default=Plan())


def _fibres(kernel: LinkKernel, made: Sequence[Piece], steps: Steps, widest: float) -> Iterator[Fibre]:
    """Fibres of all outputs, before what carries nothing is left out."""
    for label, group in by_label(made):
        group = [piece for piece in group if piece.free_mass > 0]
        moving = [number for number, value in enumerate(label) if value is None]
        if not group:
            continue
        if not moving:
            parts = [_cell(piece, steps) for piece in group]
            points, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
            output = float(label[0]) if len(label) == 1 and label[0] is not None else math.nan
            yield Fibre(points, weight, 1.0, 0, output)
        elif len(moving) == 1:
            yield from _moving(kernel, [replace(piece, output=moving[0]) for piece in group], steps, widest)
        else:
            raise NotServedError(f"{len(moving)} outputs vary together")


def _cell(piece: Piece, steps: Steps) -> tuple[Array, Array]:
    """Nodes of a region, and their weights."""
    values, weight = piece.nodes(steps.along(piece, piece.active))
    points, _, weight = _with_free(piece, values, np.zeros(len(weight), dtype=np.int64), weight, steps)
    return points, weight


def _with_free(
    piece: Piece, values: dict[int, Array], rows: IntArray, weight: Array, steps: Steps
) -> tuple[Array, IntArray, Array]:
    """Nodes with those of the entries that are in no formula: points of shape (n, k), rows and weights."""
    for entry in piece.free:
        low, high = (np.array([end]) for end in piece.limits(entry))
        _, x, w = steps.along(piece, [entry]).section(low, high)
        values = {e: np.repeat(v, len(x)) for e, v in values.items()} | {entry: np.tile(x, len(weight))}
        rows = np.repeat(rows, len(x))
        weight = np.multiply.outer(weight, w * normal_density(x)).ravel()
    return np.stack([np.broadcast_to(values[e], weight.shape) for e in piece.rest], axis=1), rows, weight


def _moving(kernel: LinkKernel, group: Sequence[Piece], steps: Steps, widest: float) -> Iterator[Fibre]:
    """Fibres of the one output that varies, no further apart than `widest`."""
    group = steps.plan.of(group)
    y, measure = output_rule(output_edges(group), _drawn(kernel, group), steps.outer, widest)
    if len(y) > MOST:
        raise NotServedError(f"steps of {widest:.2g} between its outputs take more than {MOST} of them")
    gathered: list[list[tuple[Array, Array]]] = [[] for _ in y]
    count = 0
    for piece in group:
        for level in piece.levels(y, steps.along(piece, piece.active)):
            there = level.weight > 0
            values = {e: np.broadcast_to(v, there.shape)[there] for e, v in level.values.items()}
            points, rows, weight = _with_free(piece, values, level.rows[there], level.weight[there], steps)
            count += len(weight)
            if count > _MOST_NODES:
                raise NotServedError(f"its fibres need more than {_MOST_NODES} nodes")
            order = np.argsort(rows, kind="stable")
            ends = np.searchsorted(rows[order], np.arange(len(y) + 1))
            for number in np.flatnonzero(np.diff(ends)):
                own = order[ends[number] : ends[number + 1]]
                gathered[number].append((points[own], weight[own] * measure[number]))
    alone = len(group[0].label) == 1
    for parts, value, size in zip(gathered, y, measure, strict=True):
        if parts:
            points, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
            yield Fibre(points, weight, float(size), 1, float(value) if alone else math.nan)


def _drawn(kernel: LinkKernel, group: Sequence[Piece]) -> Array:
    """Outputs at quasi-random h, sorted: where they lie."""
    h = list(normal_qmc(kernel.size, 12, np.random.default_rng(0)).T)
    found = []
    for piece in group:
        inside = np.broadcast_to(piece.inside(h), h[0].shape)
        for entry in piece.rest:
            low, high = piece.limits(entry)
            inside = inside & (h[entry] > low) & (h[entry] < high)
        found.append(np.broadcast_to(piece.value(h), h[0].shape)[inside])
    values = np.sort(np.concatenate(found))
    return values[np.isfinite(values)]


def _trimmed(fibre: Fibre, least: float) -> Fibre:
    """Without the nodes that carry nothing."""
    keep = len(fibre.weight) * fibre.weight > least * fibre.weight.sum()
    return fibre._replace(points=fibre.points[keep], weight=fibre.weight[keep])


def _defect(fibres: Sequence[Fibre]) -> float:
    """Largest difference of moments up to the second from those of N(0, I)."""
    zero = sum(float(fibre.weight.sum()) for fibre in fibres) - 1
    first = np.sum([fibre.weight @ fibre.points for fibre in fibres], axis=0)
    second = np.sum([(fibre.points.T * fibre.weight) @ fibre.points for fibre in fibres], axis=0)
    return float(max(abs(zero), np.abs(first).max(), np.abs(second - np.eye(len(second))).max()))
