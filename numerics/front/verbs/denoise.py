"""Posterior of the indices given an output."""

from __future__ import annotations

from typing import Any, cast, overload

from numpy.typing import ArrayLike

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.described import Model, of_data
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.links import LinkKernel
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import require, serving
from attnlimits.numerics.posterior.denoiser import denoise as denoise_64
from attnlimits.numerics.posterior.entrywise import EntrywiseDenoiserResult
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp

__all__ = ["denoise"]


@overload
def denoise(
    model: Model,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    digits: None = None,
    accuracy: float | None = None,
    **settings: Any,
) -> DenoiserResult | EntrywiseDenoiserResult: ...
@overload
def denoise(
    model: Model, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int, **settings: Any
) -> PreciseDenoiserResult: ...


def denoise(
    model: Model,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    digits: int | None = None,
    accuracy: float | None = None,
    **settings: Any,
) -> DenoiserResult | EntrywiseDenoiserResult | PreciseDenoiserResult:
    """Posterior of the indices given an output y and the prior N(omega, V): log Z_out, g_out and its derivative (12).

    Parameters
    ----------
    model : Network or Link
    y : array_like, shape (..., M, M), or (..., K) of a link
        Outputs in the range of the link.
    omega : array_like, shape (..., P, M)
        Prior means of the indices.
    V : array_like, shape (..., P, P)
        Prior covariance of the indices of a token, positive definite.
    digits : int, optional
        Significant digits, up to 200, for one output of tied weights of rank 1; by default float64.
    accuracy : float, optional
        Largest error of an entry relative to the largest one, as the result's `error` has it: met or refused. Of
        integrals by default 1e-8 over at most one coordinate, 1e-5 over two, 1e-3 over more; 0.01 of networks that are
        sampled; and the `tol` of rank 1.
    settings : optional
        Of tied weights of rank 1 `tol` of the quadrature and `workers`, with digits `max_nodes`; of links `max_nodes`
        and `rng`; of networks whose posterior is sampled `max_nodes`, `rng` and `workers`.

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
    NotServedError
        A link whose outputs cannot be solved one after the other.
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
    >>> made = denoise(al.Link("h[1]*h[2]"), [0.3], omega=[[0.2], [0.4]], V=[[0.8, 0.2], [0.2, 0.6]])
    >>> print(f"{made.g_out[0, 0]:.6f} {made.g_out[1, 0]:.6f}")
    0.076086 -0.157290
    """
    served = of_data(model)
    if digits is not None:
        if accuracy is not None:
            raise ValueError("digits are an accuracy: give one of them (12)")
        if isinstance(served, LinkKernel):
            require("denoise-mp", served)
        return denoise_mp(cast(Network, served), y, omega, V, digits=digits, **settings)
    if isinstance(served, LinkKernel):
        from attnlimits.numerics.posterior.link.denoiser import denoise_link  # SciPy's integrals, for links alone

        noiseless = model.noiseless if isinstance(model, Link) else None
        return denoise_link(served, y, omega, V, noiseless=noiseless, accuracy=accuracy, **settings)
    served_by = next((verb for verb in ("denoise", "fibre", "denoise-sampled") if serving(verb, served)), "denoise")
    if served_by == "denoise":
        return _of_rank_one(served, (y, omega, V), accuracy, settings)
    if served_by == "fibre":
        from attnlimits.numerics.posterior.fibre_denoiser import denoise_fibre

        return denoise_fibre(served, y, omega, V, accuracy=accuracy, **settings)
    from attnlimits.numerics.posterior.charts.denoiser import denoise_sampled  # compiled loops of its own

    if accuracy is not None:
        settings["tol"] = accuracy
    return denoise_sampled(served, y, omega, V, **settings)


def _of_rank_one(
    model: Network, given: tuple[ArrayLike, ArrayLike, ArrayLike], accuracy: float | None, settings: dict[str, Any]
) -> DenoiserResult:
    """Posterior by the quadrature of rank 1, whose `tol` an accuracy is."""
    if accuracy is None:
        return denoise_64(model, *given, **settings)
    # Of the quadrature of rank 1: what its `tol` may be.
    finest, coarsest = 1e-14, 1e-2
    made = denoise_64(model, *given, tol=min(max(accuracy, finest), coarsest), **settings)
    if made.error.size and float(made.error.max()) > accuracy:
        raise ConvergenceError(
            f"the denoiser (12) has an error of {made.error.max():.1e} by rounding, and not of {accuracy:.1e}; "
            "ask for `digits`"
        )
    return made
