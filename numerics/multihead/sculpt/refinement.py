"""Step 8, heuristic: descents of the square loss from the candidates, until one explains held-out examples."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...learning.blocks import Array
from ..holdout import EXACT, Split
from ..refine import Descent
from ..regression import best_w
from ..restarts import best_optimiser, descended, finished, sample_count, unknowns
from .results import Attempt

__all__ = ["Refined", "proxies", "refine"]


@dataclass(frozen=True)
class Refined:
    """The best of the descents, with all of them in their order."""

    theta: Array
    w: Array
    validation_error: float
    attempts: tuple[Attempt, ...]


def proxies(proxy: Array, heads: int, number: int, rng: np.random.Generator) -> Iterable[tuple[str, Array]]:
    """Starts around the proxy, Theta* + 0.3 |Theta*| / d times Gaussian matrices (heuristic)."""
    d = len(proxy)
    size = 0.3 * float(np.linalg.norm(proxy)) / d
    for i in range(number):
        yield f"proxy {i + 1}", proxy + size * rng.standard_normal((heads, d, d))


def refine(
    split: Split, candidates: Iterable[tuple[str, Array]], *, accept: float, noisy: bool, noise_known: bool
) -> Refined:
    """Descend from the candidates in turn until one is accepted (heuristic).

    Parameters
    ----------
    split : Split
    candidates : iterable of (str, ndarray of shape (m, d, d))
        Name and Theta; made when they are needed.
    accept : float
        Largest validation error.
    noisy : bool
        Take more samples per descent, and all for a last one. Where none is accepted the four best go on with all
        samples, with noise or without, until their loss decreases no more (`restarts.finished`).
    noise_known : bool
        If not, an error below `accept` may still be a wrong minimum: descents go on until two agree on the least.
    """
    held = split.held
    attempts: list[Attempt] = []
    ends: list[Descent] = []
    best: tuple[float, Descent] | None = None
    count = len(split.X)
    # Two descents that end at errors within this of each other found one minimum.
    agree = 0.1
    for name, theta in candidates:
        size = unknowns(len(theta), held.dim)
        optimiser = best_optimiser(size)
        count = sample_count(split, size, noisy=noisy, optimiser=optimiser)
        X, Y = split.X[:count], split.Y[:count]
        before = held.error(theta, best_w(X, Y, theta))
        found = descended(X, Y, theta, optimiser, noisy=noisy)
        error = held.error(found.theta, found.w)
        agreed = best is not None and abs(error - best[0]) <= agree * best[0]
        attempts.append(Attempt(name, before, error, found.n_iter))
        ends.append(found)
        if best is None or error < best[0]:
            best = (error, found)
        if best[0] <= EXACT or (best[0] <= accept and (noise_known or agreed)):
            break
    assert best is not None, "no candidates"
    error, found = best
    # Steps of the last descent from what is accepted.
    polish = 10
    if error > accept:
        # Saturated heads show in few rows, of all.
        found = finished(split, ends, optimiser, accept)
        error = held.error(found.theta, found.w)
    elif count < len(split.X) and noisy and error > EXACT:
        # A few steps, to where the noise is least.
        last = descended(split.X, split.Y, found.theta, optimiser, w=found.w, noisy=True, steps=polish)
        last_error = held.error(last.theta, last.w)
        if last_error < error:
            error, found = last_error, last
    return Refined(found.theta, found.w, error, tuple(attempts))
