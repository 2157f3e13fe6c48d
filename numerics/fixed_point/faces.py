"""Fixed points of the full overlap of a link: on the faces of S_P, which grow as directions turn unstable.

A face is the set of overlaps within one subspace. Along its axes the strategy is the iteration of `iteration`;
directions of zero overlap join where the operator (15) makes them grow, and leave where they have died out.
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..channel.link.channel import LinkChannel
from ..channel.link.rotated import RotatedLink
from ..core.standard_error import SIGMAS
from ..core.ties import canonical_axes
from ..priors import GAUSSIAN, Prior, along, gain
from ..thresholds.link.kept import kept_threshold
from ..thresholds.link.leading import leading_direction
from ..thresholds.link.operator import ZERO
from .fastest import MINOR, NOTHING, SEED, Fastest, closed, fastest, without_overlap
from .iteration import Iteration
from .known_rates import ROUNDING
from .postprocess import measured
from .state import DEAD, Problem, Solution, State, Tolerance
from .steered import Steered
from .unconverged import covering_error, direction_of, distances

__all__ = ["Face", "Faces"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Growth:
    """Growth of small overlaps in the directions of zero overlap.

    `rate` is the largest one and `direction` the PSD matrix that grows so, `rates` that of each index of zero overlap;
    `doubt` is stated where the averages do not decide the growth, `note` of directions that no index has for itself.
    """

    rate: float
    direction: Array
    rates: Array
    n_iter: int = 0
    doubt: str = ""
    note: str = ""


@dataclass(frozen=True)
class Face:
    """Where the strategy stands: an overlap, its axes, and the state of the iteration along them, unless q = 0.

    `grows`: directions of zero overlap may still join.
    """

    q: Array
    axes: Array
    growth: _Growth
    stage: State | None = None
    converged: bool = True
    residual: float = 0.0
    n_iter: int = 0
    history: tuple[Array, ...] = ()
    grows: bool = False


@dataclass(frozen=True)
class Faces:
    """Fixed points on the faces of S_P.

    Attributes
    ----------
    channel : LinkChannel
    alpha, tol, max_iter
        As in `evolve`.
    prior : Prior
        Law of the weights. Where it is not the same along all axes, F leads out of most faces: into those it closes.
    """

    channel: LinkChannel
    alpha: float
    tol: float
    max_iter: int
    prior: Prior = GAUSSIAN

    def grow(self, q: Array) -> Face:
        """Let unstable directions join until none is left, from zero overlap."""
        face = replace(self._rest(self._start(), q), grows=True)
        for _ in range(2 * len(q) + 1):
            face = self._grown(face)
            if face.growth.rate <= 1 or not face.converged:
                return face
            # What is small beside the rest joins later, if it turns unstable.
            values, vectors = np.linalg.eigh(face.growth.direction)
            seed = (vectors * np.where(values < MINOR * values[-1], 0.0, values)) @ vectors.T
            room = 1 - float(np.linalg.eigvalsh(face.q)[-1])
            face = self._approached(face, face.q + SEED * room * self._masked(seed))
        return replace(face, converged=False)

    def approach(self, q: Array) -> Face:
        """Settle within the range of q."""
        return self._grown(self._approached(self._start(), q))

    def postprocess(self, face: Face) -> Solution:
        """Fixed point with its error; it is solved for further where that matters."""
        found = self._measured(face)
        if face.stage is None or not found.converged or len(found.history) == len(face.history):
            return found
        # Solved for further, it may have died out.
        further = replace(face, q=found.q, n_iter=found.n_iter, history=found.history)
        left = self._released(further)
        return found if left is further else self.postprocess(left)

    def _measured(self, face: Face) -> Solution:
        """The fixed point of a face with its error."""
        found = Solution(
            alpha=self.alpha,
            q=face.q,
            error=np.zeros_like(face.q),
            rates=face.growth.rates,
            how="monte-carlo" if self.channel.sampled else "estimated",
            converged=face.converged,
            residual=face.residual,
            n_iter=face.n_iter,
            history=face.history,
            tolerance=Tolerance(self.tol) if face.stage is None else face.stage.tolerance,
            doubt=face.growth.doubt,
            note=face.growth.note,
        )
        if not face.converged:
            return replace(found, error=self._masked(self._covered(face)))
        if face.stage is None:
            return found
        stage, inside, doubt, *_ = measured(self._problem(face.axes), face.stage)
        size = np.abs(face.axes)
        found = replace(
            found,
            error=self._masked(np.minimum(size @ inside @ size.T, 1.0)),
            tolerance=stage.tolerance,
            doubt=doubt or found.doubt,
        )
        new = stage.history[len(face.stage.history) :]
        if not new:
            return found
        return replace(
            found,
            q=self._masked(face.axes @ stage.q @ face.axes.T),
            history=(*face.history, *(face.axes @ one @ face.axes.T for one in new)),
            n_iter=face.n_iter + len(new),
            residual=stage.residual,
        )

    def _covered(self, face: Face) -> Array:
        """Error of a face that did not converge: wherever the rest of the iteration leads, with those that may join."""
        if face.stage is None or face.stage.converged:
            return distances(face.q, 0)
        problem = self._problem(face.axes)
        if face.grows and not face.q.diagonal().all():
            # Beside overlaps that rise, those that join do, too.
            return distances(face.q, max(direction_of(problem, face.stage), 0))
        size = np.abs(face.axes)
        return np.asarray(size @ covering_error(problem, face.stage) @ size.T)

    def _start(self) -> Face:
        size = self.channel.model.indices
        nothing = np.zeros((size, size))
        return Face(nothing, np.eye(size), _Growth(0.0, nothing, np.full(size, np.nan)))

    def _masked(self, matrix: Array) -> Array:
        """The entries that may be other than zero."""
        return np.where(self.channel.mask, matrix, 0.0)

    def _problem(self, axes: Array) -> Problem:
        """The iteration along these axes."""
        channel = RotatedLink(self.channel, axes)
        tolerance, prior = Tolerance(self.tol), along(self.prior, axes)
        return Problem(channel, self.alpha, tolerance, self.max_iter, relative=True, prior=prior)

    def _approached(self, face: Face, q: Array) -> Face:
        """Settle within the range of q, and set directions to zero that have died out and are stable."""
        if not q.any():
            return self._rest(face, q)
        return self._released(self._settled(face, q))

    def _released(self, face: Face) -> Face:
        """Set directions to zero that have died out and are stable there; the same face where there are none."""
        values, vectors = np.linalg.eigh(face.q)
        if values[0] >= DEAD or (values > NOTHING).sum() == (values >= DEAD).sum():
            return face
        without = self._masked((vectors * np.where(values < DEAD, 0.0, values)) @ vectors.T)
        if without.any() and (np.linalg.eigvalsh(self._closed(without)) > NOTHING).sum() == (values > NOTHING).sum():
            # What is learned leads there.
            return face
        growth = self._growth(without)
        if growth.rate > 1:
            return face
        face = replace(face, growth=growth, n_iter=face.n_iter + growth.n_iter)
        if np.linalg.norm(without) > DEAD:
            return self._settled(face, without)
        return self._rest(face, np.zeros_like(face.q))

    def _rest(self, face: Face, q: Array) -> Face:
        """Stand at zero overlap."""
        return replace(face, q=q, stage=None, history=(*face.history, q), converged=True, residual=0.0)

    def _settled(self, face: Face, q: Array) -> Face:
        """Iterate along the axes of q."""
        values, vectors = np.linalg.eigh(q := self._closed(q))
        rank = int((values > NOTHING).sum())
        support = [int(i) for i in np.flatnonzero(q.diagonal() > NOTHING)]
        if rank == len(support):
            axes, active = np.eye(len(q)), support
            pairs = [pair for pair in combinations(support, 2) if self.channel.mask[pair]]
        else:
            axes, active = canonical_axes(values, vectors)[:, ::-1], list(range(rank))
            pairs = list(combinations(active, 2))
        problem = self._problem(axes)
        begin = replace(State.start(problem), n_iter=face.n_iter)
        strategy = Iteration(problem) if self.channel.sampled else Steered(problem)
        stage = strategy.settle(begin, axes.T @ q @ axes, active, tuple(pairs))
        return replace(
            face,
            q=self._masked(axes @ stage.q @ axes.T),
            axes=axes,
            stage=stage,
            history=(*face.history, *(axes @ one @ axes.T for one in stage.history)),
            n_iter=stage.n_iter,
            converged=stage.converged,
            residual=stage.residual,
        )

    def _closed(self, q: Array) -> Array:
        """An overlap near q within whose range F stays, of a prior that is not the same along all axes."""
        return self._masked(closed(self.prior, q))

    def _grown(self, face: Face) -> Face:
        """The face with the growth of the directions of zero overlap."""
        growth = self._growth(face.q)
        return replace(face, growth=growth, n_iter=face.n_iter + growth.n_iter)

    def _growth(self, q: Array) -> _Growth:
        """Growth of small overlaps beside q by the operator (15)."""
        free = without_overlap(q)
        if not free.shape[1]:
            return _Growth(0.0, np.zeros_like(q), np.full(len(q), np.nan))
        if not q.any() and (known := self._from_nothing(q)) is not None:
            return known
        standing = any(q[i, i] <= NOTHING for i in range(len(q)))
        # Few digits decide most growths; those that are stated take all.
        found, rate, off = self._fastest(q, free, coarse=not self.channel.sampled)
        # A growth is decided this many errors from 1; relative error of one that is shown.
        surely, shown = 10.0, 5e-3
        stated = found.linear or (rate <= 1 and (standing or off > shown * rate))
        if not self.channel.sampled and (stated or abs(rate - 1) <= surely * off):
            found, rate, off = self._fastest(q, free, coarse=False)
        doubt, note, direction = "", "", found.direction
        if not found.linear and abs(rate - 1) <= (SIGMAS if self.channel.sampled else 1.0) * off:
            doubt = f"a small overlap grows by {rate:.4g} +- {off:.1g} per iteration"
        # Rounding may leave the cone.
        parts, axes = np.linalg.eigh(direction)
        grown = self._masked((axes * np.maximum(parts, 0.0)) @ axes.T)
        if not standing:
            note = f"the fastest of the directions of zero overlap grows by {rate:.2g} per iteration"
        return _Growth(float(rate), grown, self._each(q, found.matrix), 1, doubt, note)

    def _fastest(self, q: Array, free: Array, coarse: bool) -> tuple[Fastest, float, float]:
        """The fastest of these directions, its growth per iteration, and what that may be off by."""
        found = fastest(self.channel, q, free, self.prior, self.alpha, coarse)
        if found.linear:
            return found, math.inf, 0.0
        # Zero to within its rounding, it may come out on either side.
        return found, self.alpha * found.norm if found.norm > ZERO else 0.0, self.alpha * found.error

    def _from_nothing(self, zero: Array) -> _Growth | None:
        """The same at zero overlap by the threshold, where that is closed or averages are sampled; else None."""
        kernel = self.channel.model
        if not self.channel.sampled and kernel.exact is None and () not in kernel.steps:
            return None
        found = kept_threshold(kernel)
        if found is None or (not found.converged and found.value is None):
            return None
        if found.value is not None and float(found.value) == 0 and not self.channel.sampled:
            # Which direction is learned first quadrature knows better than correlations.
            return None
        rising = self.alpha * gain(self.prior)
        rate, doubt = rising * found.operator_norm if self.alpha else 0.0, ""
        if found.value is not None and rate < math.inf:
            own = found.error if found.error and found.how != "rigorous" else 0.0
            off = rate * (found.operator_norm * own + ROUNDING)
            if abs(rate - 1) <= (SIGMAS if found.how == "monte-carlo" else 1.0) * off:
                doubt = f"a small overlap grows by {rate:.10g} +- {off:.1g} per iteration"
        inside = found.eigenvector.diagonal() > 1e-6
        rates, n_iter = np.full(len(zero), np.nan), 0
        if rate <= 1:
            if inside.all() or found.value is None:
                rates[:] = rate
            else:
                matrix = self.channel.operator(zero)[1].mean(axis=0)
                rates, n_iter = self._each(zero, gain(self.prior) * matrix), 1
        rates[inside] = rate
        return _Growth(rate, found.eigenvector, rates, n_iter, doubt)

    def _each(self, q: Array, matrix: Array) -> Array:
        """Growth rate of each index of zero overlap, among those that its overlap feeds and is fed by."""
        rates = np.full(len(q), np.nan)
        rest = [i for i in range(len(q)) if q[i, i] <= NOTHING]
        flow = np.array([[abs(matrix[i, i, j, j]) for j in rest] for i in rest])
        # Indices whose overlaps feed each other by less than this share of the largest are apart.
        apart = 1e-2
        near = (flow > apart * max(float(flow.max(initial=0.0)), 1e-300)) | self.channel.mask[np.ix_(rest, rest)]
        near = near | near.T
        for _ in rest:
            near = (near.astype(int) @ near) > 0
        for row, i in enumerate(rest):
            some = [rest[k] for k in np.flatnonzero(near[row])]
            rates[i] = self.alpha * max(leading_direction(matrix[np.ix_(some, some, some, some)], 0.0)[0], 0.0)
        return rates
