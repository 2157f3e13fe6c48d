"""Similarity of a layer's weights to their final values, invariant under rotations of the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["half_time", "similarity"]


def similarity(w: ArrayLike, final: ArrayLike) -> NDArray[np.float64]:
    """Cosine of w^T w and v^T v in the Frobenius norm, from 0 (no direction in common) to 1.

    tr(w^T w v^T v) = ||w v^T||^2, so that only r x r matrices are formed. Rotations of the rows, which tied attention
    does not see, do not change it.

    Parameters
    ----------
    w : array_like, shape (..., r, d)
    final : array_like, shape (r, d)

    Returns
    -------
    ndarray, shape (...)

    Raises
    ------
    ValueError
        Shapes do not fit, or weights are zero, which have no direction.
    """
    a, b = np.asarray(w, np.float64), np.asarray(final, np.float64)
    if a.ndim < 2 or b.ndim != 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"w and final must have shapes (..., r, d) and (r, d), got {a.shape} and {b.shape}")
    # Powers of four of the weights: scaled, they neither over- nor underflow.
    scales = [np.abs(m).max(axis=(-2, -1), keepdims=True) for m in (a, b)]
    if any(not np.isfinite(s).all() or (s == 0).any() for s in scales):
        raise ValueError("w and final must be finite and not zero: zero has no direction")
    a, b = a / scales[0], b / scales[1]

    def norm(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.linalg.norm(m, axis=(-2, -1)))

    own, other = (norm(m @ np.swapaxes(m, -1, -2)) for m in (a, b))
    return np.asarray(norm(a @ b.T) ** 2 / (own * other))


def half_time(history: ArrayLike) -> float:
    """Time at which a similarity has come half of the way from its first value to its last one.

    Parameters
    ----------
    history : array_like, shape (T + 1,)
        One entry per epoch.

    Returns
    -------
    float
        In epochs, by linear interpolation; 0 for a layer that does not move.
    """
    values = np.asarray(history, np.float64)
    middle = 0.5 * (values[0] + values[-1])
    after = int(np.argmax(values >= middle))
    if after == 0:
        return 0.0
    before = values[after - 1]
    return float(after - 1 + (middle - before) / (values[after] - before))
