"""The reduced output channel of deep attention and its log-integrand.

The channel integrates the delta function of the link over all P x M indices.  For a tied rank-1 last layer the
delta function solves for h_L, and what remains is an integral over the indices of the earlier layers.  For any
other last layer it leaves a fibre of h_L, which is integrated over as well.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import sympy as sp

from . import symbols
from .architecture import Architecture
from .fibres import Fibre, Range, fibre
from .mixing import mixing_matrices
from .proof import prove_equal
from .softmax_pair import pair_layer

__all__ = [
    "FibreChannel",
    "ReducedChannel",
    "fibre_channel",
    "gaussian_log_density",
    "last_indices",
    "prove_change_of_variables",
    "reduced_channel",
    "two_layer_log_integrand",
]


def gaussian_log_density(h: sp.Matrix, omega: sp.Matrix, covariance: sp.Matrix) -> sp.Expr:
    """Return log N(h; omega, V) of independent columns that share one covariance.

    ``-(M/2) log det(2 pi V) - (1/2) sum_m (h_m - omega_m)^T V^{-1} (h_m - omega_m)``.

    Parameters
    ----------
    h, omega : sympy.Matrix
        Shape P x M.
    covariance : sympy.Matrix
        V, shape P x P, positive definite.

    References
    ----------
    troiani2025, (9).
    """
    indices, tokens = h.shape
    if omega.shape != h.shape or covariance.shape != (indices, indices):
        raise ValueError(
            f"h is {indices} x {tokens}, so omega must be as well and V {indices} x {indices}; "
            f"got {omega.shape} and {covariance.shape}"
        )
    determinant = covariance.det()
    deviation = h - omega
    # The adjugate keeps one common denominator.
    form = (deviation.T * covariance.adjugate() * deviation).trace() / determinant
    return -sp.Rational(tokens, 2) * sp.log((2 * sp.pi) ** indices * determinant) - form / 2


@dataclass(frozen=True, kw_only=True)
class GaussianChannel:
    """What every channel has: its indices h, P x M, their mean omega, P x M, and their covariance V, P x P."""

    h: sp.Matrix
    omega: sp.Matrix
    covariance: sp.Matrix

    @cached_property
    def log_gaussian(self) -> sp.Expr:
        """Value of log N(h; omega, V); with symbols for V it grows with P!, so put numbers in first, by `at`."""
        return gaussian_log_density(self.h, self.omega, self.covariance)

    def at(self, omega: sp.Matrix, covariance: sp.Matrix) -> Self:
        """Return the channel with values (or other expressions) for omega (P x M) and V (P x P)."""
        return replace(self, omega=omega, covariance=covariance)


@dataclass(frozen=True, kw_only=True)
class ReducedChannel(GaussianChannel):
    """The integrand of ``Z_out(y; omega, V) = J(y)^{-1} sum_v Int dh_1 .. dh_{L-1} exp(log_integrand)``.

    Attributes
    ----------
    model : Architecture
    variables : tuple of sympy.Symbol
        Entries of h_1 .. h_{L-1}, the variables of the integral; empty at L = 1.
    readout : sympy.Matrix
        Row v of symbols, 1 x M; sums run over the branches v(y).
    h : sympy.Matrix
        All indices, P x M; the last row is h_L = v B_{L-1}^{-T} as a function of the others.
    omega : sympy.Matrix
        P x M.
    covariance : sympy.Matrix
        V, P x P.
    determinant : sympy.Expr
        det B_{L-1}; its absolute value divides the density.
    """

    model: Architecture
    variables: tuple[sp.Symbol, ...]
    readout: sp.Matrix
    determinant: sp.Expr

    @property
    def log_integrand(self) -> sp.Expr:
        """Value of log N(h; omega, V) - log|det B_{L-1}|, the exponent in (168)-(170)."""
        return self.log_gaussian - sp.log(sp.Abs(self.determinant))


def reduced_channel(model: Architecture) -> ReducedChannel:
    """Derive the reduced channel of a model with rank 1 in its last layer.

    Parameters
    ----------
    model : Architecture
        Any depth, number of tokens and ranks of the earlier layers.

    Returns
    -------
    ReducedChannel
        With symbols for omega and V.

    Raises
    ------
    ValueError
        If the last layer has more than one index, is untied, has several heads, or the sequence is the output: then
        y leaves more than a sign free; see `fibre_channel` and `derive.sequence_inversion`.

    References
    ----------
    troiani2025, (163)-(170), Corollary E.1.
    """
    if not model.single:
        raise ValueError(
            f"the reduced channel needs tied attention with one head and the last layer observed, got {model.name}; "
            "see fibre_channel for untied layers and derive.sequence_inversion for sequence outputs"
        )
    if model.rank_vector[-1] != 1:
        raise ValueError(
            f"the reduced channel needs rank 1 in the last layer, got {model.rank_vector[-1]}: "
            "with more the output fixes v up to a rotation only; see fibre_channel"
        )
    earlier = model.index_matrices()[:-1]
    mixing = mixing_matrices(model, earlier)[-1]
    readout, _ = symbols.readout_symbols(model.tokens)
    last, determinant = last_indices(mixing, readout)
    h = sp.Matrix.vstack(*earlier, last)
    omega = symbols.omega_matrix(model.indices, model.tokens)
    covariance = symbols.weight_covariance(model.indices)
    variables = tuple(entry for matrix in earlier for entry in matrix)
    return ReducedChannel(
        model=model,
        variables=variables,
        readout=readout,
        h=h,
        omega=omega,
        covariance=covariance,
        determinant=determinant,
    )


@dataclass(frozen=True, kw_only=True)
class FibreChannel(GaussianChannel):
    """The integrand of ``Z_out = sum_signs Int dh_1 .. dh_{L-1} d(fibre) exp(log_integrand)`` for any last layer.

    Attributes
    ----------
    model : Architecture
    fibre : Fibre
        Of the last layer: the data that stand for y, and the coordinates that Z_out is the density of.
    variables : tuple of sympy.Symbol
        Entries of h_1 .. h_{L-1} (k_l and q_l if untied), then the fibre variables.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        Ranges of the variables.
    signs : tuple of sympy.Symbol
        Each summed over +1 and -1.
    h : sympy.Matrix
        All indices, P x M, as functions of the variables, the signs and the data.
    omega, covariance : sympy.Matrix
        P x M and P x P.
    determinant : sympy.Expr
        det B_{L-1}.
    """

    model: Architecture
    fibre: Fibre
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    determinant: sp.Expr

    @property
    def power(self) -> int:
        """Power of 1/|det B_{L-1}|: the number of rows of the readout, r_L if tied and 2 r_L if not."""
        return int(self.fibre.readout.rows)

    @property
    def log_integrand(self) -> sp.Expr:
        """Value of log N(h; omega, V) - power log|det B_{L-1}| + log-density of the fibre."""
        return self.log_gaussian - self.power * sp.log(sp.Abs(self.determinant)) + self.fibre.log_density


def last_indices(mixing: sp.Matrix, readout: sp.Matrix) -> tuple[sp.Matrix, sp.Expr]:
    """Return h_L = v B^{-T} by cofactors, and det B."""
    determinant = mixing.det(method="berkowitz")
    return (mixing.adjugate() * readout.T / determinant).T, determinant


def fibre_channel(model: Architecture) -> FibreChannel:
    """Derive the reduced channel of a model with any last layer, one head.

    With h_L = v B_{L-1}^{-T} row by row, dh_L = |det B_{L-1}|^{-r_L} dv (tied) or |det B_{L-1}|^{-2 r_L} dv
    (untied: keys and queries), and dv is that of the fibre.

    Parameters
    ----------
    model : Architecture
        One head, output "last"; any depth, rank, number of tokens, tied or untied.

    Returns
    -------
    FibreChannel
        With symbols for omega and V. Its Z_out is the density of `Fibre.coordinates`.

    Raises
    ------
    ValueError
        For several heads, a sequence output, or an activation without a known inverse.

    References
    ----------
    troiani2025, (163)-(170), Corollary E.1, for rank 1; derived.
    """
    found = fibre(model)
    matrices = model.index_matrices()[:-1]
    mixing = mixing_matrices(model, matrices)[-1]
    last, determinant = last_indices(mixing, found.readout)
    h = sp.Matrix.vstack(*matrices, last)
    omega = symbols.omega_matrix(model.indices, model.tokens)
    covariance = symbols.weight_covariance(model.indices)
    earlier = tuple(entry for matrix in matrices for entry in matrix)
    return FibreChannel(
        model=model,
        fibre=found,
        variables=(*earlier, *found.variables),
        ranges=(*(((-sp.oo, sp.oo),) * len(earlier)), *found.ranges),
        signs=found.signs,
        h=h,
        omega=omega,
        covariance=covariance,
        determinant=determinant,
    )


def prove_change_of_variables(tokens: int) -> None:
    """Prove that v = h_L B^T has |d v/d h_L| = |det B|, so that dh_L = dv/|det B|, (165)-(168).

    The matrix B has one symbol per entry; it does not depend on h_L, since (5) uses earlier layers alone.

    Raises
    ------
    ProofError
        If the derivative is not B, or the cofactors of `reduced_channel` do not invert it.
    """
    matrix = sp.Matrix(tokens, tokens, lambda i, j: sp.Symbol(f"B_{i + 1}_{j + 1}", real=True))
    last = sp.Matrix(1, tokens, lambda _, m: sp.Symbol(f"h_{m + 1}", real=True))
    readout = last * matrix.T
    derivative = sp.Matrix(tokens, tokens, lambda i, j: sp.diff(readout[i], last[j]))
    prove_equal(derivative, matrix, f"derivative of the readout at M = {tokens}")
    solved = matrix.adjugate() * readout.T
    determinant = matrix.det(method="berkowitz")
    prove_equal(solved, determinant * last.T, f"inverse of the readout by cofactors at M = {tokens}")


def two_layer_log_integrand(model: Architecture) -> sp.Expr:
    """Return the log-integrand of two softmax layers at M = 2 in modes, as the kernels use it.

    With h_1 = x: ``log N((x_p, a), omega_p, V) + log N((x_m, b), omega_m, V) - log((1 + c)(c + tau))``, where
    ``b = v_m/(c + tau)`` and ``a = (v_p - s b)/(1 + c)``.  The modes of omega are the symbols
    ``omega_1_1, omega_2_1`` (plus) and ``omega_1_2, omega_2_2`` (minus): a rotation of the tokens keeps the
    Gaussian law.

    Parameters
    ----------
    model : Architecture
        L = 2, M = 2, rank 1, softmax.

    Returns
    -------
    sympy.Expr
        In the symbols xp, xm, vp, vm.

    Raises
    ------
    ValueError
        For any other model.

    References
    ----------
    troiani2025, (169)-(170).
    """
    if not model.single or model.layers != 2 or model.rank_vector != (1, 1):
        raise ValueError(
            f"needs two layers of rank 1, tied, one head, got {model.layers} layers of ranks {model.rank_vector} of "
            f"{model.name}"
        )
    layer = pair_layer(model, symbols.xp, symbols.xm)
    minus = symbols.vm / (model.skip + layer.tau)
    plus = (symbols.vp - layer.s * minus) / (1 + model.skip)
    h = sp.Matrix([[symbols.xp, symbols.xm], [plus, minus]])
    gaussian = gaussian_log_density(h, symbols.omega_matrix(2, 2), symbols.weight_covariance(2))
    return gaussian - sp.log((1 + model.skip) * (model.skip + layer.tau))
