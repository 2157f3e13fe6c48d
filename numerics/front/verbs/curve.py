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
        Of the parameter `along` ("alpha", "skip" or "beta"; of a link "alpha").
    settings : optional
        `start` ("uninformed", "informed" or "both"), `alpha` where another parameter varies, `accuracy`, `samples`,
        `replicas`, `rng`, `tol`, `workers`, `progress`.
    """
    if isinstance(model, Link):
        return curve_link(model, values, **settings)
    return network_curve(model, values, **settings)
