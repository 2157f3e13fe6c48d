"""What is derived about a link: its parts, their branches, and what is known of it in closed form."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from ..emit.ir import canonical
from .branches import Region, expand_small
from .exact import Pair
from .parser import index_symbol

__all__ = ["FORMAT", "Branches", "Link", "Matrix", "Part", "coordinates_of", "entries_of"]

#: Changes whenever kernels of an older layout could not be read.
FORMAT = 4

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Branches:
    """Solutions of y = g(h) for one entry of h on one region.

    Attributes
    ----------
    output : int
        Number of the output among those of its part.
    unknown : sympy.Symbol
    solutions : tuple of sympy.Expr
        In ``y`` and the other entries; to be dropped where not real, outside the region, or no solution. Empty if
        there is no closed form: the numerics then invert where this is the only entry left.
    slope : sympy.Expr
        dg/d unknown: the Jacobian of a branch is its absolute value.
    """

    output: int
    unknown: sp.Symbol
    solutions: tuple[sp.Expr, ...]
    slope: sp.Expr


@dataclass(frozen=True)
class Part:
    """Outputs that share no entry of h with the others: given y, their entries are independent of the rest.

    Attributes
    ----------
    numbers : tuple of int
        Which outputs, counted from 0.
    outputs : tuple of sympy.Expr
    regions : tuple of Region
        Where they are smooth, see `split`.
    branches : tuple of tuple of Branches
        For each region, one for each output and each of its entries; empty if none is needed.
    fixed : bool
        Whether y provably fixes h h^T on the entries of the part, and not the sign of h.
    direction : tuple of sympy.Expr
        If not empty, a unit vector over the entries: the outputs depend on u = a.h alone, and `fixed` is about u^2.
    pair : callable or None
        E[G_ab G_cd] of the entries a, b, c, d where it is known in closed form: see `link_exact.pair_operator`.
    why : str
        What y provably says, if `pair` is known.
    """

    numbers: tuple[int, ...]
    outputs: tuple[sp.Expr, ...]
    regions: tuple[Region, ...]
    branches: tuple[tuple[Branches, ...], ...]
    fixed: bool
    direction: tuple[sp.Expr, ...] = ()
    pair: Pair | None = None
    why: str = ""

    @property
    def entries(self) -> tuple[sp.Symbol, ...]:
        """Entries of h in the outputs, sorted by name."""
        return entries_of(self.outputs)


@dataclass(frozen=True)
class Link:
    """A link y = g(h) + sqrt(noise) z, with what was derived about it.

    Attributes
    ----------
    outputs : tuple of sympy.Expr
        g(h), in the symbols ``h_<p>_<m>``. Without noise an outer strictly monotone function is left out: it says
        the same about h.
    indices, tokens : int
        P and M.
    noise : sympy.Rational
        Variance of the Gaussian noise of each output, 0 for none.
    parts : tuple of Part
        The outputs, grouped by the entries that they share.
    kind : {"discrete", "real", "mixed"}
        Whether the outputs take finitely many values, vary everywhere, or both.
    flips : tuple of tuple of int
        Sign changes of the entries of h that leave the link as it is.
    exact : sympy.Expr or None
        alpha_c where it was found in closed form: 0, oo, or a number.
    reason : str
        Why `exact` holds.
    steps : dict
        For indices counted from 1 that are known: alpha_c of the others where it was found in closed form.
    directions : dict
        For the same sets of known indices, the empty one for `exact`: the PSD eigenvector over all indices, in numbers.
    table : str
        The same link, up to the order of its indices, as the table of closed forms writes it; empty if it has none.
    """

    outputs: tuple[sp.Expr, ...]
    indices: int
    tokens: int
    noise: sp.Rational
    parts: tuple[Part, ...]
    kind: str
    flips: tuple[tuple[int, ...], ...]
    exact: sp.Expr | None
    reason: str
    steps: dict[tuple[int, ...], sp.Expr]
    directions: dict[tuple[int, ...], Matrix]
    table: str

    @property
    def coordinates(self) -> tuple[sp.Symbol, ...]:
        """All entries of h, token by token."""
        return coordinates_of(self.indices, self.tokens)

    @property
    def odd(self) -> bool:
        """Whether g(-h) = -g(h), provably."""
        negated = {h: -h for h in self.coordinates}
        return all(expand_small(output.xreplace(negated) + output) == 0 for output in self.outputs)

    @property
    def even(self) -> bool:
        """Whether g(-h) = g(h), provably; then E[h | y] = 0."""
        return (-1,) * len(self.coordinates) in self.flips

    @property
    def zero_mean(self) -> tuple[int, ...]:
        """Numbers of the entries with E[h_i | y] = 0 by parity."""
        return tuple(i for i in range(len(self.coordinates)) if any(signs[i] < 0 for signs in self.flips))

    @property
    def zero_second(self) -> tuple[tuple[int, int], ...]:
        """Pairs i < j of entries with E[h_i h_j | y] = 0 by parity."""
        size = len(self.coordinates)
        pairs = ((i, j) for i in range(size) for j in range(i + 1, size))
        return tuple((i, j) for i, j in pairs if any(signs[i] != signs[j] for signs in self.flips))

    @cached_property
    def hash(self) -> str:
        """Return the sha256 of everything that the kernel depends on."""
        lines = [
            f"format {FORMAT} P={self.indices} M={self.tokens} noise={canonical(self.noise)}",
            *map(canonical, self.outputs),
        ]
        for part in self.parts:
            lines += [f"part {part.numbers} {part.fixed} {part.direction}"]
            for region, solved in zip(part.regions, part.branches, strict=True):
                lines += [f"region {canonical(sp.Tuple(*region.outputs, *region.conditions))}"]
                bounds = sorted(region.bounds.items(), key=lambda b: b[0].name)
                lines += [f"{s.name} {lo} {hi}" for s, (lo, hi) in bounds]
                lines += [f"{b.output} {b.unknown.name} {canonical(sp.Tuple(*b.solutions, b.slope))}" for b in solved]
        lines += [str(self.exact), self.reason, str(self.flips), str(sorted(self.steps.items()))]
        lines += [str(sorted(self.directions.items())), self.table]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def coordinates_of(indices: int, tokens: int) -> tuple[sp.Symbol, ...]:
    """All entries of h, token by token."""
    return tuple(index_symbol(p + 1, m + 1) for m in range(tokens) for p in range(indices))


def entries_of(outputs: Sequence[sp.Expr]) -> tuple[sp.Symbol, ...]:
    """Entries of h in some outputs, sorted by name."""
    return tuple(sorted({s for output in outputs for s in output.free_symbols}, key=lambda s: s.name))
