"""Posterior of the indices given an output."""

from typing import Any, overload

from numpy.typing import ArrayLike

from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import serving
from attnlimits.numerics.posterior.charts.results import SampledDenoiserResult
from attnlimits.numerics.posterior.denoiser import denoise as denoise_64
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp

__all__ = ["denoise"]


@overload
def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: None = None, **settings: Any
) -> DenoiserResult | SampledDenoiserResult: ...
@overload
def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int, **settings: Any
) -> PreciseDenoiserResult: ...


def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int | None = None, **settings: Any
) -> DenoiserResult | SampledDenoiserResult | PreciseDenoiserResult:
    """Posterior of the indices given an output y and the prior N(omega, V): log Z_out, g_out and its derivative (12).

    Parameters
    ----------
    model : Network
    y : array_like, shape (..., M, M)
    omega : array_like, shape (..., P, M)
    V : array_like, shape (..., P, P)
    digits : int, optional
        For one output, to so many digits; by default float64, by samples where no quadrature serves the model.
    settings : optional
        `tol`, `workers`; with digits `max_nodes`; of samples `max_nodes`, `rng`.
    """
    if digits is None and not serving("denoise", model) and serving("denoise-sampled", model):
        from attnlimits.numerics.posterior.charts.denoiser import denoise_sampled  # compiled loops of its own

        return denoise_sampled(model, y, omega, V, **settings)
    if digits is None:
        return denoise_64(model, y, omega, V, **settings)
    return denoise_mp(model, y, omega, V, digits=digits, **settings)
