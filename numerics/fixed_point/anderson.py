"""Anderson's acceleration of a fixed-point iteration."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["anderson"]

Array = NDArray[np.float64]


def anderson(points: Sequence[Array], images: Sequence[Array], reach: float = 20.0) -> Array:
    """Next iterate of Anderson's method: the affine combination of images with the least residual.

    A wild extrapolation is cut to `reach` times the plain step.
    """
    last = images[-1]
    if len(points) < 2:
        return last
    residuals = np.array([f - x for x, f in zip(points, images, strict=True)])
    steps = residuals[-1] - residuals[:-1]
    gamma, *_ = np.linalg.lstsq(steps.T, residuals[-1], rcond=1e-10)
    moved = last - gamma @ (last - np.array(images[:-1]))
    limit = reach * float(np.abs(residuals[-1]).max())
    out: Array = points[-1] + np.clip(moved - points[-1], -limit, limit)
    inside = (out > 0) & (out < 1)
    return np.where(inside | (last < 0), out, last)
