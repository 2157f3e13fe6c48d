"""Smooth pieces of the outputs of a link, the ways to solve them, and the nodes that the other entries of h take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part, Region
from ...quadrature.rules import normal_qmc
from .quadrature import Piece
from .work import Work

__all__ = ["Cell", "Nodes"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Nodes:
    """Standard normal nodes in two halves, one after the other.

    Attributes
    ----------
    x : ndarray, shape (n, d)
    weight : ndarray, shape (n,)
    """

    x: Array
    weight: Array

    @staticmethod
    def make(dimension: int, count: int, rng: np.random.Generator) -> "Nodes":
        """Trapezoidal in one dimension, randomised quasi-random in more."""
        if dimension == 0:
            return Nodes(np.zeros((2, 0)), np.ones(2))
        # A rule along one entry: standard deviations.
        reach = 7.0
        if dimension == 1:
            step = 2 * reach / count
            x = (step * (np.arange(count) + float(rng.uniform())) - reach).astype(np.float64)
            # Every second node is a rule of its own.
            x = np.concatenate([x[::2], x[1::2]])
            return Nodes(x[:, None], np.exp(-0.5 * x * x) * step / math.sqrt(2 * math.pi))
        bits = max(3, math.ceil(math.log2(count / 4)))
        halves = [normal_qmc(dimension, bits, stream) for stream in rng.spawn(2)]
        points = np.concatenate([y for half in halves for y in (half, np.negative(half))])
        return Nodes(points, np.full(len(points), 1 / len(points)))


class Cell:
    """A region of each part of a group: the link is smooth on it.

    Solutions in closed form count wherever they are if `anywhere`, else within 26 standard deviations of N(0, I).
    """

    def __init__(
        self, kernel: LinkKernel, parts: Sequence[Part], regions: Sequence[Region], *, anywhere: bool = False
    ) -> None:
        self._anywhere = anywhere
        self.size, self.regions, self.sigma = kernel.size, regions, math.sqrt(kernel.noise)
        self.entries = sorted(e for part in parts for e in part.entries)
        self.bounds: dict[int, tuple[float, float]] = {}
        for region in regions:
            self.bounds |= region.bounds
        self.outputs = [(r, k) for r, part in zip(regions, parts, strict=True) for k in range(len(part.outputs))]
        self.label = tuple(
            None if region.depends[k] else float(region.output([np.array(math.nan)] * self.size)[k])
            for region, k in self.outputs
        )
        self.moving = [number for number, value in enumerate(self.label) if value is None]
        self.plain = all(region.conditions is None for region in regions)
        self.choices = self._choices()

    def same_label(self, other: "Cell") -> bool:
        """Whether the outputs that do not vary have the same values on both, and the same ones vary."""
        same = 1e-9
        return all(
            x is y if x is None or y is None else math.isclose(x, y, rel_tol=same, abs_tol=same)
            for x, y in zip(self.label, other.label, strict=True)
        )

    def fill(self, values: dict[int, Array]) -> list[Array]:
        """All entries of h; NaN for those not given."""
        return [values.get(e, np.array(math.nan)) for e in range(self.size)]

    def value(self, number: int, values: dict[int, Array]) -> Array:
        """One output."""
        region, k = self.outputs[number]
        return np.asarray(region.output(self.fill(values))[k])

    def inside(self, values: dict[int, Array]) -> Bools:
        """Whether entries lie in the regions."""
        ok: Bools = np.asarray(True)
        for e, (low, high) in self.bounds.items():
            ok = ok & (values[e] > low) & (values[e] < high)
        for region in self.regions:
            for condition in region.conditions(self.fill(values)) if region.conditions is not None else ():
                ok = ok & (np.asarray(condition) > 0)
        return ok

    def slope(self, number: int, entry: int, values: dict[int, Array]) -> Array:
        """Size of the slope of an output in an entry."""
        region, k = self.outputs[number]
        return np.abs(np.asarray(region.branches[k][entry][2](self.fill(values))[0]))

    def _choices(self) -> list[list[tuple[int, int, Piece]]]:
        """Ways to solve the outputs one after the other: (output, entry, its inverse); with noise any of them."""
        if self.sigma == 0:
            found = list(self._solved(self.moving).values())
            if self.moving and not found:
                raise NotServedError(
                    f"the outputs cannot be solved one after the other for entries of h (entries "
                    f"{', '.join(str(e + 1) for e in self.entries)}, token by token), which state evolution (14) "
                    "needs without noise; add noise (--noise), or write outputs of which each is solvable for an entry"
                )
            return found
        subsets = [some for n in range(len(self.moving) + 1) for some in combinations(self.moving, n)]
        return [choice for some in subsets for choice in self._solved(some).values()]

    def _solved(self, numbers: Sequence[int]) -> dict[tuple[int, ...], list[tuple[int, int, Piece]]]:
        """Orders in which these outputs can be solved, by the entries solved for."""
        tables = []
        for number in numbers:
            region, k = self.outputs[number]
            single = len(region.depends[k]) == 1
            tables.append([e for e, (count, _, _) in region.branches[k].items() if count or single])
        found: dict[tuple[int, ...], list[tuple[int, int, Piece]]] = {}
        for entries in product(*tables):
            if len(set(entries)) < len(entries):
                continue
            chosen = dict(zip(numbers, entries, strict=True))
            for order in permutations(numbers):
                solved: set[int] = set()
                for number in order:
                    region, k = self.outputs[number]
                    solved.add(chosen[number])
                    if set(region.depends[k]) & set(entries) - solved:
                        break
                else:
                    found[entries] = [(n, chosen[n], self._inverse(n, chosen[n])) for n in order]
                    break
        return found

    def _inverse(self, number: int, entry: int) -> Piece:
        region, k = self.outputs[number]
        return Piece(
            region, self.size, tuple(self.entries), {}, k, (entry,), even=self._anywhere, work=Work(bounded=False)
        )
