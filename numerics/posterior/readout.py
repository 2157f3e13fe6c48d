"""From an output y to the readout row v = h_L B_{L-1}^T, fixed up to a common sign (171)-(183)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import UnreachableOutputError
from ..core.validation import numbers, softmax_rows
from ..model.network import Network, kernel
from ..model.routes import require

__all__ = ["invert_readout"]

Array = NDArray[np.float64]


def invert_readout(model: Network, y: ArrayLike) -> tuple[Array, Array]:
    """Solve y = sigma(beta v^T v) for v, rank 1.

    Parameters
    ----------
    model : Network
        Rank 1.
    y : array_like, shape (..., M, M)
        Softmax: positive rows that sum to one, with y_12 + y_21 <= 1 for two tokens (177); those of float32 numbers to
        the rounding of that type, see `validation.softmax_rows`. Linear: rank one, PSD.

    Returns
    -------
    v : ndarray, shape (..., M)
        One of the two branches; the other one is -v.
    log_jacobian : ndarray, shape (...)
        Two tokens: log |d(y_12, y_21)/dv| (182) or log |d(y_11, y_12)/dv| (174). More tokens: 0, so that densities
        are with respect to v up to its sign.

    Raises
    ------
    UnreachableOutputError
        y is outside the range of the link.

    References
    ----------
    troiani2025, (171)-(183); for M > 2 the same algebra on the best-conditioned pair of tokens.
    """
    require("readout", model)
    array = numbers("y", y)
    m = model.tokens
    if array.ndim < 2 or array.shape[-2:] != (m, m):
        raise ValueError(f"y must have shape (..., M, M) = (..., {m}, {m}), got {array.shape}")
    if not np.isfinite(array).all():
        raise UnreachableOutputError("y must be finite, got NaN or infinity; see troiani2025 (6)")
    if model.activation == "softmax":
        array = softmax_rows(array)
        v = _softmax(model, array)
    else:
        v = _linear(model, array)
    log_jacobian = np.zeros(array.shape[:-2])
    if m == 2:
        entries = array[..., 0, 0], array[..., 0, 1], array[..., 1, 0], array[..., 1, 1]
        invert = kernel(model, "numpy64").invert
        try:
            vp, vm, log_jacobian = invert(*entries, model.beta)
        except ValueError as error:
            raise UnreachableOutputError(
                "y lies on the edge of the link's range, where its density is singular (equal tokens, "
                "y_12 + y_21 = 1, or an entry 0; troiani2025 (177), (182)); such outputs have probability zero"
            ) from error
        v = np.stack([vp + vm, vp - vm], axis=-1) / np.sqrt(2)
    return v, log_jacobian


def _softmax(model: Network, y: Array) -> Array:
    # d_ab = v_a (v_a - v_b), so d_ab + d_ba = (v_a - v_b)^2.
    # log(y_aa/y_ab) to rounding also where both are nearly equal.
    own = np.diagonal(y, axis1=-2, axis2=-1)[..., :, None]
    d = np.copysign(np.log1p(np.abs(own - y) / np.minimum(own, y)), own - y) / model.beta
    squares = d + np.swapaxes(d, -1, -2)
    _check_pairs(model, y, d, squares)
    if model.tokens == 2:
        return np.zeros(y.shape[:-1])  # the generated kernel does the rest
    row, reference = _best_pair(d, squares)
    v = reference - np.take_along_axis(d, row[..., None], axis=-2)[..., 0, :] / reference
    return _consistent(model, v, y)


def _check_pairs(model: Network, y: Array, d: Array, squares: Array) -> None:
    """Raise where the squared distance of two tokens is negative by more than rounding."""
    if model.tokens == 2:
        if (squares[..., 0, 1] < 0).any():
            worst = float((y[..., 0, 1] + y[..., 1, 0]).max())
            raise UnreachableOutputError(
                f"y_12 + y_21 must be <= 1 for tied softmax attention (troiani2025 (177)), got {worst:.6g}"
            )
        return
    # The differences of logarithms are good to their rounding; true distances may be zero.
    slack = 64 * np.finfo(float).eps * (1 + np.abs(d).max(axis=(-2, -1), keepdims=True))
    if (squares < -slack).any():
        where = np.unravel_index(int((squares + slack).argmin()), squares.shape)
        a, b = int(where[-2]) + 1, int(where[-1]) + 1
        raise UnreachableOutputError(
            f"y_ab y_ba must be <= y_aa y_bb for tied softmax attention (troiani2025 (177)): tokens {a} and {b} have "
            f"log(y_aa y_bb/(y_ab y_ba)) = {model.beta * float(squares[where]):.6g}"
        )


def _best_pair(d: Array, squares: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the token to solve from, shape (..., 1), and its v: of the pair furthest apart, the larger one.

    Rounding in d enters v divided by the distance of the pair, so the largest distance is the best conditioned.
    """
    tokens = d.shape[-1]
    flat = squares.reshape(*squares.shape[:-2], -1)
    best = flat.argmax(axis=-1)[..., None]
    a, b = best // tokens, best % tokens
    gap = np.sqrt(np.maximum(np.take_along_axis(flat, best, axis=-1), 0.0))
    if (gap == 0).any():
        raise UnreachableOutputError("y has all tokens equal, which has probability zero; see troiani2025 (177)")
    v_a = np.take_along_axis(d.reshape(flat.shape), best, axis=-1) / gap
    v_b = -np.take_along_axis(d.reshape(flat.shape), b * tokens + a, axis=-1) / gap
    first = np.abs(v_a) >= np.abs(v_b)
    return np.where(first, a, b), np.where(first, v_a, v_b)


def _linear(model: Network, y: Array) -> Array:
    scale = np.abs(y).max(axis=(-2, -1))
    diagonal = np.diagonal(y, axis1=-2, axis2=-1)
    row = diagonal.argmax(axis=-1)[..., None]
    top = np.take_along_axis(diagonal, row, axis=-1)
    if (scale == 0).any() or (top <= 0).any():
        raise UnreachableOutputError("y must be a non-zero PSD matrix of rank one, y = beta v^T v (troiani2025 (171))")
    v = np.take_along_axis(y, row[..., None], axis=-2)[..., 0, :] / np.sqrt(model.beta * top)
    return _consistent(model, v, y)


def _consistent(model: Network, v: Array, y: Array) -> Array:
    again = Network(1, model.tokens, 1, model.skip, model.beta, model.activation).link(v[..., None, :])
    off = np.abs(again - y).max(axis=(-2, -1)) / np.maximum(np.abs(y).max(axis=(-2, -1)), 1e-300)
    # y is accepted if the link at the recovered v reproduces it to this (relative to its scale).
    consistent = 1e-6
    if (off > consistent).any():
        raise UnreachableOutputError(
            f"no readout row v gives this y: y = sigma(beta v^T v) is violated by {float(off.max()):.3g} "
            "(troiani2025 (7)); check the activation, beta and the rank"
        )
    return v
