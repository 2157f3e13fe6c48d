"""Denoiser of the output channel on a JAX device; same numbers as `denoiser` to the tolerance of both."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import KernelNotFoundError
from ...core.results import DenoiserResult, Origin
from ...core.validation import numbers
from ...model.network import Network, kernel
from ...model.routes import serving
from .. import lattice
from ..denoiser import check_covariance, check_tolerance, of_output, of_readout
from ..one_layer import Batch, two_points
from ..protocol import Moments
from ..readout import invert_readout
from ..rounding import readout_rounding, two_points_rounding
from ..two_layers import check_widths, fill_parameters
from ..two_layers_rounding import two_layers_rounding
from .backend import device_of, double_precision, jax, on_jax, require_jax
from .batches import moments_of

__all__ = ["denoise_jax"]

Array = NDArray[np.float64]

# Rotation of two tokens to their modes (plus, minus); its own inverse.
_MODES = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)


def denoise_jax(
    model: Network,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    tol: float = 1e-12,
    device: str | None = None,
) -> DenoiserResult:
    """Posterior of the indices given one output, as `numerics.posterior.denoiser.denoise` gives it, computed by JAX.

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
        Bound of the error of the posterior moments, relative to the mass, with h - omega whitened by V.
    device : str, optional
        Platform of jax: "cpu", "gpu", "cuda", ..; by default jax's first choice, a GPU where there is one.

    Returns
    -------
    DenoiserResult
        Of numpy arrays; as for `denoise`.

    Raises
    ------
    JaxUnavailable
        JAX is not installed.
    ValueError
        Shapes, NaN, V not positive definite, no such device.
    UnreachableOutputError
        y outside the range of the link.
    KernelNotFoundError
        No denoiser for this architecture.
    ConvergenceError
        A sample missed `tol`; the message says how many and why.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    require_jax()
    p, m = model.indices, model.tokens
    if not serving("denoise", model):
        raise KernelNotFoundError(
            f"denoise_jax serves depth 1 with any number of tokens and depth 2 with two tokens, rank 1, got "
            f"{model.describe()} (troiani2025 (169)); see `attnlimits denoise --help` for others"
        )
    check_tolerance(tol)
    place = device_of(device)
    v, log_jacobian = invert_readout(model, y)
    inexact, jacobian_error = readout_rounding(model, numbers("y", y), v, log_jacobian)
    mean = numbers("omega", omega)
    if mean.ndim < 2 or mean.shape[-2:] != (p, m) or not np.isfinite(mean).all():
        raise ValueError(
            f"omega must be finite with shape (..., P, M) = (..., {p}, {m}) (troiani2025 (9)), got shape {mean.shape}"
        )

    def rule(batch: Batch) -> Moments:
        with double_precision(place):
            if model.layers > 1:
                return _two_layers(model, batch, tol, place.platform)
            rows, _, omega, V = batch
            log_z, g, dg = (np.asarray(x) for x in _closed_form(m)(rows, omega, V))
            return Moments(log_z, g, dg, *two_points_rounding(rows, omega, V, batch.inexact))

    batch = Batch(v, inexact, mean, check_covariance("V", V, p))
    result = of_readout(batch, rule, Origin.of(model, tol=tol, device=place.platform))
    return of_output(result, log_jacobian, jacobian_error)


@cache
def _closed_form(tokens: int) -> Callable[..., tuple[Array, ...]]:
    """Compiled denoiser of one layer: a function of v, omega and V, whatever the activation was."""
    body, model = on_jax(two_points), Network(1, tokens)
    return jax.jit(lambda v, omega, V: body(model, v, omega, V))


def _two_layers(model: Network, batch: Batch, tol: float, platform: str) -> Moments:
    v, inexact, omega, V = batch
    parameters = np.empty((len(v), lattice.N_PARAMETERS))
    fill_parameters(v, omega, V, model.skip, model.beta, parameters)
    check_widths(parameters, omega, V)
    law = parameters[:, [0, 1, *range(4, 11)]].T
    i1, slope, i2 = law[6:]
    # z = W (h - omega), the second layer given the first: W V W^T = I.
    white = np.zeros((len(v), 2, 2))
    white[:, 0, 0], white[:, 1, 0], white[:, 1, 1] = i1, -slope * i2, i2
    # V^{-1} magnifies errors of the moments by as much as the layers are correlated.
    moments, shift, error = moments_of(model, law, tol / (1.0 + (slope * i2 / i1) ** 2), platform)
    table = np.empty((len(v), 5, 5))
    row, column = np.triu_indices(5)
    table[:, row, column] = table[:, column, row] = moments / moments[:, :1]
    mean, second = table[:, 0, 1:], table[:, 1:, 1:]
    information = second - mean[:, :, None] * mean[:, None, :] - np.eye(4)
    # From whitened indices and modes (l, s) to indices and tokens (p, m).
    back = np.einsum("nlp,sm->nlspm", white, _MODES).reshape(-1, 4, 2, 2)
    g = np.einsum("nzpm,nz->npm", back, mean)
    dg = np.einsum("nzpm,nzw,nwqr->npmqr", back, information, back, optimize=True)
    log_z = np.log(moments[:, 0]) - 0.5 * shift - 2 * math.log(2 * math.pi) + 2 * np.log(i1 * i2)
    parameters[:, 11] = shift
    # The rule's error, and the steepest slope of z; moments of pairs of sums round as few nodes do.
    info = np.zeros((len(v), lattice.N_INFO))
    info[:, 0], info[:, 5] = error, _steepest(model, parameters, mean[:, :2] / i1[:, None])
    rounded, log_z_error = np.empty(len(v)), np.empty(len(v))
    linear = model.activation == "linear"
    two_layers_rounding(linear, parameters, np.ascontiguousarray(moments), info, inexact, log_z, rounded, log_z_error)
    return Moments(log_z, g, dg, rounded, log_z_error)


def _steepest(model: Network, parameters: Array, away: Array) -> Array:
    """Largest |dz/dh_1| along an axis, at the posterior mean `away` from omega_1, by one-sided differences."""
    undo = kernel(model, "numpy64").undo
    at, (i1, slope, i2) = parameters[:, 4:6] + away, parameters[:, 8:11].T
    fixed = parameters[:, 0], parameters[:, 1], model.skip, model.beta
    here = np.stack(undo(at[:, 0], at[:, 1], *fixed)[:2])
    out = np.zeros(len(at))
    for axis in (0, 1):
        step = 1e-6 * (1 + np.abs(at[:, axis])) * np.eye(2)[axis][:, None]
        there = np.stack(undo(at[:, 0] + step[0], at[:, 1] + step[1], *fixed)[:2])
        change = (there - here) / step[axis] - slope * np.eye(2)[axis][:, None]
        out = np.maximum(out, np.sqrt(i1**2 + i2**2 * (change**2).sum(axis=0)))
    return out
