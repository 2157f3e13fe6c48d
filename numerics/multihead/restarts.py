"""Second-order descents from random starts, until two end at the best layer or none is left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..learning.blocks import Array
from .crowd import Crowd
from .holdout import EXACT, Split, acceptable
from .refine import Descent, lbfgs, levenberg_marquardt
from .watch import Watch

__all__ = [
    "LM_STEPS",
    "LM_UNKNOWNS",
    "RestartResult",
    "best_optimiser",
    "descended",
    "finished",
    "polished",
    "restarts",
    "sample_count",
    "unknowns",
]

Optimiser = Literal["auto", "lm", "lbfgs"]

# Unknowns (Theta and W) up to which Levenberg-Marquardt takes seconds.
LM_UNKNOWNS = 3200
# Steps of Levenberg-Marquardt and of L-BFGS.
LM_STEPS, _LBFGS_STEPS = 80, 2000
# Relative decrease of the loss at which descents end, in one step and in ten. Under noise, what is left in a slow
# valley is not what divides local minima from the best one: chi^2 of order one decides.
_TOL, _STALL = 1e-10, 0.1
# Ends that a search without noise goes on from, and steps of each. At logits of 400 the loss falls along a valley, by
# less than a tenth in ten steps at times: of 18 descents at d = 6 half stopped there and missed the layer; going on,
# all found it. L-BFGS is for sizes of which one more descent is what one can afford.
_FINISHED, _FINISH_STEPS = {"lm": 4, "lbfgs": 1}, 400
# Of the outputs: ends that leave more are in no such valley. Of these the best alone goes on, as far as any descent.
_NEAR = 0.1


@dataclass(frozen=True)
class RestartResult:
    """The best of several descents.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
    validation_error : float
        |F - Y|^2 / |Y|^2 on the held-out examples.
    accept : float
        Up to where noise explains it.
    errors : tuple of float
        Validation errors of all starts, in their order.
    losses : tuple of float
        Losses of all starts on the examples that they were given.
    samples : int
        Samples of these.
    optimiser : str
        "lm" or "lbfgs".
    times : int
        How many starts ended at this layer.
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
    times: int
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
    noise_std: float | None = 0.0,
    optimiser: Optimiser = "auto",
    starts: int = 8,
    first: Sequence[Array] = (),
    signs: bool = True,
    watch: Watch | None = None,
    rng: np.random.Generator,
) -> RestartResult:
    """Descend from random Theta_i until two starts end at the best layer.

    Parameters
    ----------
    split : Split
    heads : int
    noise_std : float or None
        Standard deviation of the noise on every entry of Y; None where it is not known, and nothing is accepted but
        what leaves no noise.
    optimiser : {"auto", "lm", "lbfgs"}
        Levenberg-Marquardt, for up to 3200 unknowns the automatic choice, or L-BFGS.
    starts : int
        Random starts at most.
    first : sequence of ndarray, shape (m, d, d)
        Starts before them.
    signs : bool
        Whether the best goes on from each sign of a head changed, at k = 2.
    watch : Watch, optional
    rng : Generator

    Returns
    -------
    RestartResult
        Not converged if no start is accepted; it is then the best one.

    Notes
    -----
    Descents see 8 output entries for each of the 2 m d^2 unknowns (400 samples at least; four times as many with
    noise), and the best of them goes on with all examples, unless it is exact. An exact layer ends the search. Without
    noise, where none is accepted, the four best go on with all examples until their loss decreases no more: which
    valley a descent from few examples stops in is a matter of rounding, and the layer is found from nearly all. Under
    noise a start may be a local minimum, however near to the noise its error is: others follow, until two end at the
    best layer so far or the starts are used up, as the status states. At k = 2 heads change sign with W, and their sum
    may be made up for by others, nearly or exactly: descents start from each sign changed as well.
    """
    dim = split.X.shape[2]
    size = unknowns(heads, dim)
    chosen = best_optimiser(size) if optimiser == "auto" else optimiser
    noisy = noise_std != 0
    watch = watch or Watch()
    count = sample_count(split, size, noisy=noisy, optimiser=chosen)
    crowd = Crowd(split, count, size, noise_std)
    accept = acceptable(split, noise_std or 0.0, size, count).high
    begun = [*first, *(None for _ in range(starts))]
    for theta in begun:
        start = _random(rng, heads, dim, len(crowd.ends)) if theta is None else theta
        with watch.work(kept=bool(crowd.ends)):
            crowd.add(descended(split.X[:count], split.Y[:count], start, chosen, noisy=noisy))
            watch.done()
        if watch.interrupted or crowd.exact or (noisy and _enough(crowd, noise_std, accept)):
            break
    tried = len(crowd.ends)
    doubt = crowd.doubt() if noisy else ""
    flips = signs and noisy and split.X.shape[1] == 2 and heads > 1
    if flips and not (doubt or crowd.exact or watch.interrupted):
        with watch.work(kept=True):
            _change_signs((split.X[:count], split.Y[:count]), crowd, chosen)
        doubt = crowd.doubt(flipped=len(crowd.ends) - tried)
    found = crowd.ends[crowd.best]
    if not watch.interrupted:
        with watch.work(kept=True):
            found = _last(split, crowd, _Search(noise_std, count, chosen, tried, len(begun), doubt))
    return _result(split, crowd, found, _Search(noise_std, count, chosen, tried, len(begun), doubt))


@dataclass(frozen=True)
class _Search:
    """What a search was given, and how it ended."""

    noise_std: float | None
    count: int
    optimiser: Literal["lm", "lbfgs"]
    tried: int
    starts: int
    doubt: str


def _last(split: Split, crowd: Crowd, search: _Search) -> Descent:
    """The best end, gone on from with all examples where that can make it better."""
    found = crowd.ends[crowd.best]
    accept = acceptable(split, search.noise_std or 0.0, unknowns(len(found.theta), split.X.shape[2]), search.count).high
    least = min(crowd.errors)
    if search.noise_std == 0 and least > accept:
        return finished(split, crowd.ends, search.optimiser, accept)
    if search.count < len(split.X) and least > 1e-3 * max(accept, EXACT):
        found = polished(split, found, search.optimiser, noisy=search.noise_std != 0)
    # Of the outputs: what a layer of outputs without noise may leave over where its descent stopped in such a valley.
    valley = 1e-3
    if search.noise_std is None and EXACT < split.held.error(found.theta, found.w) <= valley:
        more = finished(split, [found], search.optimiser, EXACT)
        return more if split.held.error(more.theta, more.w) <= EXACT else found
    return found


def _enough(crowd: Crowd, noise_std: float | None, accept: float) -> bool:
    """Whether two starts ended at the best, and noise explains it where its size is known."""
    return crowd.times > 1 and (noise_std is None or crowd.errors[crowd.best] <= accept)


def _random(rng: np.random.Generator, heads: int, dim: int, number: int) -> Array:
    # Standard deviations of the logits of successive starts: none is the best for all teachers.
    spreads = (0.3, 1.0, 3.0)
    return rng.standard_normal((heads, dim, dim)) * spreads[number % len(spreads)] / (math.sqrt(2) * dim)


def _result(split: Split, crowd: Crowd, found: Descent, search: _Search) -> RestartResult:
    """Judge the best by the examples that it has seen in the end."""
    error = split.held.error(found.theta, found.w)
    band = acceptable(split, search.noise_std or 0.0, unknowns(len(found.theta), split.X.shape[2]))
    exact = error <= EXACT
    times = crowd.times
    words = {1: "once", 2: "twice"}
    found_so = "exact" if exact else f"found {words.get(times, f'{times} times')} in {len(crowd.ends)} descents"
    if not exact and search.tried == search.starts and times == 1:
        found_so += ", for which all starts were used"
    verdict = "" if search.noise_std is None and not exact else f" {band.verdict(error)}"
    return RestartResult(
        theta=found.theta,
        w=found.w,
        validation_error=error,
        accept=band.high,
        errors=tuple(crowd.errors[: search.tried]),
        losses=tuple(end.loss for end in crowd.ends[: search.tried]),
        samples=search.count,
        optimiser=search.optimiser,
        times=times,
        doubt="" if exact else search.doubt,
        converged=band.low <= error <= band.high,
        status=f"validation error {error:.2g}{verdict}, {found_so}",
    )


def _change_signs(seen: tuple[Array, Array], crowd: Crowd, optimiser: str) -> None:
    """Descend from the best with the sign of each head changed in turn."""
    for head in range(len(crowd.ends[0].theta)):
        theta = crowd.ends[crowd.best].theta.copy()
        theta[head] *= -1
        crowd.add(descended(*seen, theta, optimiser, noisy=True))


def polished(split: Split, found: Descent, optimiser: str = "lm", *, noisy: bool) -> Descent:
    """Go on with all examples; without noise that may only do worse, by rounding, and is then left."""
    more = descended(split.X, split.Y, found.theta, optimiser, w=found.w, noisy=noisy)
    held = split.held
    return more if noisy or held.error(more.theta, more.w) < held.error(found.theta, found.w) else found


def finished(split: Split, ends: Sequence[Descent], optimiser: Literal["lm", "lbfgs"], accept: float) -> Descent:
    """Go on from ends of descents with all examples until the loss decreases no more, and one is accepted.

    Parameters
    ----------
    split : Split
    ends : sequence of Descent
        Of those that leave less than a tenth of the outputs the four best are gone on from, in the order of their
        errors; where there are none, the best.
    optimiser : {"lm", "lbfgs"}
    accept : float
        Validation error that is small enough.

    Returns
    -------
    Descent
        Of the least validation error, which may be one of those given.
    """

    def error(end: Descent) -> float:
        return split.held.error(end.theta, end.w)

    begun = sorted(ends, key=error)
    best = begun[0]
    near = error(best) <= _NEAR
    # Of their first step: in a valley a step that is damped much is short, and looks like the last.
    finish_damping = 1e-8
    for end in begun[: _FINISHED[optimiser] if near else 1]:
        if near and error(end) > _NEAR:
            break
        if near and optimiser == "lm":
            more = levenberg_marquardt(
                split.X, split.Y, end.theta, max_iter=_FINISH_STEPS, tol=_TOL, stall=0.0, damping=finish_damping
            )
        else:
            more = descended(split.X, split.Y, end.theta, optimiser, w=end.w)
        best = min(best, more, key=error)
        if error(best) <= accept:
            break
    return best


def best_optimiser(size: int) -> Literal["lm", "lbfgs"]:
    """Levenberg-Marquardt up to 3200 unknowns, L-BFGS beyond."""
    return "lm" if size <= LM_UNKNOWNS else "lbfgs"


def sample_count(split: Split, size: int, *, noisy: bool, optimiser: Literal["lm", "lbfgs"] = "lm") -> int:
    """Samples that a descent over `size` unknowns is given."""
    _, k, d = split.X.shape
    least = {"lm": 400, "lbfgs": 2000}
    # Output entries per unknown of a descent, and how many times more with noise.
    per_unknown, times = 8, 4
    wanted = max(least[optimiser], math.ceil(per_unknown * size / (k * d))) * (times if noisy else 1)
    return min(len(split.X), wanted)


def descended(
    X: Array,
    Y: Array,
    theta: Array,
    optimiser: str,
    *,
    w: Array | None = None,
    noisy: bool = False,
    steps: int = LM_STEPS,
) -> Descent:
    """Descend from a start; `w` is of L-BFGS alone, `noisy` and `steps` of Levenberg-Marquardt."""
    noisy_tol, noisy_stall = 1e-6, 1e-3
    if optimiser == "lm":
        tol, stall = (noisy_tol, noisy_stall) if noisy else (_TOL, _STALL)
        return levenberg_marquardt(X, Y, theta, max_iter=steps, tol=tol, stall=stall)
    return lbfgs(X, Y, theta, w, max_iter=_LBFGS_STEPS)
