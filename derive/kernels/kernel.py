"""What the generator is given: kernels as exact expressions, and the proofs they must pass."""

from collections.abc import Callable
from dataclasses import dataclass, field

import sympy as sp

from ..architecture import Architecture

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
    body : tuple of (sympy.Symbol, sympy.Expr)
        Ordered assignments that the outputs build on; each value uses arguments and earlier names only.
    meanings : tuple of (str, str, str)
        Name, domain and meaning of every argument that `derive.symbols.ARGUMENTS` does not hold.
    total : bool
        True if every output is finite at all finite arguments, but for the range of float64; False if the domain ends
        somewhere and outputs are infinite or undefined there.
    refuses : bool
        True if the compiled version also raises where an output is not finite; False leaves that to its callers.
    towers : bool
        True if exponentials may be nested, so that numbers may leave even what arbitrary precision holds.
    plain : bool
        True if the outputs are sums and products of the arguments, to be printed for numbers of any kind as well.
    paper : str
        Citekey of the paper that `equations` counts in.
    """

    name: str
    arguments: tuple[sp.Symbol, ...]
    outputs: tuple[tuple[str, sp.Expr], ...]
    summary: str
    notes: tuple[str, ...]
    equations: tuple[int, ...]
    domain: str
    hot: bool = False
    body: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()
    meanings: tuple[tuple[str, str, str], ...] = ()
    total: bool = True
    refuses: bool = False
    towers: bool = False
    plain: bool = False
    paper: str = "troiani2025"

    def written_out(self) -> dict[str, sp.Expr]:
        """Return the outputs as expressions of the arguments alone, without the names of the body."""
        known: dict[sp.Symbol, sp.Expr] = {}
        for name, value in self.body:
            known[name] = value.xreplace(known)
        return {name: value.xreplace(known) for name, value in self.outputs}


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
    domain : str
        For the headers of its files.
    model : Architecture, optional
        The one model the package is for, where it is not a family.
    compiled : bool
        Whether compiled scalars are printed: where loops of numerics call them, or a user's may.
    precise : bool
        Whether numerics loads the printing for arbitrary precision. If not, it is not committed with the others: the
        tests, whose reference it is, derive it.
    seconds : float
        Time the derivation took, for progress lines; no part of what the package is.
    """

    name: str
    title: str
    activation: str
    tokens: int
    source: str
    kernels: tuple[Kernel, ...]
    prove: Callable[[], None]
    domain: str = "c > 0, beta > 0, all arguments real; each function states its own"
    model: Architecture | None = None
    compiled: bool = True
    precise: bool = True
    seconds: float = field(default=0.0, compare=False)

    @property
    def paper(self) -> str:
        """Citekey of the paper of the kernels."""
        return self.kernels[0].paper

    @property
    def equations(self) -> tuple[int, ...]:
        """Equation numbers of all kernels, sorted."""
        return tuple(sorted({number for kernel in self.kernels for number in kernel.equations}))
