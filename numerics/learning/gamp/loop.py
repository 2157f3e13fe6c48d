"""The loop of message passing on data: stopping rule, history and result."""

import math
from collections import deque
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConvergenceError
from ...core.random import seeded
from ...core.results import Origin
from ...core.validation import choice, not_negative, whole
from ...posterior.protocol import Model
from ..blocks import Array, stream
from ..damping import Damping
from ..data import check_weights
from ..heads import blocks_of, weight_rows
from ..symmetry import symmetry
from .results import GAMPResult, GAMPStep

__all__ = ["DivergedError", "Loop", "first_covariance", "guarded", "resolved", "side_field"]

#: (What, C, share of the old estimate in the new one) -> What, its C, and C without that share.
Advance = Callable[[Array, Array, float], tuple[Array, Array, Array]]

# A start from nothing has this overlap with itself, over D: that with the teacher is then of the same size, as it
# should be of a posterior mean.
_SEED = 1.0
# Overlap with itself, over 1/D, below which the start has died out, altogether or in a direction.
_DEAD = 1e-3
# A direction below it counts as died out once it is smaller than at some time in the last `_WAIT` iterations, and all
# others have been settled for more than `_QUIET`: one that turns while it grows shrinks now and then, and one that
# waits for others to be learned shrinks until they are.
_WAIT, _QUIET = 20, 30
# Overlap with itself, over the largest, that is made of rounding.
_ROUNDING = 1e-26
# Overlap with itself beyond which the iteration has left what a posterior mean can be, by far.
_LOST = 4.0
# Variances below this count as it: what is known better is not resolved by the denoisers, nor by float32 data.
_EXACT = 1e-6
# Least eigenvalue of I - What What^T / D that counts as a covariance.
_LEFT = 1e-3
# What C + What What^T / D may differ from I by: a part, and standard deviations of |W|^2 / D.
_OFF, _SIGMAS = 0.25, 5.0


class DivergedError(Exception):
    """An iterate cannot be a posterior mean; the message gives the reason."""


class Loop:
    """Settings of an iteration, checked; seeds of its start and of sampled posteriors.

    Parameters
    ----------
    model : Network or LinkKernel
    damping, max_iter, tol, variance, rng
        As in `gamp`.

    Raises
    ------
    ValueError
        A setting is outside its range.
    """

    def __init__(
        self,
        model: Model,
        damping: float | Literal["adaptive"],
        max_iter: int,
        tol: float,
        variance: str,
        rng: np.random.Generator | int | None,
    ) -> None:
        self._model = model
        self._tol = not_negative("tol", tol, "(104)-(112)")
        self._max_iter = whole("max_iter", max_iter, 1, "(104)-(112)")
        self._asked, self._damping = damping, Damping(damping)
        self.slopes = choice("variance", variance, ("slope", "nishimori"), "(110)") == "slope"
        self._seed, generator = seeded(rng)
        self._generator = generator if self._seed < 0 else stream(self._seed, 3)
        self.node_seed = int(self._generator.integers(2**31))

    def _origin(self, start: ArrayLike | None, **more: object) -> Origin:
        """Model and settings of a run from that start."""
        return Origin.of(
            self._model,
            damping=self._asked,
            max_iter=self._max_iter,
            tol=self._tol,
            variance="slope" if self.slopes else "nishimori",
            start="random" if start is None else "given",
            seed=self._seed,
            **more,
        )

    def _first(self, start: ArrayLike | None, dimension: int) -> Array:
        """Return the first estimate: the one given, or a random one without information on the teacher."""
        if start is None:
            return self._generator.standard_normal((weight_rows(self._model), dimension)) * math.sqrt(_SEED / dimension)
        return check_weights("start", start, self._model, dimension).copy()

    def run(
        self,
        advance: Advance,
        dimension: int,
        rows: Callable[[], int],
        *,
        start: ArrayLike | None,
        side_strength: float,
        teacher: ArrayLike | None,
        callback: Callable[[GAMPStep], object] | None,
        throw: bool,
        algorithm: str,
        **settings: object,
    ) -> GAMPResult:
        """Iterate from the start with C = I - What What^T / D.

        Parameters
        ----------
        advance : callable
            One iteration; raises DivergedError.
        dimension : int
        rows : callable
            Gives the number of samples; called at the end.
        start, side_strength, teacher, callback, throw
            As in `gamp`. Without start and side information an estimate that vanishes ends the run.
        algorithm, settings
            For the origin of the result.
        """
        model, weights = self._model, self._first(start, dimension)
        given = start is not None or side_strength > 0
        truth = None if teacher is None else check_weights("teacher", teacher, model, dimension)
        course = _Course(weights, truth, model)
        converged, status = self._iterate(advance, course, -1.0 if given else _DEAD / dimension, callback)
        weights, covariance = course.weights, course.covariance
        own = weights @ weights.T / dimension
        off = float(np.abs(np.linalg.eigvalsh(covariance + own - np.eye(len(own)))).max())
        if converged and off > _OFF + _SIGMAS * math.sqrt(2 / dimension):
            # No posterior of a model that the data are from.
            converged = False
            status = (
                f"settled where C + What What^T / D differs from I by {off:.2g} (Nishimori): check that model and "
                "data match, and that X has independent entries of mean 0 and variance 1"
            )
        result = GAMPResult(
            weights=weights,
            covariance=covariance,
            self_overlap=own,
            overlap=course.overlap(weights),
            history=None if truth is None else np.array(course.history),
            self_history=np.array(course.selves),
            changes=np.array(course.changes),
            dampings=np.array(course.dampings),
            converged=converged,
            status=status,
            n_iter=len(course.changes),
            residual=course.changes[-1] if course.changes else math.inf,
            nishimori=off,
            alpha=rows() / (dimension * blocks_of(model)),
            seed=self._seed,
            model=model.describe(),
            kernel_hash=model.kernel_hash,
            origin=self._origin(start, algorithm=algorithm, side_strength=side_strength, **settings),
        )
        if throw and not converged:
            raise ConvergenceError(status)
        return result

    def _iterate(
        self, advance: Advance, course: "_Course", nothing: float, callback: Callable[[GAMPStep], object] | None
    ) -> tuple[bool, str]:
        """Iterate to the end: whether it has converged, and why it ended."""
        share, tol, quiet = self._damping, self._tol, 0
        for iteration in range(1, self._max_iter + 1):
            try:
                moved, covariance, newest = advance(course.weights, course.covariance, share.value)
            except DivergedError as error:
                if iteration == 1 and isinstance(error.__cause__, ConvergenceError):
                    raise error.__cause__ from None
                status = f"diverged: {error}; restored iteration {course.restore()}; add damping, check that model and "
                return False, f"{status}data match"
            step = course.move(moved, covariance, share.value)
            stop = callback is not None and callback(course.step())
            quiet = quiet + 1 if course.changes[-1] <= tol else 0
            settled = quiet > (_QUIET if course.dormant else 0)
            if reason := course.end(settled, nothing, newest):
                return True, f"converged after {iteration} iterations: {reason}"
            if stop:
                return False, f"ended by the callback after {iteration} iterations"
            share.adapt(step)
        status = f"not converged after {self._max_iter} iterations: "
        if quiet:
            rest = f"What has settled but in a direction below {_DEAD:g}/D, which has not shrunk for long enough"
            return False, f"{status}{rest} to be taken for one that is not learned; raise max_iter"
        moved_by = f"What moved by {course.changes[-1]:.1e} of its norm in some direction > {tol:g}"
        return False, f"{status}{moved_by}; raise max_iter or add damping"


class _Course:
    """The estimate, from a start with C = I - What What^T / D on, and what is kept of its iterations."""

    def __init__(self, weights: Array, truth: Array | None, model: Model) -> None:
        own = weights @ weights.T / weights.shape[1]
        self.weights, self.covariance = weights, first_covariance(own)
        self._truth, self._gauge = truth, symmetry(model)
        self.history, self.selves = [self.overlap(weights)], [own]
        self.changes: list[float] = []
        self.dampings: list[float] = []
        self._best = (math.inf, weights, self.covariance, 0)
        self._spectra = deque([np.linalg.eigvalsh(own)], maxlen=_WAIT)
        #: Whether a direction is too small to count, and shrinks.
        self.dormant = False
        self._learned = float(np.trace(own))

    def overlap(self, weights: Array) -> Array | None:
        """Overlap with the teacher, if it is known."""
        return None if self._truth is None else self._gauge.align(self._truth @ weights.T / weights.shape[1])

    def move(self, weights: Array, covariance: Array, share: float) -> Array:
        """Take the next estimate; its difference to the last."""
        dimension = weights.shape[1]
        step = weights - self.weights
        own = weights @ weights.T / dimension
        self.weights, self.covariance = weights, covariance
        change, self.dormant = _change(step, weights, np.max(self._spectra, axis=0) * dimension)
        self._spectra.append(np.linalg.eigvalsh(own))
        self.changes.append(change)
        self.dampings.append(share)
        self.history.append(self.overlap(weights))
        self.selves.append(own)
        # Of those that have learned about as much, the one that moved least.
        if self.changes[-1] <= self._best[0] or np.trace(own) > 2 * self._learned:
            self._best = (self.changes[-1], weights, covariance, len(self.changes))
            self._learned = float(np.trace(own))
        return step

    def end(self, settled: bool, nothing: float, newest: Array) -> str:
        """Why the latest iteration is the last one; empty if it is not."""
        if float(self.selves[-1].diagonal().max()) < nothing:
            return "the start has died out, nothing is learned"
        if settled:
            return f"What moved by {self.changes[-1]:.1e} of its norm, or less, in every direction"
        if float(np.linalg.eigvalsh(newest)[-1]) < _EXACT:
            return f"the weights are recovered, C < {_EXACT:g}"
        return ""

    def restore(self) -> int:
        """Go back to the best estimate; the number of its iteration."""
        _, self.weights, self.covariance, iteration = self._best
        return iteration

    def step(self) -> GAMPStep:
        """The latest iteration as a callback gets it."""
        return GAMPStep(
            len(self.changes),
            self.weights.copy(),
            self.covariance.copy(),
            self.selves[-1],
            self.history[-1],
            self.changes[-1],
            self.dampings[-1],
        )


def _change(step: Array, weights: Array, before: Array) -> tuple[float, bool]:
    """Return the change of What over its norm, in that eigenvector of What What^T where it is largest.

    An index that has hardly been learned yet, beside others that have, grows by steps that are small beside these. One
    whose squared norm is smaller than `_DEAD`, and than it was `before`, is left out; whether there is one is
    returned, too. So is one that is made of rounding, for which nothing needs to be waited.
    """
    vectors = np.linalg.eigh(weights @ weights.T)[1]
    now, moved = vectors.T @ weights, vectors.T @ step
    size, change = ((rows**2).sum(axis=1) for rows in (now, moved))
    shrinks, rounding = (size <= _DEAD) & (size <= before), size <= _ROUNDING * size.max()
    alive = ~(shrinks | rounding)
    return math.sqrt(float((change[alive] / size[alive]).max(initial=0.0))), bool((shrinks & ~rounding).any())


def guarded(weights: Array) -> Array:
    """Return the estimate, or raise DivergedError where no posterior mean is that large."""
    own = weights @ weights.T / weights.shape[1]
    if not np.isfinite(own).all() or np.linalg.eigvalsh(own)[-1] > _LOST:
        raise DivergedError(f"What What^T / D exceeds {_LOST:g}, and that of a posterior mean stays below 1")
    return weights


def first_covariance(self_overlap: Array) -> Array:
    """C of a first estimate: what is left of I (Nishimori); I if nothing is left, for then it is no posterior mean."""
    rest = np.eye(len(self_overlap)) - self_overlap
    return rest if np.linalg.eigvalsh(rest)[0] > _LEFT else np.eye(len(rest))


def resolved(covariance: Array) -> Array:
    """Covariances, shape (.., P, P), with eigenvalues that are at least the smallest that denoisers resolve."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, _EXACT)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def side_field(
    information: ArrayLike | None, strength: float | None, model: Model, dimension: int
) -> tuple[Array | float, float]:
    """sqrt(lambda) S, and lambda; both 0 where there is none."""
    if (information is None) != (strength is None):
        raise ValueError(
            "side_information S and side_strength lambda belong together: S = sqrt(lambda) W + Z (troiani2025 (113)); "
            "give both or none"
        )
    if information is None or strength is None:
        return 0.0, 0.0
    value = not_negative("side_strength", strength, "(113)")
    return math.sqrt(value) * check_weights("side_information", information, model, dimension), value
