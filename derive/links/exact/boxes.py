"""The operator (15) of outputs with finitely many values, each taken on boxes of h."""

import itertools
import random
from collections.abc import Iterator, Sequence

import sympy as sp

from ..branches import Region
from .operators import symmetric_basis

Directions = list[tuple[sp.Matrix, sp.Expr, sp.Expr]]
Groups = dict[tuple[sp.Expr, ...], tuple[sp.Expr, sp.Matrix, sp.Matrix]]


def _interval_moments(low: sp.Expr, high: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Integrals of 1, x and x^2 against the standard normal density over (low, high)."""

    def below(x: sp.Expr) -> sp.Expr:
        return (1 + sp.erf(x / sp.sqrt(2))) / 2

    def density(x: sp.Expr) -> sp.Expr:
        return sp.S.Zero if x.is_infinite else sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)

    def edge(x: sp.Expr) -> sp.Expr:
        return sp.S.Zero if x.is_infinite else x * density(x)

    mass = below(high) - below(low)
    return mass, density(low) - density(high), mass + edge(low) - edge(high)


def _directions(region: Region, coordinates: Sequence[sp.Symbol]) -> Directions | None:
    """Intervals along mutually orthogonal unit vectors that make up the region; None if it is no such box."""
    found: Directions = []
    for h, (low, high) in region.bounds.items():
        found.append((sp.Matrix([1 if c == h else 0 for c in coordinates]), low, high))
    for condition in region.conditions:
        if not condition.is_polynomial(*coordinates) or sp.total_degree(condition, *coordinates) != 1:
            return None
        polynomial = sp.Poly(condition, *coordinates)
        slope = sp.Matrix([polynomial.coeff_monomial(c) for c in coordinates])
        size = sp.sqrt(slope.dot(slope))
        at = -polynomial.coeff_monomial(1) / size
        found.append((slope / size, at, sp.oo))
    merged: Directions = []
    for direction, low, high in found:
        for k, (known, low_, high_) in enumerate(merged):
            overlap = sp.expand(known.dot(direction))
            if overlap == 0:
                continue
            if overlap not in (1, -1):
                return None
            if overlap == -1:
                low, high = -high, -low
            merged[k] = (known, _ordered(low_, low)[1], _ordered(high_, high)[0])
            break
        else:
            merged.append((direction, low, high))
    return merged


def _ordered(a: sp.Expr, b: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return (a, b) if a == b or sp.N(a - b, 30) < 0 else (b, a)


def _box_moments(box: Directions, size: int) -> tuple[sp.Expr, sp.Matrix, sp.Matrix]:
    """Integrals of 1, h and h h^T over a box, whose edges need not be those of the coordinates."""
    if any(low != high and _ordered(low, high)[0] != low for _, low, high in box) or any(b[1] == b[2] for b in box):
        return sp.S.Zero, sp.zeros(size, 1), sp.zeros(size, size)
    parts = [_interval_moments(low, high) for _, low, high in box]

    def entry(powers: dict[int, int]) -> sp.Expr:
        return sp.Mul(*[part[powers.get(k, 0)] for k, part in enumerate(parts)])

    mass = entry({})
    mean, second = sp.zeros(size, 1), mass * sp.eye(size)
    for a, (one, _, _) in enumerate(box):
        mean += entry({a: 1}) * one
        second += (entry({a: 2}) - mass) * one * one.T
        for b, (two, _, _) in enumerate(box):
            if a != b:
                second += entry({a: 1, b: 1}) * one * two.T
    return mass, mean, second


def _cells(regions: Sequence[Region], known: Sequence[sp.Symbol]) -> Iterator[dict[sp.Symbol, tuple[sp.Expr, sp.Expr]]]:
    """Intervals of the known entries on which the same regions are possible."""
    lines = []
    for h in known:
        ends = {end for r in regions for end in r.bounds.get(h, ()) if end.is_finite}
        points = [-sp.oo, *sorted(ends, key=lambda end: sp.N(end, 30)), sp.oo]
        lines.append(list(itertools.pairwise(points)))
    for choice in itertools.product(*lines):
        yield dict(zip(known, choice, strict=True))


def _groups(
    regions: Sequence[Region], cell: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]], rest: Sequence[sp.Symbol]
) -> Groups | None:
    """Moments of the other entries for each output that is possible where the known ones lie in a cell."""
    sums: Groups = {}
    for region in regions:
        ends = {h: region.bounds.get(h, (-sp.oo, sp.oo)) for h in cell}
        if any(
            _ordered(ends[h][0], low)[1] != low or _ordered(ends[h][1], high)[0] != high
            for h, (low, high) in cell.items()
        ):
            continue
        inner = Region(region.outputs, {h: b for h, b in region.bounds.items() if h not in cell}, region.conditions)
        box = _directions(inner, rest)
        if box is None:
            return None
        one = _box_moments(box, len(rest))
        if one[0] != 0:
            old = sums.get(region.outputs, (sp.S.Zero, sp.zeros(len(rest), 1), sp.zeros(len(rest), len(rest))))
            sums[region.outputs] = (old[0] + one[0], old[1] + one[1], old[2] + one[2])
    return sums if _distinct(list(sums), cell) else None


def _distinct(values: list[tuple[sp.Expr, ...]], cell: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]]) -> bool:
    """Whether outputs written differently differ, at a point of the cell: then they do almost everywhere on it."""
    rng = random.Random(0)
    point = {}
    for h, (low, high) in cell.items():
        shift = sp.Rational(rng.randint(100, 900), 1009)
        point[h] = (
            (
                low + shift * (high - low)
                if low.is_finite and high.is_finite
                else low + shift
                if low.is_finite
                else high - shift
            )
            if low.is_finite or high.is_finite
            else shift
        )
    at = [[sp.N(v.xreplace(point), 30) for v in value] for value in values]
    return all(any(abs(x - y) > 1e-15 for x, y in zip(a, b, strict=True)) for a, b in itertools.combinations(at, 2))


def discrete_operator(
    regions: Sequence[Region], coordinates: Sequence[sp.Symbol], indices: int, learned: Sequence[int] = ()
) -> sp.Matrix | sp.Expr | None:
    """Operator of outputs with finitely many values, taken on boxes.

    Parameters
    ----------
    regions : sequence of Region
    coordinates : sequence of sympy.Symbol
        All entries of h, token by token.
    indices : int
        P.
    learned : sequence of int
        Indices, counted from 0, that are known: the outputs need be finitely many only once these are.

    Returns
    -------
    sympy.Matrix, 0 or None
        The operator (15) on the orthonormal basis of symmetric matrices of the other indices; 0 if E[h | y] does
        not vanish; None if this method does not apply.

    References
    ----------
    troiani2025, (15)-(16).
    """
    known = [h for k, h in enumerate(coordinates) if k % indices in learned]
    rest = [h for k, h in enumerate(coordinates) if k % indices not in learned]
    if any(
        region.conditions and set(known) & set().union(*(c.free_symbols for c in region.conditions))
        for region in regions
    ):
        return None
    if any(not output.free_symbols <= set(known) for region in regions for output in region.outputs):
        return None
    left = indices - len(set(learned))
    tokens = len(rest) // left
    basis = symmetric_basis(left)
    operator = sp.zeros(len(basis), len(basis))
    for cell in _cells(regions, known):
        share = sp.Mul(*[_interval_moments(low, high)[0] for low, high in cell.values()])
        sums = _groups(regions, cell, rest)
        if sums is None:
            return None
        for mass, mean, second in sums.values():
            if any(sp.expand(m) != 0 for m in mean):
                # Not zero on sight; a number decides, and what is tiny but not zero on sight stays undecided.
                # Against the mass, which may itself be tiny.
                return sp.S.Zero if any(abs(sp.N(m / mass, 30)) > 1e-20 for m in mean) else None
            g = (second / mass - sp.eye(len(rest))).applyfunc(sp.expand)
            cut = [slice(m * left, (m + 1) * left) for m in range(tokens)]
            images = [sum((g[a, b] * e * g[a, b].T for a in cut for b in cut), sp.zeros(left, left)) for e in basis]
            operator += (
                share * mass * sp.Matrix(len(basis), len(basis), lambda i, j, im=images: (basis[i].T * im[j]).trace())
            )
    return operator.applyfunc(sp.expand)
