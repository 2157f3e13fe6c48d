"""Which state evolutions take seconds: what a verb may show beside its result without being asked."""

import numpy as np

from ..channel.link.channel import LinkChannel
from ..model.links import LinkKernel
from ..model.network import Network
from ..model.routes import CHART, TWO_LAYER_QUADRATURE, preferred

__all__ = ["takes_seconds"]

# Of alpha over that at which outputs fix as many numbers as there are weights. The averages of two layers turn narrow
# once the first layer is learned, at 0.72 for c = 1: tests/benchmarks/test_evolution_cost.py measures 0.1 s
# below, and c = .3 to 3 takes 0.7 to 1.1 s at 0.8, 1.4 to 2.3 s at 1, minutes next to recovery.
_LEARNED = 2 / 3


def takes_seconds(model: Network | LinkKernel, alpha: float) -> bool:
    """Whether the fixed point from the uninformed start is there within seconds on one core.

    These are deterministic averages: one tied layer of more tokens than its rank or of one index; two layers over two
    tokens, below two thirds of the alpha at which outputs fix as many numbers as there are weights; links in
    one entry, or one combination of entries, per output.

    Parameters
    ----------
    model : Network or LinkKernel
    alpha : float
    """
    if isinstance(model, LinkKernel):
        return is_deterministic(model)
    if preferred("evolve", model) in (None, CHART) or not model.tied:
        return False
    if model.layers == 1:
        return bool(model.indices == 1 or model.tokens > model.indices)
    return TWO_LAYER_QUADRATURE.serves(model) and alpha * model.tokens < _LEARNED * model.indices


def is_deterministic(kernel: LinkKernel) -> bool:
    """Whether all averages of a link are quadratures."""
    try:
        return not LinkChannel(kernel, samples=16, replicas=2, rng=np.random.default_rng(0)).sampled
    except ValueError:
        return False
