"""Grids of xi along the axes of omega, and the changes of sign that leave half of some of them out."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["REACH", "WINDOW", "Axis", "Folding", "mirrored", "scaled"]

Array = NDArray[np.float64]

#: Standard deviations beyond which what a node adds to the density of xi counts as zero.
WINDOW = 7.6
#: Those of xi itself.
REACH = 7.6


class Axis(NamedTuple):
    """Grid of xi along one axis: its points begin at `start`; variances `known` of omega and `left` of h given it.

    `half`: what is below zero is left out, and what is above stands for it.
    """

    start: float
    step: float
    size: int
    known: float
    left: float
    half: bool = False

    @property
    def folded(self) -> "Axis":
        """Its upper half, for both."""
        return self._replace(start=0.0, size=self.size // 2 + 1, half=True)

    def part(self, begin: int, end: int) -> "Axis":
        """Points of these numbers."""
        return self._replace(start=self.start + begin * self.step, size=end - begin)

    @staticmethod
    def of(known: float, step: float) -> "Axis":
        """Grid that resolves what is blurred by 1 - known; one point where omega does not vary."""
        left = 1 - known
        if known <= 0:
            return Axis(0.0, 1.0, 1, 0.0, 1.0)
        width = step * math.sqrt(left)
        half = math.ceil(REACH / width)
        return Axis(-half * width, width, 2 * half + 1, known, left)

    @property
    def points(self) -> Array:
        """Values of xi."""
        return np.asarray(self.start + self.step * np.arange(self.size))

    @property
    def weights(self) -> Array:
        """Weights of the trapezoidal rule; 1 where there is one point, whatever h is."""
        weights = np.full(self.size, self.step if self.known > 0 else 1.0)
        if self.half:
            weights[self.points > 0] *= 2
        return weights

    def window(self, centre: Array) -> slice:
        """Points of the grid near any of these centres."""
        if self.known <= 0:
            return slice(0, 1)
        far = WINDOW * math.sqrt(self.left)
        low = math.floor((float(centre.min()) - far - self.start) / self.step)
        high = math.ceil((float(centre.max()) + far - self.start) / self.step) + 1
        return slice(min(max(low, 0), self.size), min(max(high, 0), self.size))

    def density(self, xi: Array, centre: Array) -> Array:
        """Density of xi given centres, shape (xi, centres)."""
        if self.known <= 0:
            return np.ones((1, len(centre)))
        scale = 1 / math.sqrt(self.left)
        z = scale * (xi[:, None] - centre)
        return np.asarray(np.exp(-0.5 * z * z) * (scale / math.sqrt(2 * math.pi)))


class Folding(NamedTuple):
    """Changes of sign of xi under which everything stays, used to leave out half of each of these axes.

    Attributes
    ----------
    axes : tuple of int
        Axes of which the lower half is left out.
    signs : ndarray, shape (n, k)
        All changes of sign that this stands for.
    """

    axes: tuple[int, ...]
    signs: Array

    @staticmethod
    def of(flips: Sequence[tuple[int, ...]], axes: list["Axis"], vectors: Array) -> "Folding":
        """As many axes as there are independent changes of sign; none along axes that mix the entries."""
        k = len(axes)
        nothing = Folding((), np.ones((1, k)))
        if np.count_nonzero(vectors - np.eye(k)):
            return nothing
        pivots: list[int] = []
        signs = nothing.signs
        for flip in flips:
            own = np.array(flip, dtype=np.float64)
            # What changes no axis that is left out yet, up to those before it, is independent of them.
            own = own * next(s for s in signs if all(s[p] == own[p] for p in pivots))
            varied = [a for a in range(k) if own[a] < 0 and axes[a].known > 0]
            if varied:
                pivots.append(varied[0])
                signs = np.concatenate([signs, signs * own])
        return Folding(tuple(pivots), signs)

    def averaged(self, tensor: Array) -> Array:
        """Average of a tensor over the changes of sign."""
        return mirrored(tensor, self.signs[1:])


def mirrored(tensor: Array, signs: Sequence[Sequence[int]] | Array) -> Array:
    """Average of a tensor and its mirrors, by changes of the signs of the entries."""
    found = [tensor, *(scaled(tensor, np.diag(np.array(sign, dtype=np.float64))) for sign in signs)]
    return np.asarray(np.mean(found, axis=0))


def scaled(tensor: Array, by: Array) -> Array:
    """Multiply every axis of a tensor by a matrix."""
    for axis in range(tensor.ndim):
        tensor = np.moveaxis(np.tensordot(by, tensor, (1, axis)), 0, axis)
    return tensor
