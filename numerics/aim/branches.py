"""Where alpha(Delta) = alpha does not fix the error of estimation: several fixed points, the onsets of both recoveries.

alpha(Delta) = V/(2 Delta F) falls with Delta for softmax, linear and hardmax outputs in every case tried, and one Delta
belongs to each alpha. Of outputs entry by entry it need not: F of an even function vanishes at q = 0, so that
alpha(Delta) rises again towards V = 1, and fixed points appear in pairs.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..learning.blocks import Array
from .checks import CITE

__all__ = ["Route", "at_onset", "check_single", "nearly_recovered", "scanned"]


class Route(Protocol):
    """V, q and alpha as functions of Delta, or of t at small width."""

    rho: float

    def state(self, x: float) -> tuple[Estimate, Estimate]:
        """V and q."""
        ...

    def alpha(self, x: float) -> Estimate:
        """The alpha that belongs to it."""
        ...


def scanned(rho: float, noise: float, first: float) -> Array:
    """Delta, or t at small width, in ascending order, from where V is far below the noise to where it is one.

    Parameters
    ----------
    rho : float
    noise : float
        Delta_n.
    first : float
        A value of Delta to be within the range.
    """
    # Of the noise, below which F goes with V and alpha(Delta) as 1/Delta; and above which V is one to a thousandth.
    least, most = 1e-3, 1e3
    low = least * min(noise, 1.0)
    high = 0.5 if rho == 0 else max(most, 10 * first)
    # Values of Delta for each factor of e.
    dense = 6
    steps = np.exp(np.linspace(np.log(low), np.log(high), int(dense * np.log(high / low))))
    return np.concatenate([steps, 1 - steps[::-1][1:]]) if rho == 0 else steps


def check_single(route: Route, alpha: float, values: Sequence[float] | Array) -> None:
    """Refuse an alpha to which several Delta belong.

    Raises
    ------
    ConvergenceError
        alpha(Delta) - alpha changes its sign more than once along `values`; or, at small width, once below the onset of
        weak recovery, where nothing learned is a fixed point, too.
    """
    signs: list[tuple[float, bool]] = []
    for x in map(float, values):
        there = route.alpha(x)
        if abs(there.value - alpha) > there.error:
            signs.append((x, there.value > alpha))
    # From V = 0, where alpha(Delta) is infinite, to V = 1, where it is zero or, at small width, that of the onset.
    crossings = [0.5 * (a + b) for (a, above), (b, other) in pairwise(signs) if above != other]
    errors = [f"{route.state(x)[0].value:.2g}" for x in crossings]
    if route.rho == 0 and signs and signs[-1][1]:
        errors.append("1")
    if len(errors) > 1:
        raise ConvergenceError(
            f"the state evolution has several fixed points at alpha = {alpha:g}, of MMSE near {', '.join(errors)} "
            f"({CITE}, state evolution): message passing (aim amp) ends at the largest of them, and the "
            "Bayes-optimal one has the largest free entropy, which al.aim.free_entropy gives at a width rho > 0"
        )


def at_onset(route: Route, alpha: float, widths: Sequence[float]) -> tuple[Estimate, Estimate, float]:
    """V, q and the least t where alpha/rho is that of weak recovery to within the error of F(0).

    Raises
    ------
    ConvergenceError
        The error leaves all of t open.
    """
    for width in widths:
        x = 1 / (1 + width)
        there = route.alpha(x)
        if there.value - there.error > alpha:
            V, q = route.state(x)
            half = 0.5 * (1 - V.value + V.error)
            return Estimate(1 - half, half, "estimated"), Estimate(half, half + q.error, "estimated"), x
    raise ConvergenceError(
        f"alpha/rho = {alpha:g} is that of weak recovery to within the error of F(0), which leaves the error of "
        f"estimation open ({CITE}, Corollary 4.2); take another alpha"
    )


def nearly_recovered(route: Route, alpha: float, x: float, most: float) -> tuple[Estimate, Estimate] | None:
    """V and q where alpha is that of recovery to rounding: V is below that of the least Delta of a smaller alpha."""
    # Of Delta: up to it alpha(Delta) may be that of recovery to rounding.
    nearly = 1e-9
    while (x := 2 * x) < min(nearly, most):
        below = route.alpha(x)
        if below.value + below.error < alpha:
            V, q = route.state(x)
            half = 0.5 * (V.value + V.error)
            return Estimate(half, half, "estimated"), Estimate(q.value + V.value - half, half + q.error, "estimated")
    return None
