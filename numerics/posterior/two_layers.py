"""Posterior of the indices of two layers over two tokens, by a lattice in the plane of h_1 that ranges of h_2 prune."""

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
from numba import float64, int64, njit, types, void
from numpy.typing import NDArray

from ..arithmetic.doubledouble import two_product
from ..core.errors import ConvergenceError
from ..model.network import Network, kernel
from . import lattice
from .one_layer import Batch
from .protocol import Moments
from .ranges import RANGES, inverse_determinant_bound
from .rounding import UNIT, WORST
from .two_layers_rounding import two_layers_rounding

__all__ = ["check_widths", "fill_parameters", "two_layers"]

Array = NDArray[np.float64]

# Prior widths of two layers, and their inverses, from here: fourth powers of indices fit float64.
_LEAST_SCALE = 1e-70
_THREAD = threading.local()


def _read_only(axes: int) -> types.Array:
    return types.Array(float64, axes, "A", readonly=True)


@cache
def _functions(activation: str) -> tuple[int, ...]:
    model = Network(2, 2, activation=activation)
    loops, kernels = kernel(model, "posterior64"), kernel(model, "numba64")
    return lattice.bind(loops.pair_moments, loops.branch_moments, RANGES[activation], loops.undo_rows, kernels.undo)


def _scratch() -> Array:
    """Memory of this thread, some MB: to fetch it anew for every batch takes as long as a few samples."""
    if not hasattr(_THREAD, "scratch"):
        _THREAD.scratch = np.empty(lattice.SCRATCH)
    scratch: Array = _THREAD.scratch
    return scratch


def two_layers(model: Network, batch: Batch, tol: float, workers: int | None) -> Moments:
    """Posterior of the indices of two layers over two tokens, by a lattice in the plane of h_1.

    Raises
    ------
    ConvergenceError
        A sample missed `tol`, or float64 does not resolve the prior's widths.
    """
    v, inexact, omega, V = batch
    functions, run = _functions(model.activation), lattice.compiled()
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
        run(functions, parameters[part], tol, scale, stiffness, bound, moments[part], info[part], _scratch())

    threads = workers if workers is not None else os.cpu_count() or 1
    # Smallest share of a batch worth a thread of its own.
    chunk = 32
    # Interleaved costs differ; more parts than threads even them out.
    pieces = max(1, min(4 * threads, n // chunk)) if threads > 1 else 1
    if pieces > 1:
        edges = np.linspace(0, n, pieces + 1).astype(int)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, [slice(a, b) for a, b in pairwise(edges)]))
    else:
        work(slice(0, n))
    if info[:, 4].any():
        bad = np.flatnonzero(info[:, 4])
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
    return Moments(log_z, g, dg, error, log_z_error)


def check_widths(parameters: Array, omega: Array, V: Array) -> None:
    """Raise ConvergenceError where omega is so many prior widths from 0 that float64 resolves no width there."""
    bad, k, width = _unresolved(parameters)
    if not bad:
        return
    raise ConvergenceError(
        f"the denoiser (169) cannot resolve {bad} of {len(V)} samples in float64; the first is number {k}: "
        f"omega = {omega[k].tolist()} is {width:.1e} prior widths from 0, V = {V[k].tolist()}; take V larger "
        f"beside omega^2, within [{_LEAST_SCALE**2:.0e}, {_LEAST_SCALE**-2:.0e}] and less correlated"
    )


@njit(types.Tuple((int64, int64, float64))(float64[:, ::1]), error_model="numpy", cache=True, nogil=True)
def _unresolved(parameters):  # type: ignore[no-untyped-def]
    """How many samples have priors no width of which is one in float64, the first of them, and its omega in widths."""
    bad, first, widths = 0, 0, 0.0
    for k in range(len(parameters)):
        p = parameters[k]
        i1, slope, i2 = p[8], p[9], p[10]
        width = max(max(max(abs(p[4]), abs(p[5])) * i1, max(abs(p[6]), abs(p[7])) * i2), abs(slope) * i2 / i1)
        # The kernel squares h_1.
        fits = i1 > _LEAST_SCALE and i2 > _LEAST_SCALE and max(i1, i2) < 1 / _LEAST_SCALE
        if not (fits and UNIT * width < WORST):
            if not bad:
                first, widths = k, width
            bad += 1
    return bad, first, widths


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
    """Fill in what `lattice.compiled` takes: modes (plus, minus) of two tokens, and W with V^-1 = W^T W."""
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
