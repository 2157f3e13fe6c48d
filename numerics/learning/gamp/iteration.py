"""The loop that message passing on data shares: when it stops, what it keeps, what it returns."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConvergenceError
from ...core.results import Origin
from ...core.validation import choice, not_negative, whole
from ...fixed_point.evolve import seeded
from ..data import check_weights, stream
from ..outputs.channel import Model
from ..symmetry import symmetry
from .damping import Damping
from .results import GAMPResult, GAMPStep

__all__ = ["DivergedError", "Loop", "first_covariance", "guarded", "resolved", "side_field"]

Array = NDArray[np.float64]
#: (What, C, share of the old estimate in the new one) -> What, its C, and C without that share.
Advance = Callable[[Array, Array, float], tuple[Array, Array, Array]]

# A start from nothing has this overlap with itself, over D: that with the teacher is then of the same size, as it
# should be of a posterior mean.
_SEED = 1.0
# Overlap with itself, over 1/D, below which the start has died out, altogether or in a direction.
_DEAD = 1e-3
# Overlap with itself beyond which the iteration has left what a posterior mean can be, by far.
_LOST = 4.0
# Variances below this count as it: what is known better is not resolved by the denoisers, nor by float32 data.
_EXACT = 1e-6
# Least eigenvalue of I - What What^T / D that counts as a covariance.
_LEFT = 1e-3
# What C + What What^T / D may differ from I by: a part, and standard deviations of |W|^2 / D.
_OFF, _SIGMAS = 0.25, 5.0


class DivergedError(Exception):
    """An iteration has left what posterior means can be; the message says how."""


class Loop:
    """Settings of an iteration, checked; seeds of its start and of sampled posteriors.

    Parameters
    ----------
    model : Attention, fibres.LastLayer or LinkKernel
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

    def origin(self, start: ArrayLike | None, **more: object) -> Origin:
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

    def first(self, start: ArrayLike | None, dimension: int) -> Array:
        """Return the first estimate: the one given, or one that knows nothing."""
        if start is None:
            return self._generator.standard_normal((self._model.indices, dimension)) * math.sqrt(_SEED / dimension)
        return check_weights("start", start, self._model, dimension).copy()

    def run(
        self,
        advance: Advance,
        weights: Array,
        rows: Callable[[], int],
        *,
        given: bool,
        teacher: ArrayLike | None,
        callback: Callable[[GAMPStep], object] | None,
        throw: bool,
    ) -> GAMPResult:
        """Iterate from `weights` with C = I - What What^T / D.

        Parameters
        ----------
        advance : callable
            One iteration; raises DivergedError.
        weights : ndarray, shape (P, D)
        rows : callable
            Number of samples, asked for at the end.
        given : bool
            Whether start or side information tell something; otherwise an estimate that vanishes ends the run.
        teacher, callback, throw
            As in `gamp`.
        """
        model, share, tol = self._model, self._damping, self._tol
        p, dimension = weights.shape
        truth = None if teacher is None else check_weights("teacher", teacher, model, dimension)
        gauge = symmetry(model)

        def overlap(estimate: Array) -> Array | None:
            return None if truth is None else gauge.align(truth @ estimate.T / dimension)

        own = weights @ weights.T / dimension
        covariance = first_covariance(own)
        history, selves = [overlap(weights)], [own]
        changes: list[float] = []
        dampings: list[float] = []
        best = (math.inf, weights, covariance, 0)
        learned = float(np.trace(own))
        nothing = -1.0 if given else _DEAD / dimension
        converged, status = False, ""
        for iteration in range(1, self._max_iter + 1):
            try:
                moved, covariance, newest = advance(weights, covariance, share.value)
            except DivergedError as error:
                if iteration == 1 and isinstance(error.__cause__, ConvergenceError):
                    raise error.__cause__ from None
                _, weights, covariance, iteration = best
                status = f"diverged: {error}; restored iteration {iteration}; add damping, check that model and data "
                status += "match"
                break
            step, weights = moved - weights, moved
            own = weights @ weights.T / dimension
            changes.append(_change(step, weights, _DEAD / dimension))
            dampings.append(share.value)
            history.append(overlap(weights))
            selves.append(own)
            # Of those that have learned about as much, the one that moved least.
            if changes[-1] <= best[0] or np.trace(own) > 2 * learned:
                best, learned = (changes[-1], weights, covariance, iteration), float(np.trace(own))
            seen = GAMPStep(iteration, weights.copy(), covariance.copy(), own, history[-1], changes[-1], dampings[-1])
            stop = callback is not None and callback(seen)
            if reason := _settled(changes[-1], tol, own, nothing, newest):
                converged, status = True, f"converged after {iteration} iterations: {reason}"
                break
            if stop:
                status = f"ended by the callback after {iteration} iterations"
                break
            share.adapt(step)
        else:
            status = f"not converged after {self._max_iter} iterations: What moved by {changes[-1]:.1e} of its norm in "
            status += f"some direction > {tol:g}; raise max_iter or add damping"
        own = weights @ weights.T / dimension
        off = float(np.abs(np.linalg.eigvalsh(covariance + own - np.eye(p))).max())
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
            overlap=overlap(weights),
            history=None if truth is None else np.array(history),
            self_history=np.array(selves),
            changes=np.array(changes),
            dampings=np.array(dampings),
            converged=converged,
            status=status,
            n_iter=len(changes),
            residual=changes[-1] if changes else math.inf,
            nishimori=off,
            alpha=rows() / dimension,
            seed=self._seed,
            model=model.describe(),
            kernel_hash=model.kernel_hash,
        )
        if throw and not converged:
            raise ConvergenceError(status)
        return result


def _change(step: Array, weights: Array, nothing: float) -> float:
    """Return the change of What over its norm, in that eigenvector of What What^T where it is largest.

    An index that has hardly been learned yet, beside others that have, grows by steps that are small beside these. One
    that is smaller than `nothing` and shrinks has died out.
    """
    vectors = np.linalg.eigh(weights @ weights.T)[1]
    now, moved = vectors.T @ weights, vectors.T @ step
    size, before, change = ((rows**2).sum(axis=1) for rows in (now, now - moved, moved))
    alive = (size > nothing * step.shape[1]) | (size > before)
    return math.sqrt(float((change[alive] / size[alive]).max(initial=0.0)))


def _settled(change: float, tol: float, own: Array, nothing: float, newest: Array) -> str:
    """Why an iteration is the last one; empty if it is not."""
    if float(own.diagonal().max()) < nothing:
        return "the start has died out, nothing is learned"
    if change <= tol:
        return f"What moved by {change:.1e} of its norm, or less, in every direction"
    if float(np.linalg.eigvalsh(newest)[-1]) < _EXACT:
        return f"the weights are recovered, C < {_EXACT:g}"
    return ""


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
