"""Signs of expressions on a region: what follows from known intervals and signs, and which factor decides it."""

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

# Odd and increasing: the sign is that of the argument.
_SIGN_KEEPING = (sp.tanh, sp.sinh, sp.erf, sp.asinh, sp.atan)


class Undecided(Exception):
    """The sign of a factor is not known on a region."""

    def __init__(self, factor: sp.Expr) -> None:
        self.factor = factor


@dataclass(frozen=True)
class Facts:
    """Known signs: intervals of single entries, and signs of other factors."""

    bounds: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]]
    signs: dict[sp.Expr, int]

    def with_sign(self, factor: sp.Expr, sign: int) -> "Facts":
        """Add the sign of a factor, which is a symbol minus a number or anything else."""
        cut = _threshold(factor)
        if cut is None:
            return Facts(self.bounds, {**self.signs, factor: sign})
        symbol, at = cut
        low, high = self.bounds.get(symbol, (-sp.oo, sp.oo))
        return Facts({**self.bounds, symbol: (at, high) if sign > 0 else (low, at)}, self.signs)

    def sign(self, expr: sp.Expr) -> int:
        """Sign of an expression on the region (zeros have no volume), 0 if it is identically zero."""
        if expr.is_zero or (expr := _factored(expr)).is_zero:
            return 0
        total = 1
        for factor in sp.Mul.make_args(expr):
            base, exponent = factor.as_base_exp()
            if exponent.is_Integer and exponent % 2 == 0:
                continue
            total *= self._base(base) if exponent.is_Integer else 1  # other powers are roots: not negative
        return total

    def _base(self, base: sp.Expr) -> int:
        if base.is_nonnegative:
            return 1
        if base.is_nonpositive:
            return -1
        if not base.free_symbols:
            return 1 if sp.N(base, 30) > 0 else -1
        if isinstance(base, _SIGN_KEEPING):
            return self.sign(base.args[0])
        if isinstance(base, sp.log):
            return self.sign(base.args[0] - 1)
        if len(base.free_symbols) == 1 and (linear := _linear_factors(base)) is not None:
            lead, roots, symbol = linear
            total = lead
            for root in roots:
                total *= self._cut(symbol, root)
            return total
        _, base_, outer = _primitive(base)
        if base_ in self.signs:
            return outer * self.signs[base_]
        raise Undecided(base_)

    def _cut(self, symbol: sp.Symbol, at: sp.Expr) -> int:
        low, high = self.bounds.get(symbol, (-sp.oo, sp.oo))
        if (low - at).is_nonnegative or low == at:
            return 1
        if (at - high).is_nonnegative or high == at:
            return -1
        raise Undecided(symbol - at)


@lru_cache(maxsize=4096)
def _factored(expr: sp.Expr) -> sp.Expr:
    """Factors over the rationals; the same expressions are met on many regions."""
    return sp.factor(sp.together(expr))


def _primitive(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr, int]:
    """Content, the factor in the one of its two signs that stands for both, and the sign between them."""
    content, rest = expr.as_content_primitive()
    sign = -1 if content.is_negative else 1
    return (content, -rest, -sign) if rest.could_extract_minus_sign() else (content, rest, sign)


def _threshold(factor: sp.Expr) -> tuple[sp.Symbol, sp.Expr] | None:
    """Return (symbol, number) of a factor ``symbol - number``."""
    if len(factor.free_symbols) != 1:
        return None
    (symbol,) = factor.free_symbols
    at = symbol - factor
    return None if at.free_symbols else (symbol, at)


@lru_cache(maxsize=4096)
def _linear_factors(expr: sp.Expr) -> tuple[int, list[sp.Expr], sp.Symbol] | None:
    """Sign of the leading coefficient and real roots of odd multiplicity of a polynomial in one entry."""
    (symbol,) = expr.free_symbols
    if not expr.is_polynomial(symbol):
        return None
    polynomial = sp.Poly(expr, symbol)
    lead = 1 if sp.N(polynomial.LC(), 30) > 0 else -1
    if polynomial.degree() == 1:
        return lead, [-polynomial.TC() / polynomial.LC()], symbol
    if polynomial.degree() > 4 or not all(c.is_Rational for c in polynomial.all_coeffs()):
        return None
    found = sp.real_roots(polynomial, multiple=False)
    if any(root.has(sp.CRootOf) for root, _ in found):
        return None
    return lead, [root for root, multiplicity in found if multiplicity % 2], symbol
