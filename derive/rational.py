"""Identities between rational functions: numerators over a common denominator, as polynomials in what they hold.

Each power of an exponential, each root and each other function is one variable of the polynomials. What vanishes for
independent variables vanishes for those; the converse is left to slower reductions.
"""

from functools import reduce
from math import comb
from operator import mul

import sympy as sp
from sympy.polys.rings import PolyElement, PolyRing

__all__ = ["is_zero_of_variables"]

# Terms of a polynomial beyond which the reductions of SymPy, which divide common factors out, are not slower.
_MOST_TERMS = 20_000


class _GivenUp(Exception):
    """Too many terms, or a denominator that vanishes."""


def is_zero_of_variables(expr: sp.Expr) -> bool:
    """Return True if the expression is the zero rational function of its symbols, exponentials, roots and functions.

    Parameters
    ----------
    expr : sympy.Expr

    Returns
    -------
    bool
        False does not say that it is another function: relations between its variables are not used, except the
        squares of roots of integers and the products of exponentials.
    """
    if expr.is_Rational:
        return bool(expr == 0)
    if expr.has(sp.Float, sp.nan, sp.zoo, sp.oo, sp.I, sp.Piecewise):
        return False
    variables: dict[sp.Expr, None] = {}
    _collect(expr, variables)
    if not variables:
        return False
    ring = PolyRing([sp.Dummy() for _ in variables], sp.QQ, sp.lex)
    try:
        numerator, _ = _Fractions(dict(zip(variables, ring.gens, strict=True)), ring).of(expr)
    except _GivenUp:
        return False
    return not _with_roots_of_integers(numerator, list(variables))


def _powers(expr: sp.Expr) -> list[tuple[sp.Expr, int]] | None:
    """Variables and exponents of an exponential or a root; None of what is neither."""
    if isinstance(expr, sp.exp):
        parts = [term.as_coeff_Mul() for term in sp.Add.make_args(sp.expand(expr.args[0]))]
        return [(sp.exp(rest / k.q), int(k.p)) if k.is_Rational else (sp.exp(k * rest), 1) for k, rest in parts]
    if isinstance(expr, sp.Pow) and expr.exp.is_Rational:
        return [(sp.Pow(expr.base, sp.Rational(1, expr.exp.q)), int(expr.exp.p))]
    return None


def _collect(expr: sp.Expr, variables: dict[sp.Expr, None]) -> None:
    if expr.is_Rational:
        return
    if isinstance(expr, sp.Add | sp.Mul):
        for part in expr.args:
            _collect(part, variables)
    elif isinstance(expr, sp.Pow) and expr.exp.is_Integer:
        _collect(expr.base, variables)
    else:
        variables.update(dict.fromkeys(variable for variable, _ in _powers(expr) or [(expr, 1)]))


_Factors = dict[PolyElement, int]


class _Fractions:
    """Numerators and the factors of denominators of expressions."""

    def __init__(self, variables: dict[sp.Expr, PolyElement], ring: PolyRing) -> None:
        self._variables, self._ring = variables, ring
        self._known: dict[sp.Expr, tuple[PolyElement, _Factors]] = {}

    def of(self, expr: sp.Expr) -> tuple[PolyElement, _Factors]:
        if expr not in self._known:
            self._known[expr] = found = self._made(expr)
            if len(found[0]) > _MOST_TERMS:
                raise _GivenUp
        return self._known[expr]

    def _made(self, expr: sp.Expr) -> tuple[PolyElement, _Factors]:
        if expr.is_Rational:
            return self._ring.ground_new(sp.QQ(expr.p, expr.q)), {}
        if isinstance(expr, sp.Add):
            return self._sum([self.of(part) for part in expr.args])
        if isinstance(expr, sp.Mul):
            return self._product([self.of(part) for part in expr.args])
        if isinstance(expr, sp.Pow) and expr.exp.is_Integer:
            return self._power(self.of(expr.base), int(expr.exp))
        variables = _powers(expr) or [(expr, 1)]
        return self._product([self._power((self._variables[one], {}), exponent) for one, exponent in variables])

    def _product(self, parts: list[tuple[PolyElement, _Factors]]) -> tuple[PolyElement, _Factors]:
        factors: _Factors = {}
        for _, more in parts:
            for factor, count in more.items():
                factors[factor] = factors.get(factor, 0) + count
        numerator = self._ring.one
        for part, _ in sorted(parts, key=lambda one: len(one[0])):
            # What stands above and below once is cancelled.
            if factors.get(part, 0):
                factors[part] -= 1
                continue
            if len(numerator) * len(part) > _MOST_TERMS**1.5:
                raise _GivenUp
            numerator = numerator * part
        return numerator, {factor: count for factor, count in factors.items() if count}

    def _power(self, of: tuple[PolyElement, _Factors], exponent: int) -> tuple[PolyElement, _Factors]:
        numerator, factors = of
        if exponent >= 0:
            if comb(len(numerator) + exponent, exponent) > _MOST_TERMS:
                raise _GivenUp
            return numerator**exponent, {factor: exponent * count for factor, count in factors.items()}
        if not numerator:
            raise _GivenUp
        above = reduce(mul, (factor ** (-exponent * count) for factor, count in factors.items()), self._ring.one)
        if numerator.is_ground:
            return above * numerator.LC**exponent, {}
        return above, {numerator: -exponent}

    def _sum(self, parts: list[tuple[PolyElement, _Factors]]) -> tuple[PolyElement, _Factors]:
        common: _Factors = {}
        for _, factors in parts:
            for factor, count in factors.items():
                common[factor] = max(common.get(factor, 0), count)
        total = self._ring.zero
        for numerator, factors in parts:
            for factor, count in common.items():
                for _ in range(count - factors.get(factor, 0)):
                    if len(numerator) * len(factor) > _MOST_TERMS**1.5:
                        raise _GivenUp
                    numerator = numerator * factor
            total = total + numerator
        return total, common


def _with_roots_of_integers(numerator: PolyElement, variables: list[sp.Expr]) -> PolyElement:
    """Replace the q-th power of each q-th root of an integer by that integer."""
    for place, variable in enumerate(variables):
        if not (isinstance(variable, sp.Pow) and variable.base.is_Integer):
            continue
        made = numerator.ring.zero
        for powers, coefficient in numerator.terms():
            whole, rest = divmod(powers[place], int(variable.exp.q))
            lower = (*powers[:place], rest, *powers[place + 1 :])
            made += numerator.ring({lower: coefficient * sp.QQ(int(variable.base)) ** whole})
        numerator = made
    return numerator
