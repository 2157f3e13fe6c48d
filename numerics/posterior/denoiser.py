"""Denoiser of the output channel: log Z_out, g_out and its derivative, for batches of (y, omega, V)."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import ConvergenceError
from ..core.results import DenoiserResult, Origin
from ..model.network import Network
from ..model.routes import require
from .one_layer import Batch, one_layer
from .protocol import Moments
from .readout import invert_readout
from .rounding import UNIT, WORST, readout_rounding

__all__ = ["check_covariance", "check_tolerance", "denoise", "denoise_readout", "flat", "of_output", "of_readout"]

Array = NDArray[np.float64]


def check_covariance(name: str, matrix: ArrayLike, size: int) -> Array:
    """Validate positive definite matrices of shape (..., P, P).

    Raises
    ------
    ValueError
        Wrong shape, NaN, not symmetric, or not positive definite; a rank-deficient matrix is named as such.
    """
    v = np.asarray(matrix, dtype=np.float64)
    if v.ndim < 2 or v.shape[-2:] != (size, size):
        raise ValueError(f"{name} must have shape (..., P, P) = (..., {size}, {size}), got {v.shape}")
    if not np.isfinite(v).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    if v.shape == (2, 2) and _clearly_definite(*v.ravel().tolist()):
        return v
    # Each matrix by its own largest entry.
    scale = np.abs(v).max(axis=(-2, -1), keepdims=True)
    unit = v / np.where(scale > 0, scale, 1.0)
    transposed = np.swapaxes(unit, -1, -2)
    if (np.abs(unit - transposed) > 1e-12).any():
        raise ValueError(f"{name} must be symmetric (troiani2025 (9))")
    least = np.linalg.eigvalsh(unit)[..., 0]
    where = int(least.argmin()) if least.size else 0
    if (least < -1e-14).any():
        raise ValueError(
            f"{name} must be positive semi-definite (troiani2025 (9)): least eigenvalue "
            f"{least.flat[where] * scale.flat[where]:.3g}{_at(least.shape, where)}"
        )
    if (least <= 1e-15).any():
        raise ValueError(
            f"{name} is rank deficient (least eigenvalue {least.flat[where] * scale.flat[where]:.3g}"
            f"{_at(least.shape, where)}): the denoiser (12) needs its inverse. Take q slightly below I, "
            "e.g. V + 1e-12 I"
        )
    return v if (unit == transposed).all() else 0.5 * v + 0.5 * np.swapaxes(v, -1, -2)


def _clearly_definite(a: float, b: float, c: float, d: float) -> bool:
    """Whether a symmetric matrix [[a, b], [c, d]] is so far from singular that rounding makes no difference."""
    return b == c and 0.5 * (a + d) - math.hypot(0.5 * (a - d), b) > 1e-12 * max(a, d)


def _at(shape: tuple[int, ...], flat: int) -> str:
    return f", matrix {[int(k) for k in np.unravel_index(flat, shape)]}" if shape else ""


def check_tolerance(tol: float) -> None:
    """Raise ValueError where posterior moments cannot be asked for to this tolerance."""
    if not (isinstance(tol, float) and 1e-14 <= tol <= 1e-2):
        raise ValueError(f"tol must be a float in [1e-14, 1e-2], got {tol!r}")


def denoise(
    model: Network,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    tol: float = 1e-12,
    workers: int | None = None,
) -> DenoiserResult:
    """Posterior of the indices given one output: log Z_out, g_out = V^{-1}(E[h|y] - omega), d g_out.

    Parameters
    ----------
    model : Network
        Rank 1, and depth 1 (any number of tokens) or depth 2 with two tokens.
    y : array_like, shape (..., M, M)
        Outputs; see `readout.invert_readout` for their range.
    omega : array_like, shape (..., P, M)
        Prior means of the indices.
    V : array_like, shape (..., P, P)
        Prior covariance of the indices, the same for every token; positive definite.
    tol : float, optional
        Bound of the error of the quadrature, in the units of `DenoiserResult.error`, which has the rounding of float64
        on top.
    workers : int, optional
        Threads; all cores by default.

    Returns
    -------
    DenoiserResult
        Leading axes are broadcast. Z_out is the density of (y_12, y_21) for softmax and of (y_11, y_12) for linear
        attention with two tokens, and of v up to its sign for more.

    Raises
    ------
    ValueError
        Shapes, NaN, V not positive definite.
    UnreachableOutputError
        y outside the range of the link.
    KernelNotFoundError
        No denoiser for this architecture.
    ConvergenceError
        A sample missed `tol`, or float64 leaves it no digit (V too small beside omega^2 or y, or beyond float64's
        range); the message says how many and why.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    v, log_jacobian = invert_readout(model, y)
    inexact, jacobian_error = readout_rounding(model, np.asarray(y, dtype=np.float64), v, log_jacobian)
    result = _denoise(model, (v, inexact), (omega, V), tol, workers)
    return of_output(result, log_jacobian, jacobian_error)


def denoise_readout(
    model: Network,
    v: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    tol: float = 1e-12,
    workers: int | None = None,
) -> DenoiserResult:
    """`denoise` for a known readout row v (up to its sign) instead of y; log_z is the density of v up to its sign.

    Parameters and errors are those of `denoise`; v has shape (..., M).
    """
    return _denoise(model, (v, np.zeros(())), (omega, V), tol, workers)


def _denoise(
    model: Network,
    readout: tuple[ArrayLike, Array],
    prior: tuple[ArrayLike, ArrayLike],
    tol: float,
    workers: int | None,
) -> DenoiserResult:
    """Validate and solve; the readout rows come with a bound of the error of their entries, of their leading shape."""
    p, m = model.indices, model.tokens
    require("denoise", model)
    check_tolerance(tol)
    rows = np.asarray(readout[0], dtype=np.float64)
    if rows.ndim < 1 or rows.shape[-1] != m or not np.isfinite(rows).all():
        raise ValueError(f"v must be finite with shape (..., M) = (..., {m}), got shape {rows.shape}")
    mean = np.asarray(prior[0], dtype=np.float64)
    if mean.ndim < 2 or mean.shape[-2:] != (p, m):
        raise ValueError(f"omega must have shape (..., P, M) = (..., {p}, {m}), got {mean.shape}")
    if not np.isfinite(mean).all():
        raise ValueError("omega must be finite, got NaN or infinity")

    batch = Batch(rows, readout[1], mean, check_covariance("V", prior[1], p))
    return of_readout(batch, lambda some: _moments(model, some, tol, workers), Origin.of(model, tol=tol))


def _moments(model: Network, batch: Batch, tol: float, workers: int | None) -> Moments:
    if model.layers == 1:
        return one_layer(model, batch)
    # Compiled when it is imported, which takes seconds the first time and serves no other number.
    from .two_layers import two_layers

    return two_layers(model, batch, tol, workers)


def of_readout(batch: Batch, rule: Callable[[Batch], Moments], origin: Origin) -> DenoiserResult:
    """Broadcast the leading axes of a batch, and apply a rule to its posteriors.

    Raises
    ------
    ConvergenceError
        Float64 overflows, or rounding leaves no digit of the moments.
    """
    v, inexact, omega, V = batch
    (p, m), lead = omega.shape[-2:], np.broadcast_shapes(v.shape[:-1], omega.shape[:-2], V.shape[:-2])
    batch = Batch(
        flat(v, lead, (m,)),
        np.ascontiguousarray(flat(inexact, lead, ())),
        flat(omega, lead, (p, m)),
        flat(V, lead, (p, p)),
    )
    made = rule(batch)
    _check_resolved(made, batch)
    return DenoiserResult(
        made.log_z.reshape(lead),
        made.g.reshape(*lead, p, m),
        made.dg.reshape(*lead, p, m, p, m),
        made.error.reshape(lead),
        made.log_z_error.reshape(lead),
        origin,
    )


def flat(array: Array, lead: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Broadcast the leading axes, and make them one."""
    whole = (*lead, *shape)
    if array.shape != whole:
        array = np.broadcast_to(array, whole)
    return array if len(lead) == 1 else array.reshape(-1, *shape)


def of_output(result: DenoiserResult, log_jacobian: Array, jacobian_error: Array) -> DenoiserResult:
    """Density of the outputs instead of the readout rows."""
    # Two numbers of equal size may cancel.
    error = result.log_z_error + jacobian_error + UNIT * (np.abs(result.log_z) + np.abs(log_jacobian))
    return replace(result, log_z=result.log_z - log_jacobian, log_z_error=error)


def _check_resolved(made: Moments, batch: Batch) -> None:
    """Raise ConvergenceError where float64 overflows, or rounding leaves no digit of the moments."""
    if all(np.isfinite(part).all() for part in made) and (made.error <= WORST).all():
        return
    v, _, omega, V = batch
    n = len(v)
    finite = np.logical_and.reduce([np.isfinite(part).all(axis=tuple(range(1, part.ndim))) for part in made])
    bad = np.flatnonzero(~(finite & (made.error <= WORST)))
    k = int(bad[0])
    what = f"has an error of {made.error[k]:.1e} by rounding" if finite[k] else "overflows"
    raise ConvergenceError(
        f"the denoiser (12) {what} in float64 on {bad.size} of {n} samples; the first is number {k}: "
        f"V = {V[k].tolist()}, omega = {omega[k].tolist()}, v = {v[k].tolist()}; take omega and v fewer prior widths "
        "sqrt(V) from 0, or more digits: `denoise_mp`, `attnlimits denoise`"
    )
