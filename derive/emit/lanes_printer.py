"""Printer of expressions for eight numbers at once, as `generated.lanes` computes with them."""

import sympy as sp

from ..primitives import Exp, Smallest
from .printers import Float64Printer, NumbaPrinter

__all__ = ["LanesPrinter"]


class LanesPrinter(Float64Printer):
    """Eight numbers at once (`generated.lanes`); constants stay numbers."""

    root = "math.sqrt"
    functions = {**NumbaPrinter(hot=False).functions, Exp: "exp_lanes"}

    def select(self, sign: str, value: str, other: str) -> str:
        """Return the text of the value where a number is not negative, and of the other one elsewhere."""
        return f"where_less({sign}, 0.0, {other}, {value})"

    def pairwise(self, expr: sp.Expr, arguments: list[str]) -> str:
        """Return the text of the smallest or the largest argument."""
        name = "smaller" if isinstance(expr, Smallest) else "larger"
        text, *others = sorted(arguments, key=lambda text: text[0].isdigit() or text[0] == "-")
        for argument in others:
            text = f"{name}({text}, {argument})"
        return text

    def copysign(self, argument: str) -> str:
        """Return the text of +-1 with the sign of the argument."""
        return f"where_less({argument}, 0.0, -1.0, 1.0)"
