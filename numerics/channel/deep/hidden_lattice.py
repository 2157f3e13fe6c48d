"""Averages of three layers where the hidden layers are learned, by lattices of points of their omega.

A trapezoidal rule whose points are half a step off the origin along some axes, and another that is half a step off
along the others, are a lattice on which functions of four variables ask for the fewest points. Four such pairs are a
lattice of the same kind once more, half as fine: each of them has an error of its own, which their mean has not.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers
from ...model.network import Network
from ..averages import Averages, ChannelBase
from .channel import CLOSEST, DeepQuadrature, Point, averages_of, folded_grid, resolutions

__all__ = ["METHOD", "Fineness", "HiddenLattice", "Lattice", "RoughLattice", "lattice_of", "left_by_rules"]

Array = NDArray[np.float64]

#: Name of the method in `Averages.method`.
METHOD = "lattices"

# Shares of what pairs of rules, sums and nodes have been found to miss that may be left; and what the finest sums miss,
# relative to an average. Three layers, q = (.44, .31, .993): steps of .9 and .75 leave at most .5 and .3 of the scatter
# of their pairs, and of 40 functions of two layers that are as even and narrow as the averages steps from .85 leave .3
# to .6 of it (root mean square); 2^17 nodes leave up to .3 of what half of them changes, which is within the noise of
# that change. Sums miss .2 % of the last layer's averages, and finer ones 6e-5 of all at q_33 = .95, 2e-5 at .99.
_LEFT_RULES, _LEFT_SUMS, _LEFT_NODES, _ROUGH = 0.75, 0.05, 0.3, 5e-5


class Fineness(NamedTuple):
    """Of a lattice.

    Attributes
    ----------
    step : float
        Of each trapezoidal rule.
    log_accuracy : float
        Points of less than exp(-log_accuracy) of the largest weight are left out.
    effort : int
        As of `DeepQuadrature`, by which the nodes of the hidden layers given omega are as many.
    """

    step: float
    log_accuracy: float
    effort: int


class Lattice(NamedTuple):
    """Points of the layers that are known, their weights, and the pair of rules that each is of.

    Attributes
    ----------
    xi : ndarray, shape (n, k, 2)
    weights : ndarray, shape (n,)
    pairs : ndarray of int, shape (n,)
        Numbered by pair.
    """

    xi: Array
    weights: Array
    pairs: NDArray[np.int64]


class _OverLattices(ChannelBase):
    """What both kinds of averages have in common; the parameters are those of `HiddenLattice`."""

    model: Network
    sampled = True
    #: By effort.
    efforts: tuple[Fineness, ...]

    def __init__(self, model: Network, effort: int, *, rng: np.random.Generator, workers: Workers = None) -> None:
        self.model = model
        self.layers = tuple(range(model.layers))
        self.fineness = self.efforts[effort]
        self.quadrature = DeepQuadrature(model, self.fineness.effort, rng=rng, workers=workers)

    def placed(self, q: Array) -> tuple[Array, Lattice]:
        """Overlaps of all layers, and the lattice with zeros for hidden layers that are not known.

        Raises
        ------
        ValueError
            q is not diagonal, no hidden layer is known, or an overlap is closer to 1 than `CLOSEST`.
        """
        overlaps = q.diagonal()
        if not (overlaps.min() >= 0 and overlaps.max() <= 1 - CLOSEST):
            raise ValueError(f"q must be in [0, {1 - CLOSEST}] here, (14); got {overlaps}")
        known = np.flatnonzero(overlaps[:-1] > 0)
        if np.abs(q - np.diag(overlaps)).max() > 1e-12 or not len(known):
            raise ValueError(f"q must be diagonal here, (14), with a hidden layer known; got {q.tolist()}")
        lattice = lattice_of(overlaps[known], self.fineness)
        xi = np.zeros((len(lattice.xi), self.model.layers - 1, 2))
        xi[:, known] = lattice.xi
        return overlaps, Lattice(xi, lattice.weights, lattice.pairs)


class HiddenLattice(_OverLattices):
    """Averages at a diagonal overlap with one or two hidden layers known.

    Parameters
    ----------
    model : Network
        Three softmax layers, two tokens, rank 1, c > 0.
    effort : int
        0 or 1.
    rng : numpy.random.Generator
        Randomises the nodes of the hidden layers.
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster.

    Notes
    -----
    All values are the same, as many as others have that move them: what they may be off by is in the bias. That is a
    share of the scatter of the pairs of rules with what random nodes leave, a share of what finer sums and more nodes
    change at some points, and the standard error of that change.
    """

    # Of the averages, by effort.
    efforts = (Fineness(0.85, 9.5, 2), Fineness(0.58, 11.0, 3))

    def __call__(self, q: Array) -> Averages:
        """Averages at q.

        Raises
        ------
        ValueError
            q is not diagonal, no hidden layer is known, or an overlap is closer to 1 than `CLOSEST`.
        ConvergenceError
            The nodes do not resolve the posterior.
        """
        overlaps, lattice = self.placed(q)
        xi = lattice.xi
        some = np.flatnonzero(lattice.pairs == 0)
        # What the sums of all points miss is put right by finer sums of some: of the points of the first pair of rules,
        # one in so many.
        every = 4
        few = some[::every]
        usual, finer = resolutions(overlaps[-1])
        points = [
            *(Point(i, xi[i], finer) for i in few.tolist()),
            *(Point(i, xi[i], usual, half) for half in (0, 1) for i in some.tolist()),
            *(Point(i, xi[i], usual) for i in range(len(xi))),
        ]
        found = self.quadrature.at_points(overlaps, points)
        fine, *halves, values = np.split(found, np.cumsum([len(few), len(some), len(some)]))
        of_sums, off_sums = _change(lattice.weights[few], fine - values[few])
        # Half the nodes are off by twice what all of them are.
        of_nodes, off_nodes = _change(lattice.weights[some], values[some] - np.mean(halves, axis=0))
        means = lattice.weights @ values + of_sums + of_nodes
        # Errors of the rules cancel in part, as `left_by_rules` has it; what random nodes leave does not.
        scatter = _scatter_of_nodes(lattice.weights, some, 0.5 * (halves[0] - halves[1]))
        left = np.hypot(left_by_rules(lattice, values), scatter) + _ROUGH * np.abs(means)
        left += _LEFT_SUMS * np.abs(of_sums) + _LEFT_NODES * np.abs(of_nodes) + np.hypot(off_sums, off_nodes)
        # So many values of each average, the pairs of rules with two layers known.
        return averages_of(overlaps, np.tile(means, (4, 1)), left, "monte-carlo", METHOD)


class RoughLattice(_OverLattices):
    """Averages that change with the overlap as those of `HiddenLattice` do, with the same parameters.

    Notes
    -----
    Both hidden layers are known. Each of the four pairs of rules takes the place of a randomisation: how their changes
    scatter, with Student's factor, is what the change may be off by. Two pairs would not tell that of one layer.

    All points have the same nodes. Where points come and go with q, at exp(-11) of the largest weight, means jump by up
    to 5e-5 of themselves.
    """

    # Of the averages that move others, by effort.
    efforts = (Fineness(1.05, 11.0, 0), Fineness(0.85, 11.0, 0))

    def __call__(self, q: Array) -> Averages:
        """Averages at q by each of the pairs; raises as those of `HiddenLattice`, and a ValueError for one layer."""
        overlaps, lattice = self.placed(q)
        if not overlaps[:-1].all():
            raise ValueError(f"both hidden layers must be known here; got {overlaps}")
        usual, _ = resolutions(overlaps[-1])
        values = self.quadrature.at_points(overlaps, [Point(0, xi, usual) for xi in lattice.xi])
        # As many as of `HiddenLattice`, which they move.
        return averages_of(overlaps, _of_pairs(lattice, values), np.zeros(len(overlaps)), "monte-carlo", METHOD)


def lattice_of(overlaps: Array, fineness: Fineness) -> Lattice:
    """All points of the pairs of rules, those of a rule and of its complement with one number."""
    size = 2 * len(overlaps)
    step, log_accuracy, _ = fineness
    # With one layer known points are few, and so are the pairs: a step so many times as fine leaves less than they
    # show, and less is left out.
    finer, further = 0.65, 3.0
    if size == 2:
        step, log_accuracy = finer * step, log_accuracy + further
    # Of two variables all choices of halves are two pairs; of four those with an even number of halves are four.
    words = [word for word in itertools.product((True, False), repeat=size) if size == 2 or sum(word) % 2 == 0]
    pairs = [(word, tuple(not half for half in word)) for word in words if word[0]]
    grids = [(k, *folded_grid(overlaps, log_accuracy, step, word)) for k, pair in enumerate(pairs) for word in pair]
    numbers = np.concatenate([np.full(len(mass), k) for k, _, mass in grids])
    xi, mass = (np.concatenate(part) for part in zip(*((points, mass) for _, points, mass in grids), strict=True))
    keep = mass > math.exp(-log_accuracy) * mass.max()
    xi, mass, numbers = xi[keep], mass[keep] / mass[keep].sum(), numbers[keep]
    # What is left out has large xi. One factor for all rules: their errors are to cancel.
    return Lattice(xi / np.sqrt(np.einsum("n,nij->ij", mass, xi**2)), mass, numbers)


def _change(weights: Array, changes: Array) -> tuple[Array, Array]:
    """Mean change of these points, and its standard error."""
    share = weights / weights.sum()
    mean = share @ changes
    return mean, np.sqrt(share**2 @ (changes - mean) ** 2)


def _scatter_of_nodes(weights: Array, some: NDArray[np.int64], deviations: Array) -> Array:
    """Standard error of a mean whose points have nodes of their own, from deviations of some of them.

    Half the difference of the values by two halves of the nodes scatters as the value by all of them.
    """
    squares = weights**2
    return np.asarray(np.sqrt(squares[some] @ deviations**2 * squares.sum() / squares[some].sum()))


def left_by_rules(lattice: Lattice, values: Array) -> Array:
    """What the mean of functions over a lattice may be off by: a share of the standard error of its pairs of rules.

    Parameters
    ----------
    lattice : Lattice
    values : ndarray, shape (n, k)
        Of k functions at its points.
    """
    means = _of_pairs(lattice, values)
    return np.asarray(_LEFT_RULES * np.std(means, axis=0, ddof=1) / math.sqrt(len(means)))


def _of_pairs(lattice: Lattice, values: Array) -> Array:
    """Mean by each pair of rules alone."""
    weights = lattice.weights
    of_each = [np.flatnonzero(lattice.pairs == k) for k in range(int(lattice.pairs.max()) + 1)]
    return np.array([weights[mine] @ values[mine] / weights[mine].sum() for mine in of_each])
