"""Outputs of a link as sums of functions of one combination of h each: what low-dimensional integrals need of them."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .links import LinkKernel, Part, Region

__all__ = ["Term", "output_at", "terms_of"]

Array = NDArray[np.float64]

# Grid on which jumps are looked for, and steps of bisection until both ends are neighbouring numbers.
_REACH, _GRID, _BISECTIONS = 16.0, 8001, 80
# Points at which an output is compared with the sum of its terms, their deviation, and by how many roundings of the
# largest value the two may differ.
_POINTS, _WIDE, _ROUNDINGS = 4096, 2.0, 64
# Step of differences of an output, and the largest denominator of the ratio of two weights of a combination.
_STEP, _DENOMINATOR = 1e-3, 64
# Where entries that are held are: at no special place.
_HELD = 0.618033988749895


class Term(NamedTuple):
    """A function of one combination of h.

    Attributes
    ----------
    weights : ndarray, shape (P M,)
        Unit vector a of the combination a . h, entries counted token by token.
    base : ndarray, shape (P M,)
        The function of u is the output at `base` + u a.
    output : int
    kernel : LinkKernel
    cuts : ndarray
        Values of the combination at which the function, or a derivative of it, jumps.
    """

    weights: Array
    base: Array
    output: int
    kernel: LinkKernel
    cuts: Array

    def value(self, u: Array) -> Array:
        """The function."""
        return output_at(self.kernel, self.output, self.base + u[..., None] * self.weights)


def terms_of(kernel: LinkKernel, output: int) -> tuple[Term, ...] | None:
    """Functions of one combination each whose sum is an output, up to a constant; None where none are found.

    They are functions of single entries, or one of a combination with weights of small rational ratios. A sum is
    compared with the output at many random points.
    """
    entries = sorted(kernel.entries_of(output))
    part = next(part for part in kernel.parts if output in part.outputs)
    held = _HELD * np.linspace(1, 2, kernel.size)
    single = tuple(_term(kernel, output, part, axis, held * (1 - axis)) for axis in np.eye(kernel.size)[entries])
    if len(entries) == 1 or _is_sum(kernel, output, single):
        return single
    for axis in _combinations(kernel, output, entries):
        alone = (_term(kernel, output, part, axis, np.zeros(kernel.size)),)
        if _is_sum(kernel, output, alone):
            return alone
    return None


def _term(kernel: LinkKernel, output: int, part: Part, axis: Array, base: Array) -> Term:
    """The function along one axis through a point."""
    u = np.linspace(-_REACH, _REACH, _GRID)

    def region(at: Array) -> NDArray[np.int64]:
        return _region(part.regions, base + at[:, None] * axis)

    code = region(u)
    turns = np.flatnonzero(code[1:] != code[:-1])
    low, high, left = u[turns], u[turns + 1], code[turns]
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        same = region(middle) == left
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    cuts = 0.5 * (low + high)
    # Of single entries they are known, between two points of the grid, too.
    named = [end for r in part.regions for e, ends in r.bounds.items() if axis[e] == 1 for end in ends]
    cuts = np.unique([*cuts[np.abs(cuts[:, None] - named).min(axis=1, initial=1.0) > 1e-9], *named])
    return Term(axis, base, output, kernel, cuts[np.isfinite(cuts)])


def _region(regions: Sequence[Region], h: Array) -> NDArray[np.int64]:
    """Number of the region of each point, -1 on the boundaries."""
    entries, found = list(h.T), np.full(len(h), -1)
    for number, region in enumerate(regions):
        inside = np.ones(len(h), bool)
        for entry, (low, high) in region.bounds.items():
            inside &= (entries[entry] > low) & (entries[entry] < high)
        with np.errstate(all="ignore"):
            for condition in region.conditions(entries) if region.conditions is not None else ():
                inside &= np.asarray(condition > 0)
        found[inside] = number
    return found


def output_at(kernel: LinkKernel, output: int, h: Array) -> Array:
    """One output at entries of shape (..., P M)."""
    shape = (*h.shape[:-1], kernel.tokens, kernel.indices)
    with np.errstate(all="ignore"):
        return np.asarray(kernel.outputs(h.reshape(shape).swapaxes(-1, -2))[..., output])


def _is_sum(kernel: LinkKernel, output: int, terms: Sequence[Term]) -> bool:
    """Whether an output is the sum of these, up to a constant, at random points."""
    h = _WIDE * np.random.default_rng(0).standard_normal((_POINTS, kernel.size))
    values = output_at(kernel, output, h)
    parts = [term.value(h @ term.weights) for term in terms]
    off = values - np.sum(parts, axis=0)
    # Of the output and its terms, and of what it makes of those of h.
    bound = np.abs(values) + np.sum(np.abs(parts), axis=0)
    bound = _ROUNDINGS * np.finfo(float).eps * (bound + bound[0])
    for entry in range(kernel.size):
        moved = h.copy()
        moved[:, entry] *= 1 + _ROUNDINGS * np.finfo(float).eps
        bound += np.abs(output_at(kernel, output, moved) - values)
    return bool((np.abs(off - off[0]) <= bound).all())


def _combinations(kernel: LinkKernel, output: int, entries: Sequence[int]) -> list[Array]:
    """Unit vectors along which an output or a condition of it may vary alone: those of their slopes."""
    part = next(part for part in kernel.parts if output in part.outputs)
    here = np.full(kernel.size, _HELD) * np.linspace(0.7, 1.3, kernel.size)
    points = here + np.concatenate([_STEP * np.eye(kernel.size), -_STEP * np.eye(kernel.size)])
    columns = list(points.T)
    values = [output_at(kernel, output, points)]
    with np.errstate(all="ignore"):
        for region in part.regions:
            values += [] if region.conditions is None else list(region.conditions(columns))
    found: list[Array] = []
    for value in values:
        up, down = np.broadcast_to(value, (2 * kernel.size,)).reshape(2, -1)[:, list(entries)]
        slope = up - down
        largest = int(np.abs(slope).argmax())
        if not np.isfinite(slope).all() or slope[largest] == 0:
            continue
        axis = np.zeros(kernel.size)
        axis[list(entries)] = [Fraction(s / slope[largest]).limit_denominator(_DENOMINATOR) for s in slope]
        found.append(axis / np.linalg.norm(axis))
    return found
