"""Parts of a link, outputs that share no entry of h with the others: their regions, branches and symmetries."""

import random
from collections.abc import Sequence

import sympy as sp

from ..primitives import elementary
from .branches import Region, invert, split
from .exact import (
    Pair,
    direction_pair,
    fixed_pair,
    group_pair,
    radial,
    radial_pair,
    second_moment_fixed,
    single_direction,
    symmetry_maps,
)
from .form import Branches, Part, entries_of
from .parser import LinkError

__all__ = ["components", "part_of"]

_TRIALS = 12
_DIGITS = 600


def components(outputs: Sequence[sp.Expr]) -> list[tuple[int, ...]]:
    """Return the numbers of the outputs, grouped so that no two groups share an entry of h."""
    groups: list[tuple[set[int], set[sp.Symbol]]] = []
    for number, output in enumerate(outputs):
        numbers, symbols = {number}, set(output.free_symbols)
        for group in [g for g in groups if g[1] & symbols]:
            groups.remove(group)
            numbers, symbols = numbers | group[0], symbols | group[1]
        groups.append((numbers, symbols))
    return sorted(tuple(sorted(numbers)) for numbers, _ in groups)


def part_of(numbers: tuple[int, ...], outputs: Sequence[sp.Expr], noise: sp.Rational) -> Part:
    """Derive the part of the outputs of these numbers."""
    own = tuple(outputs[number] for number in numbers)
    regions = split(own)
    fixed = noise == 0 and second_moment_fixed(own, regions, entries_of(own))
    direction: tuple[sp.Expr, ...] = ()
    if noise == 0 and not fixed and (single := single_direction(own, entries_of(own))) is not None:
        axis, along, u = single
        if second_moment_fixed(along, split(along), (u,)):
            fixed, direction = True, axis
    branches = tuple(_branches(region) if noise == 0 else () for region in regions)
    _check_branches(regions, branches)
    pair, why = _pair(own, regions, fixed, direction) if noise == 0 else (None, "")
    return Part(numbers, own, regions, branches, fixed, direction, pair, why)


def _pair(
    own: tuple[sp.Expr, ...], regions: Sequence[Region], fixed: bool, direction: tuple[sp.Expr, ...]
) -> tuple[Pair | None, str]:
    """E[G_ab G_cd] of a part in closed form, and what y says there."""
    entries = entries_of(own)
    if direction:
        return direction_pair(direction), "y fixes |u| of one direction u"
    if fixed:
        return fixed_pair, "y fixes h h^T"
    if radial(own, entries):
        return radial_pair(len(entries)), "y fixes |h| alone"
    maps = symmetry_maps(own, regions, entries)
    # The mean of T h over the group is E[h | y]: without the reflection it need not vanish.
    if maps and sum(maps, sp.zeros(*maps[0].shape)).is_zero_matrix:
        return group_pair(maps), f"y fixes h up to {len(maps)} orthogonal maps"
    return None, ""


def _branches(region: Region) -> tuple[Branches, ...]:
    """Solve on one region every output for each of its entries; no solutions where there is no closed form."""
    value = sp.Symbol("y", real=True)
    found = []
    for number, expr in enumerate(region.outputs):
        for unknown in sorted(expr.free_symbols, key=lambda s: s.name):
            try:
                solutions = invert(expr, unknown, value)
            except LinkError:
                solutions = ()
            found.append(Branches(number, unknown, solutions, sp.diff(expr, unknown)))
    return tuple(found)


def _check_branches(regions: Sequence[Region], branches: Sequence[Sequence[Branches]]) -> None:
    """At random points one branch must give back the entry that made y: none may be missing."""
    rng = random.Random(1)
    value = sp.Symbol("y", real=True)
    for region, solved in zip(regions, branches, strict=True):
        for one in (b for b in solved if b.solutions):
            expr = region.outputs[one.output]
            solutions = [elementary(s) for s in one.solutions]
            for _ in range(_TRIALS):
                point = {s: sp.Rational(rng.randint(-3000, 3000), 1009) for s in expr.free_symbols | {one.unknown}}
                if not _inside(region, point):
                    continue
                # A small term beside a huge one takes many digits to survive.
                y = sp.N(expr.xreplace(point), _DIGITS)
                if not y.is_real:
                    continue
                others = {s: v for s, v in point.items() if s != one.unknown} | {value: y}
                errors = [abs(sp.N(s.xreplace(others), 40) - point[one.unknown]) for s in solutions]
                if not any(error.is_finite and error < sp.Float("1e-25") for error in errors):
                    raise LinkError(
                        f"link: the branches of y = {expr} in {one.unknown} miss {one.unknown} = "
                        f"{point[one.unknown]}; write that part otherwise, or add output noise (--noise DELTA)"
                    )


def _inside(region: Region, point: dict[sp.Symbol, sp.Rational]) -> bool:
    return all((s not in point) or (lo < point[s] < hi) for s, (lo, hi) in region.bounds.items()) and all(
        sp.N(c.xreplace(point)) > 0 for c in region.conditions if c.free_symbols <= set(point)
    )
