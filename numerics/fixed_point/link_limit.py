"""Fixed point of a link whatever its noise: of its limit without noise where float64 does not resolve the noise."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.results import Estimate, EvolutionResult
from ..model.link import Link
from ..priors import Rows, independent
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
    model, settings["prior"], rows = independent(link, settings.get("prior"))
    if rows is not None:
        assert isinstance(model, Link)
        if not isinstance(settings.get("start", ""), str):
            settings["start"] = rows.white(np.asarray(settings["start"], dtype=np.float64))
        return _of_rows(evolve_link(model, alpha, **settings), rows)
    if not (limit := unresolved_noise(link.kernel)):
        return evolve(link.kernel, alpha, noiseless=link.noiseless, predicted=link.observed, **settings)
    clean = replace(link, noise="0")
    result = evolve(clean.kernel, alpha, predicted=clean.observed, **settings)
    status = f"{result.status}; {limit}: this is the fixed point without noise, its limit"
    return replace(result, status=status, origin=result.origin.with_model(noise=link.kernel.noise))


def _of_rows(result: EvolutionResult, rows: Rows) -> EvolutionResult:
    """The result along the rows of covariance T, from that of independent ones."""
    size = np.abs(rows.root)
    overlap, error = rows.seen(result.overlap), size @ result.overlap_error @ size.T
    missed = Estimate(1 - float(overlap.trace()) / len(overlap), float(error.trace()) / len(error), result.how)
    return replace(
        result,
        overlap=overlap,
        overlap_error=error,
        estimation_error=missed,
        history=rows.seen(result.history),
        status=f"{result.status}; {rows.describe()}",
        origin=result.origin.with_settings(prior=rows.describe()),
    )
