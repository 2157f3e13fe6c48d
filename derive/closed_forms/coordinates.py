"""Coordinates of level sets, their ranges, and the pairs of branches that many links share."""

import sympy as sp

from .level_sets import Branch, Range

RADIUS = sp.Symbol("r", positive=True)
U, V, W = sp.symbols("u v w", positive=True)
S, T = sp.symbols("s t", real=True)
ANGLE = sp.Symbol("theta", real=True)
HALF = (sp.S.Zero, sp.oo)
LINE = (-sp.oo, sp.oo)
CIRCLE = (-sp.pi, sp.pi)


def column(*entries: sp.Expr) -> sp.Matrix:
    """Return a column of entries."""
    return sp.Matrix(list(entries))


def both_signs(h: sp.Matrix, free: tuple[Range, ...] = ()) -> tuple[Branch, ...]:
    """Return the branches h and -h of an even link."""
    return Branch(h, free), Branch(-h, free)


def gauss(*variables: sp.Symbol) -> sp.Expr:
    """Return the density of independent standard normal variables."""
    return sp.exp(-sum(x**2 for x in variables) / 2) / sp.sqrt(2 * sp.pi) ** len(variables)
