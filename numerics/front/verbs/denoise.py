"""Posterior of the indices given an output."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike

from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import serving
from attnlimits.numerics.posterior.denoiser import denoise as denoise_64
from attnlimits.numerics.posterior.entrywise import EntrywiseDenoiserResult
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp

__all__ = ["denoise"]


@overload
def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: None = None, **settings: Any
) -> DenoiserResult | EntrywiseDenoiserResult: ...
@overload
def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int, **settings: Any
) -> PreciseDenoiserResult: ...


def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int | None = None, **settings: Any
) -> DenoiserResult | EntrywiseDenoiserResult | PreciseDenoiserResult:
    """Posterior of the indices given an output y and the prior N(omega, V): log Z_out, g_out and its derivative (12).

    Parameters
    ----------
    model : Network
    y : array_like, shape (..., M, M)
        Outputs in the range of the link.
    omega : array_like, shape (..., P, M)
        Prior means of the indices.
    V : array_like, shape (..., P, P)
        Prior covariance of the indices of a token, positive definite.
    digits : int, optional
        Significant digits, up to 200, for one output; by default float64. Samples are used where no quadrature serves.
    settings : optional
        `tol` of the quadrature and `workers`; with digits `max_nodes`; of samples `max_nodes` and `rng`.

    Returns
    -------
    DenoiserResult, EntrywiseDenoiserResult or PreciseDenoiserResult
        With `log_z`, `g_out` of the shape of omega, `dg_out` and the error.

    Raises
    ------
    ValueError
        Shapes that do not fit, NaN, or V not positive definite.
    UnreachableOutputError
        y is outside the range of the link.
    KernelNotFoundError
        Nothing serves the model.
    ConvergenceError
        The accuracy cannot be reached; the message states why.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).

    Examples
    --------
    >>> import attnlimits as al
    >>> model = al.Network(layers=1, tokens=2)
    >>> y = model.link([[0.4, -0.3]])
    >>> denoise(model, y, omega=[[0.0, 0.0]], V=[[1.0]]).g_out.shape
    (1, 2)
    """
    if digits is None and not serving("denoise", model) and serving("denoise-sampled", model):
        from attnlimits.numerics.posterior.charts.denoiser import denoise_sampled  # compiled loops of its own

        return denoise_sampled(model, y, omega, V, **settings)
    if digits is None:
        return denoise_64(model, y, omega, V, **settings)
    return denoise_mp(model, y, omega, V, digits=digits, **settings)
