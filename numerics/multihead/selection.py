"""Estimation of the noise level and of the number of heads."""

from dataclasses import dataclass, replace

import numpy as np

from ..learning.blocks import Array
from .batch import Batch
from .holdout import Split, acceptable
from .refine import levenberg_marquardt
from .restarts import RestartResult, restarts, sample_count, unknowns

__all__ = ["Fit", "fit_noise", "gain_of_one_more", "only_noise", "select_heads"]

# A further head that takes this much off the validation error has found something that is no noise.
_GAIN = 0.95
# A fit that leaves more than this unexplained carries no information on the noise.
_UNEXPLAINED = 0.5
_MORE_STARTS, _MORE_STEPS = 3, 40
_MOST_HEADS = 8


@dataclass(frozen=True)
class Fit:
    """A descent with the noise level that it was judged by.

    Attributes
    ----------
    found : RestartResult
    noise_std : float
    gain : float or None
        Validation error with one head more, over that without; None where it was not needed.
    """

    found: RestartResult
    noise_std: float
    gain: float | None


def fit_noise(split: Split, heads: int, rng: np.random.Generator, starts: int = 8) -> Fit:
    """Fit a layer to outputs of unknown noise: none, or what the best fit leaves over, if one more head keeps it.

    Returns
    -------
    Fit
        `found.converged` is True if one more head does not reduce the residual, which is then taken for noise.
    """
    exact = restarts(split, heads, starts=min(starts, 3), rng=rng)
    if exact.converged:
        return Fit(exact, 0.0, None)
    found = restarts(split, heads, starts=starts, patient=True, rng=rng)
    noise_std = float(np.sqrt(found.validation_error * np.mean(split.Y_val**2)))
    gain = gain_of_one_more(split, found.theta, found.validation_error, rng)
    fine = only_noise(found.validation_error, gain)
    said = f"validation error {found.validation_error:.2g}, times {gain:.3g} with one head more"
    verdict = "which is taken for noise" if fine else "so that this is not noise alone"
    accept = acceptable(split.Y_val, noise_std)
    return Fit(replace(found, accept=accept, converged=fine, status=f"{said}, {verdict}"), noise_std, gain)


def only_noise(validation_error: float, gain: float) -> bool:
    """Whether one more head leaves the residual as it is, and most of Y is explained: the residual is then noise."""
    return gain > _GAIN and validation_error < _UNEXPLAINED


def gain_of_one_more(split: Split, theta: Array, validation_error: float, rng: np.random.Generator) -> float:
    """Validation error after one more head has been fitted, over that before; near 1 if only noise was left.

    Parameters
    ----------
    split : Split
    theta : ndarray, shape (m, d, d)
    validation_error : float
        Of the fit with these.
    rng : Generator

    Returns
    -------
    float
        Above 1 where the head has fitted noise.
    """
    heads, dim, _ = theta.shape
    held = Batch(split.X_val, split.Y_val)
    count = sample_count(split, unknowns(heads + 1, dim), noisy=True)
    size = float(np.linalg.norm(theta)) / np.sqrt(heads)
    best = np.inf
    for _ in range(_MORE_STARTS):
        new = rng.standard_normal((1, dim, dim)) * max(size, 1.0) / dim
        more = levenberg_marquardt(
            split.X[:count], split.Y[:count], np.concatenate([theta, new]), max_iter=_MORE_STEPS, tol=1e-4
        )
        best = min(best, held.error(more.theta, more.w))
    return best / validation_error


def select_heads(
    split: Split, noise_std: float | None, rng: np.random.Generator, *, starts: int = 8, most: int = _MOST_HEADS
) -> Fit:
    """Fit layers of 1, 2, .. heads until one explains the held-out examples.

    Parameters
    ----------
    split : Split
    noise_std : float or None
        None: estimated with each number of heads.
    rng : Generator
    starts, most : int
        Starts with each number of heads, and the largest number.

    Returns
    -------
    Fit
        The first that is accepted and that one head more does not improve; otherwise the best, as not converged.
    """
    errors = []
    best: Fit | None = None
    for heads in range(1, most + 1):
        if noise_std is None:
            fit = fit_noise(split, heads, rng, starts)
        else:
            found = restarts(split, heads, noise_std=noise_std, starts=starts, rng=rng)
            # What is accepted under noise may still be improved on by more than noise is.
            tested = found.converged and noise_std > 0
            fit = Fit(
                found, noise_std, gain_of_one_more(split, found.theta, found.validation_error, rng) if tested else None
            )
        if fit.found.converged and (fit.gain is None or fit.gain > _GAIN):
            return fit
        errors.append(fit.found.validation_error)
        if best is None or errors[-1] < best.found.validation_error:
            best = fit
    assert best is not None
    said = f"validation errors {', '.join(f'{error:.2g}' for error in errors)} with 1 to {most} heads, none accepted"
    return replace(best, found=replace(best.found, converged=False, status=said))
