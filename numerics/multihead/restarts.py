"""Second-order descents from random starts, until one explains held-out examples."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..learning.blocks import Array
from .batch import Batch
from .holdout import Split, acceptable
from .refine import Descent, lbfgs, levenberg_marquardt

__all__ = [
    "LM_STEPS",
    "LM_UNKNOWNS",
    "RestartResult",
    "best_optimiser",
    "descended",
    "restarts",
    "sample_count",
    "unknowns",
]

Optimiser = Literal["auto", "lm", "lbfgs"]

# Standard deviations of the logits of successive starts: none is the best for all teachers.
_SPREADS = (0.3, 1.0, 3.0)
# Unknowns (Theta and W) up to which Levenberg-Marquardt takes seconds.
LM_UNKNOWNS = 3200
# Output entries per unknown of a descent, and how many times more with noise; least samples of each optimiser.
_PER_UNKNOWN, _NOISY = 8, 4
_LEAST = {"lm": 400, "lbfgs": 2000}
# Steps of Levenberg-Marquardt and of L-BFGS.
LM_STEPS, _LBFGS_STEPS = 80, 2000
# Two starts end at one layer if outputs differ by less than this share of the variance of a fit due to noise; layers
# fit equally well if their chi^2 differs by less than the second number.
_SAME, _EQUAL = 0.1, 20.0
# Relative decrease of the loss at which the descent on all examples ends: 1e-6 of noise is far below its scatter.
_NOISY_TOL = 1e-6


@dataclass(frozen=True)
class RestartResult:
    """The best of several descents.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
    validation_error, accept : float
        |F - Y|^2 / |Y|^2 on the held-out examples, and up to where it is accepted.
    errors : tuple of float
        Validation errors of all starts, in their order.
    losses : tuple of float
        Losses of all starts on the examples that they were given.
    samples : int
        Samples of these.
    optimiser : str
        "lm" or "lbfgs".
    doubt : str
        With noise: why this may not be the layer of the largest likelihood; empty where two starts found it, and none
        another one that fits equally well.
    converged : bool
    status : str
    """

    theta: Array
    w: Array
    validation_error: float
    accept: float
    errors: tuple[float, ...]
    losses: tuple[float, ...]
    samples: int
    optimiser: str
    doubt: str
    converged: bool
    status: str


def unknowns(heads: int, dim: int) -> int:
    """Entries of all Theta_i and W_i, 2 m d^2."""
    return 2 * heads * dim * dim


def restarts(
    split: Split,
    heads: int,
    *,
    noise_std: float = 0.0,
    optimiser: Optimiser = "auto",
    starts: int = 8,
    patient: bool = False,
    rng: np.random.Generator,
) -> RestartResult:
    """Descend from random Theta_i until held-out examples are explained to within the noise.

    Parameters
    ----------
    split : Split
    heads : int
    noise_std : float
        Standard deviation of the noise on every entry of Y.
    optimiser : {"auto", "lm", "lbfgs"}
        Levenberg-Marquardt, for up to 3200 unknowns the automatic choice, or L-BFGS.
    starts : int
        At most.
    patient : bool
        Run all of them, whatever the first ones find.
    rng : Generator

    Returns
    -------
    RestartResult
        Not converged if no start is accepted; it is then the best one.

    Notes
    -----
    Descents see 8 output entries for each of the 2 m d^2 unknowns (400 samples at least; four times as many with
    noise), and the best of them goes on with all examples, unless it is exact. Under noise an accepted start may be a
    local minimum: others follow, until two end at the best layer so far. At k = 2 heads change sign with W, and their
    sum may be made up for by others, nearly or exactly: descents start from each sign changed as well.
    """
    dim = split.X.shape[2]
    size = unknowns(heads, dim)
    chosen = best_optimiser(size) if optimiser == "auto" else optimiser
    accept = acceptable(split.Y_val, noise_std)
    held = Batch(split.X_val, split.Y_val)
    noisy = noise_std > 0 or patient
    count = sample_count(split, size, noisy=noisy, optimiser=chosen)
    best: tuple[float, Descent] | None = None
    errors: list[float] = []
    ends: list[Descent] = []
    crowd = _Crowd(split, count, size, noise_std)
    for number in range(starts):
        start = rng.standard_normal((heads, dim, dim)) * _SPREADS[number % len(_SPREADS)] / (math.sqrt(2) * dim)
        found = descended(split.X[:count], split.Y[:count], start, chosen)
        error = held.error(found.theta, found.w)
        errors.append(error)
        ends.append(found)
        crowd.add(found)
        if best is None or error < best[0]:
            best = (error, found)
        if best[0] <= accept and not patient and (noise_std == 0 or crowd.twice(best[1])):
            break
    assert best is not None
    doubt = crowd.doubt(best[1]) if noisy else ""
    if noisy and not doubt and split.X.shape[1] == 2 and heads > 1:
        best = _with_signs_changed((split.X[:count], split.Y[:count]), best, held, crowd, chosen)
        doubt = crowd.doubt(best[1], flipped=heads)
    if count < len(split.X) and best[0] > accept * 1e-3:
        tol = _NOISY_TOL if noisy else 1e-10
        polished = descended(split.X, split.Y, best[1].theta, chosen, w=best[1].w, tol=tol)
        best = _better(best, (held.error(polished.theta, polished.w), polished))
    error, found = best
    said = "accepted" if error <= accept else f"not below {accept:.2g}"
    return RestartResult(
        theta=found.theta,
        w=found.w,
        validation_error=error,
        accept=accept,
        errors=tuple(errors),
        losses=tuple(end.loss for end in ends),
        samples=count,
        optimiser=chosen,
        doubt=doubt,
        converged=error <= accept,
        status=f"validation error {error:.2g} {said}, start {len(errors)} of {starts}",
    )


def _better(one: tuple[float, Descent], other: tuple[float, Descent]) -> tuple[float, Descent]:
    """That of the smaller error, the first where they are equal."""
    return other if other[0] < one[0] else one


def _with_signs_changed(
    seen: tuple[Array, Array], best: tuple[float, Descent], held: Batch, crowd: "_Crowd", optimiser: str
) -> tuple[float, Descent]:
    """The best of this end and those of descents from it with the sign of each head changed in turn."""
    for flip in np.where(np.eye(len(best[1].theta)), -1.0, 1.0):
        end = descended(*seen, flip[:, None, None] * best[1].theta, optimiser)
        crowd.add(end)
        best = _better(best, (held.error(end.theta, end.w), end))
    return best


class _Crowd:
    """Where the starts ended, by their outputs on held-out examples: heads have no order, and signs may be free."""

    def __init__(self, split: Split, count: int, size: int, noise_std: float) -> None:
        self._held, self._noise_std = Batch(split.X_val), noise_std
        self._entries, self._size = split.Y[:count].size, size
        self._square = float(np.mean(split.Y[:count] ** 2))
        self._ends: list[tuple[Descent, Array]] = []

    def add(self, end: Descent) -> None:
        """Take note of an end."""
        self._ends.append((end, self._held.predict(end.theta, end.w)))

    def _sorted(self, best: Descent) -> tuple[int, int]:
        """How many ended there, and how many elsewhere with the same likelihood."""
        variance = self._noise_std**2 or best.loss * self._square
        there = next(outputs for end, outputs in self._ends if end is best)
        same = equal = 0
        for end, outputs in self._ends:
            apart = float(np.mean((outputs - there) ** 2)) * self._entries / (variance * self._size)
            worse = (end.loss - best.loss) * self._square * self._entries / variance
            same += apart < _SAME
            equal += apart >= _SAME and worse < _EQUAL
        return same, equal

    def twice(self, best: Descent) -> bool:
        """Whether two starts ended there."""
        return self._sorted(best)[0] > 1

    def doubt(self, best: Descent, *, flipped: int = 0) -> str:
        """See `RestartResult`; the last `flipped` ends are those of starts from others."""
        same, equal = self._sorted(best)
        starts = len(self._ends) - flipped
        if equal:
            return f"other parameters fit equally well, after {starts} starts"
        return "" if same > 1 else f"one of {starts} starts found this layer; more of them may find a better one"


def best_optimiser(size: int) -> Literal["lm", "lbfgs"]:
    """Levenberg-Marquardt up to 3200 unknowns, L-BFGS beyond."""
    return "lm" if size <= LM_UNKNOWNS else "lbfgs"


def sample_count(split: Split, size: int, *, noisy: bool, optimiser: Literal["lm", "lbfgs"] = "lm") -> int:
    """Samples that a descent over `size` unknowns is given."""
    _, k, d = split.X.shape
    wanted = max(_LEAST[optimiser], math.ceil(_PER_UNKNOWN * size / (k * d))) * (_NOISY if noisy else 1)
    return min(len(split.X), wanted)


def descended(
    X: Array,
    Y: Array,
    theta: Array,
    optimiser: str,
    *,
    w: Array | None = None,
    tol: float = 1e-10,
    steps: int = LM_STEPS,
) -> Descent:
    """Descend from a start; `w` is of L-BFGS alone, `tol` and `steps` of Levenberg-Marquardt."""
    if optimiser == "lm":
        return levenberg_marquardt(X, Y, theta, max_iter=steps, tol=tol)
    return lbfgs(X, Y, theta, w, max_iter=_LBFGS_STEPS)
