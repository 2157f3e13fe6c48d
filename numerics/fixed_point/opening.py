"""What begins where a direction of zero overlap comes in: the branch with an overlap along it, and its way."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..channel.link.channel import LinkChannel
from ..core.results import Estimate
from ..core.ties import canonical_axes
from ..priors import GAUSSIAN, Prior
from .branch import Branch
from .fastest import MINOR, closed, without_overlap

__all__ = ["Onset", "opening"]

Array = NDArray[np.float64]
Transition = Literal["", "continuous", "discontinuous", "undecided"]


@dataclass(frozen=True)
class Onset:
    """Where a direction of zero overlap comes in.

    Attributes
    ----------
    alpha, error : float
    overlap : ndarray, shape (P, P)
        Fixed point that becomes unstable.
    direction : ndarray, shape (P, P)
        PSD, of unit Frobenius norm.
    transition : {"", "continuous", "discontinuous", "undecided"}
        How the overlap along it behaves; empty where it comes in with what is learned before it, or `recovered`.
    spinodal : Estimate or None
        Of a discontinuous one: where the branch with an overlap along the direction, which goes back in alpha from
        here, turns.
    why : str
        A sentence on the transition.
    rise : float
        Of a continuous one: derivative of the trace of the new overlap by alpha; NaN otherwise.
    recovered : bool
        Whether the fixed point is as near to recovery as is resolved, so that it counts as perfect knowledge.
    """

    alpha: float
    error: float
    overlap: Array
    direction: Array
    transition: Transition
    spinodal: Estimate | None = None
    why: str = ""
    rise: float = math.nan
    recovered: bool = False

    @property
    def projector(self) -> Array:
        """On what comes in."""
        return span(self.direction)


def span(direction: Array) -> Array:
    """Projector on the subspace of a PSD matrix."""
    values, vectors = np.linalg.eigh(direction)
    inside = vectors[:, values > MINOR * values[-1]]
    return np.asarray(inside @ inside.T)


def opening(channel: LinkChannel, at: Estimate, q: Array, direction: Array, prior: Prior = GAUSSIAN) -> Onset:
    """An onset with what the branch with a small overlap along the direction says of it: whether alpha rises along it.

    Parameters
    ----------
    channel : LinkChannel
    at : Estimate
        Alpha of the onset.
    q : ndarray, shape (P, P)
        Fixed point there.
    direction : ndarray, shape (P, P)
        PSD.
    prior : Prior, optional
        Of the weights, Gaussian by default.
    """
    t, (values, vectors) = math.log(at.value), np.linalg.eigh(span(direction))
    # Eigenvalues of projectors.
    half = 0.5
    new = canonical_axes(values, vectors)[:, values > half]
    branch = Branch.beside(channel, q, new, prior)
    make = partial(Onset, at.value, at.error, q, direction)
    if without_overlap(closed(prior, q + new @ new.T)).shape[1] < len(q) - branch.rank:
        return make("undecided", why=f"the {prior.describe()} leads an overlap along it to other directions, too")
    # Sizes of the new overlap at which its branch is compared with where it begins.
    sizes = 0.01, 0.02
    first = branch.at(sizes[0] * len(new.T), branch.unknowns(q), t)
    second = None if first is None else branch.moved(first, sizes[1] * len(new.T))
    if first is None or second is None:
        return make("undecided", why="the branch with an overlap along it was not found")
    # Of a parabola through the onset, and of a line through the slopes: all are by the same rules, whose errors at
    # neighbouring overlaps are alike, and what is left of them shows in the differences.
    slope, other = (2 * (one.t - t) / one.size - one.slope for one in (first, second))
    off = abs(slope - other) + abs(slope - (2 * first.slope - second.slope))
    if abs(slope) <= off:
        return make("undecided", why=f"log alpha changes by {slope:.1g} +- {off:.1g} per overlap along it")
    if slope > 0:
        return make("continuous", why="its overlap rises from zero", rise=1 / (at.value * slope))
    fold = branch.turning(second if second.slope < 0 else first)
    why = "its overlap jumps there, as the branch with a small one goes back in alpha"
    return make("discontinuous", fold, why if fold is not None else f"{why}; its spinodal is not served")
