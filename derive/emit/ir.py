"""The intermediate form: ordered assignments and outputs, shared once, the same for every printer."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from ..kernels.kernel import Kernel
from ..primitives import Guard, Largest, Smallest

__all__ = ["Program", "canonical", "lower"]


def canonical(expr: sp.Expr) -> str:
    """Return an unambiguous text of an expression that depends on its structure alone.

    Arguments of sums and products are sorted by their own text, so that the result depends neither on SymPy's
    internal order nor on hashing.
    """
    if isinstance(expr, sp.Symbol):
        return str(expr.name)
    if isinstance(expr, sp.Rational):
        return f"{expr.p}/{expr.q}" if expr.q != 1 else str(expr.p)
    if not expr.args:
        return type(expr).__name__
    parts = [canonical(arg) for arg in expr.args]
    if isinstance(expr, (sp.Add, sp.Mul, Largest, Smallest)):
        parts.sort()
    return f"{type(expr).__name__}({','.join(parts)})"


@dataclass(frozen=True)
class Program:
    """Straight-line form of one kernel.

    Attributes
    ----------
    kernel : Kernel
        Where it comes from.
    assignments : tuple of (sympy.Symbol, sympy.Expr)
        In order; each value uses arguments and earlier names only.
    outputs : tuple of sympy.Expr
    ops_before, ops_after : int
        Operations of the outputs written as trees of the arguments, and after sharing subtrees.
    """

    kernel: Kernel
    assignments: tuple[tuple[sp.Symbol, sp.Expr], ...]
    outputs: tuple[sp.Expr, ...]
    ops_before: int
    ops_after: int

    def canonical(self) -> str:
        """Return the text that identifies the program."""
        head = f"{self.kernel.name}({','.join(argument.name for argument in self.kernel.arguments)})"
        lines = [f"{name.name}={canonical(value)}" for name, value in self.assignments]
        names = (name for name, _ in self.kernel.outputs)
        returned = [f"{name}:{canonical(value)}" for name, value in zip(names, self.outputs, strict=True)]
        return "\n".join([head, *lines, "return " + ",".join(returned)])

    def digest(self) -> str:
        """Return the sha256 of `canonical`."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    def specialise(self, bounded: bool) -> "Program":
        """Return the program with every `Guard` resolved and without the assignments nothing uses.

        Parameters
        ----------
        bounded : bool
            True for float64 (second argument of a guard), False for arbitrary precision (first argument).
        """
        known: dict[sp.Symbol, sp.Expr] = {}
        assignments: list[tuple[sp.Symbol, sp.Expr]] = []
        for name, value in self.assignments:
            value = _resolve(value, known, bounded)
            if value.is_Atom:
                known[name] = value
            else:
                assignments.append((name, value))
        outputs = tuple(_resolve(value, known, bounded) for value in self.outputs)
        return replace(self, assignments=_live(assignments, outputs), outputs=outputs)


def _resolve(value: sp.Expr, known: dict[sp.Symbol, sp.Expr], bounded: bool) -> sp.Expr:
    value = value.xreplace(known)
    if not value.has(Guard):
        return value
    return value.replace(lambda e: isinstance(e, Guard), lambda e: e.args[1 if bounded else 0])


def _live(
    assignments: list[tuple[sp.Symbol, sp.Expr]], outputs: tuple[sp.Expr, ...]
) -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    needed = {symbol for value in outputs for symbol in value.free_symbols}
    kept = []
    for name, value in reversed(assignments):
        if name in needed:
            needed |= value.free_symbols
            kept.append((name, value))
    return tuple(reversed(kept))


def _occurrences(expr: sp.Expr) -> Iterator[sp.Symbol]:
    """Yield every symbol of an expression as often as it occurs."""
    if isinstance(expr, sp.Symbol):
        yield expr
    for arg in expr.args:
        yield from _occurrences(arg)


def _expanded_operations(kernel: Kernel, outputs: Sequence[sp.Expr]) -> int:
    """Count the operations of the outputs with every name of the body written out, without writing them out."""
    cost: dict[sp.Symbol, int] = {}

    def operations(expr: sp.Expr) -> int:
        inner = sum(cost.get(symbol, 0) for symbol in _occurrences(expr)) if cost else 0
        return int(sp.count_ops(expr)) + inner

    for name, value in kernel.body:
        cost[name] = operations(value)
    return sum(operations(value) for value in outputs)


def _in_order(
    shared: Sequence[tuple[sp.Symbol, sp.Expr]], body: Sequence[tuple[sp.Symbol, sp.Expr]]
) -> list[tuple[sp.Symbol, sp.Expr]]:
    """Return all assignments with every shared subtree just before its first use."""
    waiting = dict(shared)
    order = {name: number for number, (name, _) in enumerate(shared)}
    done: list[tuple[sp.Symbol, sp.Expr]] = []

    def place(value: sp.Expr) -> None:
        for name in sorted(value.free_symbols & waiting.keys(), key=order.__getitem__):
            # A subtree placed for an earlier name is no longer waiting.
            if name in waiting:
                inner = waiting.pop(name)
                place(inner)
                done.append((name, inner))

    for name, value in body:
        place(value)
        done.append((name, value))
    # The outputs alone use what is left.
    return done + [(name, value) for name, value in shared if name in waiting]


def _check(kernel: Kernel, outputs: Sequence[sp.Expr]) -> None:
    """Raise unless every name is used once, and every value is exact and uses arguments and earlier names only."""
    names = [symbol.name for symbol in (*kernel.arguments, *(name for name, _ in kernel.body))]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{kernel.name}: {', '.join(twice)} stands for two things; rename the symbol of the model")
    known = set(kernel.arguments)
    steps = [(name.name, name, value) for name, value in kernel.body]
    ends = [(f"output {name}", None, value) for (name, _), value in zip(kernel.outputs, outputs, strict=True)]
    for what, symbol, value in (*steps, *ends):
        if value.has(sp.Float):
            raise ValueError(f"{kernel.name}: {what} holds a float; kernels are exact until printed")
        unknown = sorted(used.name for used in value.free_symbols - known)
        if unknown:
            raise ValueError(f"{kernel.name}: {what} uses {', '.join(unknown)}, which is no argument")
        if symbol is not None:
            known.add(symbol)


def lower(kernel: Kernel) -> Program:
    """Share the subtrees of a kernel's body and outputs and return its straight-line form.

    Raises
    ------
    ValueError
        If an output is not exact or uses a symbol that is no argument.
    """
    values = [sp.sympify(value) for _, value in kernel.outputs]
    _check(kernel, values)
    taken = {symbol.name for symbol in (*kernel.arguments, *(name for name, _ in kernel.body))}
    fresh = (symbol for symbol in sp.numbered_symbols("t", real=True) if symbol.name not in taken)
    shared, reduced = sp.cse([*(value for _, value in kernel.body), *values], symbols=fresh, order="none")
    count = len(kernel.body)
    outputs = tuple(reduced[count:])
    assignments = tuple(shared)
    if count:
        body = [(name, value) for (name, _), value in zip(kernel.body, reduced[:count], strict=True)]
        assignments = _live(_in_order(shared, body), outputs)
    after = sum(int(sp.count_ops(value)) for value in [*(value for _, value in assignments), *outputs])
    return Program(kernel, assignments, outputs, _expanded_operations(kernel, values), after)
