"""Fixed points of a network or a link along a parameter."""

from collections.abc import Iterable
from typing import Any

from attnlimits.numerics.fixed_point.continuation import CurveResult
from attnlimits.numerics.fixed_point.continuation.curve import curve as network_curve
from attnlimits.numerics.fixed_point.continuation.link_curve import curve_link
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link

__all__ = ["curve"]


def curve(model: Model, values: Iterable[float], **settings: Any) -> CurveResult:
    """Fixed points along alpha, skip strength or inverse temperature, with onsets, jumps and hysteresis.

    Parameters
    ----------
    model : Network or Link
    values : iterable of float
        Of the parameter that varies: alpha >= 0, or c or beta > 0.
    settings : optional
        `start` ("uninformed", "informed" or "both"); `along` ("alpha", "skip" or "beta"; of a link "alpha"), and
        `alpha` where another parameter varies; `accuracy`, `samples`, `replicas`, `rng`, `tol`, `workers` of the
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
    if isinstance(model, Link):
        return curve_link(model, values, **settings)
    return network_curve(model, values, **settings)
