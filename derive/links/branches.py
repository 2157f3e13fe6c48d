"""Split a link into regions where it is smooth, and solve y = g(h) for one entry of h in each.

Signs, absolute values, maxima and the like are decided by the signs of finitely many functions of h. On a region of
fixed signs the link is one smooth expression, or a constant.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import sympy as sp

from ..primitives import CopySign
from .functions import ArgMax
from .parser import LinkError
from .signs import Facts, Undecided

__all__ = ["Region", "expand_small", "invert", "most_terms", "split"]

_SWITCHES = (sp.sign, sp.Abs, sp.Max, sp.Min, ArgMax, sp.Piecewise)
_MOST_REGIONS = 512
# Sums with more terms are left in brackets.
_MOST_TERMS = 2000
# |h| > 10 has probability 1e-23: periods of sines beyond it are left out.
_EDGE = 10


@dataclass(frozen=True)
class Region:
    """Part of the space of h on which the link is smooth.

    Attributes
    ----------
    outputs : tuple of sympy.Expr
        The link there.
    bounds : dict of sympy.Symbol to (sympy.Expr, sympy.Expr)
        Open intervals of single entries of h.
    conditions : tuple of sympy.Expr
        Functions of several entries (or not linear in one), all positive there.
    """

    outputs: tuple[sp.Expr, ...]
    bounds: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]] = field(default_factory=dict)
    conditions: tuple[sp.Expr, ...] = ()

    @property
    def constant(self) -> bool:
        """Whether the outputs do not vary."""
        return not any(output.free_symbols for output in self.outputs)

    @property
    def active(self) -> tuple[sp.Symbol, ...]:
        """Entries of h in the outputs or in a condition on several entries, sorted by name."""
        used = {s for expr in (*self.outputs, *self.conditions) for s in expr.free_symbols}
        return tuple(sorted(used, key=lambda s: s.name))


def _truth(condition: sp.Basic, facts: Facts) -> bool:
    if condition in (sp.true, sp.false):
        return condition == sp.true
    if isinstance(condition, sp.And):
        return all(_truth(part, facts) for part in condition.args)
    if isinstance(condition, sp.Or):
        return any(_truth(part, facts) for part in condition.args)
    if isinstance(condition, sp.Not):
        return not _truth(condition.args[0], facts)
    difference = condition.lhs - condition.rhs
    if isinstance(condition, (sp.Eq, sp.Ne)):
        same = difference.is_zero or sp.expand(difference).is_zero
        return bool(same) == isinstance(condition, sp.Eq)
    sign = facts.sign(difference)
    if isinstance(condition, sp.StrictLessThan):
        return sign < 0
    if isinstance(condition, sp.LessThan):
        return sign <= 0
    return sign > 0 if isinstance(condition, sp.StrictGreaterThan) else sign >= 0


def _decide(node: sp.Expr, facts: Facts) -> sp.Expr:
    """Value of an innermost switch where the signs are known."""
    if isinstance(node, sp.sign):
        return sp.Integer(facts.sign(node.args[0]))
    if isinstance(node, sp.Abs):
        return facts.sign(node.args[0]) * node.args[0]
    if isinstance(node, sp.Piecewise):
        for value, condition in node.args:
            if _truth(condition, facts):
                return value
        raise LinkError(f"link: {node} has no value where none of its conditions holds; end it with (value, True)")
    best, values = 0, node.args
    for k in range(1, len(values)):
        sign = facts.sign(values[best] - values[k])
        if sign > 0 if isinstance(node, sp.Min) else sign < 0:
            best = k
    return sp.Integer(best + 1) if isinstance(node, ArgMax) else values[best]


def _innermost(expr: sp.Basic) -> sp.Expr | None:
    return next((node for node in sp.postorder_traversal(expr) if isinstance(node, _SWITCHES)), None)


def most_terms(expr: sp.Expr) -> int:
    """Most terms that an expression has once its brackets are multiplied out."""
    if isinstance(expr, sp.Add):
        return sum(most_terms(part) for part in expr.args)
    if isinstance(expr, sp.Mul):
        return math.prod(most_terms(part) for part in expr.args)
    if isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp > 0:
        count, power = most_terms(expr.base), int(expr.exp)
        return math.comb(count + power - 1, power)
    return max((most_terms(part) for part in expr.args), default=1)


def expand_small(expr: sp.Expr) -> sp.Expr:
    """Multiply out; a sum that would have too many terms stays in brackets, with even powers of one sign."""
    if most_terms(expr) <= _MOST_TERMS:
        return sp.expand(expr)
    even = [p for p in expr.atoms(sp.Pow) if p.exp.is_Integer and p.exp % 2 == 0 and p.base.could_extract_minus_sign()]
    return expr.xreplace({power: (-power.base) ** power.exp for power in even})


def split(outputs: Sequence[sp.Expr]) -> tuple[Region, ...]:
    """Split a link into its regions.

    Parameters
    ----------
    outputs : sequence of sympy.Expr
        The link, in real symbols.

    Returns
    -------
    tuple of Region
        They cover the space up to sets of measure zero, and do not overlap; some may be empty.

    Raises
    ------
    LinkError
        A Piecewise without a value somewhere, or more than 512 regions.

    References
    ----------
    troiani2025, (1), (9).
    """
    made: list[Region] = []
    for region in _walk(sp.Tuple(*outputs), Facts({}, {})):
        made.append(region)
        if len(made) > _MOST_REGIONS:
            raise LinkError(f"link: the signs in it divide the space into more than {_MOST_REGIONS} regions")
    return tuple(made)


def _walk(expr: sp.Tuple, facts: Facts) -> Iterator[Region]:
    try:
        while (node := _innermost(expr)) is not None:
            expr = expr.xreplace({node: _decide(node, facts)})
    except Undecided as undecided:
        for sign in (1, -1):
            yield from _walk(expr, facts.with_sign(undecided.factor, sign))
        return
    outputs = tuple(expand_small(value) if value.is_polynomial() else value for value in expr)
    used = {s: b for s, b in facts.bounds.items() if b != (-sp.oo, sp.oo)}
    conditions = tuple(factor if sign > 0 else -factor for factor, sign in facts.signs.items())
    yield Region(outputs, used, conditions)


def invert(expr: sp.Expr, unknown: sp.Symbol, value: sp.Expr) -> tuple[sp.Expr, ...]:
    """Solve ``expr = value`` for one symbol, with every real solution among those returned.

    Parameters
    ----------
    expr : sympy.Expr
        Smooth expression that holds the unknown.
    unknown : sympy.Symbol
    value : sympy.Expr
        Free of the unknown.

    Returns
    -------
    tuple of sympy.Expr
        Candidates. Some may be no real number, or no solution, for some values: those are to be dropped.

    Raises
    ------
    LinkError
        Naming the equation that has no closed form here.
    """
    if expr == unknown:
        return (value,)
    if isinstance(expr, sp.Add):
        rest, part = expr.as_independent(unknown, as_Add=True)
        if rest != 0:
            return invert(part, unknown, value - rest)
        return _polynomial(expr, unknown, value)
    if isinstance(expr, sp.Mul):
        rest, part = expr.as_independent(unknown, as_Add=False)
        if rest != 1:
            return invert(part, unknown, value / rest)
        return _polynomial(expr, unknown, value)
    if isinstance(expr, sp.Pow) and expr.exp.is_Rational:
        return _power(expr, unknown, value)
    if isinstance(expr, sp.exp):
        return invert(expr.args[0], unknown, sp.log(value))
    inner = expr.args[0] if len(expr.args) == 1 else None
    inverse = {sp.log: sp.exp, sp.tanh: sp.atanh, sp.sinh: sp.asinh, sp.erf: sp.erfinv}.get(expr.func)
    if inner is not None and inverse is not None:
        return invert(inner, unknown, inverse(value))
    if isinstance(expr, sp.cosh):
        return _both(inner, unknown, sp.acosh(value))
    if isinstance(expr, (sp.sin, sp.cos)):
        return _periodic(expr, unknown, value)
    raise LinkError(_unsolved(expr, unknown))


def _unsolved(expr: sp.Expr, unknown: sp.Symbol) -> str:
    return f"the equation {expr} = value has no closed solution in {unknown}"


def _both(expr: sp.Expr, unknown: sp.Symbol, root: sp.Expr) -> tuple[sp.Expr, ...]:
    return (*invert(expr, unknown, root), *invert(expr, unknown, -root))


def _power(expr: sp.Pow, unknown: sp.Symbol, value: sp.Expr) -> tuple[sp.Expr, ...]:
    base, exponent = expr.args
    if not exponent.is_Integer:
        return invert(base, unknown, value ** (1 / exponent))
    if exponent < 0:
        return invert(1 / expr, unknown, 1 / value)
    if exponent % 2 == 0:
        return _both(base, unknown, sp.Pow(value, sp.Rational(1, exponent), evaluate=False))
    # The real odd root.
    size = sp.Pow(sp.Abs(value), sp.Rational(1, exponent))
    return invert(base, unknown, CopySign(value) * size)


def _polynomial(expr: sp.Expr, unknown: sp.Symbol, value: sp.Expr) -> tuple[sp.Expr, ...]:
    """Quadratic in a power of the unknown, by the formula that does not cancel."""
    expanded = expand_small(expr)
    if not expanded.is_polynomial(unknown) or most_terms(expanded) > _MOST_TERMS:
        raise LinkError(_unsolved(expr, unknown))
    terms = {degree: coefficient for (degree,), coefficient in sp.Poly(expanded, unknown).terms()}
    step = min((degree for degree in terms if degree > 0), default=0)
    if not step or set(terms) - {0, step, 2 * step}:
        raise LinkError(_unsolved(expr, unknown))
    a, b, c = (terms.get(k * step, sp.S.Zero) for k in (2, 1, 0))
    if a == 0:
        return invert(unknown**step, unknown, (value - c) / b)
    c = c - value
    q = -(b + CopySign(b) * sp.sqrt(b**2 - 4 * a * c)) / 2
    return (*invert(unknown**step, unknown, q / a), *invert(unknown**step, unknown, c / q))


def _periodic(expr: sp.Expr, unknown: sp.Symbol, value: sp.Expr) -> tuple[sp.Expr, ...]:
    inner = expr.args[0]
    slope = sp.diff(inner, unknown)
    if slope.free_symbols or (inner - slope * unknown).free_symbols:
        raise LinkError(_unsolved(expr, unknown))
    offset = inner.subs(unknown, 0)
    periods = int(sp.ceiling((abs(slope) * _EDGE + abs(offset)) / (2 * sp.pi))) + 1
    root = sp.asin(value) if isinstance(expr, sp.sin) else sp.acos(value)
    pair = (root, sp.pi - root) if isinstance(expr, sp.sin) else (root, -root)
    found = [at + 2 * sp.pi * k for k in range(-periods, periods + 1) for at in pair]
    return tuple(part for at in found for part in invert(inner, unknown, at))
