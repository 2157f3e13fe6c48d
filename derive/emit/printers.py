"""Printers of expressions: one recursive base, and the syntax of numpy, of compiled scalars and of mpmath."""

from fractions import Fraction

import sympy as sp

from ..nodes import Erfc, Select
from ..primitives import CopySign, Exp, Expm1, Largest, Log1p, Magnitude, Smallest, elementary
from .ir import canonical
from .runtime_numba import HIGHEST

# Plain functions that an activation of the user's may hold, and that every backend has.
_PLAIN = {sp.tanh: "tanh", sp.sinh: "sinh", sp.cosh: "cosh", sp.sin: "sin", sp.cos: "cos", sp.tan: "tan"}
# Those that numpy spells in full.
_INVERSE = {
    sp.asin: "asin",
    sp.acos: "acos",
    sp.atan: "atan",
    sp.asinh: "asinh",
    sp.acosh: "acosh",
    sp.atanh: "atanh",
}

__all__ = ["Float64Printer", "MpmathPrinter", "NumbaPrinter", "NumpyPrinter", "PlainPrinter", "Printer"]

_ADD, _MUL, _UNARY, _POW, _ATOM = range(5)


class Printer:
    """Print basic-node expressions as Python; the order of operands depends on their structure alone."""

    #: Python function of every node with one argument.
    functions: dict[type, str] = {}
    #: Python function of the square root, which SymPy holds as a power.
    root: str = ""

    def text(self, expr: sp.Expr) -> str:
        """Return the Python text of an expression."""
        return self.with_level(expr)[0]

    def number(self, value: sp.Rational) -> str:
        """Return the literal of a rational number."""
        raise NotImplementedError

    def constant(self, expr: sp.Expr) -> str | None:
        """Return the literal of an irrational constant, or None to print it as an expression."""
        return None

    def pairwise(self, expr: sp.Expr, arguments: list[str]) -> str:
        """Return the text of the smallest or the largest argument."""
        raise NotImplementedError

    def copysign(self, argument: str) -> str:
        """Return the text of +-1 with the sign of the argument."""
        raise NotImplementedError

    def call(self, name: str, argument: str) -> str:
        """Return the text of a function call."""
        return f"{name}({argument})"

    def select(self, sign: str, value: str, other: str) -> str:
        """Return the text of the value where a number is not negative, and of the other one elsewhere."""
        return f"({value} if {sign} >= 0 else {other})"

    def power(self, base: sp.Expr, exponent: sp.Expr) -> tuple[str, int]:
        """Return the text of a power that is no short product: whole, or real of a base that is not negative."""
        return f"{self._wrap(base, _ATOM)}**{self._wrap(exponent, _ATOM)}", _POW

    def _wrap(self, expr: sp.Expr, level: int) -> str:
        text, own = self.with_level(expr)
        return text if own >= level else f"({text})"

    def with_level(self, expr: sp.Expr) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        if isinstance(expr, sp.Symbol):
            return str(expr.name), _ATOM
        if isinstance(expr, sp.Rational):
            return self._literal(self.number(expr))
        if not expr.free_symbols and (constant := self.constant(expr)) is not None:
            return self._literal(constant)
        if isinstance(expr, sp.Add):
            return self._sum(expr), _ADD
        if isinstance(expr, sp.Mul):
            return self._product(expr)
        if isinstance(expr, sp.Pow):
            return self.product_or_power(expr)
        if isinstance(expr, Select):
            return self.select(*(self.text(arg) for arg in expr.args)), _ATOM
        if isinstance(expr, CopySign):
            return self.copysign(self.text(expr.args[0])), _ATOM
        if isinstance(expr, (Largest, Smallest)):
            return self.pairwise(expr, [self.text(arg) for arg in sorted(expr.args, key=canonical)]), _ATOM
        name = next((name for kind, name in self.functions.items() if isinstance(expr, kind)), None)
        if name is not None:
            return self.call(name, self.text(expr.args[0])), _ATOM
        raise TypeError(f"{type(self).__name__} cannot print {type(expr).__name__}: {expr}")

    @staticmethod
    def _literal(text: str) -> tuple[str, int]:
        return text, _MUL if "/" in text else _UNARY if text.startswith("-") else _ATOM

    def _sum(self, expr: sp.Add) -> str:
        terms = sorted(expr.args, key=lambda term: (term.could_extract_minus_sign(), canonical(term)))
        text = self._wrap(terms[0], _ADD)
        for term in terms[1:]:
            if term.could_extract_minus_sign():
                text += f" - {self._wrap(-term, _MUL)}"
            else:
                text += f" + {self._wrap(term, _MUL)}"
        return text

    def _product(self, expr: sp.Mul) -> tuple[str, int]:
        coefficient, factors = expr.as_coeff_mul()
        if coefficient.is_negative:
            return f"-{self._wrap(-expr, _MUL)}", _MUL
        coefficient, factors = self.fold(coefficient, factors)
        above = [f for f in factors if not _in_denominator(f)]
        below = [1 / f for f in factors if _in_denominator(f)]
        if coefficient != 1:
            self._place(coefficient, above, below)
        numerator = "*".join(self._wrap(f, _UNARY) for f in self._ordered(above)) if above else self.number(sp.S.One)
        if not below:
            return numerator, _MUL
        denominator = "*".join(self._wrap(f, _UNARY) for f in self._ordered(below))
        return f"{numerator}/{denominator if len(below) == 1 else f'({denominator})'}", _MUL

    def fold(self, coefficient: sp.Expr, factors: tuple[sp.Expr, ...]) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        """Return the constant and the other factors; the base keeps irrational constants apart."""
        return coefficient, factors

    def _place(self, coefficient: sp.Expr, above: list[sp.Expr], below: list[sp.Expr]) -> None:
        """Put a constant where it costs least and stays exact."""
        above.append(coefficient)

    @staticmethod
    def _ordered(factors: list[sp.Expr]) -> list[sp.Expr]:
        return sorted(factors, key=lambda f: (bool(f.free_symbols), canonical(f)))

    def product_or_power(self, expr: sp.Pow) -> tuple[str, int]:
        """Return the text of a power, a short product where its exponent is a small integer."""
        base, exponent = expr.args
        if exponent.is_negative:
            return f"{self.number(sp.S.One)}/{self._wrap(base**-exponent, _UNARY)}", _MUL
        if exponent == sp.Rational(1, 2):
            return self.call(self.root, self.text(base)), _ATOM
        if exponent.is_Integer and int(exponent) <= 4:
            factor = self._wrap(base, _POW)
            return "*".join([factor] * int(exponent)), _MUL
        return self.power(base, exponent)


def _in_denominator(factor: sp.Expr) -> bool:
    return isinstance(factor, sp.Pow) and bool(factor.exp.is_negative)


class PlainPrinter(Printer):
    """Sums, products and quotients alone: for whatever numbers, arrays of them included, have these."""

    def number(self, value: sp.Rational) -> str:
        """Return the literal of an integer, exact in every arithmetic."""
        if not value.is_Integer:
            raise TypeError(f"numbers of any kind need integers, got {value}")
        return str(int(value))


class Float64Printer(Printer):
    """Literals of float64: constants are folded and written with 17 digits."""

    def number(self, value: sp.Rational) -> str:
        """Return the literal of a rational number."""
        # Fraction to float rounds correctly, whatever the size of the integers.
        return _float_literal(float(Fraction(int(value.p), int(value.q))))

    def fold(self, coefficient: sp.Expr, factors: tuple[sp.Expr, ...]) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        """Return the product of all constants, and the factors that hold symbols."""
        fixed = [f for f in factors if not f.free_symbols]
        return sp.Mul(coefficient, *fixed), tuple(f for f in factors if f.free_symbols)

    def constant(self, expr: sp.Expr) -> str | None:
        """Return the literal of an irrational constant."""
        # 40 digits first, so that the one rounding to float64 is the only one that matters.
        return _float_literal(float(sp.N(elementary(expr), 40)))


def _float_literal(value: float) -> str:
    text = format(value, ".17g")
    return text if any(mark in text for mark in ".en") else f"{text}.0"


class NumpyPrinter(Float64Printer):
    """Vectorised numpy."""

    functions = {
        Exp: "np.exp",
        Expm1: "np.expm1",
        Log1p: "np.log1p",
        sp.log: "np.log",
        Magnitude: "np.abs",
        **{kind: f"np.{name}" for kind, name in _PLAIN.items()},
        **{kind: f"np.arc{name[1:]}" for kind, name in _INVERSE.items()},
        sp.erf: "special.erf",
        Erfc: "special.erfc",
    }
    root = "np.sqrt"

    def select(self, sign: str, value: str, other: str) -> str:
        """Return the text of the value where a number is not negative, and of the other one elsewhere."""
        return f"np.where({sign} >= 0, {value}, {other})"

    def pairwise(self, expr: sp.Expr, arguments: list[str]) -> str:
        """Return the text of the smallest or the largest argument."""
        name = "np.minimum" if isinstance(expr, Smallest) else "np.maximum"
        text = arguments[0]
        for argument in arguments[1:]:
            text = f"{name}({text}, {argument})"
        return text

    def copysign(self, argument: str) -> str:
        """Return the text of +-1 with the sign of the argument."""
        return f"np.copysign(1.0, {argument})"


class NumbaPrinter(Float64Printer):
    """Compiled scalar functions.

    Parameters
    ----------
    hot : bool
        True prints the branch-free exponentials, which vectorise; False the ones of the C library, which
        reach zero and infinity.
    """

    root = "math.sqrt"

    def __init__(self, hot: bool) -> None:
        self.hot = hot
        self.functions = {
            Exp: "exp_fast" if hot else "math.exp",
            Expm1: "expm1_fast" if hot else "math.expm1",
            Log1p: "math.log1p",
            sp.log: "math.log",
            Magnitude: "abs",
            **{kind: f"math.{name}" for kind, name in (*_PLAIN.items(), *_INVERSE.items())},
            sp.erf: "math.erf",
            Erfc: "math.erfc",
        }

    def with_level(self, expr: sp.Expr) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds; the clamp of `exp_fast` needs no other one."""
        if self.hot and isinstance(expr, Exp) and isinstance(expr.args[0], Smallest):
            bound, *rest = sorted(expr.args[0].args, key=lambda arg: not arg.is_Number)
            if bound == HIGHEST and len(rest) == 1:
                return f"exp_fast({self.text(rest[0])})", _ATOM
        return super().with_level(expr)

    def pairwise(self, expr: sp.Expr, arguments: list[str]) -> str:
        """Return the text of the smallest or the largest argument."""
        smallest = isinstance(expr, Smallest)
        bound, *rest = sorted(expr.args, key=lambda arg: not arg.is_Number)
        if bound.is_Number and len(rest) == 1:
            # Unlike the built-ins these pass a NaN on.
            return f"{'at_most' if smallest else 'at_least'}({self.text(rest[0])}, {self.text(bound)})"
        return f"{'min' if smallest else 'max'}({', '.join(arguments)})"

    def copysign(self, argument: str) -> str:
        """Return the text of +-1 with the sign of the argument."""
        return f"math.copysign(1.0, {argument})"


# What takes as many bits as its argument has before the point.
_GROWING = frozenset(f"ctx.{name}" for name in ("exp", "expm1", "sinh", "cosh", "sin", "cos", "tan", "erfc"))


class MpmathPrinter(Printer):
    """Arbitrary precision on a context object ``ctx``; rationals stay exact until the context rounds them.

    Parameters
    ----------
    towers : bool
        True if arguments may be beyond what a context evaluates functions at, which is refused then.
    """

    root = "_sqrt"

    def __init__(self, towers: bool = False) -> None:
        self.towers = towers
        self.functions = {
            Exp: "ctx.exp",
            Expm1: "ctx.expm1",
            Log1p: "_log1p",
            sp.log: "_log",
            Magnitude: "abs",
            **{kind: f"ctx.{name}" for kind, name in _PLAIN.items()},
            **{kind: f"_{name}" for kind, name in _INVERSE.items()},
            sp.atan: "ctx.atan",
            sp.asinh: "ctx.asinh",
            sp.erf: "ctx.erf",
            Erfc: "ctx.erfc",
        }

    def call(self, name: str, argument: str) -> str:
        """Return the text of a function call."""
        if self.towers and name in _GROWING:
            return f'bounded(ctx, "{name[4:]}", {argument})'
        # Own helpers take the context first.
        return f"{name}(ctx, {argument})" if name.startswith("_") else f"{name}({argument})"

    def constant(self, expr: sp.Expr) -> str | None:
        """Return the name of a constant of the context; other irrational numbers are printed as expressions."""
        return {sp.pi: "ctx.pi", sp.E: "ctx.e"}.get(expr)

    def number(self, value: sp.Rational) -> str:
        """Return the literal of a rational number."""
        numerator = f"ctx.mpf({int(value.p)})"
        return numerator if value.q == 1 else f"{numerator}/{int(value.q)}"

    def _place(self, coefficient: sp.Expr, above: list[sp.Expr], below: list[sp.Expr]) -> None:
        if coefficient.p != 1:
            above.append(sp.Integer(coefficient.p))
        if coefficient.q != 1:
            below.append(sp.Integer(coefficient.q))

    def pairwise(self, expr: sp.Expr, arguments: list[str]) -> str:
        """Return the text of the smallest or the largest argument."""
        return f"{'min' if isinstance(expr, Smallest) else 'max'}({', '.join(arguments)})"

    def copysign(self, argument: str) -> str:
        """Return the text of +-1 with the sign of the argument."""
        return f"_copysign(ctx, {argument})"

    def power(self, base: sp.Expr, exponent: sp.Expr) -> tuple[str, int]:
        """Return the text of a power that is no short product; a base below zero has none but whole powers."""
        if exponent.is_Integer:
            return f"{self._wrap(base, _ATOM)}**{int(exponent)}", _POW
        return f"_power(ctx, {self.text(base)}, {self.text(exponent)})", _ATOM
