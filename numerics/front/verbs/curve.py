"""Fixed points of a network or a link along a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlimits.numerics.core.cluster_pool import workers_of
from attnlimits.numerics.core.results import as_dict
from attnlimits.numerics.fixed_point.continuation import CurveResult
from attnlimits.numerics.fixed_point.continuation.accurate import model_curve
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.reduced import reduced
from attnlimits.numerics.priors import OF_V, Prior, Rows, SpectrumLike, independent
from attnlimits.verbs.inputs import prior_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["curve"]


def curve(
    model: Model,
    values: Iterable[float],
    *,
    client: str | Client | None = None,
    workers: int | None = None,
    accuracy: float | None = None,
    prior: Prior | str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Any,
) -> CurveResult:
    """Fixed points along alpha, skip strength or inverse temperature, with onsets, jumps and hysteresis.

    Parameters
    ----------
    model : Network or Link
    values : iterable of float
        Of the parameter that varies: alpha >= 0, or c or beta > 0.
    client : str or distributed.Client, optional
        A Dask client, the address of a scheduler, its scheduler file, or "local": points follow each other, and the
        parts of the averages of each go to its workers. The numbers are those of one thread.
    workers : int, optional
        Threads, all cores by default; with a local cluster its processes.
    accuracy : float, optional
        Of every overlap, absolute; of two layers over two tokens by quadrature, relative. As fine rules or as many
        samples (up to 2^16 per randomisation) are taken as it takes. Where that is not enough, `reached` of the result
        is false, and the status says what it would take. By default two layers' averages are good to 1e-3, and others
        as good as one quadrature, or as so many `samples`, make them.
    prior : Prior or str, optional
        Law of the rows of the weights, Gaussian by default.
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
    settings : optional
        `start` ("uninformed", "informed" or "both"); `along` ("alpha", "skip" or "beta"; of a link "alpha"), and
        `alpha` where another parameter varies; `samples`, `replicas`, `rng`, `tol` of the
        averages, as of `evolve`; `progress`, called with the numbers of points done and in all; `keep`, a file from
        which an interrupted curve goes on.

    Returns
    -------
    CurveResult
        `points` by start, each with overlaps and errors, and the onsets and jumps between them.

    Raises
    ------
    ValueError
        An argument is outside its range, or nothing serves the model; the message names what does.

    References
    ----------
    troiani2025, (13)-(14), (17)-(18).

    Examples
    --------
    >>> import attnlimits as al
    >>> found = curve(al.Link("h[1]**2"), [0.4, 0.8])
    >>> f"{found.points['uninformed'][1].overlap[0, 0]:.6f}"
    '0.216227'
    """
    model, law, rows = independent(model, prior_of(model, prior, spectrum))
    simpler, reason = reduced(model)
    named = {} if isinstance(model, Link) else model.parameters
    with workers_of(client, workers) as hands:
        found = model_curve(simpler, values, workers=hands, accuracy=accuracy, prior=law, **settings)
    if reason:
        found = replace(found, origin=replace(found.origin, model=as_dict(named)))
    return found if rows is None else _of_rows(found, rows)


def _of_rows(found: CurveResult, rows: Rows) -> CurveResult:
    """Points along the rows of covariance T, from those of independent ones."""
    size = np.abs(rows.root)
    points = {
        start: tuple(
            replace(one, overlap=rows.seen(one.overlap), overlap_error=size @ one.overlap_error @ size.T)
            for one in line
        )
        for start, line in found.points.items()
    }
    return replace(found, points=points, status=f"{found.status}; {rows.describe()}: onsets and jumps are of {OF_V}")
