"""Stationary points of Phi that the state evolution reaches, for channels whose averages jump.

Lines cannot be scanned there, and overlaps of keys and queries are correlated. Zero overlap is stationary by parity;
the iteration from there leads to the lowest maximum of Phi, that from just below I to the highest overlap. A maximum
between the two is not seen.
"""

import numpy as np
from numpy.typing import NDArray

from ..fixed_point.balance import filled
from ..fixed_point.both_starts import fixed_points
from ..fixed_point.state import Solution
from ..priors import Prior, is_standard
from .entropy import FreeEntropy
from .points import StationaryPoint, in_order
from .stationary import FLAT

__all__ = ["reached"]

Array = NDArray[np.float64]


def reached(free: FreeEntropy) -> tuple[tuple[StationaryPoint, ...], str]:
    """Stationary points in the order of their free entropy, and what the averages leave in doubt.

    Parameters
    ----------
    free : FreeEntropy
        Gaussian prior, or that of inputs with a spectrum.

    Returns
    -------
    points : tuple of StationaryPoint
    doubt : str
        Empty where every fixed point is decided.

    Raises
    ------
    ValueError
        Another prior.

    References
    ----------
    troiani2025, (10), (14), (100)-(103).
    """
    if not free.prior.isotropic:
        raise ValueError(
            f"the {free.prior.describe()} is served where averages are smooth (10); {free.output.describe()} has the "
            "Gaussian prior"
        )
    found: list[Solution] = []
    for one in fixed_points(free.output.channel, free.alpha, prior=free.prior):
        if not one.recovered and not any(_same(one, other) for other in found):
            found.append(one)
    points = [_point(free, one) for one in found]
    if (limit := free.recovered()).value > -np.inf:
        size = free.output.size
        points.append(StationaryPoint(np.eye(size), np.zeros((size, size)), limit, "recovered", np.zeros(0), True, 0.0))
    doubts = [one.doubt for one in found if one.doubt]
    doubts += [f"max |F(q) - q| = {one.residual:.1e} is left" for one in found if not one.converged]
    return in_order(points), "; ".join(doubts)


def _same(one: Solution, other: Solution) -> bool:
    """Whether two fixed points are the same, for all that their errors decide; zero overlap is exact."""
    if one.q.any() != other.q.any():
        return False
    # Overlaps closer than so many of their errors are one.
    same = 3.0
    return bool((np.abs(one.q - other.q) <= same * (one.error + other.error) + 1e-9).all())


def _point(free: FreeEntropy, solution: Solution) -> StationaryPoint:
    q = solution.q
    hessian = _hessian(free, q)
    values = np.sort(np.linalg.eigvalsh(hessian))[::-1]
    flat = FLAT * max(float(np.abs(hessian).max()), 1.0)
    kind = "maximum" if (values < flat).all() else "minimum" if (values > -flat).all() else "saddle"
    return StationaryPoint(q, solution.error, free(q), kind, values, kind == "maximum", solution.residual)


def _hessian(free: FreeEntropy, q: Array) -> Array:
    """Second derivatives of Phi by the entries that symmetry leaves free: of alpha Psi_out, dG/2, and of the prior."""
    derivative = free.output.channel.derivative(q)
    assert derivative is not None  # averages jump
    channel = free.output.channel
    directions = [filled(channel, (entries[0],), np.ones(1)) for entries in channel.shared]
    out = np.empty((len(directions),) * 2)
    for k, one in enumerate(directions):
        moved = free.alpha * np.tensordot(derivative, one, 2) - _changed(free.prior, q, one)
        out[:, k] = [0.5 * float((moved * other).sum()) for other in directions]
    return 0.5 * (out + out.T)


def _changed(prior: Prior, q: Array, moved: Array) -> Array:
    """Change of qhat with q: of the Gaussian prior (I - q)^{-1} dq (I - q)^{-1}, else F' inverted."""
    if is_standard(prior):
        precision = np.linalg.inv(np.eye(len(q)) - q)
        return np.asarray(precision @ moved @ precision)
    qhat, units = prior.inverse(q), np.eye(q.size).reshape(-1, *q.shape)
    slopes = np.array([prior.slope(qhat, 0.5 * (unit + unit.T)).ravel() for unit in units])
    return np.asarray(np.linalg.lstsq(slopes.T, moved.ravel(), rcond=None)[0].reshape(q.shape))
