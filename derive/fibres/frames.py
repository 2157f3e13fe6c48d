"""Orthonormal frames parametrised by angles, and the exact factors and inverses of small matrices."""

from collections.abc import Sequence

import sympy as sp

from .level_set import Range


def _sphere(dimension: int, angles: Sequence[sp.Symbol]) -> sp.Matrix:
    """Return a rotation whose first column is the point of the unit sphere with these spherical angles."""
    turn = sp.eye(dimension)
    cosine, sine = sp.cos(angles[0]), sp.sin(angles[0])
    turn[0, 0], turn[0, 1], turn[1, 0], turn[1, 1] = cosine, -sine, sine, cosine
    if dimension == 2:
        return turn
    return sp.diag(1, _sphere(dimension - 1, angles[1:])) * turn


def orthogonal_frame(
    rank: int, columns: int
) -> tuple[sp.Matrix, tuple[sp.Symbol, ...], tuple[Range, ...], tuple[sp.Symbol, ...], sp.Expr]:
    """Parametrise m orthonormal vectors of R^r by angles, one sphere after the other.

    Parameters
    ----------
    rank, columns : int
        r >= m >= 1.

    Returns
    -------
    frame : sympy.Matrix
        r x r orthogonal; its first m columns are the vectors, the others complete them.
    angles : tuple of sympy.Symbol
        Spherical angles, (r - 1) + (r - 2) + .. of them.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        (0, pi), and (0, 2 pi) for the last angle of every sphere.
    signs : tuple of sympy.Symbol
        One sign if m = r: the last sphere is two points.
    log_density : sympy.Expr
        log of the product of the area elements of the spheres S^{r-1}, .., S^{r-m}; this measure is invariant under
        rotations (it is the Haar measure times the areas).
    """
    if not 1 <= columns <= rank:
        raise ValueError(f"columns must be 1 .. rank = {rank}, got {columns}")
    frame = sp.eye(rank)
    angles: list[sp.Symbol] = []
    ranges: list[Range] = []
    signs: list[sp.Symbol] = []
    weight = sp.S.Zero
    for column in range(columns):
        dimension = rank - column
        if dimension == 1:
            sign = sp.Symbol("sign", real=True)
            signs.append(sign)
            frame = frame * sp.diag(sp.eye(column), sp.Matrix([[sign]]))
            continue
        new = [sp.Symbol(f"theta_{column + 1}_{j + 1}", real=True) for j in range(dimension - 1)]
        frame = frame * sp.diag(sp.eye(column), _sphere(dimension, new))
        weight += sp.Add(*[(dimension - 2 - j) * sp.log(sp.sin(angle)) for j, angle in enumerate(new)])
        angles += new
        ranges += [(sp.S.Zero, sp.pi)] * (dimension - 2) + [(sp.S.Zero, 2 * sp.pi)]
    return frame, tuple(angles), tuple(ranges), tuple(signs), weight


def upper_cholesky(gram: sp.Matrix) -> sp.Matrix:
    """Return R, upper triangular with a positive diagonal, such that R^T R is the Gram matrix."""
    size = gram.rows
    root = sp.zeros(size, size)
    for i in range(size):
        root[i, i] = sp.sqrt(gram[i, i] - sp.Add(*[root[k, i] ** 2 for k in range(i)]))
        for j in range(i + 1, size):
            root[i, j] = (gram[i, j] - sp.Add(*[root[k, i] * root[k, j] for k in range(i)])) / root[i, i]
    return root


def exact_inverse(matrix: sp.Matrix) -> sp.Matrix:
    """Return the inverse by cofactors, over one common determinant."""
    return matrix.adjugate() / matrix.det(method="berkowitz")
