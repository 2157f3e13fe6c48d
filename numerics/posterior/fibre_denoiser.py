"""Posterior of the indices of one attention layer given single outputs, with an error of every entry."""

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import ConvergenceError
from ..core.results import Origin
from ..core.typing import Array
from ..core.validation import numbers, positive
from ..model.network import Network
from .denoiser import check_covariance, flat
from .entrywise import EntrywiseDenoiserResult, OneOutput, largest_error, scores
from .fibres import fibre_moments

__all__ = ["denoise_fibre"]


def denoise_fibre(
    layer: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, accuracy: float | None = None
) -> EntrywiseDenoiserResult:
    """Posterior of the indices given an output of one layer, by the integral over its fibre.

    Parameters
    ----------
    layer : Network
        Tied of rank 1, 2, 3, or untied of rank 1.
    y : array_like, shape (..., M, M)
    omega : array_like, shape (..., P, M)
    V : array_like, shape (..., P, P)
    accuracy : float, optional
        Of `EntrywiseDenoiserResult.error`, met or refused; by default 1e-8, or what rounding leaves.

    Returns
    -------
    EntrywiseDenoiserResult
        Leading axes are broadcast; `nodes` are not counted and 0.

    Raises
    ------
    ValueError, UnreachableOutputError, KernelNotFoundError, ConvergenceError
        As `fibre_moments` has it; the last where the accuracy is not reached.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    # Of the moments of the fibre.
    usual = 1e-8
    asked = usual if accuracy is None else positive("accuracy", accuracy, "(12)")
    outputs, means = numbers("y", y), numbers("omega", omega)
    p, m = layer.indices, layer.tokens
    if outputs.ndim < 2 or means.ndim < 2:
        raise ValueError(
            f"y must have shape (..., {m}, {m}) and omega (..., {p}, {m}) (12), got {outputs.shape} and {means.shape}"
        )
    covariance = check_covariance("V", V, p)
    lead = np.broadcast_shapes(outputs.shape[:-2], means.shape[:-2], covariance.shape[:-2])
    rows = zip(*(flat(part, lead, part.shape[-2:]) for part in (outputs, means, covariance)), strict=True)
    found = [_one(layer, output, mean, prior, asked) for output, mean, prior in rows]
    worst = max((one.error for one in found), default=0.0)
    if accuracy is not None and worst > accuracy:
        raise ConvergenceError(
            f"the denoiser (12) has an error of {worst:.1e} by rounding, and {accuracy:.1e} is asked for; ask for less"
        )
    return OneOutput.stacked(found, lead, "estimated", Origin.of(layer, accuracy=asked))


def _one(layer: Network, y: Array, omega: Array, V: Array, accuracy: float) -> OneOutput:
    """Entries of one output: the errors of the moments are for all of them, and so are those of h - omega."""
    precision = np.asarray(np.linalg.inv(V), np.float64)
    size = np.abs(precision).sum(axis=0)
    # Units of rounding times the condition of V: permuted tokens differ by up to 9 (tests/numerics/posterior).
    rounding = 32 * float(np.finfo(float).eps) * float(np.linalg.cond(V))
    tol = accuracy
    # The finest that the rules are asked for.
    finest = 1e-13
    while True:
        made = fibre_moments(layer, y, omega, V, tol=tol)
        shift = made.mean - omega
        covariance = made.second - np.multiply.outer(made.mean, made.mean)
        scale = max(1.0, float(np.abs(made.second).max()))
        first = float(made.error) * scale + rounding * float(np.abs(made.mean).max())
        second = first * (1 + 2 * float(np.abs(made.mean).max())) + rounding * scale
        g, dg = scores(shift, covariance, precision)
        g_error = np.broadcast_to(first * size[:, None], g.shape)
        dg_error = np.broadcast_to(second * np.multiply.outer(size, size)[:, None, :, None], dg.shape)
        log_error = float(made.error) + rounding * (1 + abs(float(made.log_z)))
        worst = largest_error(log_error, (g, g_error), (dg, dg_error), V)
        if worst <= accuracy or tol <= finest:
            return OneOutput(float(made.log_z), g, dg, log_error, g_error, dg_error, worst, 0)
        tol = max(finest, 0.5 * tol * accuracy / worst)
