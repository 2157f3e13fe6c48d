"""Examples for validation, the error on them, and the range of errors that noise alone explains."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from ..core.quantiles import chi_squared_quantile
from ..learning.blocks import Array
from .batch import Batch
from .checks import examples

__all__ = ["EXACT", "Band", "Split", "acceptable", "error_of", "hold_out", "sampled_error"]

#: A validation error that needs no noise to explain it.
EXACT = 1e-10


@dataclass(frozen=True)
class Split:
    """Examples to learn from and examples to validate on.

    Attributes
    ----------
    X, Y : ndarray, shape (n, k, d)
    X_val, Y_val : ndarray, shape (n', k, d)
    """

    X: Array
    Y: Array
    X_val: Array
    Y_val: Array

    @cached_property
    def held(self) -> Batch:
        """The examples to validate on."""
        return Batch(self.X_val, self.Y_val)


class Band(NamedTuple):
    """Range of validation errors |F - Y|^2 / |Y|^2 of the true layer, fitted to examples with noise."""

    low: float
    high: float

    def verdict(self, error: float) -> str:
        """What an error is beside the range, in a few words."""
        if error < self.low:
            return f"below {self.low:.2g}, which is less than the noise leaves: noise_std is too large"
        return "accepted" if error <= self.high else f"not below {self.high:.2g}"


def hold_out(
    X: ArrayLike, Y: ArrayLike, X_val: ArrayLike | None, Y_val: ArrayLike | None, rng: np.random.Generator
) -> Split:
    """Check the examples, and keep a fifth of them (2000 at most) for validation where none are given for that.

    Raises
    ------
    ValueError
        Shapes that do not fit, entries that are not finite, one of `X_val` and `Y_val` without the other, or fewer than
        two samples.
    """
    tokens, outputs = examples(X, Y)
    if (X_val is None) != (Y_val is None):
        raise ValueError("X_val and Y_val must be given together (chen2024, held-out validation), got one of them")
    if X_val is not None and Y_val is not None:
        held = examples(X_val, Y_val, ("X_val", "Y_val"))
        if held[0].shape[1:] != tokens.shape[1:]:
            raise ValueError(
                f"X_val must have samples of the shape of those of X, (k, d) = {tokens.shape[1:]} (chen2024), got "
                f"{held[0].shape[1:]}"
            )
        return Split(tokens, outputs, *held)
    if len(tokens) < 2:
        raise ValueError(f"X must have at least 2 samples, one of them held out (chen2024), got {len(tokens)}")
    order = rng.permutation(len(tokens))
    # Share and most samples held out where no validation examples are given.
    share, most = 0.2, 2000
    count = min(most, max(1, round(share * len(tokens))))
    kept, held_out = order[count:], order[:count]
    split = Split(tokens[kept], outputs[kept], tokens[held_out], outputs[held_out])
    if not (split.Y.any() and split.Y_val.any()):
        raise ValueError("Y must not vanish on nearly all samples: give X_val and Y_val of your own (chen2024)")
    return split


def acceptable(split: Split, noise_std: float, unknowns: int = 0, samples: int | None = None) -> Band:
    """The validation errors |F - Y|^2 / |Y|^2 that noise alone explains.

    Parameters
    ----------
    split : Split
    noise_std : float
        Standard deviation of the Gaussian noise on every entry of Y.
    unknowns : int
        Parameters P of the layer, fitted to N entries of outputs: their errors add P / (N - P) of the noise.
    samples : int, optional
        Samples that it was fitted to; all by default.

    Returns
    -------
    Band
        With N' held-out entries the squared residual over the variance is chi^2 of N' degrees of freedom; either end
        is left by noise with probability 3e-5. Errors below 1e-10 are rounding.
    """
    entries = split.Y_val.size
    variance = noise_std**2 / float(np.mean(split.Y_val**2))
    seen = split.Y[:samples].size
    # Probability that noise alone leaves either side of the range, and the normal deviate of that probability.
    rare, deviate = 3e-5, 4.0
    fitted = (unknowns + deviate * math.sqrt(2 * unknowns)) / max(seen - unknowns, 1)
    low, high = chi_squared_quantile(rare, entries) / entries, chdtri(entries, rare) / entries
    return Band(variance * float(low), EXACT + variance * float(high) * (1 + fitted))


def sampled_error(X: Array, Y: Array, theta: Array, w: Array) -> tuple[float, float]:
    """Error |F(X) - Y|^2 / |Y|^2 of a layer on examples, and one standard error of it over samples like these.

    Parameters
    ----------
    X, Y : ndarray, shape (n, k, d)
    theta, w : ndarray, shape (m, d, d)
    """
    return error_of(Batch(X, Y).squares(theta, w), (Y**2).sum(axis=(1, 2)))


def error_of(squares: Array, sizes: Array) -> tuple[float, float]:
    """Error of a layer from its squared errors |F(X) - Y|^2 on examples and |Y|^2, and one standard error of it.

    Parameters
    ----------
    squares, sizes : ndarray, shape (n,)

    Returns
    -------
    error, deviation : float
        To first order in what |Y|^2 scatters; the deviation is infinite for one sample.
    """
    error, count = float(squares.sum() / sizes.sum()), len(squares)
    if count == 1:
        return error, math.inf
    rest = squares - error * sizes
    return error, float(rest.std(ddof=1) / (math.sqrt(count) * sizes.mean()))
