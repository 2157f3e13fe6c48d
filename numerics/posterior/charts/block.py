"""Eight nodes on a chart at once: the indices at their coordinates, and the sums of their moments."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.lanes import LANES, fill, load, store, where_less

from ...arithmetic.references import INNER
from .density import Target
from .layout import complete_lanes_at
from .scratch import Block, Lanes

__all__ = [
    "add_moments",
    "energies",
    "log_posteriors",
    "no_sums",
    "set_indices",
    "set_means",
    "take_sums",
    "total_of",
    "without_bad",
]

Array = NDArray[np.float64]


@njit(cache=True, **INNER)
def set_indices(block: Block, signs: Array, target: Target) -> Lanes:
    """Set the modes of the indices at the coordinates; return the log-weights of the chart, as lanes."""
    layout, entries, h, z = target.layout, block.entries, block.h, block.z
    row, mode, modes = layout.row, layout.mode, layout.modes
    tokens, count = len(modes), len(row)
    first = len(layout.hidden) * tokens
    for j in range(first):
        store(entries, LANES * j, fill(0.0))
    for j in range(count):
        value = load(z, LANES * j)
        for m in range(tokens):
            place = LANES * (row[j] * tokens + m)
            store(entries, place, load(entries, place) + value * modes[mode[j], m])
    variables = len(layout.kinds)
    for j in range(variables):
        store(entries, LANES * (first + j), load(z, LANES * (count + j)))
    for j in range(len(signs)):
        store(entries, LANES * (first + variables + j), fill(signs[j]))
    complete_lanes_at(layout.complete_lanes)(target.data, entries, layout.constants, h, block.weight)
    for p in range(len(layout.free)):
        for k in range(tokens):
            total = fill(0.0)
            for m in range(tokens):
                total = total + modes[k, m] * load(h, LANES * (p * tokens + m))
            store(block.modes, LANES * (p * tokens + k), total)
    return load(block.weight, 0)


@njit(cache=True, **INNER)
def energies(block: Block, target: Target) -> Lanes:
    """Half the squared distance of the modes from omega, as lanes."""
    omega, precision, modes = target.omega, target.prior.precision, block.modes
    indices, tokens = omega.shape
    total = fill(0.0)
    for k in range(tokens):
        for p in range(indices):
            value = fill(0.0)
            for i in range(p):
                value = value + precision[k, p, i] * (load(modes, LANES * (i * tokens + k)) - omega[i, k])
            own = load(modes, LANES * (p * tokens + k)) - omega[p, k]
            total = total + own * (value + 0.5 * precision[k, p, p] * own)
    return total


@njit(cache=True, **INNER)
def log_posteriors(block: Block, signs: Array, target: Target) -> Lanes:
    """Logarithms of the posterior's density at the coordinates, up to log Z, as lanes; the modes are set."""
    return set_indices(block, signs, target) + target.prior.log_norm - energies(block, target)


@njit(cache=True, **INNER)
def set_means(block: Block, target: Target) -> None:
    """Set the means that the output does not depend on to what they are given the rest."""
    omega, follow, free, modes = target.omega, target.prior.follow, target.layout.free, block.modes
    indices, tokens = omega.shape
    for p in range(indices):
        if free[p]:
            value = fill(omega[p, 0])
            for i in range(indices):
                if not free[i]:
                    value = value + follow[p, i] * (load(modes, LANES * i * tokens) - omega[i, 0])
            store(modes, LANES * p * tokens, value)


@njit(cache=True, **INNER)
def without_bad(block: Block, weight: Lanes) -> Lanes:
    """Weights of the nodes, zero where they are no finite positive number or the node does not count.

    The modes of nodes without weight are set to zero.
    """
    modes = block.modes
    weight = where_less(weight, np.inf, where_less(0.0, weight, weight, 0.0), 0.0) * load(block.kept, 0)
    for place in range(0, len(modes), LANES):
        store(modes, place, where_less(0.0, weight, load(modes, place), 0.0))
    return weight


@njit(cache=True, **INNER)
def no_sums(block: Block, count: int) -> None:
    """Set so many of the sums to zero."""
    for place in range(count):
        store(block.sums, LANES * place, fill(0.0))


@njit(cache=True, **INNER)
def add_moments(block: Block, weight: Lanes, count: int) -> None:
    """Add mass, modes, and where there are so many sums their products."""
    modes, sums = block.modes, block.sums
    size = len(modes) // LANES
    place: np.int64 = np.int64(1 + size)  # numba compiles what takes a literal number once more
    store(sums, 0, load(sums, 0) + weight)
    for i in range(size):
        one = weight * load(modes, LANES * i)
        store(sums, LANES * (1 + i), load(sums, LANES * (1 + i)) + one)
        if count > 1 + size:
            for j in range(i + 1):
                store(sums, LANES * place, load(sums, LANES * place) + one * load(modes, LANES * j))
                place += 1


@njit(cache=True, **INNER)
def take_sums(block: Block, out: Array) -> None:
    """Set sums over all lanes."""
    for place in range(len(out)):
        out[place] = total_of(block, load(block.sums, LANES * place))


@njit(cache=True, **INNER)
def total_of(block: Block, values: Lanes) -> float:
    """Sum of all lanes, of pairs that stand apart."""
    store(block.weight, 0, values)
    total, width = block.weight, LANES
    while width > 1:
        width //= 2
        for lane in range(width):
            total[lane] += total[lane + width]
    return total[0]
