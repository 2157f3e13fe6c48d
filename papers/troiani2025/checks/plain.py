"""The channel of two tied softmax layers at two tokens, by a plain trapezoid in the tokens.

An independent route to every posterior moment: the ratio of integrals (169) exactly as written, on a fixed
grid of h_1, without modes, generated kernels or adapted nodes. Slow, and good to some ten digits away from
corners.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Posterior moments of a batch of n labels.

    Attributes
    ----------
    density : ndarray, shape (n,)
        Sum over both branches of the density of v = h_2 B_1^T, which is J(y) Z_out(y).
    mean : ndarray, shape (n, 2, 2)
        E[h | y], layer by token.
    second : ndarray, shape (n, 2, 2, 2, 2)
        E[h h^T | y], [layer, token, layer, token].
    """

    density: Array
    mean: Array
    second: Array


@dataclass(frozen=True)
class PlainChannel:
    """Channel (9) of the two-layer model at (omega, V), and its integral (168) on a grid of h_1.

    Parameters
    ----------
    omega : ndarray, shape (2, 2)
        Mean of the indices, layer by token.
    variance : ndarray, shape (2, 2)
        V, positive definite.
    skip, beta : float
        c > 0 and inverse temperature > 0.
    step, reach : float
        Of the grid of h_1, in units of its prior standard deviation.
    """

    omega: Array
    variance: Array
    skip: float = 1.0
    beta: float = 1.0
    step: float = 0.2
    reach: float = 7.6

    @cached_property
    def _grid(self) -> tuple[Array, Array, Array, Array]:
        """Return h_1 (2, G), the layer matrix (2, 2, G), its determinant and the cell times N(h_1)/|det|."""
        count = int(self.reach / self.step)
        axis = np.arange(-count, count + 1) * self.step * np.sqrt(self.variance[0, 0])
        first, second = np.meshgrid(self.omega[0, 0] + axis, self.omega[0, 1] + axis, indexing="ij")
        h1 = np.stack([first.reshape(-1), second.reshape(-1)])
        scores = self.beta * h1[:, None, :] * h1[None, :, :]
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        layer = shifted / shifted.sum(axis=1, keepdims=True) + self.skip * np.eye(2)[:, :, None]
        determinant = layer[0, 0] * layer[1, 1] - layer[0, 1] * layer[1, 0]
        spread = h1 - self.omega[0][:, None]
        prior = np.exp(-np.sum(spread**2, axis=0) / (2.0 * self.variance[0, 0]))
        weight = prior / (2.0 * np.pi * self.variance[0, 0]) / np.abs(determinant) * (axis[1] - axis[0]) ** 2
        return h1, layer, determinant, weight

    def moments(self, readouts: Array) -> Moments:
        """Posterior moments given v = (v_1, v_2) up to a common sign.

        Parameters
        ----------
        readouts : ndarray, shape (n, 2)
            One branch of every label.
        """
        h1, layer, determinant, weight = self._grid
        v = self.variance
        slope = v[0, 1] / v[0, 0]  # h_2 given h_1 and its mean is Gaussian with this regression
        conditional = v[1, 1] - v[0, 1] ** 2 / v[0, 0]
        centre = self.omega[1][:, None] + slope * (h1 - self.omega[0][:, None])
        count = readouts.shape[0]
        density, mean, second = np.zeros(count), np.zeros((count, 2, 2)), np.zeros((count, 2, 2, 2, 2))
        for n, (v1, v2) in enumerate(readouts):
            total = 0.0
            for sign in (1.0, -1.0):
                h2 = sign * np.stack(
                    [
                        (layer[1, 1] * v1 - layer[0, 1] * v2) / determinant,
                        (layer[0, 0] * v2 - layer[1, 0] * v1) / determinant,
                    ]
                )
                exponent = -np.sum((h2 - centre) ** 2, axis=0) / (2.0 * conditional)
                mass = weight * np.exp(exponent) / (2.0 * np.pi * conditional)
                h = np.stack([h1, h2])
                total += float(mass.sum())
                weighted = h * mass
                mean[n] += weighted.sum(axis=2)
                flat = h.reshape(4, -1)
                second[n] += (weighted.reshape(4, -1) @ flat.T).reshape(2, 2, 2, 2)
            density[n] = total
            mean[n] /= total
            second[n] /= total
        return Moments(density, mean, second)

    def denoiser(self, readouts: Array) -> tuple[Array, Array, Array]:
        """log(J Z_out), g_out (n, 2, 2) and its derivative (n, 2, 2, 2, 2) by (12), for `moments`' labels."""
        found = self.moments(readouts)
        precision = np.linalg.inv(self.variance)
        g = np.einsum("ab,nbm->nam", precision, found.mean - self.omega)
        covariance = found.second - np.einsum("nam,nbk->nambk", found.mean, found.mean)
        derivative = np.einsum("ac,ncmdk,db->nambk", precision, covariance, precision)
        derivative -= np.einsum("ab,mk->ambk", precision, np.eye(2))
        return np.log(found.density), g, derivative


def readout_grid(skip: float, step: float, reach: float) -> tuple[Array, float]:
    """Midpoint grid over one sign of v, and the area of its cell.

    The plus mode of v stretches with 1 + c as the minus mode at most does. Both branches of a label share a
    node, so that the half plane v_1 + v_2 > 0 covers every label once.
    """
    scale = (1.0 + skip) * step
    count = int(reach / step)
    positive = (np.arange(count) + 0.5) * scale
    both = np.concatenate([-positive[::-1], positive])
    plus, minus = np.meshgrid(positive, both, indexing="ij")
    v = np.stack([(plus + minus).reshape(-1), (plus - minus).reshape(-1)], axis=1) / np.sqrt(2.0)
    return v, scale * scale
