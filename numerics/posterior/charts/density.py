"""The log-density of the posterior on a chart: the Gaussian of the indices and the weight of the chart."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.copies import copy_matrix
from ...arithmetic.references import lend
from .layout import CIRCLE, Layout, complete_at, from_output_at, read_at
from .scratch import Scratch, new_scratch

__all__ = [
    "Prior",
    "Target",
    "energy",
    "log_posterior",
    "place",
    "plain_prior",
    "prior_of",
    "read",
    "read_outputs",
    "with_noise",
    "wrapped",
]

Array = NDArray[np.float64]


class Prior(NamedTuple):
    """N(omega, V) of the indices, without the means that the output does not depend on, in modes over the tokens.

    Attributes
    ----------
    precision : ndarray, shape (M, P, P)
        Inverse covariance of each mode, zero in rows that are left out of it.
    roots : ndarray, shape (M, hidden, hidden)
        Lower factors of the covariance of the hidden rows, zero in rows left out.
    inner : ndarray, shape (M, hidden, hidden)
        Inverse covariance of the hidden rows alone.
    log_norm, log_inner : float
        Logarithms of the norms of both Gaussians.
    follow : ndarray, shape (P, P)
        The mean of what is left out, in units of the deviations of the rest: V_fr V_rr^{-1}.
    spread : ndarray, shape (P, P)
        Covariance of what is left out, given the rest.
    """

    precision: Array
    roots: Array
    inner: Array
    log_norm: float
    log_inner: float
    follow: Array
    spread: Array


class Target(NamedTuple):
    """One output: what it fixes, omega in modes over the tokens, shape (P, M), the prior and the chart."""

    data: Array
    omega: Array
    prior: Prior
    layout: Layout


def with_noise(layout: Layout, omega: Array, covariance: Array) -> tuple[Array, Array]:
    """Means in modes over the tokens, and covariance, of the indices and of the rows of the noise after them.

    Parameters
    ----------
    layout : Layout
    omega : ndarray, shape (..., P, M)
    covariance : ndarray, shape (P, P)
    """
    rows, indices = len(layout.free), len(covariance)
    means, both = np.zeros((*omega.shape[:-2], rows, omega.shape[-1])), np.eye(rows)
    means[..., :indices, :] = omega @ layout.modes.T
    both[:indices, :indices] = covariance
    return means, both


def prior_of(layout: Layout, covariance: Array) -> Prior:
    """Prior of a covariance V, positive definite, of all rows of h (`with_noise`)."""
    indices, tokens, hidden = len(layout.free), len(layout.modes), layout.hidden
    precision = np.zeros((tokens, indices, indices))
    roots = np.zeros((tokens, len(hidden), len(hidden)))
    inner = np.zeros_like(roots)
    log_norm = log_inner = 0.0
    for mode in range(tokens):
        rows = np.flatnonzero(~layout.free) if mode == 0 else np.arange(indices)
        part = covariance[np.ix_(rows, rows)]
        precision[mode][np.ix_(rows, rows)] = np.linalg.inv(part)
        log_norm -= 0.5 * (np.linalg.slogdet(part)[1] + len(rows) * math.log(2 * math.pi))
        kept = np.array([n for n, row in enumerate(hidden) if row in rows], dtype=np.int64)
        if len(kept):
            block = covariance[np.ix_(hidden[kept], hidden[kept])]
            roots[mode][np.ix_(kept, kept)] = np.linalg.cholesky(block)
            inner[mode][np.ix_(kept, kept)] = np.linalg.inv(block)
            log_inner -= 0.5 * (np.linalg.slogdet(block)[1] + len(kept) * math.log(2 * math.pi))
    follow, spread = np.zeros((indices, indices)), np.zeros((indices, indices))
    if layout.free.any():
        out, rest = np.flatnonzero(layout.free), np.flatnonzero(~layout.free)
        slope = covariance[np.ix_(out, rest)] @ np.linalg.inv(covariance[np.ix_(rest, rest)])
        follow[np.ix_(out, rest)] = slope
        spread[np.ix_(out, out)] = covariance[np.ix_(out, out)] - slope @ covariance[np.ix_(rest, out)]
    return Prior(precision, roots, inner, float(log_norm), float(log_inner), follow, spread)


def plain_prior(covariance: Array, tokens: int) -> Prior:
    """Prior of a covariance V of indices of which the output sees everything, without what only a chart needs."""
    size = len(covariance)
    none = np.zeros((size, size))
    log_norm = -0.5 * tokens * (float(np.linalg.slogdet(covariance)[1]) + size * math.log(2 * math.pi))
    precision = np.ascontiguousarray(np.broadcast_to(np.linalg.inv(covariance), (tokens, size, size)))
    empty = np.zeros((tokens, 0, 0))
    return Prior(precision, empty, empty, log_norm, 0.0, none, none)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _set_modes(h: Array, modes: Array, out: Array) -> None:
    """Modes of h over the tokens."""
    for p in range(h.shape[0]):
        for k in range(h.shape[1]):
            total = 0.0
            for m in range(h.shape[1]):
                total += modes[k, m] * h[p, m]
            out[p, k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def read(h: Array, layout: Layout, data: Array, z: Array, signs: Array, scratch: Scratch) -> None:
    """Set what the output of h fixes, and the coordinates and signs of h."""
    told, modes, hidden, row, mode = scratch.told, scratch.modes, layout.hidden, layout.row, layout.mode
    read_at(layout.read)(h, layout.constants, data, told)
    _set_modes(h, layout.modes, modes)
    count = len(row)
    for j in range(count):
        z[j] = modes[hidden[row[j]], mode[j]]
    for j in range(count, len(z)):
        z[j] = told[j - count]
    for j in range(len(signs)):
        signs[j] = told[len(z) - count + j]


@njit(cache=True, nogil=True, error_model="numpy")
def place(z: Array, signs: Array, data: Array, layout: Layout, scratch: Scratch) -> float:
    """Set the modes of the indices at coordinates z; return the log-weight of the chart."""
    row, mode, modes, entries = layout.row, layout.mode, layout.modes, scratch.entries
    tokens, count = len(modes), len(row)
    for j in range(len(entries)):
        entries[j] = 0.0
    for j in range(count):
        for m in range(tokens):
            entries[row[j] * tokens + m] += z[j] * modes[mode[j], m]
    first = len(layout.hidden) * tokens - count
    for j in range(count, len(z)):
        entries[first + j] = z[j]
    for j in range(len(signs)):
        entries[first + len(z) + j] = signs[j]
    log_weight = complete_at(layout.complete)(data, entries, layout.constants, scratch.h)
    _set_modes(scratch.h, modes, scratch.modes)
    return log_weight


def read_outputs(y: Array, anywhere: Array, layout: Layout, data: Array, h: Array) -> None:
    """Set what outputs fix, and indices that give them: those that have the coordinates of any given ones, or NaN."""
    _read_outputs(y, anywhere, lend(layout), lend(new_scratch(layout)), data, h)


@njit(cache=True, nogil=True, error_model="numpy")
def _read_outputs(y: Array, anywhere: Array, layout: Layout, scratch: Scratch, data: Array, h: Array) -> None:
    z, signs, found = scratch.z, scratch.signs, scratch.h
    read(anywhere, layout, scratch.data, z, signs, scratch)
    for n in range(len(y)):
        from_output_at(layout.from_output)(y[n], layout.constants, data[n])
        for p in range(found.shape[0]):
            for m in range(found.shape[1]):
                found[p, m] = np.nan
        place(z, signs, data[n], layout, scratch)
        copy_matrix(found, h[n])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def energy(modes: Array, omega: Array, precision: Array, moved: Array) -> float:
    """Half the squared distance of modes from omega; sets moved = precision times the deviation."""
    total = 0.0
    for k in range(modes.shape[1]):
        for p in range(modes.shape[0]):
            value = 0.0
            for i in range(modes.shape[0]):
                value += precision[k, p, i] * (modes[i, k] - omega[i, k])
            moved[p, k] = value
            total += 0.5 * value * (modes[p, k] - omega[p, k])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def log_posterior(z: Array, signs: Array, target: Target, scratch: Scratch) -> float:
    """Logarithm of the posterior's density in the coordinates, up to log Z; -inf where there is none."""
    prior = target.prior
    log_weight = place(z, signs, target.data, target.layout, scratch)
    value = log_weight + prior.log_norm - energy(scratch.modes, target.omega, prior.precision, scratch.moved)
    return value if value < np.inf else -np.inf


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def wrapped(difference: float, kind: int) -> float:
    """The difference of two values of a variable; on a circle the short way round."""
    if kind == CIRCLE:
        return difference - 2 * math.pi * np.round(difference / (2 * math.pi))
    return difference
