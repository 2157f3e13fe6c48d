"""Cells of h_1 that can hold mass: squares halved on the device until a lattice of fixed size resolves each.

All arrays have fixed sizes, the number of cells in use is data: so one compiled program serves every batch.
"""

from typing import NamedTuple, TypeAlias

from .backend import jax, jnp
from .boxes import gap
from .channel import Law, Link, distances
from .tensor import Tensor

__all__ = ["Cells", "Goal", "Grid", "centred", "corner", "refine"]


class Goal(NamedTuple):
    """What a batch must reach, per sample.

    cut: Q above its minimum at which cells are dropped; digits = ln(1/tolerance); eta: ln of one over the difference of
    cosets at which a lattice passes; shrink: factor on all steps.
    """

    cut: Tensor
    digits: Tensor
    eta: Tensor
    shrink: Tensor

    def take(self, index: object) -> "Goal":
        """Fields of the samples listed."""
        return Goal(*(field[index] for field in self))


class Cells(NamedTuple):
    """A list of cells: sample, integer coordinates, and how many of the entries are in use."""

    sample: Tensor
    ip: Tensor
    im: Tensor
    filled: Tensor


class Grid(NamedTuple):
    """Of each sample: left lower corner and size of its cells, best bound of min Q, mass dropped, and whether done.

    `lost` is in units of exp(-best/2) and of the bound of 1/|det B_1|, weighted by 1 + Q for the second moments.
    """

    left: Tensor
    bottom: Tensor
    size: Tensor
    best: Tensor
    lost: Tensor
    done: Tensor


# Cells that are done, and that are kept; best, steps needed and lost of each sample.
_Carry: TypeAlias = tuple[Cells, Cells, Tensor, Tensor, Tensor]
# Level, cells that are done, the others, and their grid.
_State: TypeAlias = tuple[Tensor, Cells, Cells, Grid]


def corner(grid: Grid, sample: Tensor, ip: Tensor, im: Tensor) -> tuple[Tensor, Tensor]:
    """Left lower corners of cells."""
    size = grid.size[sample]
    return grid.left[sample] + ip * size, grid.bottom[sample] + im * size


def centred(law: Law, best: Tensor, goal: Goal, strip: Tensor, steps: int, capacity: int) -> tuple[Cells, Grid]:
    """First cells: a square about the circle outside of which Q > best + cut, for all samples with a cut > 0."""
    # Cells per axis at the start: 2^first.
    first = 3
    batch, side = len(best), 1 << first
    radius = jnp.sqrt(best + goal.cut) / law.i1
    # The size is a power of two times the one that singularities at the distance `strip` ask for.
    least = steps * 2.0 * jnp.pi * strip / goal.eta * goal.shrink
    size = least * jnp.exp2(jnp.ceil(jnp.log2(2 * radius / side / least)))
    half = 0.5 * side * size
    live = jnp.nonzero(goal.cut > 0, size=batch, fill_value=batch)[0].astype(jnp.int32)
    place = jnp.arange(capacity, dtype=jnp.int32)
    within = place % (side * side)
    slot = place // (side * side)
    sample = jnp.where(slot < batch, live[jnp.minimum(slot, batch - 1)], batch)
    cells = Cells(sample, within % side, within // side, side * side * (goal.cut > 0).sum())
    grid = Grid(law.w1p - half, law.w1m - half, size, best, jnp.zeros(batch), ~(goal.cut > 0))
    return cells, grid


def _bounds(link: Link, law: Law, left: Tensor, bottom: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lower bounds of Q over cells, without h_2 and for each branch of it; how much h_2 alone, and z, vary in them."""
    c, beta = link.numbers.skip, link.numbers.beta
    a0, a1, b0, b1 = link.boxes((law.vp, law.vm), c, beta, (left, left + size), (bottom, bottom + size))
    dp, dm = left - law.w1p, bottom - law.w1m
    outer = (gap(dp, dp + size) ** 2 + gap(dm, dm + size) ** 2) * law.i1**2
    rise = law.slope * size
    hp, hm = law.w2p + law.slope * dp, law.w2m + law.slope * dm
    hp0, hp1 = jnp.minimum(hp, hp + rise), jnp.maximum(hp, hp + rise)
    hm0, hm1 = jnp.minimum(hm, hm + rise), jnp.maximum(hm, hm + rise)
    plus = gap(a0 - hp1, a1 - hp0) ** 2 + gap(b0 - hm1, b1 - hm0) ** 2
    minus = gap(-a1 - hp1, -a0 - hp0) ** 2 + gap(-b1 - hm1, -b0 - hm0) ** 2
    least = jnp.stack([outer + plus * law.i2**2, outer + minus * law.i2**2])
    bend = jnp.maximum(a1 - a0, b1 - b0) * law.i2
    return outer, least, bend, jnp.maximum(bend + jnp.abs(rise) * law.i2, size * law.i1)


def _coarse_steps(least: Tensor, centre: Tensor, bend: Tensor, width: Tensor, scaled: Tensor, goal: Goal) -> Tensor:
    """Coarse steps that a cell needs along each axis.

    `least` and `centre` are Q above its minimum: a lower bound, and at the centre. `bend` and `width` are those of
    `_bounds`, `scaled` is the size of the cell over the distance of the kernel's singularities.
    """
    # A lobe of amplitude A = exp(-excess/2) that is crossed in coarse steps d (of z) leaves A exp(-2 pi^2/d^2) in each
    # of four cosets and A exp(-8 pi^2/d^2) in their sum; singularities of the kernel at a distance s, with coarse steps
    # d (of h_1), leave A exp(-2 pi s/d) and A exp(-4 pi s/d). The differences of the cosets show the first. The second
    # must be below the tolerance even where A is so small that they do not.
    margin = 4.0
    # The same for the first, where a miss costs no more than another run.
    slack = 1.0
    hidden, shown = goal.digits + margin - 0.5 * least, goal.eta + slack - 0.5 * centre
    # Beyond this share of the digits the differences do show a lobe.
    lobe_share = 0.55
    lobe = jnp.maximum(jnp.maximum(jnp.minimum(hidden, lobe_share * goal.digits), 4.0 * shown), 0.0) / 8.0
    # A kernel that hardly varies over the cell has singularities of small weight.
    weight = jnp.log(jnp.minimum(bend, 1.0) + 1e-300)
    kernel = jnp.maximum(jnp.maximum(0.5 * (hidden + weight), shown + weight), 0.0) / 2.0
    # Towards a singularity z grows faster than its slope says: both matter at once.
    return jnp.hypot(width * jnp.sqrt(lobe), scaled * kernel) / jnp.pi / goal.shrink


def _append(cells: Cells, more: tuple[Tensor, Tensor, Tensor], wanted: Tensor) -> Cells:
    """List with those of `more` that are wanted at its end; the count goes on where the list is full."""
    flat = wanted.ravel()
    place = jnp.where(flat, cells.filled + jnp.cumsum(flat) - 1, len(cells.sample))
    values = (jnp.broadcast_to(x, wanted.shape).ravel() for x in more)
    sample, ip, im = (x.at[place].set(y, mode="drop") for x, y in zip(cells[:3], values, strict=True))
    return Cells(sample, ip, im, cells.filled + flat.sum())


def refine(link: Link, law: Law, goal: Goal, cells: Cells, grid: Grid, *, steps: int, chunk: int) -> tuple[Cells, Grid]:
    """Halve and drop cells until `steps` coarse steps per axis resolve each of a sample.

    No sample is done if there are more cells than the list holds; one that no halving resolves is not.
    """
    capacity, batch = len(cells.sample), len(grid.best)
    halves_p, halves_m = jnp.array([[0, 1, 0, 1], [0, 0, 1, 1]], dtype=jnp.int32)
    empty = Cells(*(jnp.zeros_like(x) for x in cells))

    def halve(ready: Cells, cells: Cells, grid: Grid) -> tuple[Cells, Cells, Grid]:
        """Move the cells of samples that are done to `ready`, and quarter the others."""
        size = jnp.where(grid.done, grid.size, 0.5 * grid.size)
        finer = Grid(grid.left, grid.bottom, size, grid.best, grid.lost, grid.done)

        def part(k: Tensor, carry: _Carry) -> _Carry:
            ready, kept, best, need, lost = carry
            sample, ip, im = (jax.lax.dynamic_slice(x, (k * chunk,), (chunk,)) for x in cells[:3])
            live = k * chunk + jnp.arange(chunk) < cells.filled
            ready = _append(ready, (sample, ip, im), live & grid.done[sample])
            live = (live & ~grid.done[sample])[:, None]
            sample, ip, im = sample[:, None], 2 * ip[:, None] + halves_p, 2 * im[:, None] + halves_m
            left, bottom = corner(finer, sample, ip, im)
            side, own, wish, known = finer.size[sample], law.take(sample), goal.take(sample), grid.best[sample]
            outer, branches, bend, width = _bounds(link, own, left, bottom, side)
            limit = known + wish.cut
            inside = live & (outer <= limit)
            least = branches.min(axis=0)
            keep = inside & (least <= limit)
            # What is dropped inside the circle; the outside is accounted for as a whole.
            mass = side * side * ((1 + branches) * jnp.exp(-0.5 * (branches - known))).sum(axis=0)
            lost = lost.at[jnp.where(inside & ~keep, sample, batch)].add(mass, mode="drop")
            mid_p, mid_m = left + 0.5 * side, bottom + 0.5 * side
            centre = distances(link, own, mid_p, mid_m)
            target = jnp.where(keep, sample, batch)
            best = best.at[target].min(centre, mode="drop")
            scaled = side / link.numbers.strip(jnp.maximum(jnp.abs(mid_p), jnp.abs(mid_m)) + 0.5 * side)
            wanted = _coarse_steps(least - known, centre - known, bend, width, scaled, wish)
            need = need.at[target].max(wanted, mode="drop")
            return ready, _append(kept, (sample, ip, im), keep), best, need, lost

        parts = (cells.filled + chunk - 1) // chunk
        start = (ready, empty, grid.best, jnp.zeros(batch), jnp.zeros(batch))
        ready, kept, best, need, lost = jax.lax.fori_loop(0, parts, part, start)
        lost = (grid.lost + lost) * jnp.exp(0.5 * (best - grid.best))
        return ready, kept, Grid(grid.left, grid.bottom, size, best, lost, grid.done | (need <= steps))

    # Halvings at most; beyond it coordinates of a double get coarse.
    deepest = 24

    def unfinished(state: _State) -> Tensor:
        level, ready, cells, grid = state
        return (level < deepest) & ~grid.done.all() & (cells.filled <= capacity) & (ready.filled <= capacity)

    def again(state: _State) -> _State:
        level, ready, cells, grid = state
        return level + 1, *halve(ready, cells, grid)

    _, ready, cells, grid = jax.lax.while_loop(unfinished, again, (0, empty, cells, grid))
    full = cells.filled > capacity
    ready = _append(ready, cells[:3], jnp.arange(capacity) < cells.filled)
    done = grid.done & ~full & (ready.filled <= capacity)
    return ready, Grid(grid.left, grid.bottom, grid.size, grid.best, grid.lost, done)
