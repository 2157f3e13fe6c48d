"""The exact threshold: the largest eigenvalue of the operators of independent parts, and its eigenvector."""

import itertools
import math
from collections.abc import Sequence

import mpmath
import sympy as sp

from .operators import symmetric_basis

# Of eigenvectors; entries of a unit matrix below the second are zero to the digits printed.
_DIGITS, _TINY = 50, 1e-15


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
    basis = symmetric_basis(count)
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
