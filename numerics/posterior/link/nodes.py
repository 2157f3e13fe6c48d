"""Nodes of a rule for h ~ N(0, I), grouped by the output that they give."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError

__all__ = ["Bundle", "Nodes", "counted", "defect_of", "joined"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Nodes(NamedTuple):
    """Nodes of all fibres, one fibre after the other.

    Attributes
    ----------
    points : ndarray, shape (n, k)
        Entries of h.
    weight : ndarray, shape (n,)
        With the density of N(0, I), over the slope, times the weight of the output.
    ends : ndarray of int, shape (fibres + 1,)
        Where the nodes of each fibre begin.
    measure : ndarray, shape (fibres,)
        Weights of the outputs: the share of one is its density times this.
    solved : ndarray of int, shape (fibres,)
        Entries of h that an output fixes up to finitely many choices.
    output : ndarray, shape (fibres,)
        The outputs, NaN where there are several.
    """

    points: Array
    weight: Array
    ends: IntArray
    measure: Array
    solved: IntArray
    output: Array

    @property
    def mass(self) -> Array:
        """Sum of the weights of each fibre, of which none is empty."""
        return np.asarray(np.add.reduceat(self.weight, self.ends[:-1]))


class Bundle(NamedTuple):
    """Fibres as they are found: nodes with the number of their fibre, and what all nodes of a fibre share."""

    points: Array
    weight: Array
    rows: IntArray
    measure: Array
    output: Array
    solved: int


def counted(output: Array, half: bool) -> Array:
    """How many outputs each one stands for: where those above zero stand for those below, two, one at zero, or none."""
    if not half:
        return np.ones(output.shape)
    return np.where(output > 0, 2.0, np.where(output < 0, 0.0, 1.0))


def joined(found: Sequence[Bundle], least: float, sort: bool) -> Nodes:
    """Nodes of all fibres that carry something, without those that carry nothing; by ascending output if wanted."""
    first = np.cumsum([0, *(len(bundle.measure) for bundle in found)])
    rows = np.concatenate([np.zeros(0, np.int64), *(b.rows + at for b, at in zip(found, first[:-1], strict=True))])
    weight = np.concatenate([np.zeros(0), *(bundle.weight for bundle in found)])
    count, mass = (np.bincount(rows, w, minlength=int(first[-1])) for w in (None, weight))
    carries = np.count_nonzero(count) * mass > least * mass.sum()
    if not carries.any():
        raise NotServedError("no node of a rule for h gives an output")
    kept = np.flatnonzero(carries[rows] & (count[rows] * weight > least * mass[rows]))
    output = np.concatenate([bundle.output for bundle in found])
    fibres = np.flatnonzero(carries)
    if sort:
        fibres = fibres[np.argsort(output[fibres], kind="stable")]
    number = np.zeros(int(first[-1]), dtype=np.int64)
    number[fibres] = np.arange(len(fibres))
    order = np.argsort(number[rows[kept]], kind="stable")
    kept = kept[order]
    return Nodes(
        np.concatenate([bundle.points for bundle in found])[kept],
        weight[kept],
        np.searchsorted(number[rows[kept]], np.arange(len(fibres) + 1)),
        np.concatenate([bundle.measure for bundle in found])[fibres],
        np.repeat([bundle.solved for bundle in found], np.diff(first))[fibres],
        output[fibres],
    )


def defect_of(nodes: Nodes, turned: Sequence[int] = ()) -> float:
    """Largest difference of moments up to the second from those of N(0, I), of half of the outputs and their mirror."""
    first = nodes.weight @ nodes.points
    second = (nodes.points.T * nodes.weight) @ nodes.points
    if len(turned):
        signs = np.array(turned, dtype=np.float64)
        first, second = 0.5 * (first + signs * first), 0.5 * (second + np.outer(signs, signs) * second)
    return float(max(abs(nodes.weight.sum() - 1), np.abs(first).max(), np.abs(second - np.eye(len(second))).max()))
