"""Own nodes for activations of the user's: erfc and choices, and the plain functions that others are written in."""

from collections.abc import Callable

import sympy as sp

from .primitives import CopySign, Exp, Largest, Magnitude, Primitive, Smallest

__all__ = ["SUPPORTED", "Erfc", "Select", "own", "printable"]


class Erfc(Primitive):
    """1 - erf(x); not SymPy's ``erfc``, which turns erfc(-x) into 2 - erfc(x)."""

    nargs = 1

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_extended_real else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative."""
        return -2 * sp.exp(-(self.args[0] ** 2)) / sp.sqrt(sp.pi)

    def elementary(self) -> sp.Expr:
        """Return the same value in plain SymPy functions."""
        return 1 - sp.erf(self.args[0])


class Select(Primitive):
    """``Select(d, a, b)``: a where d >= 0, b elsewhere."""

    nargs = 3

    def _eval_is_real(self) -> bool | None:
        return True if all(arg.is_real for arg in self.args) else None

    def elementary(self) -> sp.Expr:
        """Return the same value in plain SymPy functions."""
        sign, value, other = self.args
        return sp.Piecewise((value, sign >= 0), (other, True))


_OWN = {
    sp.exp: Exp,
    sp.Max: Largest,
    sp.Min: Smallest,
    sp.Abs: Magnitude,
    sp.sign: CopySign,
    sp.Heaviside: lambda x, *_: (1 + CopySign(x)) / 2,
}


def own(expr: sp.Expr) -> sp.Expr:
    """Return ``expr`` with own nodes for exp, Max, Min, Abs, sign and Heaviside.

    The last two are derivatives of the others; at the jump they take the value to the right of it.
    """
    if not expr.args:
        return expr
    arguments = [own(argument) for argument in expr.args]
    node = _OWN.get(expr.func)
    return expr.func(*arguments) if node is None else node(*arguments)


# What the printers have no function for, in functions they have.
_WRITTEN: dict[type, Callable[..., sp.Expr]] = {
    sp.cot: lambda x: sp.cos(x) / sp.sin(x),
    sp.sec: lambda x: 1 / sp.cos(x),
    sp.csc: lambda x: 1 / sp.sin(x),
    sp.acot: lambda x: sp.atan(1 / x),
    sp.asec: lambda x: sp.acos(1 / x),
    sp.acsc: lambda x: sp.asin(1 / x),
    sp.coth: lambda x: 1 / sp.tanh(x),
    sp.sech: lambda x: 1 / sp.cosh(x),
    sp.csch: lambda x: 1 / sp.sinh(x),
    sp.acoth: lambda x: sp.atanh(1 / x),
    sp.asech: lambda x: sp.acosh(1 / x),
    sp.acsch: lambda x: sp.asinh(1 / x),
    sp.erfc: Erfc,
    # Derivatives of jumps: zero on both sides.
    sp.DiracDelta: lambda *_: sp.S.Zero,
}

#: What an activation may hold.
SUPPORTED = (
    "exp, log, sqrt and powers; sin, cos, tan, cot, sec, csc and sinh, cosh, tanh, coth, sech, csch, with the inverses "
    "of all (asin, .., acsch); Abs, sign, Heaviside, Max, Min, Piecewise; erf, erfc"
)


def _choice(condition: sp.Basic, value: sp.Expr, other: sp.Expr) -> sp.Expr:
    """Return the value where a condition holds, the other one elsewhere, by the signs of differences."""
    if condition in (sp.true, sp.false):
        return value if condition == sp.true else other
    if isinstance(condition, sp.Not):
        return _choice(condition.args[0], other, value)
    if isinstance(condition, (sp.And, sp.Or)):
        first, *rest = condition.args
        if isinstance(condition, sp.And):
            return _choice(first, _choice(sp.And(*rest), value, other), other)
        return _choice(first, value, _choice(sp.Or(*rest), value, other))
    if not isinstance(condition, sp.core.relational.Relational):
        raise TypeError(f"a condition must compare two expressions, got {condition}")
    gap = printable(condition.lhs - condition.rhs)
    if isinstance(condition, sp.Ge):
        return Select(gap, value, other)
    if isinstance(condition, sp.Le):
        return Select(-gap, value, other)
    if isinstance(condition, sp.Gt):
        return Select(-gap, other, value)
    if isinstance(condition, sp.Lt):
        return Select(gap, other, value)
    equal = Select(gap, Select(-gap, value, other), other)
    return equal if isinstance(condition, sp.Eq) else Select(gap, Select(-gap, other, value), value)


def printable(expr: sp.Expr) -> sp.Expr:
    """Return ``expr`` in own nodes and in the plain functions that every printer has, as far as that goes.

    Raises
    ------
    TypeError
        If a condition is no comparison.
    """
    if isinstance(expr, sp.Piecewise):
        made = sp.nan
        for value, condition in reversed(expr.args):
            made = _choice(condition, printable(value), made)
        return made
    if not expr.args:
        return expr
    arguments = [printable(argument) for argument in expr.args]
    written = _WRITTEN.get(expr.func)
    if written is not None:
        return own(written(*arguments))
    return own(expr.func(*arguments))
