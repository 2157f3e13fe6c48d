"""`al.free_energy`: priors, stationary points, transitions and landscapes of the free entropy (10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnlimits.numerics.core.cluster import check_cluster
from attnlimits.numerics.core.cluster_pool import ClusterPool
from attnlimits.numerics.fixed_point.continuation import usual_samples
from attnlimits.numerics.free_energy import (
    FreeEntropy,
    OutputEntropy,
    StationaryPoint,
    output_entropy,
    stationary_points,
)
from attnlimits.numerics.free_energy.landscape import landscape
from attnlimits.numerics.free_energy.located import located
from attnlimits.numerics.free_energy.pictures import draw, draw_stationary
from attnlimits.numerics.free_energy.theorem import bayes_optimal
from attnlimits.numerics.free_energy.thresholds import Transitions
from attnlimits.numerics.free_energy.thresholds import transitions as transitions_of
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import Binary, GaussBernoulli, Gaussian, Prior, prior_named

if TYPE_CHECKING:
    from distributed import Client

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


def entropy_of(model: Model, *, client: Client | None = None, **settings: Any) -> OutputEntropy:
    """Psi_out of a network or a link, the part of the free entropy that does not depend on alpha or the prior.

    Parameters
    ----------
    model : Network or Link
    client : distributed.Client, optional
        The parts of the averages that do not need each other go to the workers of its cluster, and so do the points at
        which a search for stationary points evaluates or from which it starts. It has to be open for as long as what is
        returned is asked for values.
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers`.

    Raises
    ------
    ValueError
        A client that is an address, or threads beside a client.
    """
    if client is not None:
        if isinstance(client, str):
            raise ValueError(
                f"client must be an open distributed.Client here, as values are asked for later; got {client!r}: "
                "distributed.Client(address) makes one"
            )
        check_cluster(client, settings.get("workers"))
        settings["workers"] = ClusterPool(client)
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
