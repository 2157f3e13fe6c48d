"""Outputs of data: their shape, and the number of the first that is refused."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import UnreachableOutputError
from ...core.typing import Array
from ...core.validation import numbers
from ..protocol import Model

__all__ = ["check_outputs", "named_rows"]


def named_rows(check: Callable[[Array], Array], y: Array) -> Array:
    """Return check(y), and where it refuses an output raise the same with the number of the first such sample."""
    try:
        return check(y)
    except UnreachableOutputError:
        first, last = 0, len(y)
        while last - first > 1:
            middle = (first + last) // 2
            try:
                check(y[first:middle])
                first = middle
            except UnreachableOutputError:
                last = middle
        try:
            check(y[first:last])
        except UnreachableOutputError as error:
            raise UnreachableOutputError(f"Y, sample {first}: {error}") from error
        raise


def check_outputs(model: Model, y: ArrayLike) -> Array:
    """Return outputs as float64 of shape (N, M, M), or (N, K) of a link, or raise ValueError."""
    array = numbers("Y", y)
    shape = model.output_shape
    return _shaped(array[:, None] if len(shape) == array.ndim == 1 else array, shape)


def _shaped(y: Array, shape: tuple[int, ...]) -> Array:
    if y.shape[1:] != shape or y.ndim != 1 + len(shape):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"Y must have shape (N, {wanted}), one output per sample (troiani2025 (1)), got {y.shape}")
    if not len(y):
        raise ValueError("Y must hold at least one output (troiani2025 (1)), got none")
    bad = ~np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Y must be finite, got NaN or infinity in {int(bad.sum())} of {len(y)} samples, the first is number "
            f"{int(bad.argmax())}; leave these samples out, of X too"
        )
    return y
