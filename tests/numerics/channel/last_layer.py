"""Channel averages of the last softmax layer alone, the layers before it unknown: a second route to the others."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.model.mixing_law import MixingLaw, mixing_law
from attnlimits.numerics.model.network import Network

__all__ = ["LastLayer"]

Array = NDArray[np.float64]


@cache
def law_of(model: Network) -> MixingLaw:
    """Law of the hidden layers, to its lowest level: half a second."""
    return mixing_law(model, model.layers - 1, 0)


class LastLayer(ChannelBase):
    """Any depth, two tokens, overlap on the last layer only: hidden layers through the law of (S, T).

    q = diag(0, .., 0, q_LL) is invariant under the state evolution by parity.
    """

    sampled = True

    def __init__(self, model: Network, points: list[Array]) -> None:
        """Keep standard normal points, one array of shape (n, 2 L + 2) per randomisation."""
        self.model = model
        self.layers: tuple[int, ...] = (model.layers - 1,)
        self._law = law_of(model)
        self._replicas = len(points)
        normals = np.concatenate(points)
        n, depth = len(normals), model.layers
        hidden = normals[:, : 2 * (depth - 1)].reshape(n, depth - 1, 2)
        h = np.concatenate([hidden, np.zeros((n, 1, 2))], axis=1)
        mixing = model.mixing(h)
        # Rows and columns of B in token modes.
        rotation = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
        modes = rotation @ mixing @ rotation
        self._s, self._t = modes[:, 0, 1] / modes[:, 0, 0], modes[:, 1, 1] / modes[:, 0, 0]
        self._xi, self._zeta = normals[:, -4:-2], normals[:, -2:]

    def __call__(self, q: Array) -> Averages:
        """Averages over (omega_L, h_L, S, T); the posterior sums over the grid of (S, T) and both branches."""
        scalar = float(q[-1, -1])
        v = 1 - scalar
        omega = math.sqrt(scalar) * self._xi
        h = omega + math.sqrt(v) * self._zeta
        plus, minus = h[:, 0] + self._s * h[:, 1], self._t * h[:, 1]
        g2 = np.empty(len(h))
        s, t = self._law.s[:, None], self._law.t[None, :]
        log_weight = -np.log(np.broadcast_to(t, self._law.weights.shape))
        for start in range(0, len(h), 64):
            part = slice(start, start + 64)
            b = minus[part, None, None] / t
            a = plus[part, None, None] - s * b
            om_a, om_b = omega[part, 0, None, None], omega[part, 1, None, None]
            even = log_weight - 0.5 * (a * a + b * b) / v
            odd = (a * om_a + b * om_b) / v
            top = (even + np.abs(odd)).max(axis=(1, 2), keepdims=True)
            up = np.exp(even + odd - top) * self._law.weights
            down = np.exp(even - odd - top) * self._law.weights
            mass = (up + down).sum(axis=(1, 2))
            mean_a = ((up - down) * a).sum(axis=(1, 2)) / mass
            mean_b = ((up - down) * b).sum(axis=(1, 2)) / mass
            g2[part] = (mean_a - omega[part, 0]) ** 2 + (mean_b - omega[part, 1]) ** 2
        # E|<h> - omega|^2 from E|<h>|^2 = E h.<h>: control variates as in two layers.
        values = g2.reshape(self._replicas, -1).mean(axis=1) / v**2
        out = np.zeros((self._replicas, self.model.indices, self.model.indices))
        out[:, -1, -1] = values if scalar > 0 else 0.0
        return Averages.unbiased(out, np.full((self._replicas, self.model.layers), np.nan), "monte-carlo")
