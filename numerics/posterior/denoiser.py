"""Denoiser of the output channel: log Z_out, g_out and its derivative, for batches of (y, omega, V)."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from numba import float64, njit, types, void
from numpy.typing import ArrayLike, NDArray

from ..arithmetic.doubledouble import two_product
from ..core.errors import ConvergenceError
from ..core.results import DenoiserResult, Origin
from ..model.network import Network, kernel
from ..model.routes import require
from . import lattice
from .ranges import RANGES, inverse_determinant_bound
from .readout import invert_readout
from .rounding import UNIT, readout_rounding, two_layers_rounding, two_points_rounding

__all__ = [
    "check_covariance",
    "check_resolved",
    "check_tolerance",
    "check_widths",
    "denoise",
    "denoise_readout",
    "fill_parameters",
    "two_points",
]

Array = NDArray[np.float64]

# Smallest share of a batch worth a thread of its own.
_CHUNK = 32
# Largest error of a result: the loosest tolerance that can be asked for.
_WORST = 1e-2
# Prior widths of two layers, and their inverses, from here: fourth powers of indices fit float64.
_LEAST_SCALE = 1e-70


def _read_only(axes: int) -> types.Array:
    return types.Array(float64, axes, "A", readonly=True)


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
    result = _denoise(model, v, inexact, omega, V, tol, workers)
    # Two numbers of equal size may cancel.
    error = result.log_z_error + jacobian_error + UNIT * (np.abs(result.log_z) + np.abs(log_jacobian))
    return replace(result, log_z=result.log_z - log_jacobian, log_z_error=error)


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
    return _denoise(model, v, np.zeros(()), omega, V, tol, workers)


def _denoise(
    model: Network, v: ArrayLike, inexact: Array, omega: ArrayLike, V: ArrayLike, tol: float, workers: int | None
) -> DenoiserResult:
    """Validate, broadcast and solve; `inexact`, of the leading shape of v, bounds the error of its entries."""
    p, m = model.indices, model.tokens
    require("denoise", model)
    check_tolerance(tol)
    rows = np.asarray(v, dtype=np.float64)
    if rows.ndim < 1 or rows.shape[-1] != m or not np.isfinite(rows).all():
        raise ValueError(f"v must be finite with shape (..., M) = (..., {m}), got shape {rows.shape}")
    mean = np.asarray(omega, dtype=np.float64)
    if mean.ndim < 2 or mean.shape[-2:] != (p, m):
        raise ValueError(f"omega must have shape (..., P, M) = (..., {p}, {m}), got {mean.shape}")
    if not np.isfinite(mean).all():
        raise ValueError("omega must be finite, got NaN or infinity")
    covariance = check_covariance("V", V, p)
    lead = np.broadcast_shapes(rows.shape[:-1], mean.shape[:-2], covariance.shape[:-2])
    rows = np.broadcast_to(rows, (*lead, m)).reshape(-1, m)
    inexact = np.ascontiguousarray(np.broadcast_to(inexact, lead)).reshape(-1)
    mean = np.broadcast_to(mean, (*lead, p, m)).reshape(-1, p, m)
    covariance = np.broadcast_to(covariance, (*lead, p, p)).reshape(-1, p, p)
    if model.layers == 1:
        with np.errstate(all="ignore"):  # what overflows is refused below
            log_z, g, dg = two_points(model, rows, mean, covariance)
        error, log_z_error = two_points_rounding(rows, mean, covariance, inexact)
    else:
        log_z, g, dg, error, log_z_error = _two_layers(model, rows, inexact, mean, covariance, tol, workers)
    check_resolved((log_z, g, dg, error, log_z_error), rows, mean, covariance)
    return DenoiserResult(
        log_z.reshape(lead),
        g.reshape(*lead, p, m),
        dg.reshape(*lead, p, m, p, m),
        error.reshape(lead),
        log_z_error.reshape(lead),
        Origin.of(model, tol=tol),
    )


def check_resolved(made: tuple[Array, ...], v: Array, omega: Array, V: Array) -> None:
    """Raise ConvergenceError where float64 overflows, or rounding leaves no digit of the moments."""
    n = len(v)
    finite = np.logical_and.reduce([np.isfinite(part).all(axis=tuple(range(1, part.ndim))) for part in made])
    bad = np.flatnonzero(~(finite & (made[3] <= _WORST)))
    if not bad.size:
        return
    k = int(bad[0])
    what = f"has an error of {made[3][k]:.1e} by rounding" if finite[k] else "overflows"
    raise ConvergenceError(
        f"the denoiser (12) {what} in float64 on {bad.size} of {n} samples; the first is number {k}: "
        f"V = {V[k].tolist()}, omega = {omega[k].tolist()}, v = {v[k].tolist()}; take omega and v fewer prior widths "
        "sqrt(V) from 0, or more digits: `denoise_mp`, `attnlimits denoise`"
    )


def two_points(model: Network, v: Array, omega: Array, V: Array) -> tuple[Array, Array, Array]:
    """Posterior h = +-v of one layer, in closed form: log Z, g_out and d g_out.

    v has shape (n, M), omega (n, 1, M) and V (n, 1, 1). Element-wise operations of numpy only, see `jax_kernels`.
    """
    variance = V[:, 0, 0]
    sd = np.sqrt(variance)[:, None]
    row = v / sd
    field = (omega[:, 0, :] * v).sum(axis=1) / variance
    # sech^2 without overflow.
    decay = np.exp(-2 * np.abs(field))
    spread = 4 * decay / (1 + decay) ** 2
    g = ((np.tanh(field)[:, None] * v - omega[:, 0, :]) / variance[:, None])[:, None, :]
    dg = spread[:, None, None] * row[:, :, None] * row[:, None, :] - np.eye(model.tokens)
    dg = dg / variance[:, None, None]
    # The nearer of both points: |v|^2 + |omega|^2 - 2 |v.omega| without cancellation.
    residual = (v - np.where(field < 0, -1.0, 1.0)[:, None] * omega[:, 0, :]) / sd
    log_z = -0.5 * (residual**2).sum(axis=1) + np.log1p(decay)
    log_z -= 0.5 * model.tokens * (math.log(2 * math.pi) + np.log(variance))
    return log_z, g, dg[:, None, :, None, :]


@cache
def _functions(activation: str) -> tuple[int, ...]:
    model = Network(2, 2, activation=activation)
    loops, kernels = kernel(model, "posterior64"), kernel(model, "numba64")
    return lattice.bind(loops.pair_moments, loops.branch_moments, RANGES[activation], loops.undo_rows, kernels.undo)


def _two_layers(
    model: Network, v: Array, inexact: Array, omega: Array, V: Array, tol: float, workers: int | None
) -> tuple[Array, Array, Array, Array, Array]:
    functions = _functions(model.activation)
    n = len(v)
    parameters = np.empty((n, lattice.N_PARAMETERS))
    fill_parameters(v, omega, V, model.skip, model.beta, parameters)
    check_widths(parameters, omega, V)
    moments = np.empty((n, lattice.N_MOMENTS))
    info = np.empty((n, lattice.N_INFO))
    # Of the softmax, transitions at |xp| = |xm| and xm = 0 get sharper with |h_1|; linear attention is smooth far out.
    scale, stiffness = 1 / math.sqrt(model.beta), math.sqrt(model.beta)
    if model.activation == "linear":
        scale, stiffness = scale * math.sqrt(model.skip), 0.0
    bound = inverse_determinant_bound(model.activation_name, model.skip)

    def work(part: slice) -> None:
        lattice.run(
            functions,
            parameters[part],
            tol,
            scale,
            stiffness,
            bound,
            moments[part],
            info[part],
        )

    threads = workers if workers is not None else os.cpu_count() or 1
    # Interleaved costs differ; more parts than threads even them out.
    pieces = max(1, min(4 * threads, n // _CHUNK)) if threads > 1 else 1
    edges = np.linspace(0, n, pieces + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges) if b > a]
    if len(parts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))
    elif parts:
        work(parts[0])
    bad = np.flatnonzero(info[:, 4])
    if bad.size:
        k = int(bad[0])
        raise ConvergenceError(
            f"the denoiser (169) missed tol = {tol:g} on {bad.size} of {n} samples; the first is number {k}: "
            f"{lattice.STATUS[int(info[k, 4])]} (error {info[k, 0]:.1e}, V = {V[k].tolist()}); "
            "loosen tol, or check that y is likely under (omega, V)"
        )
    log_z, g, dg = np.empty(n), np.empty((n, 2, 2)), np.empty((n, 2, 2, 2, 2))
    _posterior_to_gradient(moments, parameters, log_z, g, dg)
    error, log_z_error = np.empty(n), np.empty(n)
    linear = model.activation == "linear"
    two_layers_rounding(linear, parameters, moments, info, inexact, log_z, error, log_z_error)
    return log_z, g, dg, error, log_z_error


def check_widths(parameters: Array, omega: Array, V: Array) -> None:
    """Raise ConvergenceError where omega is so many prior widths from 0 that float64 resolves no width there."""
    with np.errstate(all="ignore"):
        i1, slope, i2 = parameters[:, 8], parameters[:, 9], parameters[:, 10]
        first, second = (np.abs(parameters[:, k : k + 2]).max(axis=1) for k in (4, 6))
        widths = np.maximum(np.maximum(first * i1, second * i2), np.abs(slope) * i2 / i1)
        # The kernel squares h_1.
        fits = (i1 > _LEAST_SCALE) & (i2 > _LEAST_SCALE) & (np.maximum(i1, i2) < 1 / _LEAST_SCALE)
    bad = np.flatnonzero(~(fits & (UNIT * widths < _WORST)))
    if bad.size:
        k = int(bad[0])
        raise ConvergenceError(
            f"the denoiser (169) cannot resolve {bad.size} of {len(V)} samples in float64; the first is number {k}: "
            f"omega = {omega[k].tolist()} is {widths[k]:.1e} prior widths from 0, V = {V[k].tolist()}; take V larger "
            f"beside omega^2, within [{_LEAST_SCALE**2:.0e}, {_LEAST_SCALE**-2:.0e}] and less correlated"
        )


@njit(error_model="numpy")
def _pivot(a, b, d):  # type: ignore[no-untyped-def]
    """D - b^2/a where the terms cancel, to rounding: a d and b^2 as pairs, in units of powers of two."""
    e, f = math.frexp(a)[1], math.frexp(d)[1]
    f += (e + f) % 2
    ah, bh, dh = math.ldexp(a, -e), math.ldexp(b, -((e + f) // 2)), math.ldexp(d, -f)
    left, left_rest = two_product(ah, dh)
    right, right_rest = two_product(bh, bh)
    return math.ldexp((left - right + (left_rest - right_rest)) / ah, f)


@njit(
    void(_read_only(2), _read_only(3), _read_only(3), float64, float64, float64[:, ::1]),
    error_model="numpy",
    cache=True,
    nogil=True,
)
def fill_parameters(v, omega, V, skip, beta, parameters):  # type: ignore[no-untyped-def]
    """Fill in what `lattice.run` takes: modes (plus, minus) of two tokens, and W with V^-1 = W^T W."""
    half = math.sqrt(0.5)
    for s in range(len(v)):
        parameters[s, 0] = half * (v[s, 0] + v[s, 1])
        parameters[s, 1] = half * (v[s, 0] - v[s, 1])
        parameters[s, 2], parameters[s, 3] = skip, beta
        for a in range(2):
            parameters[s, 4 + 2 * a] = half * (omega[s, a, 0] + omega[s, a, 1])
            parameters[s, 5 + 2 * a] = half * (omega[s, a, 0] - omega[s, a, 1])
        slope = V[s, 0, 1] / V[s, 0, 0]
        parameters[s, 8] = 1 / math.sqrt(V[s, 0, 0])
        parameters[s, 9] = slope
        pivot = V[s, 1, 1] - slope * V[s, 0, 1]
        if pivot < 0.5 * V[s, 1, 1]:
            pivot = _pivot(V[s, 0, 0], V[s, 0, 1], V[s, 1, 1])
        parameters[s, 10] = 1 / math.sqrt(pivot)
        parameters[s, 11] = 0.0


@njit(
    void(float64[:, ::1], float64[:, ::1], float64[::1], float64[:, :, ::1], float64[:, :, :, :, ::1]),
    error_model="numpy",
    cache=True,
    nogil=True,
)
def _posterior_to_gradient(moments, parameters, log_z, g, dg):  # type: ignore[no-untyped-def]
    """Compute log Z, g = W^T E[z], dg = W^T (E[z z^T] - E[z] E[z]^T - I) W, z = W (h - omega), from modes to tokens."""
    # What a row (a, t) of h - omega in tokens is in z: modes are the tokens' sum and difference over sqrt(2).
    to_z = np.zeros((4, 4))
    information = np.empty((4, 4))
    half = np.empty((4, 4))
    for s in range(len(moments)):
        i1, slope, i2 = parameters[s, 8], parameters[s, 9], parameters[s, 10]
        for m in range(2):
            for t in range(2):
                rotation = -math.sqrt(0.5) if m == 1 and t == 1 else math.sqrt(0.5)
                to_z[m, t] = i1 * rotation
                to_z[2 + m, t] = -slope * i2 * rotation
                to_z[2 + m, 2 + t] = i2 * rotation
        mass = moments[s, 0]
        k = 5
        for i in range(4):
            for j in range(i, 4):
                value = moments[s, k] / mass - moments[s, 1 + i] / mass * (moments[s, 1 + j] / mass)
                information[i, j] = value - (1.0 if i == j else 0.0)
                information[j, i] = information[i, j]
                k += 1
        for i in range(4):
            first = 0.0
            for q in range(4):
                first += to_z[q, i] * (moments[s, 1 + q] / mass)
            g[s, i // 2, i % 2] = first
            for j in range(4):
                total = 0.0
                for q in range(4):
                    total += information[i, q] * to_z[q, j]
                half[i, j] = total
        for i in range(4):
            for j in range(4):
                total = 0.0
                for q in range(4):
                    total += to_z[q, i] * half[q, j]
                dg[s, i // 2, i % 2, j // 2, j % 2] = total
        log_z[s] = math.log(mass) - 0.5 * parameters[s, 11] - 2 * math.log(2 * math.pi) + 2 * math.log(i1 * i2)
