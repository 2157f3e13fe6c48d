"""What can be said about a link without numbers: vanishing moments by parity, and exact thresholds.

At omega = 0 and V = I the entries of h are independent standard normal. The operator (15) needs
G(y) = E[h h^T | y] - I; E[h | y] must vanish, or the threshold is zero. Outputs that share no entry of h have
independent posteriors, and as E G = 0 their operators add.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence

import mpmath
import sympy as sp

from .branches import Region, expand_small, most_terms, split
from .intervals import correlation_proved
from .parser import ArgMax

__all__ = [
    "direction_pair",
    "discrete_operator",
    "fixed_pair",
    "flips",
    "group_pair",
    "linear_information",
    "monotone",
    "operator_threshold",
    "pair_operator",
    "radial",
    "radial_pair",
    "second_moment_fixed",
    "single_direction",
    "symmetry_maps",
]

_MOST_FLIPS = 8
# A power of a polynomial with more terms is not expanded further.
_MOST_TERMS = 2000
_MOST_REGIONS_SOLVED = 8
_MOST_TERMS_DIRECTION = 200
_MOST_DEGREE = 4
# Of eigenvectors; entries of a unit matrix below the second are zero to the digits printed.
_DIGITS, _TINY = 50, 1e-15
_INCREASING = (sp.sign, sp.exp, sp.log, sp.tanh, sp.sinh, sp.erf)

Directions = list[tuple[sp.Matrix, sp.Expr, sp.Expr]]
Pair = Callable[[int, int, int, int], sp.Expr]
Groups = dict[tuple[sp.Expr, ...], tuple[sp.Expr, sp.Matrix, sp.Matrix]]


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
    basis = _symmetric_basis(left)
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


def pair_operator(
    pair: Pair, entries: Sequence[int], indices: int, tokens: int, learned: Sequence[int] = ()
) -> sp.Matrix:
    """Operator from E[G_ab G_cd] over some entries, where y says nothing of the others.

    Parameters
    ----------
    pair : callable
        E[G_ab G_cd] of the places a, b, c, d among `entries`.
    entries : sequence of int
        Entries of h that the output holds, counted token by token; none of them is known.
    indices, tokens : int
        P and M.
    learned : sequence of int
        Indices that are known.

    Returns
    -------
    sympy.Matrix
        On the orthonormal basis of symmetric matrices of the other indices.

    References
    ----------
    troiani2025, (15).
    """
    rest = [i for i in range(indices) if i not in learned]
    token, index = [k // indices for k in entries], [rest.index(k % indices) for k in entries]
    places = range(len(entries))
    image: dict[tuple[int, int, int, int], sp.Expr] = {}
    for a, b, c, d in itertools.product(places, repeat=4):
        if token[a] == token[c] and token[b] == token[d] and (value := pair(a, b, c, d)) != 0:
            key = index[a], index[c], index[b], index[d]
            image[key] = image.get(key, sp.S.Zero) + value
    basis = _symmetric_basis(len(rest))
    operator = sp.zeros(len(basis), len(basis))
    for (p, q, r, s), value in image.items():
        rows = [(i, e[p, q]) for i, e in enumerate(basis) if e[p, q] != 0]
        columns = [(j, e[r, s]) for j, e in enumerate(basis) if e[r, s] != 0]
        for (i, x), (j, y) in itertools.product(rows, columns):
            operator[i, j] += value * x * y
    return operator.applyfunc(sp.expand)


def fixed_pair(a: int, b: int, c: int, d: int) -> sp.Expr:
    """E[G_ab G_cd] where y fixes h h^T: the fourth moments of the normal law."""
    return sp.Integer((a == c) * (b == d) + (a == d) * (b == c))


def radial_pair(count: int) -> Pair:
    """E[G_ab G_cd] where y fixes the sum of the squares of n entries alone: G = (s/n - 1) I, E (s/n - 1)^2 = 2/n."""
    return lambda a, b, c, d: sp.Rational(2, count) if a == b and c == d else sp.S.Zero


def direction_pair(direction: Sequence[sp.Expr]) -> Pair:
    """E[G_ab G_cd] where y fixes u^2 of one unit direction: G = (u^2 - 1) a a^T, E (u^2 - 1)^2 = 2."""
    return lambda a, b, c, d: 2 * sp.Mul(*(direction[k] for k in (a, b, c, d)))


def group_pair(maps: Sequence[sp.Matrix]) -> Pair:
    """E[G_ab G_cd] where y fixes h up to a group of orthogonal maps T: G = mean_T T (h h^T - I) T^T."""
    size = maps[0].shape[0]
    mean: dict[tuple[int, int], sp.Matrix] = {}
    for a, b in itertools.product(range(size), repeat=2):
        total = sum((t[a, :].T * t[b, :] for t in maps), sp.zeros(size, size)) / len(maps)
        # h h^T is symmetric.
        mean[a, b] = (total + total.T) / 2
    return lambda a, b, c, d: sp.expand(2 * (mean[a, b] * mean[c, d]).trace())


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


def operator_threshold(
    operators: Sequence[sp.Matrix | sp.Expr | None],
) -> tuple[sp.Expr, tuple[tuple[float, ...], ...]] | None:
    """alpha_c of outputs in independent parts from the operators of the parts, and a PSD eigenvector in numbers.

    None if alpha_c is not known exactly; no eigenvector where it is 0 or oo.
    """
    if any(isinstance(one, sp.Expr) for one in operators):
        return sp.S.Zero, ()
    known = [one for one in operators if one is not None]
    if len(known) < len(operators):
        return None
    total = sum(known[1:], known[0]).applyfunc(sp.expand)
    if total.is_zero_matrix:
        return sp.oo, ()
    top = _largest_eigenvalue(total)
    return None if top is None else (1 / sp.factor(sp.together(top)), _eigenvector(total))


def _eigenvector(operator: sp.Matrix) -> tuple[tuple[float, ...], ...]:
    """Image of the identity under the projection on the top eigenspace, of unit norm."""
    size = operator.shape[0]
    if size == 1:
        return ((1.0,),)
    context = mpmath.mp.clone()
    context.dps = _DIGITS
    scale = max(abs(sp.N(entry, _DIGITS, maxn=20_000)) for entry in operator)
    entries = [[context.mpf(sp.N(e / scale, _DIGITS, maxn=20_000)) for e in operator[i, :]] for i in range(size)]
    values, vectors = context.eigsy(context.matrix(entries))
    count = (math.isqrt(8 * size + 1) - 1) // 2
    basis = _symmetric_basis(count)
    image = [context.zero] * size
    for k in range(size):
        if values[k] > values[size - 1] * (1 - context.mpf(10) ** (10 - _DIGITS)):
            part = sum(vectors[i, k] * int(basis[i].trace()) for i in range(size))
            image = [x + part * vectors[i, k] for i, x in enumerate(image)]
    norm = context.sqrt(sum(x * x for x in image))
    unit = [[context.zero] * count for _ in range(count)]
    for x, e in zip(image, basis, strict=True):
        for a, b in itertools.product(range(count), repeat=2):
            unit[a][b] += x / norm * context.mpf(sp.N(e[a, b], _DIGITS))
    return tuple(tuple(float(x) if abs(x) > _TINY else 0.0 for x in row) for row in unit)


def _symmetric_basis(size: int) -> list[sp.Matrix]:
    """Orthonormal basis of the symmetric matrices."""
    basis = []
    for i in range(size):
        for j in range(i, size):
            e = sp.zeros(size, size)
            e[i, j] = e[j, i] = 1 if i == j else 1 / sp.sqrt(2)
            basis.append(e)
    return basis


def _largest_eigenvalue(operator: sp.Matrix) -> sp.Expr | None:
    """Largest eigenvalue where each connected part has a closed form; None otherwise."""
    values: list[sp.Expr] = []
    for part in operator.connected_components():
        cell = operator[part, part]
        sums = [sp.expand(sum(cell[i, :])) for i in range(len(part))]
        if len(part) == 1:
            values.append(cell[0, 0])
        elif all(sp.N(entry, 30) >= 0 for entry in cell) and all(sp.expand(s - sums[0]) == 0 for s in sums):
            values.append(sums[0])  # Perron: the constant vector
        elif len(part) == 2:
            a, b, d = cell[0, 0], cell[0, 1], cell[1, 1]
            values.append((a + d + sp.sqrt(sp.expand((a - d) ** 2 + 4 * b**2))) / 2)
        elif (cell * cell - cell.trace() * cell).applyfunc(sp.expand).is_zero_matrix:
            values.append(sp.expand(cell.trace()))  # of rank one
        elif (root := _largest_root(cell)) is not None:
            values.append(root)
        else:
            return None
    return max(values, key=lambda value: sp.N(value, 30))


def _largest_root(cell: sp.Matrix) -> sp.Expr | None:
    """Largest eigenvalue of a matrix of rational multiples of one number, if it is a root of at most a quadratic."""
    scale = next(entry for entry in cell if entry != 0)
    x = sp.Dummy("x")
    ratios = cell.applyfunc(lambda entry: sp.cancel(entry / scale))
    if ratios.free_symbols or not all(ratio.is_algebraic for ratio in ratios):
        return None
    polynomial = sp.Poly([sp.expand(c) for c in ratios.charpoly(x).all_coeffs()], x)
    if not all(c.is_Rational for c in polynomial.all_coeffs()):
        return None
    positive = sp.N(scale, 30) > 0
    found = []
    for factor, _ in polynomial.factor_list()[1]:
        # A symmetric matrix: all roots are real.
        roots = [sp.re(root) for root in factor.nroots(n=30)]
        found.append((max(roots) if positive else -min(roots), factor))
    factor = max(found, key=lambda pair: pair[0])[1]
    if factor.degree() > 2:
        return None
    return max((scale * root for root in sp.roots(factor)), key=lambda root: sp.N(root, 30))


def linear_information(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> str:
    """Why E[h | y] provably does not vanish, with noise or without; empty if this does not show.

    Noise changes nothing: its convolution with E[h | g] p(g) vanishes only where that does.
    """
    if polynomial_correlation(outputs, coordinates):
        return "E[h y^k] is not zero for some k <= 5"
    for output in outputs:
        if any(monotone(output, h) in (1, -1) and _moves(output, h) for h in output.free_symbols):
            return "the link is monotone in an entry of h"
        if isinstance(output, ArgMax) and any(_label_grows(output, h) for h in output.free_symbols):
            return "one value of the link is the likelier, the larger an entry of h"
        negligible = [h for k, h in enumerate(coordinates) if any(s[k] < 0 for s in flips([output], coordinates))]
        if correlation_proved(0, split([output]), negligible):
            return "E[h f(y)] is not zero for a bounded f, by interval arithmetic"
    return ""


def _label_grows(expr: ArgMax, h: sp.Symbol) -> bool:
    """Whether for one label k "argmax = k" turns only one way along an entry, whatever the others, and does turn."""
    ways = [way for arg in expr.args if (way := monotone(arg, h)) is not None]
    if len(ways) < len(expr.args):
        return False
    for k, own in enumerate(ways):
        others = [way for j, way in enumerate(ways) if j != k]
        one_way = any(sign * own >= 0 and all(sign * way <= 0 for way in others) for sign in (1, -1))
        if one_way and _moves(expr, h, k + 1):
            return True
    return False


def _moves(expr: sp.Expr, h: sp.Symbol, label: int | None = None) -> bool:
    """Whether the expression, or whether it is that label, takes different values along an entry somewhere."""
    rng = random.Random(2)
    for _ in range(8):
        point = {x: sp.Rational(rng.randint(-2000, 2000), 1009) for x in expr.free_symbols - {h}}
        ends = [split([expr.xreplace({**point, h: at})])[0].outputs[0] for at in (-3, sp.Rational(29, 10))]
        if label is not None:
            if len({end == label for end in ends}) > 1:
                return True
            continue
        low, high = (sp.N(end, 30) for end in ends)
        if abs(high - low) > sp.Float("1e-20"):
            return True
    return False


def monotone(expr: sp.Expr, h: sp.Symbol) -> int | None:
    """Direction in which an expression moves with an entry, whatever the others: 1, -1, 0 (not at all); None: unknown.

    It follows the structure: sums, constant factors, increasing functions, maxima and minima; or the sign of the slope.
    """
    if not expr.has(h):
        return 0
    if expr == h:
        return 1
    if isinstance(expr, (sp.Add, sp.Max, sp.Min)):
        ways = {monotone(part, h) for part in expr.args} - {0}
        return ways.pop() if len(ways) == 1 else None
    if isinstance(expr, sp.Mul):
        rest, part = expr.as_independent(h, as_Add=False)
        way = monotone(part, h) if part != expr else None
        if way is not None and (rest.is_positive or rest.is_negative):
            return way if rest.is_positive else -way
    odd = isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp > 0 and expr.exp % 2
    if odd or isinstance(expr, _INCREASING):
        return monotone(expr.args[0], h)
    if expr.has(sp.sign, sp.Abs, sp.Max, sp.Min, sp.Piecewise) or len(expr.free_symbols) > 1:
        return None
    slope = sp.factor(sp.diff(expr, h))
    # No jumps: the functions are smooth, and finite everywhere if their reciprocals and logarithms are.
    if expr.atoms(sp.log) or any(
        power.exp.is_negative or not power.exp.is_Integer for power in expr.atoms(sp.Pow) if power.base != sp.E
    ):
        return None
    return 1 if slope.is_positive else -1 if slope.is_negative else None


def polynomial_correlation(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> bool:
    """Whether E[h_i y^k] is not zero for a polynomial output, k <= 5: then E[h | y] is not, with noise or without.

    Noise changes nothing: its convolution with E[h | g] p(g) vanishes only where that does.
    """
    for output in outputs:
        if not output.is_polynomial(*coordinates) or most_terms(output) > _MOST_TERMS:
            continue
        base = sp.Poly(output, *coordinates)
        power = sp.Poly(1, *coordinates)
        for _ in range(5):
            power *= base
            if len(power.terms()) > _MOST_TERMS:
                break
            if any(_gaussian_mean(power * sp.Poly(h, *coordinates)) != 0 for h in coordinates):
                return True
    return False


def _gaussian_mean(polynomial: sp.Poly) -> sp.Expr:
    """Mean over independent standard normal variables."""
    terms = (
        coefficient * sp.Mul(*[sp.factorial2(k - 1) for k in exponents])
        for exponents, coefficient in polynomial.terms()
        if not any(k % 2 for k in exponents)
    )
    return sp.expand(sp.Add(*terms))


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
