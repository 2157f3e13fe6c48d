"""State evolution beside an estimate from data: where it takes seconds, or where it is asked for."""

from ..core.errors import ConvergenceError
from ..core.results import EvolutionResult
from ..model.described import Model, kernel_or_network
from ..model.link import Link
from ..model.routes import require
from ..priors import GAUSSIAN, Prior, gain
from .cost import takes_seconds
from .evolve import evolve
from .link_limit import evolve_link

__all__ = ["expected"]


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
