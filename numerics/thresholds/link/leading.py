"""The largest eigenvalue of the operator (15) of a link, which is 1/alpha_c, and the direction it belongs to."""

import math

import numpy as np
from numpy.typing import NDArray

from ...core.standard_error import standard_error
from .operator import Operator

__all__ = ["leading_direction", "sampled_norm"]

Array = NDArray[np.float64]


def leading_direction(matrix: Array, error: float) -> tuple[float, Array]:
    """Largest eigenvalue of the operator and a PSD eigenvector."""
    r = len(matrix)
    flat = matrix.reshape(r * r, r * r)
    values, vectors = np.linalg.eigh(0.5 * (flat + flat.T))
    # The identity is interior to the cone, so it has a part in the top eigenspace of a map that keeps the cone.
    near = vectors[:, values >= values[-1] - max(1e-7 * values[-1], 4 * error)]
    image = (near @ (near.T @ np.eye(r).ravel())).reshape(r, r)
    size = np.linalg.norm(image)
    if size > 0:
        image = image / size
    return float(values[-1]), 0.5 * (image + image.T)


def sampled_norm(found: Operator) -> tuple[float, float]:
    """Top eigenvalue from independent samples, each along the eigenvector that the others find: no noise adds up.

    Along one eigenvector, not the mean of those that are equal within the noise: where they are not equal, that mean
    has a lower eigenvalue. What the extrapolation to boxes of no size leaves is not seen beside the noise in the
    calibration (tests/calibration/test_link_samples.py), and is added in quadrature.
    """
    assert found.spread is not None
    each = []
    for replica, one in enumerate(found.spread):
        direction = _top_eigenvector(np.delete(found.spread, replica, axis=0).mean(axis=0))
        each.append(float(np.einsum("ij,ijkl,kl->", direction, one, direction)))
    return float(np.mean(each)), math.hypot(float(standard_error(each)), found.defect)


def _top_eigenvector(matrix: Array) -> Array:
    """Symmetric matrix of unit norm on which the operator is largest."""
    r = len(matrix)
    left = matrix + matrix.transpose(1, 0, 2, 3)
    flat = (left + left.transpose(0, 1, 3, 2)).reshape(r * r, r * r)
    return np.asarray(np.linalg.eigh(flat + flat.T)[1][:, -1].reshape(r, r))
