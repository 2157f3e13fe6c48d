"""Fixed point of a link whatever its noise: of its limit without noise where float64 does not resolve the noise."""

from dataclasses import replace
from typing import Any

from ..core.results import EvolutionResult
from ..model.link import Link
from ..thresholds.link.thresholds import unresolved_noise
from .link import evolve

__all__ = ["evolve_link"]


def evolve_link(link: Link, alpha: float, **settings: Any) -> EvolutionResult:
    """Fixed point of the state evolution of a link, the same for every verb that gives one.

    Parameters
    ----------
    link : Link
    alpha : float
        Samples per dimension N/D.
    settings : optional
        As in `link.evolve`.

    Returns
    -------
    EvolutionResult
    """
    if not (limit := unresolved_noise(link.kernel)):
        return evolve(link.kernel, alpha, noiseless=link.noiseless, predicted=link.observed, **settings)
    clean = replace(link, noise="0")
    result = evolve(clean.kernel, alpha, predicted=clean.observed, **settings)
    status = f"{result.status}; {limit}: this is the fixed point without noise, its limit"
    return replace(result, status=status, origin=result.origin.with_model(noise=link.kernel.noise))
