"""A fibre: all readouts of a last layer that give one output, with the measure on them."""

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from ..architecture import Architecture

Range = tuple[sp.Expr, sp.Expr]
LINE: Range = (-sp.oo, sp.oo)


@dataclass(frozen=True)
class Fibre:
    """All readouts v of a last layer that give one output y, with the measure on them.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, M x M symbols ``y<a><b>``, positive for softmax and real otherwise.
    coordinates : tuple of sympy.Expr
        Functions of y that the densities refer to, as many as y has degrees of freedom: entries y_ab for the linear
        activation, log-ratios log(y_ab/y_az) for softmax.
    data : tuple of (sympy.Symbol, sympy.Expr)
        Products of tokens that y fixes, each with its value as a function of y.
    dependent : tuple of (sympy.Expr, sympy.Expr)
        The other scores that y shows, in the form of the coordinates, each with its value in the data. The two are
        equal for every output of the layer, and that they are is the whole condition on y, up to inequalities.
    variables : tuple of sympy.Symbol
        Continuous fibre variables.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        Their ranges, one pair each.
    signs : tuple of sympy.Symbol
        Discrete fibre variables, each +1 or -1.
    readout : sympy.Matrix
        v as a function of data, variables and signs: r x M if tied, k above q (2r x M) if not.
    log_density : sympy.Expr
        log |d v / d(coordinates, variables)|, with the weight of the signs.
    """

    model: Architecture
    output: sp.Matrix
    coordinates: tuple[sp.Expr, ...]
    data: tuple[tuple[sp.Symbol, sp.Expr], ...]
    dependent: tuple[tuple[sp.Expr, sp.Expr], ...]
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    readout: sp.Matrix
    log_density: sp.Expr

    @property
    def finite(self) -> bool:
        """Whether the fibre is a finite set, so that the integral over it is a sum over signs."""
        return not self.variables

    def of_output(self) -> tuple[sp.Matrix, sp.Expr]:
        """Return readout and log-density with the data written as functions of y."""
        values = dict(self.data)
        return self.readout.xreplace(values), self.log_density.xreplace(values)


@dataclass(frozen=True)
class Observed:
    """An output of the last layer, and the tokens in whose vectors its readout is written.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, M x M.
    coordinate : callable
        The coordinate of y for two tokens: a score, or for softmax its difference from that with the reference.
    pivots : list of int
        Tokens that span the readout, counted from 0.
    origin : int
        The reference token of softmax; -1 for other activations.
    """

    model: Architecture
    output: sp.Matrix
    coordinate: Callable[[int, int], sp.Expr]
    pivots: list[int]
    origin: int

    @property
    def others(self) -> list[int]:
        """Tokens that are no pivots."""
        return [t for t in range(self.model.tokens) if t not in self.pivots]
