"""Which channel averages serve a model: the only module that knows all of them."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..core.cluster_pool import Workers
from ..model.network import Network
from ..model.routes import CHART, DEEP_QUADRATURE, preferred, require
from ..quadrature.rules import normal_qmc
from .averages import Channel
from .branches import sampled_channel
from .deep.averages import DeepAverages
from .fibre import TiedLayer, UntiedLayer
from .one_layer import OneLayer
from .sampled import DeepChannel
from .structure import normals_of
from .two_layers.averages import TwoLayerAverages
from .two_layers.sampled import TwoLayers

__all__ = ["channel", "is_costly", "is_sampled"]

Array = NDArray[np.float64]


def is_sampled(model: Network) -> bool:
    """Whether the posterior is sampled: beyond two layers, two layers of more than two tokens, or on a chart."""
    return model.layers > 2 or (model.layers == 2 and model.tokens > 2) or preferred("evolve", model) == CHART


def is_costly(model: Network) -> bool:
    """Whether the posterior of one output takes about a millisecond."""
    shifted = model.activation == "softmax" and model.layers == 1 and 3 == model.indices >= model.tokens
    return is_sampled(model) or bool(shifted)


def channel(
    model: Network,
    *,
    samples: int,
    replicas: int,
    rng: np.random.Generator,
    workers: Workers = None,
    nodes: int = 2048,
    accuracy: float | None = None,
) -> Channel:
    """Choose the averages for a model.

    Parameters
    ----------
    model : Network
        Rank 1; at depth 1 to 3, and untied.
    samples : int
        Points per randomisation (rounded up to a power of two).
    replicas : int
        Number of independent randomisations, at least 2.
    rng : numpy.random.Generator
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster, to which the parts of the averages go that do not
        need each other: posteriors of outputs where the outer average is sampled, points of a rule where it is not.
    nodes : int, optional
        Nodes of the posterior of each output, where it is sampled.
    accuracy : float, optional
        Of two layers and two tokens, and of more of softmax, by quadrature as far as it goes; None samples them.
    """
    route = require("evolve", model)
    if model.indices == 1 and route is not CHART:
        return OneLayer(model)
    size = normals_of(model)
    log2_n = max(4, math.ceil(math.log2(samples)))
    # Every route takes these from the generator, used or not: what is drawn from it later stays the same.
    streams = rng.spawn(replicas)
    if route is CHART:
        return sampled_channel(model)(model, _points(size, log2_n, streams), nodes=nodes, rng=rng, workers=workers)
    if not model.tied:
        return UntiedLayer(model, _points(size, log2_n, streams), workers)
    if model.layers == 1:
        return TiedLayer(model, _points(size, log2_n, streams), workers)
    if not is_sampled(model):
        if accuracy is None:
            return TwoLayers(model, _points(size, log2_n, streams), workers)
        return TwoLayerAverages(model, accuracy, _near_recovery(model, log2_n, streams, workers), workers)
    if accuracy is not None and DEEP_QUADRATURE.serves(model):
        return DeepAverages(model, accuracy, replicas=replicas, rng=rng, workers=workers)
    return DeepChannel(model, _points(size, log2_n, streams), nodes=nodes, rng=rng, workers=workers)


def _points(size: int, log2_n: int, streams: Sequence[np.random.Generator]) -> list[Array]:
    """Standard normal points, one array of shape (n, size) per randomisation."""
    return [normal_qmc(size, log2_n, stream) for stream in streams]


def _near_recovery(
    model: Network, log2_n: int, streams: Sequence[np.random.Generator], workers: Workers
) -> Callable[[int], Channel]:
    """Sampled averages of two layers, of so many times the usual points, which are drawn when they are asked for."""

    @cache
    def usual() -> list[Array]:
        return _points(8, log2_n, streams)

    def sampled(times: int) -> Channel:
        # The usual points are the first ones of each stream, whichever are asked for first.
        points = usual()
        return TwoLayers(model, points if times == 1 else _points(8, log2_n + int(math.log2(times)), streams), workers)

    return sampled
