"""Entropy of the hardmax labels of two tokens given omega."""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.results import Estimate
from ..quadrature.rules import sinh_trapezoid
from .bivariate import log_phi2
from .checks import from_zero

__all__ = ["label_entropy"]

Array = NDArray[np.float64]
_REACH = 9.0


def label_entropy(c: float) -> Estimate:
    """-2 sum_{r = +-1/3} E_k Phi2(k1, k2; r) log Phi2(k1, k2; r), k ~ N(0, c [[1, r], [r, 1]]).

    Parameters
    ----------
    c : float
        q/V, >= 0.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    c = from_zero("c", c, "q/V")
    if c < 1e-12:
        zero = np.zeros(1)
        values = [float(log_phi2(zero, zero, np.asarray(r))[0]) for r in (1 / 3, -1 / 3)]
        return Estimate(-2 * sum(math.exp(v) * v for v in values), 2 * c + 1e-15, "estimated")
    coarse, fine = _average(c, 0.2), _average(c, 0.15)
    return Estimate(fine, abs(fine - coarse) + 1e-13 * fine, "estimated")


def _average(c: float, step: float) -> float:
    narrow = 1 / math.sqrt(1 + 1 / c)
    half = sinh_trapezoid(narrow, _REACH * math.sqrt(c), step)
    nodes = np.concatenate([-half.nodes[::-1], half.nodes])
    weights = np.concatenate([half.weights[::-1], half.weights])
    k1, k2 = np.meshgrid(nodes, nodes, indexing="ij")
    total = 0.0
    for r in (1 / 3, -1 / 3):
        law = np.exp(-0.5 * (k1 * k1 - 2 * r * k1 * k2 + k2 * k2) / (1 - r * r) / c)
        # By symmetry; what is far below zero has no probability, what is far above no entropy.
        live = (law > 1e-20) & (k1 >= k2) & (k2 > -_REACH) & (k2 < _REACH)
        log_z = log_phi2(k1[live], k2[live], np.asarray(r))
        terms = np.zeros(law.shape)
        terms[live] = law[live] * np.exp(log_z) * log_z * np.where(k1[live] > k2[live], 2.0, 1.0)
        total += float(weights @ terms @ weights) / (2 * math.pi * c * math.sqrt(1 - r * r))
    return -2 * total
