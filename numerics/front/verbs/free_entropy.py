"""Free entropy of a network or a link."""

from __future__ import annotations

from typing import Any

from attnlimits.free_energy import FreeEntropy, Prior, entropy_of
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.priors import SpectrumLike
from attnlimits.verbs.inputs import prior_of

__all__ = ["free_entropy"]


def free_entropy(
    model: Model,
    alpha: float,
    *,
    prior: Prior | str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Any,
) -> FreeEntropy:
    """Variational free entropy Phi(q) - Phi(0) of (10) at alpha = N/D, a function of the overlap.

    Parameters
    ----------
    model : Network or Link
    alpha : float
        >= 0.
    prior : Prior, optional
        Of a row of the weights, by default Gaussian; "binary", and others are in `attnlimits.free_energy`.
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers` of the averages, as of `evolve`; `client`, an open Dask
        client, to whose workers these and the starts of a search for stationary points go.

    Returns
    -------
    FreeEntropy
        Called with an overlap of shape (P, P) it gives an `Estimate`: value, error, how.

    Raises
    ------
    ValueError, KernelNotFoundError
        An argument is out of range, or nothing serves the model; the message lists what is served.

    References
    ----------
    troiani2025, (10).

    Examples
    --------
    >>> import attnlimits as al
    >>> entropy = free_entropy(al.Link("h[1]**2"), alpha=1.05)
    >>> f"{entropy([[0.5]]).value:.5f}"
    '0.01666'
    """
    law = prior_of(model, prior, spectrum)
    return FreeEntropy(entropy_of(model, **settings), alpha, law)
