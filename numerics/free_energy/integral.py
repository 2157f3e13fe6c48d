"""The free entropy of the output channel as an integral of its gradient, for channels without a direct log Z_out."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from ..channel.averages import Channel
from ..quadrature.rules import gauss_legendre

__all__ = ["PathIntegral", "along_path"]

Array = NDArray[np.float64]

# Panels of this width in w = -log(1 - q), and nodes on each.
_WIDTH, _ORDER = 2.0, 8


@dataclass(frozen=True)
class PathIntegral:
    """Psi_out(q) - Psi_out(0) of each randomisation, what the mean may be off by, and the error of the rule."""

    values: Array
    bias: float
    rule: float


def along_path(channel: Channel, q: Array, order: int = _ORDER) -> PathIntegral:
    """Integral of Tr(G dq)/2 along V = V_1^s, s from 0 to 1.

    Along this path all of w = -log(1 - q) grow alike, and (1 - q) G is smooth in them, also towards q = I.

    Parameters
    ----------
    channel : Channel
    q : ndarray, shape (P, P)
        0 <= q < I.
    order : int, optional
        Nodes on each panel.

    References
    ----------
    troiani2025, (103): the gradient.
    """
    values, axes = np.linalg.eigh(q)
    w = -np.log1p(-np.maximum(values, 0.0))
    panels = max(1, math.ceil(float(w.max(initial=0.0)) / _WIDTH))
    x, weights = gauss_legendre(order)
    total: Array = np.zeros(1)
    bias = rule = 0.0
    # Legendre coefficients of the integrand on a panel. A Gauss rule integrates twice their degree, and they decay
    # geometrically, so what it leaves out is as small beside the last ones as they are beside the first.
    project = legendre.legvander(x, order - 1).T * weights * (np.arange(order)[:, None] + 0.5)
    for panel in range(panels):
        found = []
        for node in x:
            s = (panel + 0.5 * (node + 1)) / panels
            step = (axes * (w * np.exp(-w * s))) @ axes.T
            averages = channel((axes * -np.expm1(-w * s)) @ axes.T)
            found.append(0.5 * (averages.g * step).sum(axis=(1, 2)))
            bias += 0.5 * float((averages.bias * np.abs(step)).sum()) / (panels * order)
        values_here = np.array(found)
        total = total + 0.5 * weights @ values_here / panels
        size = np.abs(project @ values_here.mean(axis=1))
        rule += float(size[-2:].sum() ** 2 / max(size.sum(), 1e-300)) / panels
    return PathIntegral(total, bias, rule)
