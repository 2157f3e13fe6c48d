"""Truncated Laurent series in two variables with coefficients rational in sqrt(rho), exact.

A series is a dict from a pair of powers to an element of the field Q(sqrt(rho)); expanding expressions instead takes
minutes where this takes milliseconds.
"""

from collections.abc import Mapping
from typing import TypeAlias

import sympy as sp
from sympy.polys.fields import FracElement

from .symbols import root

__all__ = ["FIELD", "Laurent", "add", "derivative", "element", "expression", "multiply", "scale"]

FIELD = sp.QQ.frac_field(root)

#: Coefficients by powers.
Laurent: TypeAlias = Mapping[tuple[int, int], FracElement]
Series: TypeAlias = dict[tuple[int, int], FracElement]


def element(expr: sp.Expr | int) -> FracElement:
    """Element of the field of an expression in sqrt(rho)."""
    return FIELD.from_sympy(sp.sympify(expr))


def expression(value: FracElement) -> sp.Expr:
    """Return the expression of an element, factored."""
    return sp.factor(FIELD.to_sympy(value))


def add(*terms: Laurent) -> Series:
    """Sum of series; powers whose coefficient vanishes are left out."""
    total: Series = {}
    for series in terms:
        for powers, value in series.items():
            total[powers] = total.get(powers, FIELD.zero) + value
    return {powers: value for powers, value in total.items() if value}


def scale(series: Laurent, factor: sp.Expr | int, shift: tuple[int, int] = (0, 0)) -> Series:
    """Return the series times a constant and a monomial."""
    constant = element(factor)
    return {(i + shift[0], j + shift[1]): value * constant for (i, j), value in series.items()}


def multiply(left: Laurent, right: Laurent, top: tuple[int, int]) -> Series:
    """Product of two series without the powers beyond `top`."""
    total: Series = {}
    for (i, j), first in left.items():
        for (k, m), second in right.items():
            if i + k <= top[0] and j + m <= top[1]:
                total[i + k, j + m] = total.get((i + k, j + m), FIELD.zero) + first * second
    return {powers: value for powers, value in total.items() if value}


def derivative(series: Laurent) -> Series:
    """Derivative with respect to the second variable."""
    return {(i, j - 1): value * j for (i, j), value in series.items() if j}
