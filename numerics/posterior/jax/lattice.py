"""Moments of the posterior on a JAX device: the trapezoidal rule on a lattice over the cells, as four cosets."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from .backend import jax, jnp
from .cells import Cells, Goal, Grid, centred, corner, refine
from .channel import Boxes, Law, Link, Numbers, Undo, nearest, whitened
from .tensor import Tensor

__all__ = ["MOMENTS", "STEPS", "Answer", "Sizes", "program"]

# Coarse steps per cell and axis; the four cosets make it twice as many.
STEPS = 4
# 1, z_i, z_i z_j for i <= j.
MOMENTS = 15
# An analytic integrand squares its error when the step is halved; the rest is margin.
_SQUARING = 1.7


class Sizes(NamedTuple):
    """Fixed sizes of a compiled program: samples, cells, and cells of one part of the work."""

    batch: int
    capacity: int
    chunk: int


class Answer(NamedTuple):
    """Of each sample: moments times exp(shift/2), shift, errors relative to the mass, and whether cells sufficed."""

    moments: Tensor
    shift: Tensor
    error: Tensor
    lost: Tensor
    complete: Tensor


def _coset_sums(link: Link, law: Law, cells: Cells, grid: Grid, chunk: int) -> Tensor:
    """Sums of the moments over the four cosets, shape (batch, 4, 15), times the area of a node."""
    batch = len(grid.best)
    # Nodes of a cell, cosets first: those of coset (a, b) at (i + a/2, j + b/2) steps. Cells come last: along them the
    # arithmetic is the same, which is what both a GPU and the vector units of a CPU want.
    shift, place = np.divmod(np.arange(4), 2), np.divmod(np.arange(STEPS * STEPS), STEPS)
    along_p, along_m = ((0.5 * s[:, None, None] + t[:, None]) / STEPS for s, t in zip(shift, place, strict=True))

    def part(k: Tensor, sums: Tensor) -> Tensor:
        sample, ip, im = (jax.lax.dynamic_slice(x, (k * chunk,), (chunk,)) for x in cells[:3])
        left, bottom = corner(grid, sample, ip, im)
        size = grid.size[sample]
        z1, z2, branches, inv_det = whitened(link, law.take(sample), left + along_p * size, bottom + along_m * size)
        common = grid.best[sample] - z1 * z1 - z2 * z2
        weights = [jnp.exp(0.5 * (common - z3 * z3 - z4 * z4)) * inv_det for z3, z4 in branches]

        def both(value: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
            return weights[0] * value(*branches[0]) + weights[1] * value(*branches[1])

        mass, third, fourth = weights[0] + weights[1], both(lambda z3, z4: z3), both(lambda z3, z4: z4)
        first, second = mass * z1, mass * z2
        terms = (
            *(mass, first, second, third, fourth, first * z1, second * z1, third * z1, fourth * z1),
            *(second * z2, third * z2, fourth * z2),
            *(both(lambda z3, z4: z3 * z3), both(lambda z3, z4: z3 * z4), both(lambda z3, z4: z4 * z4)),
        )
        moments = jnp.stack([term.sum(axis=1) for term in terms], axis=-1)
        live = k * chunk + jnp.arange(chunk) < cells.filled
        return sums.at[jnp.where(live, sample, batch)].add(jnp.swapaxes(moments, 0, 1), mode="drop")

    parts = (cells.filled + chunk - 1) // chunk
    sums = jax.lax.fori_loop(0, parts, part, jnp.zeros((batch, 4, MOMENTS)))
    return sums * ((grid.size / (2 * STEPS)) ** 2)[:, None, None]


def _coset_error(sums: Tensor) -> Tensor:
    """Error of the union of the cosets, along both axes: the differences of half of them, squared less a margin."""

    def difference(one: tuple[int, int], other: tuple[int, int]) -> Tensor:
        x, y = sums[:, one[0]] + sums[:, one[1]], sums[:, other[0]] + sums[:, other[1]]
        mass = x[:, :1] + y[:, :1]
        return (jnp.abs(x - y) / (mass + jnp.abs(x + y))).max(axis=1) ** _SQUARING

    both = difference((0, 3), (1, 2))
    return jnp.maximum(both, difference((0, 2), (1, 3))) + jnp.maximum(both, difference((0, 1), (2, 3)))


@cache
def program(undo: Undo, boxes: Boxes, sizes: Sizes) -> Callable[..., Answer]:
    """Compiled moments of a batch: (numbers, law, cut, tolerance, shrink) -> Answer.

    `cut` is zero for samples that only fill the batch; see `Goal` for it and `shrink`.
    """
    # The search covers prior distances up to the root of 2 ln(1/tolerance) and this.
    search_margin = 17.0

    def moments(numbers: Numbers, law: Law, cut: Tensor, tolerance: Tensor, shrink: Tensor) -> Answer:
        link = Link(undo, boxes, numbers)
        goal = Goal(cut, -jnp.log(tolerance), -jnp.log(tolerance) / _SQUARING, shrink)
        xp, xm, best = nearest(link, law, jnp.sqrt(2.0 * goal.digits + search_margin) / law.i1)
        strip = numbers.strip(jnp.hypot(xp, xm) + 2.0 / law.i1)
        cells, grid = centred(law, best, goal, strip, STEPS, sizes.capacity)
        cells, grid = refine(link, law, goal, cells, grid, steps=STEPS, chunk=sizes.chunk)
        # An incomplete list is not summed.
        used = Cells(cells.sample, cells.ip, cells.im, jnp.where(grid.done.all(), cells.filled, 0))
        sums = _coset_sums(link, law, used, grid, sizes.chunk)
        total = sums.sum(axis=1)
        # Both branches outside the circle: their mass, weighted by 1 + Q, beside what was dropped inside.
        outside = 4.0 * jnp.pi / law.i1**2 * (3.0 + grid.best + cut) * jnp.exp(-0.5 * cut)
        lost = (grid.lost + outside) * numbers.det_bound / total[:, 0]
        return Answer(total, grid.best, _coset_error(sums), lost, grid.done)

    return jax.jit(moments)
