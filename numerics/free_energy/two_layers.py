"""E log Z_out of two softmax layers over two tokens, from the sums that state evolution takes over outputs.

The density of the readout (u, v) given omega is Z = K(d) + K(s), see `channel.two_layers.sums`; here the same rules
sum Z log Z. The Jacobian of the readout, whose mean does not depend on q, is left out.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..channel.two_layers import channel as quadrature
from ..channel.two_layers.banded import FLOOR, of_pairs
from ..channel.two_layers.nodes import Hidden
from ..channel.two_layers.sums import densities, outputs, silent_densities
from ..core.blas import one_blas_thread
from .diagonal import DiagonalEntropy

__all__ = ["TwoLayerEntropy"]

Array = NDArray[np.float64]


class TwoLayerEntropy(DiagonalEntropy, quadrature.TwoLayerQuadrature):
    """E log Z_out at a diagonal overlap, by the nodes of the quadrature of G.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, softmax, rank 1.
    accuracy : float, optional
        Absolute accuracy aimed at, 1e-10 to 1e-2.
    workers : int, ClusterPool or None
        Threads, or the workers of a cluster.

    References
    ----------
    troiani2025, (10), (96)-(97), (163)-(170).
    """

    def _one_known(self, centre: Array | None, variance: float, q2: float, share: float) -> Array:
        """E log Z_out and the mass, given omega_1."""
        log_accuracy = self._log_accuracy * share
        rule = log_accuracy, quadrature.FINENESS
        with one_blas_thread():
            found = np.zeros(2)
            if not q2:
                nodes = self._nodes(q2, log_accuracy) if centre is None else self._near(centre, variance, log_accuracy)
                for weight, k in silent_densities(nodes, self.model.skip, *rule):
                    found += weight * np.array([(k * np.log(2 * k + FLOOR)).sum(), k.sum()])
            elif centre is None:
                nodes = self._nodes(q2, log_accuracy)
                found += _sums(nodes, q2, outputs(nodes, self.model.skip, math.sqrt(1 - q2), *rule), *rule)
            else:
                for nodes, v in self._bands(centre, variance, q2, log_accuracy):
                    found += _sums(nodes, q2, v, *rule)
        self._check(float(found[1]), math.exp(-log_accuracy), q2)
        return np.array([found[0], found[1], 0.0, 0.0])


def _sums(nodes: Hidden, overlap: float, v: tuple[Array, Array], log_accuracy: float, fineness: float) -> Array:
    """Sums of Z log Z and of Z over omega_2 and these outputs."""
    total = np.zeros(2)
    for table in densities(nodes, overlap, v, log_accuracy, fineness):
        found, both = np.zeros(2), len(table.back)
        if both:
            gauss, outside = of_pairs(table.there.shape[1], table.step, overlap)
            _pairs(table.there[:both], table.back, table.prior[:both], gauss, outside, found)
        alone, prior = table.there[both:], table.step * table.prior[both:]
        found += prior @ (alone * np.log(alone + FLOOR)).sum(axis=1), prior @ alone.sum(axis=1)
        total += table.weight * found
    return total


@njit(fastmath=True, error_model="numpy", nogil=True, cache=True)
def _pairs(here: Array, back: Array, prior: Array, gauss: Array, outside: Array, out: Array) -> None:
    """Add the sums over pairs (d, s) of Z log Z and Z, Z = K(d) + K(s); beyond the tables one sign is alone."""
    count = here.shape[1]
    for i in range(len(prior)):
        entropy, mass = 0.0, 0.0
        for a in range(count):
            k = here[i, a]
            for b in range(count):
                z = k + back[i, b] + FLOOR
                weight = gauss[b - a + count - 1] * z
                entropy += weight * math.log(z)
                mass += weight
            other = back[i, a]
            entropy += outside[a] * (k * math.log(k + FLOOR) + other * math.log(other + FLOOR))
            mass += outside[a] * (k + other)
        out[0] += prior[i] * entropy
        out[1] += prior[i] * mass
