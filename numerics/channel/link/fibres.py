"""Averages of a group of up to three entries of h by deterministic quadrature over the fibres of its outputs."""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.blas import one_blas_thread
from ...core.errors import NotServedError
from ...model.links import LinkKernel, Loaded, Part
from ...posterior.link.fibred import Fibration, FibredRule, Steps, best_plan
from ..averages import ROUNDING, matrix_root
from .axes import scaled
from .blurred import Blurred, averages
from .entries import covariance, turns
from .narrow import Ladder, Resolved, tangents

__all__ = ["RESOLUTIONS", "FibreAverages", "FibreGroup", "Resolution", "Resolved"]

Array = NDArray[np.float64]
Ratios = tuple[tuple[float, ...], ...]


class Resolution(NamedTuple):
    """Steps of the rules over outputs and fibres, and of the grid of omega in standard deviations of the blur."""

    outer: float
    inner: float
    grid: float

    def within(self, factor: float) -> "Resolution":
        """The same with other steps within the fibres."""
        return self._replace(inner=factor * self.inner)

    def steps(self, finer: Array) -> Steps:
        """Steps where each entry is resolved so many times as finely."""
        return Steps(self.outer, tuple((self.inner * finer).tolist()), self.grid)


class FibreAverages(NamedTuple):
    """E g g^T over the entries, shape (k, k), and E of products of two entries of dg/domega where it is wanted."""

    score: Resolved
    change: Resolved | None


#: From coarse to fine. Errors fall exponentially with the inverse of the steps.
RESOLUTIONS = tuple(Resolution(0.36 * finer, 0.36 * finer, finer) for finer in (1.0, 0.8, 0.64, 0.51, 0.41, 0.33))
# Number of the resolution at which steps within the fibres are chosen, by the number of entries of the group.
_CHOSEN = {1: 4, 2: 4, 3: 2}
# Error of overlaps at which no finer resolution is asked for.
_TOLERANCE = {1: 1e-10, 2: 1e-10, 3: 1e-7}
# Resolutions of which the last one's error is told, what that may be short by, and the most that one of them gains.
_TOLD, _SHORT, _GAIN = 3, 2.0, 10.0
# Variances of h given omega below which averages are extrapolated from multiples of them, as the grids are too large.
_LEAST = {1: 1e-6, 2: 5e-3, 3: 5e-2}


class FibreGroup:
    """A part of a link whose posterior is a sum over nodes of the fibre of its output.

    Parameters
    ----------
    kernel : LinkKernel
        Without noise.
    part : Part
    noise : float
        Variance of the noise of the output.
    tolerance : float, optional
        Error of overlaps at which no finer resolution is asked for; by default 1e-10, of three entries 1e-7.

    Raises
    ------
    NotServedError
        No rule over its fibres is known; the message says why.
    """

    # That of slopes for Newton's method.
    _slopes = 1

    def __init__(self, kernel: LinkKernel, part: Part, noise: float = 0.0, tolerance: float | None = None) -> None:
        self.entries = tuple(sorted(part.entries))
        if len(self.entries) not in _CHOSEN:
            raise NotServedError(f"{len(self.entries)} entries of h belong together, and fibres are resolved of 3")
        self.tolerance = _TOLERANCE[len(self.entries)] if tolerance is None else tolerance
        self._flips = tuple({tuple(flip[e] for e in self.entries) for flip in kernel.flips})
        loaded = Loaded.of(kernel)
        found = _founded(loaded, self.entries, noise)
        self._rule = lru_cache(maxsize=8)(partial(found.fibration.rule, noise=noise))
        self._tangents = partial(_tangents, loaded, self.entries) if _smooth(part, noise) else None
        self._kept: dict[tuple[bytes, Resolution], Blurred] = {}
        self.solved, self._turns = found.solved, found.turns
        self._resolutions = tuple(resolution.within(found.within) for resolution in RESOLUTIONS)

    def _left(self, q: Array) -> Array:
        """Covariance of h given omega at the overlap q."""
        return np.eye(len(self.entries)) - covariance(self.entries, q)

    def __call__(self, q: Array, second: bool) -> FibreAverages:
        """Averages at the overlap q."""
        left = self._left(q)
        if _too_little(left):
            return self._extrapolated(left, second)
        found = self._series(left, second)
        change = None
        if second:
            changes = [one.change for one in found if one.change is not None]
            change = _resolved_by(changes, found[-1].defect, left)
        return FibreAverages(_resolved_by([one.score for one in found], found[-1].defect, left), change)

    def coarse(self, q: Array, second: bool) -> FibreAverages:
        """Averages by the resolution of slopes, off by less than they differ from those by the one before it."""
        left = self._left(q)
        if _too_little(left):
            return self._extrapolated(left, second, coarse=True)
        # With the slopes, which are wanted, too.
        before, fine = self._pair(left, second)
        change = None
        if second and fine.change is not None and before.change is not None:
            change = Resolved(fine.change, np.abs(fine.change - before.change))
        return FibreAverages(Resolved(fine.score, np.abs(fine.score - before.score)), change)

    def slopes(self, q: Array) -> Array:
        """E of products of two entries of dg/domega, to the few digits that a step of Newton's method takes."""
        left = self._left(q)
        if _too_little(left):
            ladder = Ladder.of(left, _LEAST[len(left)])
            found = [self._latest(rung, self._resolutions[self._slopes], True).change for rung in ladder.rungs]
            return ladder.average([(one, one) for one in found if one is not None], self._limits(ladder)[1]).value
        change = self._latest(left, self._resolutions[self._slopes], True).change
        assert change is not None
        return change

    def log_density(self, q: Array) -> Array:
        """E log Z_out by two resolutions, shape (2,)."""
        found = self._series(self._left(q), False)
        return np.array([one.log_density for one in found[-2:]])

    def _series(self, left: Array, second: bool, tolerance: float = 0.0) -> list[Blurred]:
        """Averages by one resolution after the other, to their tolerance or this one, where so much is left of h."""
        # What is left of h is then known to one tolerance, however little it is.
        tolerance = max(tolerance, self.tolerance / float(np.linalg.eigvalsh(left)[0]))
        found: list[Blurred] = []
        for resolution in self._resolutions:
            try:
                found.append(self._latest(left, resolution, second))
            except NotServedError:
                if len(found) < _TOLD:
                    raise
                break
            if len(found) >= _TOLD and _relative_error([one.score for one in found]) < tolerance:
                break
        return found

    def _latest(self, left: Array, resolution: Resolution, second: bool) -> Blurred:
        """Averages by one resolution, of which the latest are kept."""
        key = left.tobytes(), resolution
        found = self._kept.get(key)
        # Averages of the latest overlaps that are kept: a step of Newton's method asks for some again.
        kept = 64
        if found is None or (second and found.change is None):
            found = self._kept[key] = self._averaged(left, resolution, second)
            while len(self._kept) > kept:
                del self._kept[next(iter(self._kept))]
        return found

    def _averaged(self, left: Array, resolution: Resolution, second: bool) -> Blurred:
        """Averages by one resolution; fibres are resolved as finely as what is left of h asks for."""
        of_omega = np.eye(len(left)) - left
        known, vectors = np.linalg.eigh(of_omega)
        # Along an entry as finely as the narrowest of the directions that it is in.
        narrow = np.where(np.abs(vectors) > 1e-6, (1 - known) / np.maximum(known, 1e-3), math.inf).min(axis=1)
        finer = 2.0 ** (-0.5 * np.maximum(0, np.ceil(-np.log2(narrow))))
        turned = next((signs for signs in self._turns if not (left * (1 - np.outer(signs, signs))).any()), ())
        rule = self._rule(resolution.steps(finer), turned=turned)
        with one_blas_thread():
            return averages(rule, of_omega, resolution.grid, second, self._flips)

    def _pair(self, left: Array, second: bool) -> list[Blurred]:
        """Averages by the resolution of slopes, with these, after those by the one before it."""
        fine = self._latest(left, self._resolutions[self._slopes], True)
        return [self._latest(left, self._resolutions[self._slopes - 1], second), fine]

    def _extrapolated(self, left: Array, second: bool, coarse: bool = False) -> FibreAverages:
        """Averages where less is left of h than grids resolve, from those where multiples of it are left."""
        ladder = Ladder.of(left, _LEAST[len(left)])
        # Relative error of the averages that are extrapolated.
        extrapolated = 1e-5
        series = self._pair if coarse else partial(self._series, tolerance=extrapolated)
        pairs = [series(rung, second)[-2:] for rung in ladder.rungs]
        limit, of_change = self._limits(ladder)
        score = ladder.average([(coarse.score, fine.score) for coarse, fine in pairs], limit)
        changes = [(c.change, f.change) for c, f in pairs if c.change is not None and f.change is not None]
        return FibreAverages(score, ladder.average(changes, of_change) if changes else None)

    def _limits(self, ladder: Ladder) -> tuple[Resolved, Resolved] | tuple[None, None]:
        """Limits of the averages as less and less is left, of a smooth link; none where they are not known."""
        if self._tangents is None or not ladder.in_ratio:
            return None, None
        ratios = np.round(ladder.left / ladder.at, 9)
        return self._tangents(tuple(map(tuple, ratios.tolist())))


class _Founded(NamedTuple):
    """What all averages over some fibres begin with.

    `within` is the factor of the steps within the fibres that gives the moments of h, `solved` the number of entries
    that the outputs fix on average, `turns` the signs of the entries that change the sign of the output.
    """

    fibration: Fibration
    within: float
    solved: float
    turns: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=64)
def _tangents(loaded: Loaded, entries: tuple[int, ...], ratios: Ratios) -> tuple[Resolved, Resolved]:
    """Limits of the averages as less and less is left, in these ratios: found once in a process."""
    return tangents(loaded.part(entries).regions[0], entries, np.array(ratios))


@lru_cache(maxsize=32)
def _founded(loaded: Loaded, entries: tuple[int, ...], noise: float) -> _Founded:
    """How the fibres of a part of a link are resolved: found once in a process."""
    kernel, part = loaded.kernel, loaded.part(entries)
    fibration = Fibration(kernel, part, best_plan(kernel, part))
    chosen, unit = RESOLUTIONS[_CHOSEN[len(entries)]], np.ones(len(entries))
    best: tuple[float, FibredRule] | None = None
    # Share of the defect that half the steps must leave.
    pays = 0.25
    # How often steps within the fibres are halved, the defect of the moments of h at which they are fine enough by the
    # number of entries, and the one at which averages are known no better than by samples.
    most_halvings, unresolved = 5, 1e-3
    # How often steps within the fibres are halved, the defect of the moments of h at which they are fine enough by the
    # number of entries, and the one at which averages are known no better than by samples.
    resolved = {1: 1e-10, 2: 1e-9, 3: 2e-6}
    for halvings in range(most_halvings):
        within = 0.5**halvings
        try:
            rule = fibration.rule(chosen.within(within).steps(unit), noise)
        except NotServedError:
            if best is None:
                raise
            break
        # Where halves do not pay, the steps over the outputs or the ends of the fibres matter.
        if best is not None and rule.defect > pays * best[1].defect:
            break
        best = within, rule
        if rule.defect < resolved[len(unit)]:
            break
    assert best is not None
    if best[1].defect > unresolved:
        raise NotServedError(f"a rule over its fibres has moments of h that are off by {best[1].defect:.1g}")
    return _Founded(fibration, best[0], best[1].solved, turns(kernel, part))


def _too_little(left: Array) -> bool:
    """Whether less is left of h than grids resolve."""
    return float(np.linalg.eigvalsh(left)[0]) < _LEAST[len(left)]


def _smooth(part: Part, noise: float) -> bool:
    """Whether the limit of the averages is known, and how they approach it."""
    return not noise and len(part.entries) == 2 and len(part.regions) == 1 and part.regions[0].nondegenerate


def _relative_error(values: Sequence[Array]) -> float:
    """Relative error of the last of some values by finer and finer resolutions, of which three are asked for.

    It falls as exp(-rate / step), with the rate of the last two differences; but no faster than from an error of one
    without steps, and by no more than a digit, as a difference may be small by chance, or by another rate.
    """
    size = max(float(np.abs(values[-1]).max()), 1e-300)
    before, last = (float(np.abs(a - b).max()) / size for a, b in pairwise(values[-_TOLD:]))
    if last == 0 or last >= before:
        return last
    steps = [1 / resolution.grid for resolution in RESOLUTIONS[len(values) - _TOLD : len(values)]]
    further = (steps[2] - steps[1]) / (steps[1] - steps[0])
    gained = max((last / before) ** further, 1 / _GAIN, min(1.0, last ** (steps[2] / steps[1] - 1)))
    return _SHORT * last * gained


def _resolved_by(values: Sequence[Array], defect: float, left: Array) -> Resolved:
    """The value by the finest resolution, and its error, where this covariance is left of h.

    It is relative to the size of the average: as it stands, or, where that is less, in units of what is left of h, in
    which no direction is larger because more is known along it.
    """
    fine, root = values[-1], matrix_root(left)
    magnified = np.asarray(np.abs(np.linalg.inv(root)), np.float64)
    plain, other = _off(values, defect), _off([scaled(value, root) for value in values], defect)
    error = np.minimum(plain, scaled(np.full(fine.shape, other), magnified))
    return Resolved(fine, error + scaled(np.full(fine.shape, ROUNDING), magnified))


def _off(values: Sequence[Array], defect: float) -> float:
    """Error of the last of some values; what all of them miss shows in the moments of h."""
    # Relative error of an average, in units of the defect of the moments of the rule for h.
    defects = 10.0
    return float(np.abs(values[-1]).max()) * (_relative_error(values) + defects * defect)
