"""Matrix algebra as straight-line programs: inverse, determinant and volume, every entry named once.

Written out, the inverse of a matrix of n^2 symbols has n! terms; as a program it has of the order of n^4.
"""

from collections.abc import Sequence

import sympy as sp

from .straightline import Assignment

__all__ = ["Names", "invert", "log_volume"]


class Names:
    """Records assignments in order.

    Parameters
    ----------
    body : sequence of (sympy.Symbol, sympy.Expr)
        Assignments to go on from.
    """

    def __init__(self, body: Sequence[Assignment] = ()) -> None:
        self.body = list(body)

    def put(self, name: str, value: sp.Expr, **assumptions: bool) -> sp.Expr:
        """Assign a value to a new symbol; numbers and symbols stay what they are."""
        if value.is_Atom:
            return value
        symbol = sp.Symbol(name, **(assumptions or {"real": True}))
        self.body.append((symbol, value))
        return symbol

    def matrix(self, name: str, value: sp.Matrix, **assumptions: bool) -> sp.Matrix:
        """Assign every entry."""
        rows, columns = value.shape
        return sp.Matrix(rows, columns, lambda i, j: self.put(f"{name}_{i + 1}_{j + 1}", value[i, j], **assumptions))


def invert(names: Names, matrix: sp.Matrix) -> tuple[sp.Matrix, sp.Expr]:
    """Return inverse and determinant: by cofactors up to 3 x 3, beyond by the recursion of Faddeev and LeVerrier.

    ``N_1 = I, c_k = -tr(B N_k)/k, N_{k+1} = B N_k + c_k I``: N_{n+1} = 0, so ``B^{-1} = -N_n/c_n`` and
    ``det B = (-1)^n c_n``. It divides by the determinant alone and grows as a power of the size only.

    Parameters
    ----------
    names : Names
        Gets the assignments.
    matrix : sympy.Matrix
        B, n x n, of names, numbers or short expressions; the program is valid where it is not singular.

    Returns
    -------
    inverse : sympy.Matrix
        Names, n x n.
    determinant : sympy.Expr
    """
    size = matrix.rows
    if size <= 3:
        determinant = names.put("det", matrix.det(method="berkowitz"))
        return names.matrix("inv", matrix.adjugate() / determinant), determinant
    power, product = sp.eye(size), matrix
    coefficient = names.put("c_1", -matrix.trace())
    for k in range(2, size + 1):
        power = names.matrix(f"N{k}", product + coefficient * sp.eye(size))
        product = matrix * power
        coefficient = names.put(f"c_{k}", -product.trace() / k)
    return names.matrix("inv", -power / coefficient), (-1) ** size * coefficient


def log_volume(names: Names, jacobian: sp.Matrix) -> sp.Expr:
    """Return log sqrt(det(E E^T)) by the pivots of the Gram matrix, which need no exchange of rows.

    Parameters
    ----------
    names : Names
        Gets the assignments.
    jacobian : sympy.Matrix
        E, m x n with m <= n and full rank.
    """
    size = jacobian.rows
    gram = names.matrix("G", jacobian * jacobian.T)
    pivots: list[sp.Expr] = []
    for k in range(size):
        pivots.append(names.put(f"pivot_{k + 1}", gram[k, k]))
        for i in range(k + 1, size):
            factor = names.put(f"L_{i + 1}_{k + 1}", gram[i, k] / pivots[k])
            for j in range(k + 1, i + 1):
                value = gram[i, j] - factor * gram[j, k]
                gram[i, j] = names.put(f"G_{i + 1}_{j + 1}_{k + 1}", value)
    return sp.Add(*[sp.log(pivot) for pivot in pivots]) / 2
