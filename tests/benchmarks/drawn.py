"""Outputs of the two-layer channel with their priors, as the denoiser gets them."""

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.model.network import Network

__all__ = ["draw"]

Array = NDArray[np.float64]


def draw(model: Network, overlap: Array, samples: int) -> tuple[Array, Array, Array]:
    """(v, omega, V) of samples of the channel at an overlap."""
    rng = np.random.default_rng(20250201)
    covariance = np.eye(2) - overlap
    omega = matrix_root(overlap) @ rng.standard_normal((samples, 2, 2))
    h = omega + np.linalg.cholesky(covariance) @ rng.standard_normal(omega.shape)
    return (h[:, 1:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0], omega, covariance
