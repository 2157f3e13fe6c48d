"""Weak-recovery threshold of a link from its level sets, by exact integration.

A link is described by its level sets: for every output, coordinates that the output fixes, coordinates that it
leaves free (the fibre), and the branches h(known, free).  Integrating the Gaussian weight over the fibre gives
E[h|y] and E[h h^T|y], hence the operator (15) as a matrix on S_P, and its top eigenpair (16).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import sympy as sp

Range = tuple[sp.Symbol, sp.Expr, sp.Expr]


@dataclass(frozen=True)
class Branch:
    """One sheet of the level sets of a link.

    Attributes
    ----------
    h : sympy.Matrix
        P x M, in the known coordinates of its output and the free ones; with the two together it is a change of
        variables from R^{P M}.
    free : tuple of (Symbol, lower, upper)
        Coordinates along the fibre, in the order in which they are integrated out.
    weight : sympy.Expr
        Probability that this h gives this output: 1 unless the output is noisy.
    """

    h: sp.Matrix
    free: tuple[Range, ...] = ()
    weight: sp.Expr = sp.S.One


@dataclass(frozen=True)
class Output:
    """Outputs that share one description: a discrete value, or a family over the known coordinates.

    Attributes
    ----------
    branches : tuple of Branch
        All h that give this output; they do not overlap.
    known : tuple of (Symbol, lower, upper)
        Coordinates that the output determines.
    """

    branches: tuple[Branch, ...]
    known: tuple[Range, ...] = ()


@dataclass(frozen=True)
class Threshold:
    """An exact threshold.

    Attributes
    ----------
    alpha : sympy.Expr
        alpha_c of (16): zero if E[h|y] does not vanish, so that any number of samples per dimension suffices;
        infinite if the output carries no quadratic information either.
    eigenvector : sympy.Matrix
        P x P, positive semidefinite, Frobenius norm 1: the direction that becomes unstable. At alpha = 0 that of
        E[E[h|y] E[h|y]^T]; at alpha = oo the zero matrix.
    """

    alpha: sp.Expr
    eigenvector: sp.Matrix


@cache
def _integral(integrand: sp.Expr, symbol: sp.Symbol, lower: sp.Expr, upper: sp.Expr) -> sp.Expr:
    value = sp.integrate(sp.powsimp(integrand), (symbol, lower, upper))
    # Hyperbolic functions of one variable cancel at infinity only as exponentials.
    value = sp.expand(value.rewrite(sp.exp)) if value.has(sp.sinh, sp.cosh) else value
    if value.has(sp.Integral, sp.nan, sp.oo, sp.zoo):
        raise ValueError(f"SymPy finds no closed form of the integral of {integrand} over {symbol}")
    return value


def integrate(expr: sp.Expr, ranges: Sequence[Range]) -> sp.Expr:
    """Integrate term by term, first range first."""
    for symbol, lower, upper in ranges:
        total = sp.S.Zero
        for term in sp.Add.make_args(sp.expand(expr)):
            factor, integrand = term.as_independent(symbol, as_Add=False)
            total += factor * _integral(integrand, symbol, lower, upper) if factor != 0 else 0
        expr = sp.expand(total)
    return expr


def _moments(output: Output) -> tuple[sp.Expr, sp.Matrix, sp.Matrix]:
    """Return Z, Z E[h|y] and Z E[h h^T|y] as densities in the known coordinates; h is stacked token by token."""
    size = output.branches[0].h.shape[0] * output.branches[0].h.shape[1]
    total, first, second = sp.S.Zero, sp.zeros(size, 1), sp.zeros(size, size)
    for branch in output.branches:
        h = branch.h.T.reshape(size, 1)
        coordinates = [entry[0] for entry in (*output.known, *branch.free)]
        if len(coordinates) != size:
            raise ValueError(f"a branch needs {size} coordinates, known and free, got {coordinates}")
        jacobian = sp.trigsimp(h.jacobian(coordinates).det(method="berkowitz"))
        norm = sp.trigsimp(sp.expand((h.T * h)[0]))
        density = sp.Abs(jacobian) * sp.exp(-norm / 2) * branch.weight / sp.sqrt(2 * sp.pi) ** size
        total += integrate(density, branch.free)
        first += h.applyfunc(lambda entry, d=density, r=branch.free: integrate(entry * d, r))
        second += sp.Matrix(
            size, size, lambda i, j, v=h, d=density, r=branch.free: integrate(v[i] * v[j] * d, r) if i <= j else 0
        )
    upper = second.applyfunc(sp.factor_terms)
    return sp.factor_terms(total), first, sp.Matrix(size, size, lambda i, j: upper[min(i, j), max(i, j)])


def _mean(expr: sp.Expr, output: Output) -> sp.Expr:
    """Integrate a density over the known coordinates."""
    return sp.simplify(integrate(expr, output.known)) if expr != 0 else sp.S.Zero


def linear_information(outputs: Sequence[Output]) -> sp.Matrix:
    """Return ``E_y sum_m E[h_m|y] E[h_m|y]^T``; weak recovery at any alpha > 0 where it is not zero.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link.

    Returns
    -------
    sympy.Matrix
        P x P.

    References
    ----------
    troiani2025, (12)-(15): at omega = 0, V = I the denoiser is E[h|y].
    """
    indices, tokens = outputs[0].branches[0].h.shape
    total = sp.zeros(indices, indices)
    for output in outputs:
        z, first, _ = _moments(output)
        rows = first.reshape(tokens, indices).T
        total += (rows * rows.T).applyfunc(lambda entry, o=output, d=z: _mean(sp.cancel(entry / d), o))
    return total


def _basis(indices: int) -> list[sp.Matrix]:
    """Return an orthonormal basis of the symmetric matrices, the diagonal ones first."""
    made = [sp.Matrix(indices, indices, lambda i, j, k=k: int(i == j == k)) for k in range(indices)]
    for a in range(indices):
        for b in range(a + 1, indices):
            made.append(sp.Matrix(indices, indices, lambda i, j, p={a, b}: int({i, j} == p)) / sp.sqrt(2))
    return made


def operator_matrix(outputs: Sequence[Output]) -> sp.Matrix:
    """Return the operator (15) as a symmetric matrix in an orthonormal basis of S_P.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link.

    Returns
    -------
    sympy.Matrix
        P (P + 1)/2 square; diagonal unit matrices first, then (E_ab + E_ba)/sqrt(2) for a < b.

    References
    ----------
    troiani2025, (15).
    """
    indices, tokens = outputs[0].branches[0].h.shape
    basis = _basis(indices)
    total = sp.zeros(len(basis), len(basis))
    for output in outputs:
        z, _, second = _moments(output)
        curvature = second - z * sp.eye(indices * tokens)
        block = {
            (m, n): curvature[m * indices : (m + 1) * indices, n * indices : (n + 1) * indices]
            for m in range(tokens)
            for n in range(tokens)
        }
        for i, left in enumerate(basis):
            for j, right in enumerate(basis[: i + 1]):
                trace = sum(((left * g * right * g.T).trace() for g in block.values()), sp.S.Zero)
                value = _mean(sp.cancel(sp.expand(trace) / z), output)
                total[i, j] += value
                if i != j:
                    total[j, i] += value
    return total.applyfunc(sp.simplify)


def top_eigenpair(matrix: sp.Matrix, at: dict[sp.Symbol, sp.Expr] | None = None) -> tuple[sp.Expr, sp.Matrix]:
    """Return the largest eigenvalue of an operator on S_P and its positive semidefinite eigenvector.

    The operator maps the cone of positive semidefinite matrices into itself and is self-adjoint, so the
    projection of the identity on the top eigenspace, the limit of the normalised powers of the (shifted)
    operator applied to I, lies in the cone; it is not zero as no semidefinite matrix is orthogonal to I.

    Parameters
    ----------
    matrix : sympy.Matrix
        As `operator_matrix` returns it.
    at : dict, optional
        Values of free symbols at which the eigenvalues are compared; they keep their order over the domain.

    Returns
    -------
    sympy.Expr, sympy.Matrix
        Eigenvalue; eigenvector P x P of Frobenius norm 1.
    """
    indices = int((sp.sqrt(1 + 8 * matrix.rows) - 1) / 2)
    spaces = matrix.eigenvects()
    value, _, vectors = max(spaces, key=lambda space: sp.N(space[0].subs(at or {}), 30))
    identity = sp.Matrix([1] * indices + [0] * (matrix.rows - indices))
    projected = sp.zeros(matrix.rows, 1)
    for vector in sp.GramSchmidt(vectors):
        projected += (vector.dot(identity) / vector.dot(vector)) * vector
    # A positive multiple is enough here: the first entry that is not zero becomes one, then the norm is taken.
    scale = next(entry for entry in projected if sp.simplify(entry) != 0)
    projected = (projected / scale).applyfunc(lambda entry: sp.radsimp(sp.simplify(entry)))
    norm = sp.sqrt(sp.factor_terms(sp.expand(projected.dot(projected))))
    entries = zip(projected, _basis(indices), strict=True)
    made = sum((entry * element for entry, element in entries), sp.zeros(indices, indices))
    return sp.simplify(value), made / norm


def threshold_of_link(outputs: Sequence[Output], at: dict[sp.Symbol, sp.Expr] | None = None) -> Threshold:
    """Derive the weak-recovery threshold of a link from its level sets.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link; the branches cover R^{P M} once.
    at : dict, optional
        Values of free symbols at which eigenvalues are compared.

    Raises
    ------
    ValueError
        If SymPy leaves an integral undone, or the probabilities of the outputs do not sum to one.

    References
    ----------
    troiani2025, (15)-(16).
    """
    mass = sum((_mean(_moments(output)[0], output) for output in outputs), sp.S.Zero)
    if sp.simplify(mass - 1) != 0:
        raise ValueError(f"the outputs must cover all indices once, so that (9) sums to 1; got {mass}")
    linear = linear_information(outputs).applyfunc(sp.simplify)
    if not linear.is_zero_matrix:
        return Threshold(sp.S.Zero, linear / sp.sqrt((linear * linear.T).trace()))
    matrix = operator_matrix(outputs)
    if matrix.is_zero_matrix:
        indices = outputs[0].branches[0].h.shape[0]
        return Threshold(sp.oo, sp.zeros(indices, indices))
    value, vector = top_eigenpair(matrix, at)
    return Threshold(sp.radsimp(1 / value), vector)
