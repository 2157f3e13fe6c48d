"""The loop of message passing on data: stopping rule, history and result."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConvergenceError
from ...core.random import seeded
from ...core.results import Origin
from ...core.validation import choice, not_negative, whole
from ...posterior.protocol import Model
from ...priors import GAUSSIAN, Prior
from ..blocks import Array, stream
from ..damping import Damping
from ..data import check_weights
from ..heads import blocks_of, weight_rows
from ..side import Side
from .course import DEAD, QUIET, Course, DivergedError
from .double_loop import DoubleLoop
from .results import GAMPResult, GAMPStep

__all__ = ["Loop"]

#: (What, C, share of the old estimate in the new one) -> What, its C, and C without that share.
Advance = Callable[[Array, Array, float], tuple[Array, Array, Array]]


class Loop:
    """Settings of an iteration, checked; seeds of its start and of sampled posteriors.

    Parameters
    ----------
    model : Network or LinkKernel
    damping, max_iter, tol, variance, rng, prior
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
        *,
        variance: str,
        rng: np.random.Generator | int | None,
        prior: Prior = GAUSSIAN,
    ) -> None:
        self._model, self._prior = model, prior
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
        # A start from nothing has this overlap with itself, over D: that with the teacher is then of the same size, as
        # it should be of a posterior mean.
        seed = 1.0
        if start is None:
            return self._generator.standard_normal((weight_rows(self._model), dimension)) * math.sqrt(seed / dimension)
        return check_weights("start", start, self._model, dimension).copy()

    def run(
        self,
        advance: Advance,
        dimension: int,
        rows: Callable[[], int],
        *,
        start: ArrayLike | None,
        side: Side,
        teacher: ArrayLike | None,
        callback: Callable[[GAMPStep], object] | None,
        throw: bool,
        algorithm: str,
        settle: DoubleLoop | None = None,
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
        start, teacher, callback, throw
            As in `gamp`. Without start and side information an estimate that vanishes ends the run.
        side : Side
        settle : DoubleLoop, optional
            Takes the place of `advance` once that oscillates.
        algorithm, settings
            For the origin of the result.
        """
        model, weights = self._model, side.informed(self._first(start, dimension))
        given = start is not None or side.given
        truth = None if teacher is None else check_weights("teacher", teacher, model, dimension)
        course = Course(weights, truth, model)
        nothing = -1.0 if given else DEAD / dimension
        converged, status = self._iterate(advance, settle, course, nothing, callback)
        weights, covariance = course.weights, course.covariance
        own = weights @ weights.T / dimension
        off = float(np.abs(np.linalg.eigvalsh(covariance + own - np.eye(len(own)))).max())
        # What C + What What^T / D may differ from I by: a part, and standard deviations of |W|^2 / D.
        part, sigmas = 0.25, 5.0
        if converged and off > part + sigmas * math.sqrt((self._prior.fourth_moment - 1) / dimension):
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
            origin=self._origin(start, algorithm=algorithm, **side.settings, **settings),
        )
        if throw and not converged:
            raise ConvergenceError(status)
        return result

    def _iterate(
        self,
        advance: Advance,
        settle: DoubleLoop | None,
        course: Course,
        nothing: float,
        callback: Callable[[GAMPStep], object] | None,
    ) -> tuple[bool, str]:
        """Iterate to the end: whether it has converged, and why it ended."""
        share, tol, quiet = self._damping, self._tol, 0
        # Iterations in two loops that the change stays below its bound before it counts: the term of Onsager follows in
        # them.
        followed = 8
        for iteration in range(1, self._max_iter + 1):
            slowly = settle is not None and settle.prepare(course, tol)
            try:
                if settle is not None and slowly:
                    moved, covariance, newest, step = settle(course.weights, course.covariance)
                    course.move(moved, covariance, settle.share, step)
                else:
                    moved, covariance, newest = advance(course.weights, course.covariance, share.value)
                    step = moved - course.weights
                    course.move(moved, covariance, share.value, step)
            except DivergedError as error:
                if iteration == 1 and isinstance(error.__cause__, ConvergenceError):
                    raise error.__cause__ from None
                remedy = "start elsewhere" if slowly else "add damping"
                status = f"diverged: {error}; restored iteration {course.restore()}; {remedy}, check that model and "
                return False, f"{status}data match"
            stop = callback is not None and callback(course.step())
            done = "" if settle is None else settle.account
            quiet = quiet + 1 if course.changes[-1] <= tol else 0
            needed = QUIET if course.dormant else followed if slowly else 0
            if reason := course.end(quiet > needed, nothing, newest):
                return True, f"converged after {iteration} iterations{done}: {reason}"
            if stop:
                return False, f"ended by the callback after {iteration} iterations{done}"
            share.adapt(step)
        status = f"not converged after {self._max_iter} iterations{'' if settle is None else settle.account}: "
        if quiet:
            rest = f"What has settled but in a direction below {DEAD:g}/D, which has not shrunk for long enough"
            return False, f"{status}{rest} to be taken for one that is not learned; raise max_iter"
        moved_by = f"What moved by {course.changes[-1]:.1e} of its norm in some direction > {tol:g}"
        # In two loops the parts of the way are fixed.
        remedy = "raise max_iter" if settle is not None and settle.iterations else "raise max_iter or add damping"
        return False, f"{status}{moved_by}; {remedy}"
