"""What rounding in float64 costs a posterior: first-order bounds from the sizes of the numbers that are subtracted.

Inputs count as the exact numbers that they are. A formula of a few operations is given the error `UNIT` times the
largest number that enters it. In units of the prior standard deviation, numbers of size S are then uncertain by
UNIT S/sqrt(V): this is where a small V costs digits. An output y enters through the readout row v, and its inversion
costs digits near the edge of the range of y.
"""

import numpy as np
from numpy.typing import NDArray

from ..model.network import Network

__all__ = ["UNIT", "WORST", "readout_rounding", "two_points_rounding"]

Array = NDArray[np.float64]

# Four roundings, each of 2^-53, all in one direction.
UNIT = 2 * float(np.finfo(float).eps)
# Largest error of a result: the loosest tolerance that can be asked for.
WORST = 1e-2


def readout_rounding(model: Network, y: Array, v: Array, log_jacobian: Array) -> tuple[Array, Array]:
    """Bound the rounding in `readout.invert_readout`.

    Returns
    -------
    inexact, log_jacobian_error : ndarray, shape (...)
        Of every entry of v, and of the log-Jacobian.
    """
    size = np.abs(v).max(axis=-1)
    if model.activation == "linear":
        return UNIT * size, UNIT * (model.tokens == 2) * (1 + np.abs(log_jacobian))
    # log(y_aa/y_ab) = beta v_a (v_a - v_b) is good to rounding; the squared distance of the tokens is the sum of two
    # such numbers, of opposite signs where the tokens lie on one side of zero.
    gap = np.ptp(v, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        magnified = 1 + 2 * size / gap
        if model.tokens > 2:
            # Then y has more entries than v, and roundings of y that are not of one v show at 1/beta.
            return UNIT * (size + 1 / (model.beta * gap)) * magnified, np.zeros(size.shape)
    logs = 1 + np.abs(log_jacobian) + 2 * np.abs(np.log(y)).sum(axis=(-2, -1))
    return UNIT * size * magnified, UNIT * (logs + magnified)


def two_points_rounding(v: Array, omega: Array, V: Array, inexact: Array) -> tuple[Array, Array]:
    """Bound the rounding of the posterior of one layer, h = +-v.

    Parameters
    ----------
    v : ndarray, shape (n, M)
    omega : ndarray, shape (n, 1, M)
    V : ndarray, shape (n, 1, 1)
    inexact : ndarray, shape (n,)
        Bound of the error of each entry of v.

    Returns
    -------
    error, log_z_error : ndarray, shape (n,)
        See `DenoiserResult`; not finite where float64 overflows.
    """
    with np.errstate(all="ignore"):
        sd = np.sqrt(V[:, 0, 0])
        row, mean, off = v / sd[:, None], omega[:, 0] / sd[:, None], inexact / sd
        field = (row * mean).sum(axis=1)
        field_error = UNIT * np.abs(row * mean).sum(axis=1) + off * np.abs(mean).sum(axis=1)
        side = np.where(field < 0, -1.0, 1.0)[:, None]
        # 1 - tanh |F|, sech^2 F and its derivative are all below 4 exp(-2 |F|); F is known to its error only.
        faint = np.exp(-2 * np.maximum(np.abs(field) - field_error, 0.0))
        turned = np.minimum(4 * faint * field_error, 2.0)
        largest = np.abs(row).max(axis=1)
        spread = np.minimum(4 * faint, 1.0)
        centre = np.tanh(field)[:, None] * row - mean
        scale2 = 1 + (centre**2 + spread[:, None] * row**2).max(axis=1)
        first = largest * turned + UNIT * np.maximum(largest, np.abs(mean).max(axis=1)) + off
        second = largest**2 * (2 * turned + UNIT * spread) + 2 * spread * largest * off
        error = UNIT + np.maximum(first / np.sqrt(scale2), second / scale2)
        residual = np.abs(row - side * mean)
        log_z_error = (
            (residual * (off[:, None] + UNIT * residual)).sum(axis=1)
            + np.minimum(2 * faint, 1.0) * field_error
            + UNIT * (1 + v.shape[1] * np.abs(np.log(V[:, 0, 0])))
        )
        return error, log_z_error
