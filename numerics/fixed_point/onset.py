"""Where a direction of zero overlap comes in as alpha rises, and whether its overlap rises from zero or jumps.

Along the stable fixed points without the direction its growth per iteration is alpha lambda(q(alpha)), lambda the norm
of the operator (15) within the directions of zero overlap. Both q(alpha) and lambda(q) rise, since what is known of W
beside the data can only help. So the growth rises at least as alpha does: an alpha at which it is r < 1 and alpha/r
enclose the onset, and what log growth is off by bounds what log alpha is off by. The direction that comes in first is
the leading one, which is PSD: it has every symmetry of the link that the fixed point has.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..channel.link.channel import LinkChannel
from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..priors import GAUSSIAN, Prior
from ..thresholds.link.operator import ZERO
from .balance import AT_RECOVERY, RECOVERED
from .branch import Branch
from .faces import Faces
from .fastest import SEED, Fastest, fastest, without_overlap
from .opening import Onset, opening

__all__ = ["Begin", "next_onset"]

Array = NDArray[np.float64]

# Accuracy of the root search, of log alpha, and of the log growth in units of its error.
_CLOSE, _SHARE = 1e-12, 0.01


@dataclass(frozen=True)
class Begin:
    """Where a branch of fixed points begins.

    Attributes
    ----------
    learned : ndarray, shape (P, P)
        Projector on the directions that have an overlap on it.
    alpha, error : float
        From where on.
    overlap : ndarray, shape (P, P)
        Fixed point there, without the directions that come in there.
    """

    learned: Array
    alpha: float
    error: float
    overlap: Array


class _Standing(NamedTuple):
    """The stable fixed point within the learned directions, and how fast the fastest of the others grows."""

    t: float
    q: Array
    log_rate: float
    error: float
    direction: Array


@dataclass(frozen=True)
class _Along:
    """Fixed points within the learned directions along alpha.

    Attributes
    ----------
    channel : LinkChannel
    begin : Begin
    perfect : callable
        Alpha of the onset with the learned directions perfectly known, and its error; infinite where there is none.
    known : list of _Standing
        Those that were computed.
    prior : Prior
    """

    channel: LinkChannel
    begin: Begin
    perfect: Callable[[], tuple[float, float]]
    prior: Prior = GAUSSIAN
    known: list[_Standing] = field(default_factory=list)

    # Of the fixed points: on max |F(q) - q| over 1 - q, and evaluations.
    _tol, _most = 1e-12, 400

    def at(self, t: float) -> _Standing:
        """Fixed point at the log alpha t, from the nearest one below it."""
        same = [one for one in self.known if one.t == t]
        if same:
            return same[0]
        below = [one for one in self.known if one.t < t]
        seed = self.begin.overlap + SEED * (1 - float(np.linalg.eigvalsh(self.begin.overlap)[-1])) * self.begin.learned
        found = self._settled(t, self._before(t) if below else seed)
        self.known.append(found)
        return found

    def _before(self, t: float) -> Array:
        """Overlap of the nearest fixed point below, moved on as from the one before it where that is not far."""
        below = sorted((one for one in self.known if one.t < t), key=lambda one: one.t)
        last = below[-1]
        if len(below) > 1 and (share := (t - last.t) / (last.t - below[-2].t)) <= 1:
            moved = last.q + share * (last.q - below[-2].q)
            values = np.linalg.eigvalsh(moved)
            if 0 < values[values.size - round(float(np.trace(self.begin.learned)))] and values[-1] < RECOVERED:
                return moved
        return last.q

    def _settled(self, t: float, start: Array) -> _Standing:
        alpha = math.exp(t)
        face = self._faces(t).approach(start)
        if not face.converged:
            raise ConvergenceError(f"the fixed point at alpha = {alpha:.6g} was not found in {face.n_iter} evaluations")
        values = np.linalg.eigvalsh(face.q)
        rank = round(float(np.trace(self.begin.learned)))
        if values[-1] >= AT_RECOVERY:
            if values[len(values) - rank] < AT_RECOVERY:
                raise ConvergenceError(
                    f"at alpha = {alpha:.6g} a part of what is learned is recovered to within 1e-6, and nothing here "
                    "resolves the growth beside it"
                )
            known, error = self.perfect()
            rate = t - math.log(known) if math.isfinite(known) else -math.inf
            return _Standing(t, face.q, rate, error / known, face.growth.direction)
        found = self._fastest(t, face.q, without_overlap(face.q))
        if found.linear:
            return _Standing(t, face.q, math.inf, 0.0, found.direction)
        # Not seen beside its error it is zero only where it is with what is learned perfectly known, too.
        if found.norm <= ZERO or (found.norm <= found.error and math.isinf(self.perfect()[0])):
            return _Standing(t, face.q, -math.inf, 0.0, found.direction)
        return _Standing(t, face.q, t + math.log(found.norm), found.error / found.norm, found.direction)

    def error(self, standing: _Standing) -> float:
        """Error of the log growth, with what the error of the overlap makes of it."""
        q, faces = standing.q, self._faces(standing.t)
        if float(np.linalg.eigvalsh(q)[-1]) >= AT_RECOVERY:
            return standing.error
        # Error of an overlap by what is left of F(q) - q, in units of the largest.
        left = 4.0
        own = faces.postprocess(faces.approach(q)).error + left * self._tol
        norm = math.exp(standing.log_rate - standing.t)
        return standing.error + self._by_overlap(standing.t, q, norm, own) / norm

    def _faces(self, t: float) -> Faces:
        return Faces(self.channel, math.exp(t), self._tol, self._most, self.prior)

    def _fastest(self, t: float, q: Array, free: Array) -> Fastest:
        """Growth beside an overlap."""
        return fastest(self.channel, q, free, self.prior, math.exp(t))

    def _by_overlap(self, t: float, q: Array, norm: float, error: Array) -> float:
        """What the error of an overlap makes of the growth beside it."""
        values, vectors = np.linalg.eigh(q)
        # Eigenvalues of projectors.
        half = 0.5
        learned = np.flatnonzero(values > half * values[-1] * 1e-9)
        # Steps of q for the change of the growth with it, as a share of the least distance to the ends of the range.
        step = 1e-3 * min(float(values[learned[0]]), 1 - float(values[-1]))
        free, total = without_overlap(q), 0.0
        size = np.abs(vectors).T @ error @ np.abs(vectors)
        for a, b in combinations_with_replacement(learned.tolist(), 2):
            moved = np.outer(vectors[:, a], vectors[:, b])
            changed = self._fastest(t, q + 0.5 * step * (moved + moved.T), free).norm
            total += abs(changed - norm) / step * float(size[a, b]) * (1 + (a != b))
        return total


def next_onset(
    channel: LinkChannel, begin: Begin, perfect: Callable[[], tuple[float, float]], prior: Prior = GAUSSIAN
) -> Onset | None:
    """Where the next direction comes in along the fixed points from zero overlap; None where no alpha is large enough.

    Parameters
    ----------
    channel : LinkChannel
        With averages by quadrature.
    begin : Begin
    perfect : callable
        Alpha of this onset with the learned directions perfectly known, and its error; infinite where there is none. It
        is asked for where they are recovered, or where nothing grows.
    prior : Prior, optional
        Of the weights, Gaussian by default.

    Raises
    ------
    ConvergenceError
        A fixed point was not found, or the onset could not be enclosed.

    References
    ----------
    troiani2025, (17)-(18).
    """
    along = _Along(channel, begin, perfect, prior)
    found = _enclosed(along)
    if found is None:
        return None
    low, high = found
    if low is None:
        why = "it comes in with what is learned before it"
        return Onset(begin.alpha, begin.error, high.q, high.direction, "", why=why)
    root = _root(along, low, high)
    left, alpha = abs(root.log_rate), math.exp(root.t)
    # Log growth left there, in units of its error and of the accuracy of the root, that is a jump.
    jumps = 100.0
    if left > jumps * (root.error + _CLOSE):
        return _with_a_jump(along)
    error = alpha * (along.error(root) + left + 4 * np.finfo(float).eps)
    if float(np.linalg.eigvalsh(root.q)[-1]) >= AT_RECOVERY:
        # Beside what is perfectly known no branch is resolved.
        why = "what is learned before it is recovered to within 1e-6 there, and counts as perfectly known"
        return Onset(alpha, error, root.q, root.direction, "", why=why, recovered=True)
    return opening(channel, Estimate(alpha, error, "estimated"), root.q, root.direction, along.prior)


def _enclosed(along: _Along) -> tuple[_Standing | None, _Standing] | None:
    """Fixed points on both sides of the onset; without the first where it is where the branch begins."""
    # Nearest to where the branch begins that its fixed points are looked at, relative.
    near = 1e-6
    # Fixed points until the onset is enclosed; log alpha beyond which it is not looked for.
    bracketing, farthest = 40, math.log(1e6)
    first = math.log(along.begin.alpha) + near if along.begin.alpha else -farthest
    # How much further than where the branch begins it is first looked at.
    further = 1.25
    here = along.at(max(first, math.log(further * along.begin.alpha) if along.begin.alpha else 0.0))
    for _ in range(bracketing):
        if here.log_rate >= 0:
            break
        if not math.isfinite(here.log_rate):
            known, _ = along.perfect()
            if math.isinf(known):
                return None
            # What is perfectly known is a bound.
            here = along.at(max(here.t + math.log(2.0), math.log(known)))
            continue
        if here.t > farthest:
            raise ConvergenceError(f"no direction has come in up to alpha = {math.exp(here.t):.3g}")
        here = along.at(here.t - here.log_rate + max(near, 2 * here.error))
    below = [one for one in along.known if one.log_rate < 0]
    if below:
        return max(below, key=lambda one: one.t), here
    while here.t > first and math.isfinite(here.log_rate):
        here = along.at(max(first, here.t - min(here.log_rate, math.log(2.0)) - near))
        if here.log_rate < 0:
            return here, min((one for one in along.known if one.log_rate >= 0), key=lambda one: one.t)
    return None, here


def _root(along: _Along, low: _Standing, high: _Standing) -> _Standing:
    """Fixed point whose log growth is nearest to zero."""

    def log_rate(t: float) -> float:
        found = along.at(t)
        # Zero to a share of its error.
        return 0.0 if abs(found.log_rate) <= _SHARE * found.error else float(np.clip(found.log_rate, -50.0, 50.0))

    brentq(log_rate, low.t, high.t, xtol=_CLOSE, rtol=1e-15)
    return min(along.known, key=lambda one: abs(one.log_rate))


def _with_a_jump(along: _Along) -> Onset:
    """The onset where the fixed point jumps from below it to above."""
    low = max((one for one in along.known if one.log_rate < 0), key=lambda one: one.t)
    high = min((one for one in along.known if one.log_rate >= 0), key=lambda one: one.t)
    branch = Branch.beside(along.channel, low.q, np.zeros((len(low.q), 0)), along.prior)
    point = branch.at(float(np.trace(low.q)), branch.unknowns(low.q), low.t)
    fold = None if point is None else branch.turning(point)
    alpha, error = math.exp(0.5 * (low.t + high.t)), math.exp(high.t) - math.exp(low.t)
    why = "the overlap of what is learned jumps there, and the direction grows beside the larger one"
    if fold is not None and low.t <= math.log(fold.value) + fold.error / fold.value:
        alpha, error = fold.value, fold.error
    return Onset(alpha, error, low.q, high.direction, "discontinuous", why=why)
