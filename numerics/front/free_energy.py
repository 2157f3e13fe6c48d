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
from attnlimits.numerics.free_energy.landscape import landscape
from attnlimits.numerics.free_energy.located import located
from attnlimits.numerics.free_energy.pictures import draw, draw_stationary
from attnlimits.numerics.free_energy.prior import prior_named
from attnlimits.numerics.free_energy.theorem import bayes_optimal
from attnlimits.numerics.free_energy.thresholds import Transitions
from attnlimits.numerics.free_energy.thresholds import transitions as transitions_of
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network

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
    "draw_stationary",
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


def transitions(
    model: Model | OutputEntropy, prior: Prior | None = None, *, closest: float | None = None
) -> Transitions:
    """All transitions of a model whose indices share one overlap: of a network, a link, or the Psi_out of one.

    Parameters
    ----------
    model : Network, Link or OutputEntropy
        Its settings are those of `entropy_of` by default.
    prior, closest : optional
        Law of a row of the weights, by default Gaussian; distance to one beyond which an overlap counts as recovered.
    """
    output = entropy_of(model) if isinstance(model, Network | Link) else model
    return transitions_of(output, prior, closest=closest)
