"""Averages of a link along other orthogonal axes of its indices."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..averages import Averages, ChannelBase
from .channel import LinkChannel

__all__ = ["RotatedLink", "SymmetricLink"]


Array = NDArray[np.float64]


class RotatedLink(ChannelBase):
    """A channel along other orthogonal axes, the columns of a matrix."""

    def __init__(self, channel: LinkChannel, axes: Array) -> None:
        self.model, self.layers, self.sampled = channel.model, channel.layers, channel.sampled
        # Averages are second moments of h less those of the prior, of order one. Met at small overlaps: up to 5e-17.
        rounding = 4e-15
        self.channel, self.axes, self.rounding = channel, axes, rounding
        self.tolerance = channel.tolerance

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q along these axes."""
        return self._rotated(self.channel(self.axes @ q @ self.axes.T))

    def derivative(self, q: Array) -> Array | None:
        """Mean of dG/dq along these axes; None where a group is sampled."""
        found = self.channel.derivative(self.axes @ q @ self.axes.T)
        return None if found is None else self._turned(found)

    def coarse(self, q: Array) -> tuple[Averages, Array] | None:
        """Averages of few digits and their derivative along these axes."""
        found = self.channel.coarse(self.axes @ q @ self.axes.T)
        return None if found is None else (self._rotated(found[0]), self._turned(found[1]))

    def _turned(self, derivative: Array) -> Array:
        a = self.axes
        return np.asarray(np.einsum("ijkl,ia,jb,kc,ld->abcd", derivative, a, a, a, a))

    def _rotated(self, found: Averages) -> Averages:
        a = self.axes
        return replace(found, g=a.T @ found.g @ a, bias=np.abs(a.T) @ found.bias @ np.abs(a))


class SymmetricLink(RotatedLink):
    """A link along axes in which all overlaps that its symmetries allow are diagonal.

    Parameters
    ----------
    channel : LinkChannel
    axes : ndarray, shape (P, P)
        Columns are the axes.
    groups : tuple of tuple of int
        Axes that have one overlap, by symmetry.
    """

    def __init__(self, channel: LinkChannel, axes: Array, groups: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(channel, axes)
        self._groups = groups

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Axes that are learned together."""
        return self._groups

    @property
    def shared(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Overlaps along the axes of a group are one number, and there are no others."""
        return tuple(tuple((axis, axis) for axis in group) for group in self._groups)

    def __call__(self, q: Array) -> Averages:
        """Averages at a diagonal overlap q, with the growth of a small overlap of each group without one."""
        nothing = [list(group) for group in self._groups if q[group[0], group[0]] == 0]
        if not nothing:
            return super().__call__(q)
        found, operator = self.channel.operator(self.axes @ q @ self.axes.T)
        growth = np.full((len(found.g), len(q)), np.nan)
        planes = [self.axes[:, group] @ self.axes[:, group].T for group in nothing]
        for group, plane in zip(nothing, planes, strict=True):
            growth[:, group] = (np.einsum("ij,rijkl,kl->r", plane, operator, plane) / len(group))[:, None]
        return replace(self._rotated(found), growth=growth)
