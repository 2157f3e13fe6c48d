"""The intermediate form: ordered assignments and outputs, shared once, the same for every printer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import sympy as sp

from ..kernel import Kernel
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
        Operations of the expression trees, and after sharing subtrees.
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

    def specialise(self, bounded: bool) -> Program:
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


def lower(kernel: Kernel) -> Program:
    """Share the subtrees of a kernel's outputs and return its straight-line form.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Program

    Raises
    ------
    ValueError
        If an output is not exact or uses a symbol that is no argument.
    """
    values = [sp.sympify(value) for _, value in kernel.outputs]
    for (name, _), value in zip(kernel.outputs, values, strict=True):
        if value.has(sp.Float):
            raise ValueError(f"{kernel.name}: output {name} holds a float; kernels are exact until printed")
        unknown = sorted(symbol.name for symbol in value.free_symbols - set(kernel.arguments))
        if unknown:
            raise ValueError(f"{kernel.name}: output {name} uses {', '.join(unknown)}, which is no argument")
    assignments, outputs = sp.cse(values, symbols=sp.numbered_symbols("t", real=True), order="none")
    after = sum(int(sp.count_ops(value)) for value in [*(value for _, value in assignments), *outputs])
    before = sum(int(sp.count_ops(value)) for value in values)
    return Program(kernel, tuple(assignments), tuple(outputs), before, after)
