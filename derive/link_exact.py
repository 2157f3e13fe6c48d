"""What can be said about a link without numbers: vanishing moments by parity, and exact thresholds.

At omega = 0 and V = I the entries of h are independent standard normal. The operator (15) needs
G(y) = E[h h^T | y] - I; E[h | y] must vanish, or the threshold is zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import sympy as sp

from .link_branches import Region

__all__ = ["discrete_threshold", "flips", "second_moment_fixed", "threshold_of_fixed_second_moment"]

_MOST_FLIPS = 8

# A power of a polynomial with more terms is not expanded further.
_MOST_TERMS = 2000


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
        if all(sp.expand(output.xreplace(flipped) - output) == 0 for output in outputs):
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


def _box_moments(region: Region, coordinates: Sequence[sp.Symbol]) -> tuple[sp.Expr, sp.Matrix, sp.Matrix]:
    """Integrals of 1, h and h h^T over a region that is a box."""
    parts = [_interval_moments(*region.bounds.get(h, (-sp.oo, sp.oo))) for h in coordinates]
    size = len(parts)

    def entry(powers: dict[int, int]) -> sp.Expr:
        return sp.Mul(*[parts[k][powers.get(k, 0)] for k in range(size)])

    mean = sp.Matrix(size, 1, lambda i, _: entry({i: 1}))
    second = sp.Matrix(size, size, lambda i, j: entry({i: 2}) if i == j else entry({i: 1, j: 1}))
    return entry({}), mean, second


def discrete_threshold(
    regions: Sequence[Region], coordinates: Sequence[sp.Symbol], indices: int
) -> tuple[sp.Expr, sp.Matrix | None] | None:
    """Exact threshold of a link with finitely many values whose regions are boxes.

    Parameters
    ----------
    regions : sequence of Region
    coordinates : sequence of sympy.Symbol
        All entries of h, token by token.
    indices : int
        P.

    Returns
    -------
    (sympy.Expr, sympy.Matrix or None) or None
        alpha_c (0: the mean E[h | y] does not vanish; oo: G vanishes) and the operator on the basis of symmetric
        matrices; None if this method does not apply.

    References
    ----------
    troiani2025, (15)-(16).
    """
    if any(not region.constant or region.conditions for region in regions):
        return None
    size = len(coordinates)
    sums: dict[tuple[sp.Expr, ...], tuple[sp.Expr, sp.Matrix, sp.Matrix]] = {}
    for region in regions:
        one = _box_moments(region, coordinates)
        if region.outputs in sums:
            one = tuple(old + new for old, new in zip(sums[region.outputs], one, strict=True))
        sums[region.outputs] = one
    blocks = []
    for mass, mean, second in sums.values():
        if any(sp.expand(m) != 0 for m in mean):
            # Not zero on sight; a number decides, and what is tiny but not zero on sight stays undecided.
            # Against the mass, which may itself be tiny.
            return (sp.S.Zero, None) if any(abs(sp.N(m / mass, 30)) > 1e-20 for m in mean) else None
        blocks.append((mass, (second / mass - sp.eye(size)).applyfunc(sp.expand)))
    tokens = size // indices
    basis = _symmetric_basis(indices)
    operator = sp.zeros(len(basis), len(basis))
    for mass, g in blocks:
        cells = [
            g[m * indices : (m + 1) * indices, n * indices : (n + 1) * indices]
            for m in range(tokens)
            for n in range(tokens)
        ]
        images = [sum((cell * e * cell.T for cell in cells), sp.zeros(indices, indices)) for e in basis]
        operator += mass * sp.Matrix(len(basis), len(basis), lambda i, j, im=images: (basis[i].T * im[j]).trace())
    operator = operator.applyfunc(sp.expand)
    if operator.is_zero_matrix:
        return sp.oo, operator
    top = _largest_eigenvalue(operator)
    return None if top is None else (1 / sp.factor(sp.together(top)), operator)


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
        else:
            return None
    return max(values, key=lambda value: sp.N(value, 30))


def polynomial_correlation(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> bool:
    """Whether E[h_i y^k] is not zero for a polynomial output, k <= 5: then E[h | y] is not, with noise or without.

    Noise changes nothing: its convolution with E[h | g] p(g) vanishes only where that does.
    """
    for output in outputs:
        if not output.is_polynomial(*coordinates):
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


def second_moment_fixed(
    outputs: Sequence[sp.Expr], regions: Sequence[Region], coordinates: Sequence[sp.Symbol]
) -> bool:
    """Whether y provably fixes h h^T while both h and -h give it: E[h | y] = 0 and G = h h^T - I.

    Two cases: an even link of a single entry that is monotone for h > 0, and polynomial outputs whose system
    y = g(h) has the solutions h and -h alone.
    """
    negated = {h: -h for h in coordinates}
    if any(sp.expand(output.xreplace(negated) - output) != 0 for output in outputs):
        return False
    if len(coordinates) == 1:
        return len(outputs) == 1 and _monotone_on_half_line(regions, coordinates[0])
    smooth = len(regions) == 1 and all(output.is_polynomial(*coordinates) for output in outputs)
    if not smooth or len(coordinates) > 4 or len(outputs) < len(coordinates):
        return False
    if any(sp.total_degree(output, *coordinates) > 4 for output in outputs):
        return False
    other = [sp.Symbol(f"x_{k}", real=True) for k in range(len(coordinates))]
    moved = dict(zip(coordinates, other, strict=True))
    try:
        solutions = sp.solve([o.xreplace(moved) - o for o in outputs], other, dict=True)
    except NotImplementedError:
        return False
    h = sp.Matrix(coordinates)
    vectors = [sp.Matrix([solution.get(x, x) for x in other]) for solution in solutions]
    return bool(vectors) and all(
        all(sp.expand(entry) == 0 for entry in (v * v.T - h * h.T).applyfunc(sp.cancel)) for v in vectors
    )


def _monotone_on_half_line(regions: Sequence[Region], h: sp.Symbol) -> bool:
    right = [r for r in regions if r.bounds.get(h, (-sp.oo, sp.oo))[1] == sp.oo]
    if len(right) != 1 or right[0].conditions or right[0].bounds.get(h, (-sp.oo, sp.oo))[0] not in (-sp.oo, 0):
        return False
    positive = sp.Symbol("x", positive=True)
    slope = sp.diff(right[0].outputs[0], h).xreplace({h: positive})
    slope = sp.factor(slope)
    return bool(slope.is_positive or slope.is_negative)


def threshold_of_fixed_second_moment(indices: int, tokens: int) -> sp.Rational:
    """alpha_c where y fixes h h^T, h of shape P x M: 1/(M (M P + 1)).

    By the fourth moments of the normal law, E sum_{mm'} (h_m h_m'^T - delta I) A (h_m' h_m^T - delta I) is
    M A + M^2 Tr(A) I, whose largest eigenvalue belongs to A = I.

    References
    ----------
    troiani2025, (15)-(16).
    """
    return sp.Rational(1, tokens * (tokens * indices + 1))
