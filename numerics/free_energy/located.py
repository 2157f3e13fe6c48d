"""Stationary points of the free entropy, and whether its maximum is among them."""

from typing import NamedTuple

from ..core.shown import few_lines
from .balance import GroupBalance
from .entropy import FreeEntropy
from .points import StationaryPoint
from .reached import reached
from .stationary import stationary_points

__all__ = ["Located", "located"]


@few_lines
class Located(NamedTuple):
    """Stationary points, a sentence about them, and whether the maximum of Phi is among them."""

    points: tuple[StationaryPoint, ...]
    status: str
    converged: bool


def located(free: FreeEntropy, *, starts: int = 2, rng: int = 0) -> Located:
    """Find the stationary points, and say what may be missed.

    Parameters
    ----------
    free : FreeEntropy
    starts, rng : int, optional
        As in `stationary_points`.
    """
    if not free.output.channel.smooth:
        return _reached(free)
    balance = GroupBalance(free.output, free.prior)
    points = stationary_points(free, starts=starts, rng=rng, balance=balance)
    largest = max(p.residual for p in points)
    number = f"{len(points)} stationary point{'s' if len(points) > 1 else ''}"
    converged = any(p.stable for p in points)
    status = f"{'' if converged else 'not '}converged: {number}, max |F(q) - q| = {largest:.1e}"
    if not converged:
        # Phi has a maximum, if only towards recovery.
        status += "; none of them is stable, so that one was missed: raise --starts or --accuracy"
    if balance.unresolved:
        where = ", ".join(f"{x:.4g}" for x in balance.unresolved[0])
        status += f"; the averages are not resolved at overlaps ({where}): points near there would be missed"
    if len(free.output.groups) > 1:
        status += "; with both overlaps free, those that the starts lead to"
    return Located(points, status, converged)


def _reached(free: FreeEntropy) -> Located:
    """Those that the state evolution reaches from both starts."""
    points, doubt = reached(free)
    converged = not doubt and any(p.stable for p in points)
    number = f"{len(points)} stationary point{'s' if len(points) > 1 else ''}"
    status = f"{'' if converged else 'not '}converged: {number} that the iteration reaches from zero and full overlap"
    if doubt:
        status += f"; {doubt}: raise --samples, or move --alpha"
    elif not converged:
        status += "; none of them is stable: raise --samples"
    return Located(points, status, converged)
