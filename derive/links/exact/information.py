"""Proofs that E[h | y] does not vanish, so that the threshold is zero."""

import random
from collections.abc import Sequence

import sympy as sp

from ..branches import most_terms, split
from ..functions import ArgMax
from ..intervals import correlation_proved
from .symmetries import flips

# A power of a polynomial with more terms is not expanded further.
_MOST_TERMS = 2000
_INCREASING = (sp.sign, sp.exp, sp.log, sp.tanh, sp.sinh, sp.erf)


def linear_information(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> str:
    """Why E[h | y] provably does not vanish, with noise or without; empty if this does not show.

    Noise changes nothing: its convolution with E[h | g] p(g) vanishes only where that does.
    """
    if polynomial_correlation(outputs, coordinates):
        return "E[h y^k] is not zero for some k <= 5"
    for output in outputs:
        if any(monotone(output, h) in (1, -1) and _moves(output, h) for h in output.free_symbols):
            return "the link is monotone in an entry of h"
        if isinstance(output, ArgMax) and any(_label_grows(output, h) for h in output.free_symbols):
            return "one value of the link is the likelier, the larger an entry of h"
        negligible = [h for k, h in enumerate(coordinates) if any(s[k] < 0 for s in flips([output], coordinates))]
        if correlation_proved(0, split([output]), negligible):
            return "E[h f(y)] is not zero for a bounded f, by interval arithmetic"
    return ""


def _label_grows(expr: ArgMax, h: sp.Symbol) -> bool:
    """Whether for one label k "argmax = k" turns only one way along an entry, whatever the others, and does turn."""
    ways = [way for arg in expr.args if (way := monotone(arg, h)) is not None]
    if len(ways) < len(expr.args):
        return False
    for k, own in enumerate(ways):
        others = [way for j, way in enumerate(ways) if j != k]
        one_way = any(sign * own >= 0 and all(sign * way <= 0 for way in others) for sign in (1, -1))
        if one_way and _moves(expr, h, k + 1):
            return True
    return False


def _moves(expr: sp.Expr, h: sp.Symbol, label: int | None = None) -> bool:
    """Whether the expression, or whether it is that label, takes different values along an entry somewhere."""
    rng = random.Random(2)
    for _ in range(8):
        point = {x: sp.Rational(rng.randint(-2000, 2000), 1009) for x in expr.free_symbols - {h}}
        ends = [split([expr.xreplace({**point, h: at})])[0].outputs[0] for at in (-3, sp.Rational(29, 10))]
        if label is not None:
            if len({end == label for end in ends}) > 1:
                return True
            continue
        low, high = (sp.N(end, 30) for end in ends)
        if abs(high - low) > sp.Float("1e-20"):
            return True
    return False


def monotone(expr: sp.Expr, h: sp.Symbol) -> int | None:
    """Direction in which an expression moves with an entry, whatever the others: 1, -1, 0 (not at all); None: unknown.

    It follows the structure: sums, constant factors, increasing functions, maxima and minima; or the sign of the slope.
    """
    if not expr.has(h):
        return 0
    if expr == h:
        return 1
    if isinstance(expr, (sp.Add, sp.Max, sp.Min)):
        ways = {monotone(part, h) for part in expr.args} - {0}
        return ways.pop() if len(ways) == 1 else None
    if isinstance(expr, sp.Mul):
        rest, part = expr.as_independent(h, as_Add=False)
        way = monotone(part, h) if part != expr else None
        if way is not None and (rest.is_positive or rest.is_negative):
            return way if rest.is_positive else -way
    if isinstance(expr, sp.Pow) and expr.exp.is_negative and expr.base.is_positive:
        way = monotone(expr.base, h)
        return None if way is None else -way
    odd = isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp > 0 and expr.exp % 2
    if odd or isinstance(expr, _INCREASING):
        return monotone(expr.args[0], h)
    if expr.has(sp.sign, sp.Abs, sp.Max, sp.Min, sp.Piecewise) or len(expr.free_symbols) > 1:
        return None
    slope = sp.factor(sp.diff(expr, h))
    # No jumps: the functions are smooth, and finite everywhere if their reciprocals and logarithms are.
    if expr.atoms(sp.log) or any(
        power.exp.is_negative or not power.exp.is_Integer for power in expr.atoms(sp.Pow) if power.base != sp.E
    ):
        return None
    return 1 if slope.is_positive else -1 if slope.is_negative else None


def polynomial_correlation(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> bool:
    """Whether E[h_i y^k] is not zero for a polynomial output, k <= 5: then E[h | y] is not, with noise or without.

    Noise changes nothing: its convolution with E[h | g] p(g) vanishes only where that does.
    """
    for output in outputs:
        if not output.is_polynomial(*coordinates) or most_terms(output) > _MOST_TERMS:
            continue
        base = sp.Poly(output, *coordinates)
        power = sp.Poly(1, *coordinates)
        for _ in range(5):
            power *= base
            if len(power.terms()) > _MOST_TERMS:
                break
            if any(_gaussian_mean(power * sp.Poly(h, *coordinates)) != 0 for h in coordinates):
                return True
    return False


def _gaussian_mean(polynomial: sp.Poly) -> sp.Expr:
    """Mean over independent standard normal variables."""
    terms = (
        coefficient * sp.Mul(*[sp.factorial2(k - 1) for k in exponents])
        for exponents, coefficient in polynomial.terms()
        if not any(k % 2 for k in exponents)
    )
    return sp.expand(sp.Add(*terms))
