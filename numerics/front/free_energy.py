"""`al.free_energy`: priors, stationary points, transitions and landscapes of the free entropy (10)."""

from typing import Any

from attnlimits.numerics.fixed_point.continuation import usual_samples
from attnlimits.numerics.free_energy import (
    Binary,
    FreeEntropy,
    GaussBernoulli,
    Gaussian,
    OutputEntropy,
    Prior,
    StationaryPoint,
    output_entropy,
    stationary_points,
)
from attnlimits.numerics.free_energy.landscape import draw, landscape
from attnlimits.numerics.free_energy.located import located
from attnlimits.numerics.free_energy.prior import prior_named
from attnlimits.numerics.free_energy.theorem import bayes_optimal
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link

__all__ = [
    "Binary",
    "FreeEntropy",
    "GaussBernoulli",
    "Gaussian",
    "OutputEntropy",
    "Prior",
    "StationaryPoint",
    "bayes_optimal",
    "draw",
    "entropy_of",
    "landscape",
    "located",
    "prior_named",
    "stationary_points",
    "transitions",
    "usual_samples",
]


def entropy_of(model: Model, **settings: Any) -> OutputEntropy:
    """Psi_out of a network or a link, the part of the free entropy that does not depend on alpha or the prior.

    Parameters
    ----------
    model : Network or Link
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers`.
    """
    if isinstance(model, Link):
        return output_entropy(model.kernel, noiseless=model.noiseless, **settings)
    return output_entropy(model, **settings)
