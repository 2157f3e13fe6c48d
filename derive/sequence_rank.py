"""Which entries of a sequence output y = B_L label it: a set of rows of dy/dh of full generic rank.

Where the outputs fill a surface only, some entries follow from the others.  The derivative is the exact straight-line
program of `derive.straightline`; its rank is that at one rational point, at 60 digits.  The rank at a point is never
above the generic one, and below it on a set of measure zero only.
"""

import random
from collections.abc import Callable, Sequence

import sympy as sp
from mpmath import mpf
from mpmath.ctx_mp import MPContext
from sympy.printing.pycode import MpmathPrinter

from .architecture import Architecture
from .primitives import elementary
from .straightline import Assignment, straight_jacobian

__all__ = ["evaluator", "independent_entries", "output_entries"]

_DIGITS = 60


def evaluator(
    ctx: MPContext, arguments: Sequence[sp.Symbol], body: Sequence[Assignment], outputs: Sequence[sp.Expr]
) -> Callable[..., list[mpf]]:
    """Return a function that runs a straight-line program with the functions of a context.

    Parameters
    ----------
    ctx : mpmath context
        Its precision is that of the result. Any object does that has ``mpf`` and the functions that occur, as NumPy's
        for arrays.
    arguments : sequence of sympy.Symbol
    body : sequence of (sympy.Symbol, sympy.Expr)
        Each value uses arguments and earlier names.
    outputs : sequence of sympy.Expr

    Returns
    -------
    callable
        Of one number (or array) per argument; it returns the list of outputs.
    """
    names = {name: getattr(ctx, name) for name in dir(ctx) if not name.startswith("_")}
    printer = MpmathPrinter({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    plain = [(name, elementary(value)) for name, value in body]
    made: Callable[..., list[mpf]] = sp.lambdify(
        list(arguments),
        [elementary(value) for value in outputs],
        modules=[names],
        printer=printer,
        cse=lambda expressions: (plain, expressions),
    )
    return made


def output_entries(model: Architecture) -> list[tuple[int, int]]:
    """Return places of y whose entries are free of linear equations: softmax blocks have fixed row sums.

    Their last columns are left out; all entries count for any other activation.
    """
    width, tokens = model.heads * model.tokens, model.tokens
    kept = [j for j in range(width) if model.activation != "softmax" or j % tokens != tokens - 1]
    return [(i, j) for i in range(width) for j in kept]


def independent_entries(model: Architecture, constants: dict[sp.Symbol, sp.Expr]) -> list[tuple[int, int]]:
    """Return the first entries of a sequence output, row by row, that are independent functions of h.

    Parameters
    ----------
    model : Architecture
        Output "sequence".
    constants : dict
        Values of readout weights that are numbers.

    Returns
    -------
    list of (int, int)
        As many as the outputs have dimensions.

    References
    ----------
    troiani2025, (25)-(26), (31)-(32); derived.
    """
    line = straight_jacobian(model)
    ctx = MPContext()
    ctx.dps = _DIGITS
    entries = output_entries(model)
    width = model.heads * model.tokens
    rows = [value.xreplace(constants) for i, j in entries for value in line.outputs[i * width + j, :]]
    body = [(name, value.xreplace(constants)) for name, value in line.body]
    free = sorted(
        set().union(*(value.free_symbols for _, value in body)) - {name for name, _ in body} - set(line.variables),
        key=lambda symbol: symbol.name,
    )
    arguments = [*line.variables, *free]
    rng = random.Random(0)
    # Skip and beta are positive, and no entry is so small that it looks like zero.
    point = [
        ctx.mpf(rng.randint(200, 1500)) / 997 * (rng.choice([1, -1]) if n < len(line.variables) else 1)
        for n in range(len(arguments))
    ]
    values = evaluator(ctx, arguments, body, rows)(*point)
    size = len(line.variables)
    return _first_independent(ctx, entries, [values[k * size : (k + 1) * size] for k in range(len(entries))])


def _first_independent(ctx: MPContext, entries: list[tuple[int, int]], rows: list[list[mpf]]) -> list[tuple[int, int]]:
    """Return the entries whose rows are no combination of earlier ones, by Gram-Schmidt, twice for each row."""
    kept: list[tuple[int, int]] = []
    basis: list[list[mpf]] = []
    for entry, row in zip(entries, rows, strict=True):
        rest, size = list(row), ctx.norm(row)
        for vector in basis * 2:
            along = ctx.fdot(rest, vector)
            rest = [a - along * b for a, b in zip(rest, vector, strict=True)]
        # Of 60 digits; a dependent row leaves rounding times the condition of the basis.
        if size > 0 and ctx.norm(rest) > ctx.mpf(10) ** (-_DIGITS // 2) * size:
            length = ctx.norm(rest)
            basis.append([a / length for a in rest])
            kept.append(entry)
    return kept
