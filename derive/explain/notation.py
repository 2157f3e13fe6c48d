"""Names of the index blocks and token matrices of a network, and definitions that use them."""

from dataclasses import dataclass

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from ..architecture import Architecture, IndexBlock
from .lines import to_latex, to_text


class Activated(sp.MatrixExpr):
    """The activation sigma of a matrix of scores, kept as a name.

    Parameters
    ----------
    scores : sympy.MatrixExpr
        beta times the scores.
    """

    def __new__(cls, scores: sp.MatrixExpr) -> "Activated":
        """Keep the scores unevaluated."""
        return sp.Basic.__new__(cls, scores)

    @property
    def scores(self) -> sp.MatrixExpr:
        """What sigma acts on."""
        return self.args[0]

    @property
    def shape(self) -> tuple[sp.Expr, sp.Expr]:
        """Shape of the scores."""
        return self.scores.shape

    def _sympystr(self, printer: StrPrinter) -> str:
        return f"sigma({printer.doprint(self.scores)})"

    def _latex(self, printer: LatexPrinter) -> str:
        return rf"\sigma\left({printer.doprint(self.scores)}\right)"


@dataclass(frozen=True)
class Definition:
    """One line of the layered form: ``name = value``.

    Attributes
    ----------
    name : sympy.MatrixSymbol
        Matrix that the line defines.
    value : sympy.MatrixExpr
        In matrices of earlier lines, indices and constants.
    """

    name: sp.MatrixSymbol
    value: sp.MatrixExpr

    @property
    def text(self) -> str:
        """The line as plain text."""
        return f"{self.name} = {to_text(self.value)}"

    @property
    def latex(self) -> str:
        """The line as LaTeX, without delimiters."""
        return f"{to_latex(self.name)} = {to_latex(self.value)}"


def subscript(model: Architecture, layer: object, *heads: object) -> str:
    """Return the subscript of a symbol; numbers of two digits need a mark between them."""
    return f"{layer}," + ("." if model.heads > 9 else "").join(map(str, heads)) if heads else f"{layer}"


def block_symbol(model: Architecture, block: IndexBlock) -> sp.MatrixSymbol:
    """Return the matrix symbol of an index block: h_l, or k_l and q_l; with several heads h_l,ab."""
    heads = () if model.heads == 1 else (block.head, block.block)
    return sp.MatrixSymbol(f"{block.role}_{subscript(model, block.layer, *heads)}", block.rank, model.tokens)


def readout_weight(model: Architecture, layer: int, a: int, b: int) -> sp.Symbol:
    """Return the symbol of the readout weight o_l,ab."""
    return sp.Symbol(f"o_{subscript(model, layer, a, b)}", real=True)


def token_matrix(model: Architecture, letter: str, layer: int, *heads: int) -> sp.MatrixSymbol:
    """Return an M x M matrix symbol of one layer, of one head or one pair of heads: S_l,a or B_l,ab."""
    return sp.MatrixSymbol(f"{letter}_{subscript(model, layer, *heads)}", model.tokens, model.tokens)
