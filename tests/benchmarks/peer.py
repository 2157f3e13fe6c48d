"""The peer of the denoiser benchmark: g_out by a plain compiled two-dimensional trapezoidal rule.

Written as somebody would who knows the reduction (163)-(170), wants g_out of a two-layer softmax model and has a
compiler: token space, a uniform square grid over h_1 around its prior mean, both readout branches, one pass, four
exponentials per node. It does not know its error: grid and box are tuned on the samples beforehand (`tune`).
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Setting", "g_out", "relative_error", "tune"]

Array = NDArray[np.float64]

# Box half-widths in prior standard deviations of h_1, and nodes per axis in steps of about 3 %.
_BOXES = np.arange(4.0, 9.01, 0.5)
_NODES = np.unique(np.round(12 * 1.03 ** np.arange(128)).astype(int))


@dataclass(frozen=True)
class Setting:
    """Grid of nodes x nodes points on a square of half-width `box` prior standard deviations of h_1."""

    box: float
    nodes: int


@njit(fastmath=True, error_model="numpy", cache=True)
def _batch(v, omega, precision, radius, n, skip, beta, out):  # type: ignore[no-untyped-def]
    step = 2.0 * radius / (n - 1)
    p11, p12, p22 = precision[0, 0], precision[0, 1], precision[1, 1]
    for sample in range(v.shape[0]):
        v1, v2 = v[sample, 0], v[sample, 1]
        m1, m2 = omega[sample, 0, 0], omega[sample, 0, 1]
        w1, w2 = omega[sample, 1, 0], omega[sample, 1, 1]
        mass = 0.0
        d1_sum = 0.0
        d2_sum = 0.0
        a_sum = 0.0
        b_sum = 0.0
        for i in range(n):
            d1 = i * step - radius
            x1 = m1 + d1
            for j in range(n):
                d2 = j * step - radius
                x2 = m2 + d2
                cross = x1 * x2
                # Off-diagonal entries of the first attention matrix: B_1 = [[1 + c - r, r], [s, 1 + c - s]].
                r = 1.0 / (1.0 + math.exp(beta * (x1 * x1 - cross)))
                s = 1.0 / (1.0 + math.exp(beta * (x2 * x2 - cross)))
                inverse = 1.0 / ((1.0 + skip) * (1.0 + skip - r - s))
                a = ((1.0 + skip - s) * v1 - r * v2) * inverse
                b = ((1.0 + skip - r) * v2 - s * v1) * inverse
                prior = p11 * (d1 * d1 + d2 * d2)
                e1, e2 = a - w1, b - w2
                f1, f2 = -a - w1, -b - w2
                up = inverse * math.exp(-0.5 * (prior + 2.0 * p12 * (d1 * e1 + d2 * e2) + p22 * (e1 * e1 + e2 * e2)))
                down = inverse * math.exp(-0.5 * (prior + 2.0 * p12 * (d1 * f1 + d2 * f2) + p22 * (f1 * f1 + f2 * f2)))
                both = up + down
                mass += both
                d1_sum += both * d1
                d2_sum += both * d2
                a_sum += (up - down) * a
                b_sum += (up - down) * b
        first1, first2 = d1_sum / mass, d2_sum / mass
        second1, second2 = a_sum / mass - w1, b_sum / mass - w2
        out[sample, 0, 0] = p11 * first1 + p12 * second1
        out[sample, 0, 1] = p11 * first2 + p12 * second2
        out[sample, 1, 0] = p12 * first1 + p22 * second1
        out[sample, 1, 1] = p12 * first2 + p22 * second2


def g_out(v: Array, omega: Array, covariance: Array, setting: Setting, *, skip: float, beta: float) -> Array:
    """Denoiser (12) of a batch at one covariance.

    Parameters
    ----------
    v : ndarray, shape (n, 2)
        Readout rows h_2 B_1^T.
    omega : ndarray, shape (n, 2, 2)
        Prior means, layer by token.
    covariance : ndarray, shape (2, 2)
        Prior covariance V of the layers.
    setting : Setting
    skip, beta : float

    Returns
    -------
    ndarray, shape (n, 2, 2)
    """
    out = np.empty((len(v), 2, 2))
    radius = setting.box * math.sqrt(covariance[0, 0])
    _batch(v, omega, np.linalg.inv(covariance), radius, setting.nodes, skip, beta, out)
    return out


def relative_error(value: Array, reference: Array) -> Array:
    """Error of each sample's matrix relative to its Frobenius norm, shape (n,)."""
    off: Array = np.linalg.norm(value - reference, axis=(1, 2)) / np.linalg.norm(reference, axis=(1, 2))
    return off


def tune(
    v: Array, omega: Array, covariance: Array, reference: Array, tol: float, *, skip: float, beta: float
) -> Setting:
    """Cheapest grid whose 95th percentile of the relative error is at most tol.

    Raises
    ------
    RuntimeError
        No grid of the ladder reaches it.
    """

    def reaches(box: float, nodes: int) -> bool:
        value = g_out(v, omega, covariance, Setting(box, nodes), skip=skip, beta=beta)
        off = np.nan_to_num(relative_error(value, reference), nan=np.inf)
        return bool(np.percentile(off, 95) <= tol)

    best: Setting | None = None
    top = len(_NODES)
    for box in map(float, _BOXES):
        # Within a box the error falls with the nodes until the box limits it.
        if best is not None and not reaches(box, int(_NODES[top - 1])):
            continue
        low, high = 0, top
        while low < high:
            middle = (low + high) // 2
            if reaches(box, int(_NODES[middle])):
                best, high = Setting(box, int(_NODES[middle])), middle
            else:
                low = middle + 1
        top = high
        if top == 0:
            break
    if best is None:
        raise RuntimeError(f"no grid up to {_NODES[-1]}^2 nodes reaches {tol:g} on 95 % of the samples")
    return best
