"""The integrand of Z_out for a sequence output y = B_L, as a straight-line program."""

from dataclasses import dataclass

import sympy as sp

from .architecture import Architecture
from .channel import GaussianChannel
from .fibres import Range
from .straightline import Assignment

__all__ = ["SequenceChannel"]

LINE: Range = (-sp.oo, sp.oo)


@dataclass(frozen=True, kw_only=True)
class SequenceChannel(GaussianChannel):
    """The integrand of Z_out for y = B_L, as a straight-line program.

    All expressions use the variables, the signs, y, the constants of the model and the names of `body`.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, HM x HM symbols.
    coordinates : tuple of sympy.Symbol
        Entries of y that Z_out is the density of.
    dependent : tuple of sympy.Symbol
        Entries of y that follow from these where the outputs fill a surface only; empty otherwise. (In a softmax block
        the last column follows from the row sums; it is in neither.)
    body : tuple of (sympy.Symbol, sympy.Expr)
        Each value uses earlier names.
    attentions : tuple of sympy.Matrix
        S of every head, M x M names.
    conditions : tuple of sympy.Expr
        The integrand counts only where all of them are > 0; it is zero elsewhere.
    equations : tuple of sympy.Expr
        Must vanish; empty where every y has indices h_L for all h_1 .. h_{L-1}.
    jacobian : sympy.Matrix
        E, the derivative of the equations: one row per equation, one column per entry of `unknowns`.
    earlier : tuple of sympy.Symbol
        Entries of h_1 .. h_{L-1}.
    fibre_variables : tuple of sympy.Symbol
        Continuous variables of the last layer's indices, head by head.
    fibre_ranges : tuple of (sympy.Expr, sympy.Expr)
    signs : tuple of sympy.Symbol
        Each summed over +1 and -1.
    h : sympy.Matrix
        All indices, P x M.
    omega, covariance : sympy.Matrix
        P x M and P x P.
    log_weight : sympy.Expr
        Exponent that goes with the delta functions of the equations, without the Gaussian.
    log_surface_weight : sympy.Expr
        Exponent that goes with the Hausdorff measure on the solutions: log_weight - log sqrt(det(E E^T)).
    """

    model: Architecture
    output: sp.Matrix
    coordinates: tuple[sp.Symbol, ...]
    dependent: tuple[sp.Symbol, ...]
    body: tuple[Assignment, ...]
    attentions: tuple[sp.Matrix, ...]
    conditions: tuple[sp.Expr, ...]
    equations: tuple[sp.Expr, ...]
    jacobian: sp.Matrix
    earlier: tuple[sp.Symbol, ...]
    fibre_variables: tuple[sp.Symbol, ...]
    fibre_ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    log_weight: sp.Expr
    log_surface_weight: sp.Expr

    @property
    def variables(self) -> tuple[sp.Symbol, ...]:
        """Entries of h_1 .. h_{L-1}, then the fibre variables."""
        return (*self.earlier, *self.fibre_variables)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Ranges of the variables."""
        return (*((LINE,) * len(self.earlier)), *self.fibre_ranges)

    @property
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        """What the equations are solved for: entries of h_1 .. h_{L-1}, then the entries of y that follow.

        An output that was observed has the latter's values; then the solutions are those in h_1 .. h_{L-1} alone.
        """
        return (*self.earlier, *self.dependent)

    @property
    def dimension(self) -> int:
        """How many continuous variables y leaves free: those of the solutions, and those of the fibre."""
        return len(self.unknowns) - len(self.equations) + len(self.fibre_variables)

    @property
    def finite(self) -> bool:
        """Whether Z_out is a sum over points: the solutions and the signs."""
        return self.dimension == 0

    @property
    def log_integrand(self) -> sp.Expr:
        """Exponent of the integrand beside the delta functions, where the conditions hold."""
        return self.log_gaussian + self.log_weight
