"""What the outputs fix of the entries of h, and up to which signs, rotations and other orthogonal maps."""

import itertools
from collections.abc import Sequence

import sympy as sp

from ..branches import Region, expand_small, most_terms, split

_MOST_FLIPS = 8
_MOST_REGIONS_SOLVED = 8
_MOST_TERMS_DIRECTION = 200
_MOST_DEGREE = 4


def flips(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> tuple[tuple[int, ...], ...]:
    """Return every change of signs of entries of h (+1 or -1 each) that provably leaves the link as it is.

    Under such a change the law of h does not change either, so that E[h_i | y] = 0 if it flips h_i, and
    E[h_i h_j | y] = 0 if it flips one of h_i and h_j.
    """
    if len(coordinates) > _MOST_FLIPS:
        return ()
    found = []
    for signs in itertools.product((1, -1), repeat=len(coordinates)):
        flipped = {h: s * h for h, s in zip(coordinates, signs, strict=True) if s < 0}
        if all(expand_small(output.xreplace(flipped) - output) == 0 for output in outputs):
            found.append(signs)
    return tuple(found)


def single_direction(
    outputs: Sequence[sp.Expr], entries: Sequence[sp.Symbol]
) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...], sp.Symbol] | None:
    """Unit vector a, and the outputs as functions of u = a.h, if they depend on that alone; None otherwise."""
    first = split(outputs[:1])[0].outputs[0]
    if len(entries) < 2 or most_terms(first) > _MOST_TERMS_DIRECTION:
        return None
    slopes = [sp.diff(first, h) for h in entries]
    if slopes[0] == 0:
        return None
    ratios = [sp.cancel(slope / slopes[0]) for slope in slopes]
    if not all(ratio.is_Rational for ratio in ratios):
        return None
    size = sp.sqrt(sum(ratio**2 for ratio in ratios))
    u = sp.Symbol("u", real=True)
    inverse = size * u - sum(ratio * h for ratio, h in zip(ratios[1:], entries[1:], strict=True))
    along = tuple(expand_small(output.xreplace({entries[0]: inverse})) for output in outputs)
    if any(output.free_symbols != {u} for output in along):
        return None
    return tuple(ratio / size for ratio in ratios), along, u


def radial(outputs: Sequence[sp.Expr], entries: Sequence[sp.Symbol]) -> bool:
    """Whether the one output is the sum of the squares of its entries."""
    return len(outputs) == 1 and sp.expand(outputs[0] - sum(h**2 for h in entries)) == 0


def symmetry_maps(
    outputs: Sequence[sp.Expr], regions: Sequence[Region], entries: Sequence[sp.Symbol]
) -> tuple[sp.Matrix, ...]:
    """Return the orthogonal maps T such that y fixes h up to them; none if this does not show.

    For polynomials of two entries: the resultants of y = g(x), y = g(h) are products of x_k minus linear forms of h,
    and of factors without real zeros. The maps form a group that keeps g and the law of h, so that every T h is
    equally likely given y.
    """
    if len(regions) != 1 or len(entries) != 2 or len(outputs) < 2:
        return ()
    if not all(g.is_polynomial(*entries) and sp.total_degree(g, *entries) <= _MOST_DEGREE for g in outputs):
        return ()
    unknown = sp.symbols("x_0 x_1", real=True)
    moved = dict(zip(entries, unknown, strict=True))
    equations = [sp.expand(g.xreplace(moved) - g) for g in outputs]
    rows = []
    for keep, drop in (unknown, unknown[::-1]):
        eliminated = sp.resultant(equations[0], equations[1], drop)
        if eliminated == 0:
            return ()
        found = []
        for factor, _ in sp.factor_list(eliminated)[1]:
            if keep not in factor.free_symbols:
                continue
            polynomial = sp.Poly(factor, keep)
            if polynomial.degree() > 1:
                if _no_real_zero(factor):
                    continue
                return ()
            root = sp.cancel(-polynomial.TC() / polynomial.LC())
            row = sp.Matrix([[sp.diff(root, h) for h in entries]])
            if row.free_symbols or root.xreplace(dict.fromkeys(entries, sp.S.Zero)) != 0:
                return ()
            found.append(row)
        rows.append(found)
    h = sp.Matrix(entries)
    maps = []
    for t in (sp.Matrix.vstack(*pair) for pair in itertools.product(*rows)):
        images = dict(zip(unknown, t * h, strict=True))
        if all(sp.expand(e.xreplace(images)) == 0 for e in equations):
            maps.append(t)
    orthogonal = all((t * t.T - sp.eye(2)).applyfunc(sp.expand).is_zero_matrix for t in maps)
    return tuple(maps) if orthogonal else ()


def _no_real_zero(factor: sp.Expr) -> bool:
    """Whether a polynomial is a sum of even powers with coefficients of one sign."""
    terms = sp.Poly(factor, *sorted(factor.free_symbols, key=lambda s: s.name)).terms()
    signs = {bool(coefficient > 0) for _, coefficient in terms}
    return len(signs) == 1 and not any(k % 2 for exponents, _ in terms for k in exponents)


def second_moment_fixed(outputs: Sequence[sp.Expr], regions: Sequence[Region], entries: Sequence[sp.Symbol]) -> bool:
    """Whether y provably fixes h h^T on its entries, while both h and -h give it: E[h | y] = 0 and G = h h^T - I.

    Two cases: an even link of a single entry that is monotone for h > 0, and outputs that are polynomials on each
    region, where the systems y = g(h) have the real solutions h and -h alone.
    """
    negated = {h: -h for h in entries}
    if any(expand_small(output.xreplace(negated) - output) != 0 for output in outputs):
        return False
    if len(entries) == 1 and len(outputs) == 1 and _monotone_on_half_line(regions, entries[0]):
        return True
    if len(entries) > 4 or len(regions) > _MOST_REGIONS_SOLVED:
        return False
    for region in regions:
        moving = [output for output in region.outputs if output.free_symbols]
        if len(moving) < len(entries) or not all(output.is_polynomial(*entries) for output in moving):
            return False
        if any(sp.total_degree(output, *entries) > _MOST_DEGREE for output in moving):
            return False
    return all(_only_signs(one, other, entries) for one in regions for other in regions)


def _only_signs(one: Region, other: Region, entries: Sequence[sp.Symbol]) -> bool:
    """Whether every real x of the other region's formula with the outputs at h in this one is h or -h."""
    unknown = [sp.Symbol(f"x_{k}", real=True) for k in range(len(entries))]
    moved = dict(zip(entries, unknown, strict=True))
    equations = [sp.expand(b.xreplace(moved) - a) for a, b in zip(one.outputs, other.outputs, strict=True)]
    if any(e != 0 and not e.free_symbols for e in equations):
        return True  # different constants: no solution
    try:
        solutions = sp.solve([e for e in equations if e != 0], unknown, dict=True)
    except NotImplementedError:
        return False
    h = sp.Matrix(entries)
    vectors = [sp.Matrix([solution.get(x, x) for x in unknown]) for solution in solutions]
    return bool(vectors) and all(
        _never_real(v) or all(sp.expand(entry) == 0 for entry in (v * v.T - h * h.T).applyfunc(sp.cancel))
        for v in vectors
    )


def _never_real(vector: sp.Matrix) -> bool:
    """Whether an entry is i times a real number that is zero only where an entry of h is."""
    return any((entry / sp.I).is_real and entry.has(sp.I) and entry != 0 for entry in vector)


def _monotone_on_half_line(regions: Sequence[Region], h: sp.Symbol) -> bool:
    right = [r for r in regions if r.bounds.get(h, (-sp.oo, sp.oo))[1] == sp.oo]
    if len(right) != 1 or right[0].conditions or right[0].bounds.get(h, (-sp.oo, sp.oo))[0] not in (-sp.oo, 0):
        return False
    positive = sp.Symbol("x", positive=True)
    slope = sp.diff(right[0].outputs[0], h).xreplace({h: positive})
    slope = sp.factor(slope)
    return bool(slope.is_positive or slope.is_negative)
