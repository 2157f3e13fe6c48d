"""What acts on the scores of a layer: softmax, nothing, or a function of the user."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ACTIVATIONS", "Activation", "activated", "finite_output"]

Array = NDArray[np.float64]
Activation = str | Callable[[Array], Array]

ACTIVATIONS = ("softmax", "linear")


def activated(scores: Array, activation: Activation, beta: float) -> Array:
    """Attention sigma(beta scores); a row-wise softmax, or entry by entry.

    Raises
    ------
    ValueError
        A function of the user fails, returns another shape, or is not finite at a finite score.
    """
    scores = beta * scores
    if activation == "linear":
        return scores
    if activation == "softmax":
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float64)
    assert callable(activation)
    try:
        value = np.asarray(activation(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "activation must take an array of scores and return an array of numbers, entry by entry (3); it failed "
            f"with {type(error).__name__}: {error}"
        ) from error
    if value.shape != scores.shape:
        raise ValueError(f"activation must act entry by entry (3): shape {scores.shape} in, but {value.shape} out")
    bad = np.isfinite(scores) & ~np.isfinite(value)
    if bad.any():
        got, where = float(value[bad][0]), float(scores[bad][0])
        raise ValueError(f"activation must be finite at every finite score (3), got {got} at the score {where:g}")
    return value


def finite_output(value: Array, layers: int) -> Array:
    """Return what so many layers give, or raise OverflowError."""
    if not np.isfinite(value).all():
        raise OverflowError(
            f"the output of {layers} layers exceeds float64 (2)-(3): use smaller inputs, beta or skip, or the "
            "softmax activation, whose outputs are bounded"
        )
    return value
