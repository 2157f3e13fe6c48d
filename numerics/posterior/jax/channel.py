"""The integrand of two layers for arrays of outputs: indices whitened by their prior, for both branches of h_2."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from .backend import jax, jnp
from .tensor import Tensor

__all__ = ["Law", "Link", "Numbers", "distances", "nearest", "whitened"]


class Law(NamedTuple):
    """What differs between the samples; every field has the shape of the batch, or of what is taken from it.

    vp, vm are the modes of the readout row, w1p .. w2m those of omega. With i1 = V_11^{-1/2}, slope = V_12/V_11 and
    i2 = (V_22 - V_12^2/V_11)^{-1/2} the whitened h - omega is
    z = ((xp - w1p) i1, (xm - w1m) i1, (a - w2p - slope (xp - w1p)) i2, (b - w2m - slope (xm - w1m)) i2)
    at h_1 = (xp, xm), h_2 = (a, b).
    """

    vp: Tensor
    vm: Tensor
    w1p: Tensor
    w1m: Tensor
    w2p: Tensor
    w2m: Tensor
    i1: Tensor
    slope: Tensor
    i2: Tensor

    def take(self, index: object) -> "Law":
        """Fields of the samples listed."""
        return Law(*(field[index] for field in self))


class Numbers(NamedTuple):
    """The numbers of a model: c, beta, and three of B_1^{-1} as a function of h_1.

    It is analytic where the imaginary part of h_1 is below `near` and below `far`/|h_1|, and its determinant is at most
    `det_bound`.
    """

    skip: float
    beta: float
    near: float
    far: float
    det_bound: float

    def strip(self, size: Tensor) -> Tensor:
        """Distance of the singularities from points at most `size` from the origin."""
        return jnp.minimum(self.near, self.far / (size + 1e-300))


#: Functions of (xp, xm, vp, vm, c, beta), and of these in intervals.
Undo: TypeAlias = Callable[..., tuple[Tensor, Tensor, Tensor]]
Boxes: TypeAlias = Callable[..., tuple[Tensor, ...]]


class Link(NamedTuple):
    """The model: h_2 and 1/|det B_1| by `undo(xp, xm, vp, vm, c, beta)`, ranges of h_2 by `boxes`, and its numbers."""

    undo: Undo
    boxes: Boxes
    numbers: Numbers


def whitened(
    link: Link, law: Law, xp: Tensor, xm: Tensor
) -> tuple[Tensor, Tensor, tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]], Tensor]:
    """z_1, z_2, (z_3, z_4) of the branches plus and minus, 1/|det B_1| at h_1 = (xp, xm)."""
    a, b, inv_det = link.undo(xp, xm, law.vp, law.vm, link.numbers.skip, link.numbers.beta)
    dp, dm = xp - law.w1p, xm - law.w1m
    hp, hm = law.w2p + law.slope * dp, law.w2m + law.slope * dm
    branches = ((a - hp) * law.i2, (b - hm) * law.i2), ((-a - hp) * law.i2, (-b - hm) * law.i2)
    return dp * law.i1, dm * law.i1, branches, inv_det


def distances(link: Link, law: Law, xp: Tensor, xm: Tensor) -> Tensor:
    """Least Q = |z|^2 of both branches."""
    first, second, (plus, minus), _ = whitened(link, law, xp, xm)
    rest = jnp.minimum(plus[0] ** 2 + plus[1] ** 2, minus[0] ** 2 + minus[1] ** 2)
    return first * first + second * second + rest


def nearest(link: Link, law: Law, radius: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A point of small Q, by points in shrinking squares about the best so far; returns (xp, xm, Q), an upper bound."""
    # The search looks at squares of points^2 points, each `shrink` times as wide as the one before.
    points, shrink, squares = 9, 0.35, 8
    side = jnp.linspace(-1.0, 1.0, points)
    grid_p, grid_m = (g.ravel() for g in jnp.meshgrid(side, side))
    every = law.take((slice(None), None))

    def look(k: Tensor, point: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        half = (radius * shrink**k)[:, None]
        xp, xm = point[0][:, None] + half * grid_p, point[1][:, None] + half * grid_m
        best = distances(link, every, xp, xm).argmin(axis=1)[:, None]
        return tuple(jnp.take_along_axis(x, best, axis=1)[:, 0] for x in (xp, xm))

    xp, xm = jax.lax.fori_loop(0, squares, look, (law.w1p, law.w1m))
    return xp, xm, distances(link, law, xp, xm)
