"""The functions that a link written as text may use."""

from collections.abc import Callable

import sympy as sp

__all__ = ["FUNCTIONS", "LISTS", "PRINTED", "ArgMax", "SoftmaxEntry"]


class ArgMax(sp.Function):
    """``ArgMax(z_1, .., z_n)``: the number, counted from 1, of the largest argument."""

    def _eval_is_real(self) -> bool | None:
        return True if all(arg.is_real for arg in self.args) else None


class SoftmaxEntry(sp.Function):
    """``SoftmaxEntry(k, z_1, .., z_n)`` = exp(z_k) / sum_j exp(z_j), k counted from 1."""

    @property
    def elementary(self) -> sp.Expr:
        """The same by exponentials of differences: what overflows has a reciprocal of zero."""
        k, z = int(self.args[0]) - 1, self.args[1:]
        return 1 / (1 + sp.Add(*[sp.exp(other - z[k]) for j, other in enumerate(z) if j != k]))

    def _eval_is_real(self) -> bool | None:
        return True if all(arg.is_real for arg in self.args) else None


def _step(argument: sp.Expr) -> sp.Expr:
    """Return 1 where the argument is positive and 0 where it is negative."""
    return (1 + sp.sign(argument)) / 2


def _relu(argument: sp.Expr) -> sp.Expr:
    """Return the positive part."""
    return sp.Max(0, argument)


#: Of one argument.
FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "sign": sp.sign,
    "abs": sp.Abs,
    "exp": sp.exp,
    "log": sp.log,
    "sqrt": sp.sqrt,
    "tanh": sp.tanh,
    "sinh": sp.sinh,
    "cosh": sp.cosh,
    "sin": sp.sin,
    "cos": sp.cos,
    "erf": sp.erf,
    "relu": _relu,
    "step": _step,
}
#: Of two or more.
LISTS: dict[str, Callable[..., sp.Expr]] = {"max": sp.Max, "min": sp.Min, "argmax": ArgMax}
#: As SymPy prints them.
PRINTED = {"Abs": "abs", "Heaviside": "step", "Max": "max", "Min": "min"}
