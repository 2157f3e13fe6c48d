"""Lines and sections of the page of an architecture, and how expressions are printed in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from .. import symbols


@dataclass(frozen=True)
class Line:
    """A formula (``latex`` goes into a display) or a sentence."""

    text: str
    latex: str
    formula: bool = True


@dataclass(frozen=True)
class Section:
    """A titled part of the page."""

    title: str
    lines: Sequence[Line]


def to_text(value: sp.Basic | sp.MatrixBase) -> str:
    """Print an expression or a matrix as plain text."""
    value = value.tolist() if isinstance(value, sp.MatrixBase) else value
    return str(sp.sstr(value)).replace("**", "^")


def to_latex(value: sp.Basic | sp.MatrixBase) -> str:
    """Print an expression or a matrix as LaTeX, without delimiters."""
    return str(sp.latex(value, symbol_names=symbols.LATEX))


def counted(number: int, noun: str) -> str:
    """Write a number of things: no variable, 1 variable, 2 variables."""
    return f"{number or 'no'} {noun}" if number < 2 else f"{number} {noun}s"


def say(text: str, latex: str | None = None) -> Line:
    """Return a line that is a sentence; its LaTeX is the text itself unless it is given."""
    return Line(text, text if latex is None else latex, formula=False)


def equality(name: str, latex_name: str, value: sp.Basic | sp.MatrixBase) -> Line:
    """Return the line ``name = value``."""
    return Line(f"{name} = {to_text(value)}", f"{latex_name} = {to_latex(value)}")
