"""Outputs that are observed without noise, written as what they say.

One number may say several things at once, as a sign times a size does, or a sum with gaps; and the n entries of a
softmax say n - 1.
"""

import itertools
import math
from collections.abc import Sequence

import sympy as sp

from .branches import split
from .exact import monotone
from .functions import SoftmaxEntry
from .reading import without_outer

__all__ = ["differences", "separated"]

Interval = tuple[sp.Expr, sp.Expr]

# Sums of values of the terms that are compared with each other, at most.
_MOST_SUMS = 64
_EVERYWHERE: Interval = (-sp.oo, sp.oo)
_RANGES: dict[type, Interval] = {
    **dict.fromkeys((sp.tanh, sp.erf, sp.sin, sp.cos), (sp.Integer(-1), sp.Integer(1))),
    sp.exp: (sp.S.Zero, sp.oo),
    sp.cosh: (sp.S.One, sp.oo),
}


def separated(output: sp.Expr) -> tuple[sp.Expr, ...]:
    """Return outputs without common entries of h that together say what one output says.

    Parameters
    ----------
    output : sympy.Expr
        Observed without noise.

    Returns
    -------
    tuple of sympy.Expr
        The output alone, where it is not recognised as several.

    Notes
    -----
    A function of one entry that is provably strictly monotone gives that entry.
    A product of a function that is 1 or -1 and of one that is positive almost everywhere gives both. So does a sum
    of functions of finitely many values, and at most one other, if no value of the sum comes about in two ways.

    Examples
    --------
    >>> from .parser import parse
    >>> separated(parse("sign(h[1])*abs(h[2])")[0])
    (sign(h_1_1), Abs(h_2_1))
    """
    output = without_outer(output)
    if _one_to_one(output):
        return tuple(output.free_symbols)
    parts = _product(output) if isinstance(output, sp.Mul) else _sum(output) if isinstance(output, sp.Add) else ()
    return tuple(part for one in parts for part in separated(one)) or (output,)


def _one_to_one(output: sp.Expr) -> bool:
    """Whether an output is a function of one entry that is provably strictly monotone."""
    if len(output.free_symbols) != 1 or output.is_Symbol:
        return False
    (entry,) = output.free_symbols
    return monotone(output, entry) in (1, -1) and all(r.outputs[0].free_symbols for r in split([output]))


def differences(outputs: Sequence[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Return outputs with a softmax of which at most one entry is missing as differences of its arguments."""
    found: list[sp.Expr] = []
    for output in outputs:
        z = output.args[1:] if isinstance(output, SoftmaxEntry) else ()
        shown = {other for other in outputs if z and isinstance(other, SoftmaxEntry) and other.args[1:] == z}
        found += [other - z[0] for other in z[1:]] if z and len(shown) >= len(z) - 1 else [output]
    return tuple(found)


def _product(output: sp.Mul) -> tuple[sp.Expr, ...]:
    """A sign and a size without common entries."""
    signs = [factor for factor in output.args if _values(factor) in ({sp.S.One}, {-sp.S.One}, {sp.S.One, -sp.S.One})]
    sizes = [factor for factor in output.args if factor not in signs]
    sign, size = sp.Mul(*signs), sp.Mul(*sizes)
    apart = sign.free_symbols and size.free_symbols and not sign.free_symbols & size.free_symbols
    return (sign, size) if apart and all(_positive(factor) for factor in sizes) else ()


def _positive(factor: sp.Expr) -> bool:
    """Whether a factor is positive but on a set of measure zero: it is analytic on each of its regions."""
    return bool(factor.is_nonnegative) and all(r.outputs[0] != 0 for r in split([factor]))


def _values(expr: sp.Expr) -> set[sp.Expr]:
    """The values of a function that has finitely many, empty for others."""
    if not expr.has(sp.sign, sp.Piecewise) and expr.free_symbols:
        return set()
    values = {region.outputs[0] for region in split([expr])}
    return values if not any(value.free_symbols for value in values) else set()


def _sum(output: sp.Add) -> tuple[sp.Expr, ...]:
    """The terms of a sum, grouped by their entries, if its value gives that of each."""
    groups: list[sp.Expr] = []
    for term in output.args:
        near = [group for group in groups if group.free_symbols & term.free_symbols]
        groups = [*(group for group in groups if group not in near), sp.Add(term, *near)]
    if len(groups) < 2:
        return ()
    groups.sort(key=lambda group: min(s.name for s in group.free_symbols))
    values = [_values(group) for group in groups]
    if sum(not found for found in values) > 1:
        return ()
    ranges = [[(v, v) for v in found] or [_range(group)] for group, found in zip(groups, values, strict=True)]
    return tuple(groups) if _apart(ranges) else ()


def _apart(ranges: Sequence[Sequence[Interval]]) -> bool:
    """Whether sums of one interval of each have no value in common, but for their ends."""
    if math.prod(len(found) for found in ranges) > _MOST_SUMS:
        return False
    sums = [[sp.Add(*ends) for ends in zip(*chosen, strict=True)] for chosen in itertools.product(*ranges)]
    ordered = sorted(sums, key=lambda pair: sp.N(pair[0], 30))
    return all(
        (after[0] - before[0]).is_positive and (after[0] - before[1]).is_nonnegative
        for before, after in itertools.pairwise(ordered)
    )


def _range(expr: sp.Expr) -> Interval:
    """An interval that holds all values."""
    if expr.func in _RANGES:
        return _RANGES[expr.func]
    number, rest = expr.as_independent(*expr.free_symbols, as_Add=isinstance(expr, sp.Add))
    ends: Interval | None = None
    if not expr.free_symbols:
        ends = expr, expr
    elif isinstance(expr, sp.Add):
        parts = [_range(term) for term in sp.Add.make_args(rest)]
        ends = number + sp.Add(*(low for low, _ in parts)), number + sp.Add(*(high for _, high in parts))
    elif isinstance(expr, sp.Mul) and number != 1:
        low, high = (number * end for end in _range(rest))
        ends = (low, high) if number.is_positive else (high, low)
    elif isinstance(expr, sp.Pow) and expr.exp == -1 and _range(expr.base)[0].is_positive:
        ends = 1 / _range(expr.base)[1], 1 / _range(expr.base)[0]
    if ends is None or any(end.has(sp.nan) for end in ends):
        return (sp.S.Zero, sp.oo) if expr.is_nonnegative else _EVERYWHERE
    return ends
