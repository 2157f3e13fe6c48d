"""Examples for validation, the error on them, and the largest error that noise alone explains."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array
from .batch import Batch
from .checks import examples

__all__ = ["Split", "acceptable", "hold_out", "sampled_error"]

# Share and most samples held out where no validation examples are given.
_SHARE, _MOST = 0.2, 2000
# Rounding, and the factor on the noise that a fit to few examples may exceed.
_EXACT, _ABOVE = 1e-10, 1.3


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
    count = min(_MOST, max(1, round(_SHARE * len(tokens))))
    kept, held_out = order[count:], order[:count]
    split = Split(tokens[kept], outputs[kept], tokens[held_out], outputs[held_out])
    if not (split.Y.any() and split.Y_val.any()):
        raise ValueError("Y must not vanish on nearly all samples: give X_val and Y_val of your own (chen2024)")
    return split


def acceptable(Y_val: Array, noise_std: float) -> float:
    """The largest validation error |F - Y|^2 / |Y|^2 of a layer that is taken for the true one.

    Parameters
    ----------
    Y_val : ndarray, shape (n', k, d)
    noise_std : float
        Standard deviation of the noise on every entry of Y.
    """
    return _EXACT + _ABOVE * noise_std**2 / float(np.mean(Y_val**2))


def sampled_error(X: Array, Y: Array, theta: Array, w: Array) -> tuple[float, float]:
    """Error |F(X) - Y|^2 / |Y|^2 of a layer on examples, and one standard error of it over samples like these.

    Parameters
    ----------
    X, Y : ndarray, shape (n, k, d)
    theta, w : ndarray, shape (m, d, d)

    Returns
    -------
    error, deviation : float
        To first order in what |Y|^2 scatters; the deviation is infinite for one sample.
    """
    batch = Batch(X)
    squares = ((batch.unpack(batch.predict(theta, w)) - Y) ** 2).sum(axis=(1, 2))
    sizes = (Y**2).sum(axis=(1, 2))
    error, count = float(squares.sum() / sizes.sum()), len(X)
    if count == 1:
        return error, math.inf
    rest = squares - error * sizes
    return error, float(rest.std(ddof=1) / (math.sqrt(count) * sizes.mean()))
