"""Fixed points of a link whatever its noise: of its limit without noise where float64 does not resolve the noise."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..channel.link.channel import LinkChannel
from ..core.results import EvolutionResult
from ..model.link import Link
from ..thresholds.link.thresholds import unresolved_noise
from .continuation.curve import curve
from .continuation.records import CurveResult
from .link import evolve

__all__ = ["curve_link", "evolve_link"]


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
        return evolve(link.kernel, alpha, noiseless=link.noiseless, **settings)
    result = evolve(link.limit, alpha, **settings)
    status = f"{result.status}; {limit}: this is the fixed point without noise, its limit"
    return replace(result, status=status, origin=result.origin.with_model(noise=link.kernel.noise))


def curve_link(
    link: Link, values: Iterable[float], *, samples: int = 1024, replicas: int = 8, rng: int = 0, **settings: Any
) -> CurveResult:
    """Fixed points of a link along alpha, with onsets and jumps.

    Parameters
    ----------
    link : Link
    values : iterable of float
        Samples per dimension N/D.
    samples, replicas, rng : int, optional
        Points per randomisation, randomisations and seed, where the averages are sampled.
    settings : optional
        As in `continuation.curve`.
    """
    averages = LinkChannel(
        link.kernel, samples=samples, replicas=replicas, rng=np.random.default_rng(rng), noiseless=link.noiseless
    )
    return curve(averages, values, samples=samples, replicas=replicas, rng=rng, **settings)
