"""Averages of three layers of softmax attention with two tokens, where the hidden layers are learned."""

from ...posterior.deep.three_layers import MixturePosterior
from ..sampled import DeepChannel

__all__ = ["ThreeLayers"]


class ThreeLayers(DeepChannel):
    """Averages as `DeepChannel`'s, of cheaper nodes, as many of each output as it asks for.

    Parameters
    ----------
    model : Network
        Three layers, two tokens, softmax, rank 1.
    points : sequence of ndarray, shape (n, 12)
        Standard normal, one array per randomisation.
    nodes : int
        Effective number of nodes in half of those of each output.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster, which sample the posteriors.
    """

    posterior = MixturePosterior
