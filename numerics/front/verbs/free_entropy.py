"""Free entropy of a network or a link."""

from typing import Any

from attnlimits.free_energy import FreeEntropy, Prior, entropy_of
from attnlimits.numerics.model.described import Model

__all__ = ["free_entropy"]


def free_entropy(model: Model, alpha: float, *, prior: Prior | None = None, **settings: Any) -> FreeEntropy:
    """Variational free entropy Phi(q) - Phi(0) of (10) at alpha = N/D, a function of the overlap.

    Parameters
    ----------
    model : Network or Link
    alpha : float
    prior : Prior, optional
        Of a row of the weights, by default Gaussian; see `attnlimits.free_energy`.
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers`.
    """
    return FreeEntropy(entropy_of(model, **settings), alpha, prior)
