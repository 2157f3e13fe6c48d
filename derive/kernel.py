"""What the generator is given: kernels as exact expressions, and the proofs they must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

__all__ = ["Kernel", "KernelPackage"]


@dataclass(frozen=True)
class Kernel:
    """One function to generate.

    Attributes
    ----------
    name : str
        Python name.
    arguments : tuple of sympy.Symbol
        In the order of the signature.
    outputs : tuple of (str, sympy.Expr)
        Name and value of every entry of the returned tuple, in basic nodes of `derive.primitives`.
    summary : str
        First line of the docstring.
    notes : tuple of str
        Lines of the docstring: formula, meaning of the outputs, accuracy.
    equations : tuple of int
        Numbers of the equations of the paper it comes from.
    domain : str
        Where the outputs are defined and accurate.
    hot : bool
        True if the compiled version must vectorise in a caller's loop.
    """

    name: str
    arguments: tuple[sp.Symbol, ...]
    outputs: tuple[tuple[str, sp.Expr], ...]
    summary: str
    notes: tuple[str, ...]
    equations: tuple[int, ...]
    domain: str
    hot: bool = False


@dataclass(frozen=True)
class KernelPackage:
    """All kernels of one model family.

    Attributes
    ----------
    name : str
        Folder in ``generated/``.
    title : str
        What the family is, for the docstring.
    activation : str
    tokens : int
    source : str
        Module of the derivation.
    kernels : tuple of Kernel
    prove : callable
        Raises `ProofError` unless every printed form equals the derivation; the generator calls it first.
    """

    name: str
    title: str
    activation: str
    tokens: int
    source: str
    kernels: tuple[Kernel, ...]
    prove: Callable[[], None]

    @property
    def equations(self) -> tuple[int, ...]:
        """Equation numbers of all kernels, sorted."""
        return tuple(sorted({number for kernel in self.kernels for number in kernel.equations}))
