"""Second-order descents from random starts, until one explains held-out examples."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .batch import Batch
from .holdout import Split, acceptable
from .refine import Descent, lbfgs, levenberg_marquardt

__all__ = ["RestartResult", "restarts", "sample_count", "unknowns"]

Array = NDArray[np.float64]
Optimiser = Literal["auto", "lm", "lbfgs"]

# Standard deviations of the logits of successive starts: none is the best for all teachers.
_SPREADS = (0.3, 1.0, 3.0)
# Unknowns (Theta and W) up to which Levenberg-Marquardt takes seconds.
_LM_UNKNOWNS = 3200
# Output entries per unknown of a descent, least samples, and how many times more with noise.
_PER_UNKNOWN, _LEAST, _NOISY = 8, 400, 4
_LBFGS_SAMPLES = 2000
_STEPS = {"lm": 80, "lbfgs": 2000}
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
    noise), and the best of them goes on with all examples, unless it is exact.
    """
    dim = split.X.shape[2]
    size = unknowns(heads, dim)
    chosen = ("lm" if size <= _LM_UNKNOWNS else "lbfgs") if optimiser == "auto" else optimiser
    accept = acceptable(split.Y_val, noise_std)
    held = Batch(split.X_val, split.Y_val)
    noisy = noise_std > 0 or patient
    count = sample_count(split, size, noisy=noisy, least=_LEAST if chosen == "lm" else _LBFGS_SAMPLES)
    best: tuple[float, Descent] | None = None
    errors, losses = [], []
    for number in range(starts):
        start = rng.standard_normal((heads, dim, dim)) * _SPREADS[number % len(_SPREADS)] / (math.sqrt(2) * dim)
        found = _descend(split.X[:count], split.Y[:count], start, chosen)
        error = held.error(found.theta, found.w)
        errors.append(error)
        losses.append(found.loss)
        if best is None or error < best[0]:
            best = (error, found)
        if error <= accept and not patient:
            break
    assert best is not None
    error, found = best
    if count < len(split.X) and error > accept * 1e-3:
        tol = _NOISY_TOL if noisy else 0.0
        polished = _descend(split.X, split.Y, found.theta, chosen, w=found.w, tol=tol)
        polished_error = held.error(polished.theta, polished.w)
        if polished_error < error:
            error, found = polished_error, polished
    converged = error <= accept
    said = "accepted" if converged else f"not below {accept:.2g}"
    return RestartResult(
        found.theta,
        found.w,
        error,
        accept,
        tuple(errors),
        tuple(losses),
        count,
        chosen,
        converged,
        f"validation error {error:.2g} {said}, start {len(errors)} of {starts}",
    )


def sample_count(split: Split, size: int, *, noisy: bool, least: int = _LEAST) -> int:
    """Samples that a descent over `size` unknowns is given."""
    _, k, d = split.X.shape
    wanted = max(least, math.ceil(_PER_UNKNOWN * size / (k * d))) * (_NOISY if noisy else 1)
    return min(len(split.X), wanted)


def _descend(X: Array, Y: Array, theta: Array, optimiser: str, w: Array | None = None, tol: float = 0.0) -> Descent:
    if optimiser == "lm":
        return levenberg_marquardt(X, Y, theta, max_iter=_STEPS["lm"], tol=tol or 1e-10)
    return lbfgs(X, Y, theta, w, max_iter=_STEPS["lbfgs"])
