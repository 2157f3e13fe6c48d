"""What the checks share: exact reduction to zero, symbolic matrices, Gaussian averages of quadratic forms."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive.rational import is_zero_of_variables
from attnlimits.derive.registry import CheckOutcome

Differences = Mapping[str, sp.Expr | sp.MatrixBase]


def vanishes(value: sp.Expr | sp.MatrixBase) -> bool:
    """Whether SymPy reduces the expression, or every entry of the matrix, to the literal zero."""
    if isinstance(value, sp.MatrixBase):
        return all(vanishes(entry) for entry in value)
    expr = sp.sympify(value)
    if is_zero_of_variables(expr):
        return True
    # Cheapest reduction first; `simplify` only for what expansion and cancellation leave over.
    for reduce in (sp.expand, lambda e: sp.cancel(sp.together(e)), sp.simplify):
        expr = reduce(expr)
        if expr == 0:
            return True
    return False


def symbolic(differences: Differences, detail: str) -> CheckOutcome:
    """Outcome of a proof: residual 0 if every named difference vanishes identically, else infinity."""
    failed = [name for name, difference in differences.items() if not vanishes(difference)]
    if failed:
        return CheckOutcome(math.inf, 0.0, "symbolic", f"{detail}; not zero: {', '.join(failed)}")
    return CheckOutcome(0.0, 0.0, "symbolic", detail)


def numeric(residuals: Iterable[float], tolerance: float, detail: str) -> CheckOutcome:
    """Outcome of a numerical comparison: the largest residual (NaN if any is) against the tolerance."""
    values = np.atleast_1d(np.asarray(list(residuals), dtype=float))
    if values.size == 0:
        raise ValueError("a numerical check needs at least one residual")
    return CheckOutcome(float(np.max(values)), tolerance, "numeric", detail)


def relative(value: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Largest difference relative to the largest entry, or to one if that is larger."""
    return float(np.abs(value - reference).max() / max(1.0, np.abs(reference).max()))


def matrix(name: str, rows: int, columns: int) -> sp.Matrix:
    """Matrix of independent real symbols."""
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i + 1}{j + 1}", real=True))


def symmetric(name: str, size: int) -> sp.Matrix:
    """Symmetric matrix of real symbols; one symbol for the two entries of a pair."""
    return sp.Matrix(size, size, lambda i, j: sp.Symbol(f"{name}_{min(i, j) + 1}{max(i, j) + 1}", real=True))


def symmetric_gradient(function: sp.Expr, variable: sp.Matrix) -> sp.Matrix:
    """Gradient G with d(function) = Tr(G d(variable)), for a symmetric matrix made by `symmetric`.

    The two entries of a pair are one symbol, so its derivative is shared between them.
    """
    return sp.Matrix(
        *variable.shape,
        lambda i, j: sp.diff(function, variable[i, j]) / (1 if i == j else 2),
    )


def average(polynomial: sp.Expr, gaussians: Iterable[sp.Symbol]) -> sp.Expr:
    """Mean over independent standard Gaussians of a polynomial of degree at most two in them."""
    variables = list(gaussians)
    parts = sp.Poly(sp.expand(polynomial), *variables)
    mean = sp.S.Zero
    for powers, coefficient in parts.terms():
        if sum(powers) > 2:
            raise ValueError(f"degree {sum(powers)} in the Gaussian variables; at most 2 is averaged here")
        if sum(powers) == 0 or 2 in powers:  # E[1] = E[z^2] = 1, E[z] = E[z z'] = 0
            mean += coefficient
    return mean


def gaussian_moment(polynomial: sp.Expr, gaussians: Iterable[sp.Symbol]) -> sp.Expr:
    """Mean over independent standard Gaussians of any polynomial: E[z^(2k)] = (2k - 1)!!, odd powers vanish."""
    mean = sp.S.Zero
    for powers, coefficient in sp.Poly(sp.expand(polynomial), *gaussians).terms():
        if all(power % 2 == 0 for power in powers):
            mean += coefficient * sp.prod([sp.factorial2(power - 1) for power in powers if power])
    return mean


def covariance(left: sp.Matrix, right: sp.Matrix, gaussians: Iterable[sp.Symbol]) -> sp.Matrix:
    """E[left right^T] for columns that are linear in independent standard Gaussians."""
    variables = list(gaussians)
    return (left * right.T).applyfunc(lambda entry: average(entry, variables))
