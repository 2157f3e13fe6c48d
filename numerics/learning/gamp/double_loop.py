"""Message passing in two loops: the estimate moves slowly, and the term of Onsager follows it.

With one share of the old in both, directions of the estimate turn for ever where many multipliers are close to 1 in
size and complex, as next to an onset. Where omega solves omega + V g(omega) = What x / sqrt(D) at every estimate, the
step of the estimate at given V and A is the gradient of a potential, and all its multipliers are real (see
docs/theory/onsager.md). Here omega goes a part of the way in each pass, by a larger part than the estimate, and
Anderson's method speeds up both.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..blocks import Array
from ..passes import Passes
from .anderson import Anderson
from .course import Course, guarded, resolved

__all__ = ["DoubleLoop", "Settling"]

# Parts of the way that estimate and covariance, and the term of Onsager go in a pass. The second, times the largest
# eigenvalue of V^{-1} Cov[h | y], is to be below 2 for all but few outputs; where it is not, Anderson's method helps.
# The first is as large as lets instances of one layer settle (docs/results/matrix.md, which has those around it, too).
_SLOW, _FAST = 0.2, 0.25

#: (What, C) -> C and What by a pass with them, without damping.
Image = Callable[[Array, Array], tuple[Array, Array]]


class Settling(NamedTuple):
    """An iteration: What, its C, C of the pass, and by how much the pass would move What without damping."""

    weights: Array
    covariance: Array
    newest: Array
    step: Array


class DoubleLoop:
    """Iterations from the estimate, the covariance and the terms of Onsager that another iteration has left.

    Parameters
    ----------
    image : callable
        A pass; raises DivergedError.
    passes : Passes
        The data that it passes over.
    """

    #: Share of the old estimate in the new one, Anderson's method apart.
    share = 1 - _SLOW

    def __init__(self, image: Image, passes: Passes) -> None:
        #: Iterations, and after how many others a direction that was not learned got the size of a start.
        self.iterations, self.restarts = 0, list[int]()
        self._image, self._passes = image, passes
        self._anderson: Anderson | None = None

    @property
    def account(self) -> str:
        """What it has done, for the status of a run."""
        since = ", since the damped iteration oscillated without coming closer to a fixed point"
        late = f", the last {self.iterations} of them in two loops{since}" if self.iterations else ""
        if not self.restarts:
            return late
        after = " and ".join(map(str, self.restarts))
        return f"{late}, a direction not learned after {after} having been set to the size of a start"

    def prepare(self, course: Course, tol: float) -> bool:
        """Whether it takes over from here; if not, a direction that is not learned may be given the size of a start."""
        if self.iterations or course.turns():
            return True
        matrix = course.restart(tol)
        if matrix is not None:
            self._passes.recall([matrix @ term for term in self._passes.terms])
            self.restarts.append(len(course.changes))
        return False

    def __call__(self, weights: Array, covariance: Array) -> Settling:
        """Iterate once."""
        self.iterations += 1
        newest, best = self._image(weights, covariance)
        terms = self._passes.terms
        V, root = resolved(covariance), math.sqrt(weights.shape[1])
        follow = [V @ g - term for g, term in zip(self._passes.scores, terms, strict=True)]
        point = _joined(weights, root * covariance, terms)
        residual = _joined(_SLOW * (best - weights), _SLOW * root * (newest - covariance), [_FAST * f for f in follow])
        self._anderson = self._anderson or Anderson(len(point))
        moved = self._anderson(point, residual)
        ends = np.cumsum([weights.size, covariance.size, *(term.size for term in terms)])[:-1]
        parts = np.split(moved, ends)
        spread = parts[1].reshape(covariance.shape) / root
        if not np.linalg.eigvalsh(spread)[0] > 0:
            # Between the covariances of two posteriors there are such only, beyond them there need not be.
            self._anderson.forget()
            parts = np.split(point + residual, ends)
            spread = parts[1].reshape(covariance.shape) / root
        self._passes.recall([part.reshape(term.shape) for part, term in zip(parts[2:], terms, strict=True)])
        estimate = guarded(parts[0].reshape(weights.shape))
        return Settling(estimate, 0.5 * (spread + spread.T), newest, best - weights)


def _joined(weights: Array, covariance: Array, terms: list[Array]) -> Array:
    """All that moves, as one vector in which the parts have like sizes."""
    return np.concatenate([weights.ravel(), covariance.ravel(), *(term.ravel() for term in terms)])
