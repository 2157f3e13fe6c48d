"""The balance of a fixed point, which every strategy solves for.

q = F(alpha G(q)) (14), with the F of the prior. Of the Gaussian one, F(qhat) = qhat (I + qhat)^{-1}, the diagonal has
one equation for each index l,

    log alpha = log alpha_l(q),    log alpha_l = logit q_ll - log G_ll(q):

alpha_l is the alpha at which index l is stationary; where alpha exceeds it, the iteration raises q_ll. These functions
do not depend on alpha, so that their slopes serve Newton's method, neighbouring alphas and the error alike. With
entries off the diagonal the equations are F(alpha G(q)) - q = 0.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Channel
from ..priors import GAUSSIAN, OverlapMap, is_standard

__all__ = [
    "AT_RECOVERY",
    "RECOVERED",
    "Balance",
    "Entries",
    "FreeEntries",
    "filled",
    "free_entries",
    "least_and_largest",
    "log_alpha",
    "overlap",
    "restricted",
    "sharing",
    "symmetric",
]

Array = NDArray[np.float64]
# Rows and columns of entries of the overlap.
Entries = tuple[tuple[int, int], ...]

#: The largest overlap that is resolved; beyond it the weights count as recovered.
RECOVERED = 1 - 1e-6
#: Overlaps from here on have come to it, up to the rounding of what leads there.
AT_RECOVERY = RECOVERED - 1e-9
# Least overlap of an active layer.
_TINY = 1e-9
# Rounding of logarithms, and of averages; of numbers next to one.
_ROUNDING, _EPS = 4e-15, float(np.finfo(float).eps)


def log_alpha(prior: OverlapMap, logits: Array, g: Array) -> Array:
    """Logarithm of the alpha at which each index is stationary, from its logit q and G of shape (n,)."""
    log_qhat = logits  # of the Gaussian prior
    if not is_standard(prior):
        log_qhat = np.log(prior.inverse(np.diag(1 / (1 + np.exp(-logits)))).diagonal())
    return np.asarray(log_qhat - np.log(g))


def sharing(channel: Channel, entry: tuple[int, int]) -> Entries:
    """Entries of the overlap that have the value of this one."""
    return next((entries for entries in channel.shared if entries[0] == entry), (entry,))


def free_entries(channel: Channel, active: Sequence[int], pairs: Entries = ()) -> Entries:
    """Entries to solve for where these indices are learned: the diagonal, what symmetry leaves off it, and `pairs`."""
    learned = [entries[0] for entries in channel.shared if all(i in active for pair in entries for i in pair)]
    diagonal = sorted((i, j) for i, j in learned if i == j)
    return (*diagonal, *sorted({*(pair for pair in learned if pair[0] != pair[1]), *pairs}))


def filled(channel: Channel, free: Entries, x: Array) -> Array:
    """Symmetric matrix with these entries and those that have their values, and zero elsewhere."""
    q = np.zeros((channel.model.indices,) * 2)
    for entry, value in zip(free, x, strict=True):
        for i, j in sharing(channel, entry):
            q[i, j] = q[j, i] = value
    return q


def restricted(channel: Channel) -> bool:
    """Whether symmetry ties entries of the overlap together, so that those in no tie stay zero."""
    return channel.shared != tuple(((i, i),) for i in channel.layers)


def symmetric(channel: Channel, q: Array) -> bool:
    """Whether q has equal entries where symmetry ties them together, and zeros where it leaves none."""
    if not restricted(channel):
        return True
    first = tuple(entries[0] for entries in channel.shared)
    return bool(np.abs(q - filled(channel, first, np.array([q[entry] for entry in first]))).max() <= 1e-12)


def least_and_largest(channel: Channel, free: Entries, x: Array) -> tuple[float, float]:
    """Least and largest eigenvalue among the indices that have free entries."""
    active = sorted({i for entry in free for pair in sharing(channel, entry) for i in pair})
    values = np.linalg.eigvalsh(filled(channel, free, x)[np.ix_(active, active)])
    return float(values[0]), float(values[-1])


def overlap(channel: Channel, free: Entries, x: Array) -> Array:
    """Overlap whose free entries are x, with those that symmetry sets to them, within the range that is resolved."""
    if any(i != j for i, j in free):
        values, vectors = np.linalg.eigh(filled(channel, free, x))
        clipped: Array = (vectors * np.clip(values, 0.0, RECOVERED)) @ vectors.T
        return clipped
    return filled(channel, free, np.minimum(np.maximum(x, _TINY), RECOVERED))


class Balance(Protocol):
    """The equations r(x; G(x)) = 0 of a fixed point."""

    #: Whether G follows x without jumps, so that differences give slopes.
    smooth: bool
    #: Error of x at which averages are resolved no further; zero where they do not ask.
    tolerance: float

    def averages(self, x: Array) -> Averages:
        """Averages at x, shape (n,)."""

    def rest(self, x: Array, g: Array) -> Array:
        """R, shape (n,), for averages g, shape (P, P); positive where the iteration raises x."""

    def slopes(self, x: Array, g: Array) -> Array | None:
        """Derivatives dr/dx where averages have them; None where differences are as good."""

    def room(self, x: Array) -> Array:
        """Distance of each entry to the ends of its range."""

    def step(self, x: Array, k: int) -> float:
        """Change of entry k over which slopes are measured."""

    def inside(self, x: Array, moved: Array) -> Array:
        """Where a step from x to `moved` ends that stays well within the range."""

    def pull(self, x: Array) -> Array:
        """Matrix by which dr/dx becomes F' - 1."""

    def rounding(self, x: Array, g: Array) -> Array:
        """Bound of the rounding of r, at averages g."""


class FreeEntries:
    """The balance of some entries of the overlap, the others being held.

    On the diagonal alone r = logit F - logit x, log alpha - log alpha_l of the Gaussian prior, which is smooth down to
    x = 0, where F - x would vanish with x. With entries off the diagonal r = F - x.

    Parameters
    ----------
    channel : Channel
    alpha : float
    entries : sequence of (int, int)
        Rows and columns of the free entries.
    matrix : callable
        From x to the overlap.
    prior : OverlapMap, optional
        Gaussian by default.
    """

    # Share of the distance to the ends of the range that a step leaves; how often one is halved to do so.
    _left, _halvings = 0.2, 30

    def __init__(
        self,
        channel: Channel,
        alpha: float,
        entries: Sequence[tuple[int, int]],
        matrix: Callable[[Array], Array],
        prior: OverlapMap = GAUSSIAN,
    ) -> None:
        self._channel, self._alpha, self._matrix = channel, alpha, matrix
        self._prior = prior
        self._rows, self._columns = np.array(entries).T
        self._diagonal = bool((self._rows == self._columns).all())
        self.smooth, self.tolerance = channel.smooth, channel.tolerance

    def averages(self, x: Array) -> Averages:
        """Averages at x."""
        return self._channel(self._matrix(x))

    def rest(self, x: Array, g: Array) -> Array:
        """Positive where the iteration raises x."""
        moved = self._prior.overlap(self._alpha * g)[self._rows, self._columns]
        if not self._diagonal:
            return np.asarray(moved - x)
        # Displaced averages of small overlaps may be negative.
        moved = np.clip(moved, 1e-300, 1 - 1e-16)
        return np.asarray(np.log(moved / (1 - moved)) - np.log(x / (1 - x)))

    def slopes(self, x: Array, g: Array) -> Array | None:
        """Derivatives dr/dx, by dF along alpha dG."""
        derivative = self._channel.derivative(self._matrix(x))
        return None if derivative is None else self.slopes_from(derivative, x, g)

    def slopes_from(self, derivative: Array, x: Array, g: Array) -> Array:
        """Derivatives dr/dx from dG/dq, shape (P, P, P, P)."""
        entries = tuple(zip(self._rows.tolist(), self._columns.tolist(), strict=True))
        columns = []
        for one in np.eye(len(x)):
            moved = np.tensordot(derivative, filled(self._channel, entries, one), 2)
            changed = self._prior.slope(self._alpha * g, self._alpha * moved)
            columns.append(changed[self._rows, self._columns])
        out = np.array(columns).T - np.eye(len(x))
        return np.asarray(out / (x * (1 - x))[:, None] if self._diagonal else out)

    def room(self, x: Array) -> Array:
        """Distance of each entry to the ends of its range."""
        if self._diagonal:
            return np.minimum(x, 1 - x)
        return np.full(len(x), max(self._margin(x), 1e-300))

    def step(self, x: Array, k: int) -> float:
        """Change of entry k for slopes: towards the inside."""
        # Steps for slopes, as a share of the distance to the ends of the range; of small entries.
        share, small = 0.02, 1e-3
        size = share * min(abs(x[k]), 1 - abs(x[k]))
        # The same of averages that jump.
        wide = 0.2
        if not self.smooth:
            # What jumps is compared over a long way.
            return float(wide * max(-x[k], 1 - x[k], key=abs)) if self._diagonal else 0.5 * self._margin(x)
        if self._diagonal:
            # Down to zero overlap r changes with x and not with its logarithm.
            return small if x[k] < small / share else -size
        # Up or down, as it stays further from the ends of the range.
        unit, size = np.eye(len(x))[k], max(size, small)
        for _ in range(self._halvings):
            further = float(max((-size, size), key=lambda step: self._margin(x + step * unit)))
            if self._margin(x + further * unit) > 0:
                break
            # Next to the edge of the range it may be left on both sides.
            size *= 0.5
        return further

    def inside(self, x: Array, moved: Array) -> Array:
        """Keep a share of the distance to the ends of the range."""
        if self._diagonal:
            return np.minimum(np.clip(moved, self._left * x, 1 - self._left * (1 - x)), RECOVERED)
        least = self._left * min(self._margin(x), 1e-6)
        for _ in range(self._halvings):
            if self._margin(moved) >= least:
                break
            moved = 0.5 * (x + moved)
        return moved

    def pull(self, x: Array) -> Array:
        """Matrix by which dr/dx becomes F' - 1."""
        return np.diag(x * (1 - x)) if self._diagonal else np.eye(len(x))

    def rounding(self, x: Array, g: Array) -> Array:
        """Bound of the rounding of r: of logarithms, of G, which is of the order of x, and of 1 - F, of that of 1 - x.

        What F is off by beside that is added.

        At x = 1.8e-7 the r of h[1]**2 are off by up to 2.5e-10, a hundredth of this. F and x, rounded to half a unit in
        the last place, leave 1 - F and 1 - x with eps/2 over themselves each; F adds the rounding of its quotient.
        """
        own = self._channel.rounding
        law = self._prior.overlap_error(self._alpha * g)[self._rows, self._columns]
        if not self._diagonal:
            return np.asarray(_ROUNDING + own + law)
        least, left = np.maximum(x, _TINY), np.maximum(1 - x, _EPS)
        return np.asarray(_ROUNDING + own / least + 2 * _EPS / left + law / (least * left))

    def _margin(self, x: Array) -> float:
        """Distance of the eigenvalues, among the indices that are free, to 0 and 1."""
        least, largest = least_and_largest(self._channel, tuple(zip(self._rows, self._columns, strict=True)), x)
        return min(least, 1 - largest)
