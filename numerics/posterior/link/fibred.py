"""A quadrature rule for h ~ N(0, I) whose nodes are grouped by the output that they give: a rule for every fibre.

E f(h) = sum over outputs y of sum over the nodes of the fibre {h : g(h) = y} of weight times f(node). Nothing in it
depends on the overlap: a posterior at any (y, omega, V) is a sum over the nodes of one fibre, whatever its dimension.
Fibres are points, curves, surfaces or, where the output is discrete, all of a region. Noise mixes the fibres.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part
from ...quadrature.rules import normal_qmc
from ...quadrature.truncated import truncated_normal
from .mixing import MOST, LabelMixing, Mixing, gaussian_mixing
from .nodes import Bundle, Nodes, counted, defect_of, joined
from .outputs import output_edges, output_rule
from .quadrature import Piece, by_label, pieces
from .rules import AnalyticRule
from .work import Work

__all__ = ["Fibration", "FibredRule", "Plan", "Steps", "best_plan"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
        # Rules whose difference tells the best order of integration over the entries of a fibre.
        tried = (AnalyticRule(0.33), AnalyticRule(0.25))
        return [piece.planned(*tried) if len(piece.active) > 1 else piece for piece in pieces]


class Steps(NamedTuple):
    """Steps of the rule over the outputs, and along each entry within the fibres, as of `AnalyticRule`.

    Where there is noise, `noise` are those of its density, in its standard deviations.
    """

    outer: float
    inner: tuple[float, ...]
    noise: float

    def along(self, piece: Piece, entries: Sequence[int]) -> AnalyticRule:
        """Rule along some entries of a piece."""
        return AnalyticRule(min((self.inner[piece.scope.index(entry)] for entry in entries), default=1.0))


# Each piece by an order of its own.
_EACH = Plan()


@dataclass(frozen=True)
class FibredRule:
    """Fibres of a rule for N(0, I), by ascending output where noise mixes them.

    Attributes
    ----------
    nodes : Nodes
    defect : float
        Largest difference of its moments up to the second from those of N(0, I).
    mixing : Mixing, optional
        Of the fibres by the noise of the output, or of the labels.
    turned : tuple of int
        Signs of the entries that change the sign of the output, where those above zero stand for those below. Empty
        where there are all.
    """

    nodes: Nodes
    defect: float
    mixing: Mixing | None = None
    turned: tuple[int, ...] = ()

    @property
    def solved(self) -> float:
        """Entries of h that the output fixes on average."""
        return 0.0 if self.mixing is not None else float(self.nodes.solved @ self.nodes.mass)


class _Group(NamedTuple):
    """Pieces of the outputs with one label: all of them one fibre, or the values over which one output varies.

    `edges` and `drawn` are those of `output_rule`; none where no output varies.
    """

    pieces: tuple[Piece, ...]
    output: float
    moving: bool
    edges: Array = np.zeros(0)
    drawn: Array = np.zeros(0)

    def counted(self, work: Work) -> "_Group":
        """The same, whose pieces count what they evaluate in `work`."""
        return self._replace(pieces=tuple(replace(piece, work=work) for piece in self.pieces))


@dataclass(frozen=True)
class Fibration:
    """The fibres of one part of a link: what its rules by all steps share.

    Attributes
    ----------
    kernel : LinkKernel
        Without Gaussian noise.
    part : Part
        Of this kernel, of at most three entries.
    plan : Plan
        How all pieces are integrated.

    Raises
    ------
    NotServedError
        More entries, or outputs that vary together, or no closed form of the fibres; the message says which.
    """

    kernel: LinkKernel
    part: Part
    plan: Plan = _EACH

    @property
    def scope(self) -> tuple[int, ...]:
        """Entries of h."""
        return tuple(sorted(self.part.entries))

    def rule(self, steps: Steps, noise: float = 0.0, turned: tuple[int, ...] = ()) -> FibredRule:
        """Rule whose nodes are grouped by the outputs.

        Parameters
        ----------
        steps : Steps
        noise : float
            Variance of the noise of the output.
        turned : tuple of int
            As of `FibredRule`.
        """
        widest = steps.noise * math.sqrt(noise) if noise else math.inf
        # Noise mixes outputs of both signs: of those that are seen half are left out.
        half = bool(turned) and not noise
        with np.errstate(all="ignore"):
            groups = [group for group in self._groups if not (half and group.output < 0)]
            found = [self._bundle(group, steps, widest, half) for group in groups]
        # Share of the mass of a fibre, and of all, that nodes and fibres may have that are left out: below the error of
        # a rule.
        least = {1: 1e-15, 2: 1e-13, 3: 2e-8}
        nodes = joined(found, least[len(self.scope)], sort=bool(noise))
        mixing: Mixing | None = None
        if noise:
            mixing = gaussian_mixing(nodes.output, steps.noise, math.sqrt(noise), half=bool(turned))
        elif self.kernel.label_noise is not None:
            mixing = LabelMixing(self.kernel.label_noise.mixed(np.eye(len(nodes.measure))))
        return FibredRule(nodes, defect_of(nodes, turned if half else ()), mixing, turned)

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """Pieces by label, and where their outputs lie."""
        made = pieces(self.part.regions, self.kernel.size, self.scope, {}, Work(self.kernel.text))
        for piece in made:
            piece.check()
        with np.errstate(all="ignore"):
            return tuple(found for label, group in by_label(made) if (found := self._group(label, group)) is not None)

    def _group(self, label: tuple[float | None, ...], found: Sequence[Piece]) -> _Group | None:
        found = [piece for piece in found if piece.free_mass > 0]
        moving = [number for number, value in enumerate(label) if value is None]
        if not found:
            return None
        if len(moving) > 1:
            raise NotServedError(f"{len(moving)} outputs vary together")
        output = float(label[0]) if len(label) == 1 and label[0] is not None else math.nan
        if not moving:
            return _Group(tuple(found), output, False)
        found = self.plan.of([replace(piece, output=moving[0]) for piece in found])
        return _Group(tuple(found), output, True, output_edges(found), _drawn(self.kernel, found))

    def _bundle(self, group: _Group, steps: Steps, widest: float, half: bool) -> Bundle:
        """Fibres of all outputs of a group, before what carries nothing is left out."""
        work = Work(self.kernel.text)
        group = group.counted(work)
        if group.moving:
            return _moving(group, steps, widest, half)
        points, weight = (np.concatenate(c) for c in zip(*(_cell(p, steps) for p in group.pieces), strict=True))
        output = np.array([group.output])
        times = counted(output, half)
        return Bundle(points, weight * times, np.zeros(len(weight), np.int64), times, output, 0)


def best_plan(kernel: LinkKernel, part: Part) -> Plan:
    """Plan by which a coarse rule has the moments of h best."""
    scope = tuple(sorted(part.entries))
    made = [p for p in pieces(part.regions, kernel.size, scope, {}, Work(kernel.text)) if None in p.label]
    choice = [Plan(order) for order in (made[0].orders if made else []) if all(order in piece.orders for piece in made)]
    # Entries of level sets that charts may share: those of surfaces take too many nodes.
    by_charts = 2
    if len(scope) == by_charts and made and all(len(piece.solvable) == by_charts for piece in made):
        choice.append(Plan(shared=True))
    if len(choice) < 2:
        return _EACH
    # Steps by which plans are told apart, by the number of entries.
    coarse = {1: 0.36, 2: 0.2, 3: 0.36}
    found, step = {}, coarse[len(scope)]
    for plan in choice:
        with suppress(NotServedError):
            found[plan] = Fibration(kernel, part, plan).rule(Steps(step, (step,) * len(scope), 1.0)).defect
    return min(found, key=found.__getitem__, default=_EACH)


def _cell(piece: Piece, steps: Steps) -> tuple[Array, Array]:
    """Nodes of a region, and their weights."""
    values, weight = piece.nodes(steps.along(piece, piece.active))
    points, _, weight = _with_free(piece, values, np.zeros(len(weight), dtype=np.int64), weight, steps)
    return points, weight


def _with_free(
    piece: Piece, values: dict[int, Array], rows: IntArray, weight: Array, steps: Steps
) -> tuple[Array, IntArray, Array]:
    """Nodes with those of the entries that are in no formula: points of shape (n, k), rows and weights."""
    # Nodes along an entry in no formula, over the inverse of the step. Of omega with the variance K the finest step is
    # at most 0.12 min(1, ((1 - K)/K)^(1/2)), and 1e-13 is left by so many nodes
    # (tests/numerics/quadrature/test_truncated.py).
    nodes = 2.0
    for entry in piece.free:
        # Along it the integrand is a Gaussian.
        rule = truncated_normal(*piece.limits(entry), math.ceil(nodes / steps.along(piece, [entry]).step))
        x, w = rule.nodes, rule.weights
        values = {e: np.repeat(v, len(x)) for e, v in values.items()} | {entry: np.tile(x, len(weight))}
        rows = np.repeat(rows, len(x))
        weight = np.multiply.outer(weight, w).ravel()
    return np.stack([np.broadcast_to(values[e], weight.shape) for e in piece.rest], axis=1), rows, weight


def _moving(group: _Group, steps: Steps, widest: float, half: bool) -> Bundle:
    """Fibres of the one output that varies, no further apart than `widest`: of all its values, or those above zero."""
    y, measure = output_rule(group.edges, group.drawn, steps.outer, widest)
    times = counted(y, half)
    y, measure = y[times > 0], (times * measure)[times > 0]
    if len(y) > MOST:
        raise NotServedError(f"steps of {widest:.2g} between its outputs take more than {MOST} of them")
    parts: list[tuple[Array, IntArray, Array]] = []
    count = 0
    # Nodes of all fibres.
    most_nodes = 6_000_000
    for piece in group.pieces:
        for level in piece.levels(y, steps.along(piece, piece.active)):
            there = level.weight > 0
            values = {e: np.broadcast_to(v, there.shape)[there] for e, v in level.values.items()}
            parts.append(_with_free(piece, values, level.rows[there], level.weight[there], steps))
            count += len(parts[-1][2])
            if count > most_nodes:
                raise NotServedError(f"its fibres need more than {most_nodes} nodes")
    first = group.pieces[0]
    nothing = np.zeros((0, len(first.rest))), np.zeros(0, np.int64), np.zeros(0)
    points, rows, weight = (np.concatenate(column) for column in zip(nothing, *parts, strict=True))
    return Bundle(
        points, weight * measure[rows], rows, measure, y if len(first.label) == 1 else np.full(len(y), math.nan), 1
    )


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
