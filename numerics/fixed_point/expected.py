"""State evolution beside an estimate from data: where it takes seconds, or where it is asked for."""

import numpy as np

from ..channel.link.channel import LinkChannel
from ..core.errors import ConvergenceError
from ..core.results import EvolutionResult
from ..model.described import Model, kernel_or_network
from ..model.link import Link
from ..model.links import LinkKernel
from ..model.network import Network
from ..model.routes import CHART, TWO_LAYER_QUADRATURE, preferred, require
from ..priors import GAUSSIAN, Prior, gain
from .evolve import evolve
from .link_limit import evolve_link

__all__ = ["expected", "takes_seconds"]


def expected(
    model: Model,
    alpha: float,
    *,
    wanted: bool = False,
    rng: int = 0,
    workers: int | None = None,
    prior: Prior = GAUSSIAN,
) -> EvolutionResult | None:
    """Fixed point of the state evolution from the uninformed start.

    Parameters
    ----------
    model : Network or Link
    alpha : float
        Samples per dimension N/D.
    wanted : bool, optional
        Compute it also where it takes longer than seconds, and raise where there is none.
    rng, workers, prior : optional
        As in `evolve`.

    Returns
    -------
    EvolutionResult or None
        None where it takes longer or does not exist, unless `wanted`.

    Raises
    ------
    KernelNotFoundError
        There is no estimate by GAMP.
    ValueError, ConvergenceError
        `wanted`, and there is none.
    """
    require("gamp", kernel_or_network(model))  # before state evolution, which serves more
    if not (wanted or takes_seconds(kernel_or_network(model), alpha * gain(prior))):
        return None
    try:
        if isinstance(model, Link):
            return evolve_link(model, alpha, rng=rng, prior=prior)
        return evolve(model, alpha, rng=rng, workers=workers, prior=prior)
    except (ValueError, ConvergenceError):
        if wanted:
            raise
        return None


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
        return _is_deterministic(model)
    if preferred("evolve", model) in (None, CHART) or not model.tied:
        return False
    if model.layers == 1:
        return bool(model.indices == 1 or model.tokens > model.indices)
    # Of alpha over that at which outputs fix as many numbers as there are weights. The averages of two layers turn
    # narrow once the first layer is learned, at 0.72 for c = 1: tests/benchmarks/test_evolution_cost.py measures 0.1 s
    # below, and c = .3 to 3 takes 0.7 to 1.1 s at 0.8, 1.4 to 2.3 s at 1, minutes next to recovery.
    learned = 2 / 3
    return TWO_LAYER_QUADRATURE.serves(model) and alpha * model.tokens < learned * model.indices


def _is_deterministic(kernel: LinkKernel) -> bool:
    """Whether all averages of a link are quadratures."""
    try:
        return not LinkChannel(kernel, samples=16, replicas=2, rng=np.random.default_rng(0)).sampled
    except ValueError:
        return False
