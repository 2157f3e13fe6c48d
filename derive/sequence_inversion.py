"""The reduced channel of sequence-to-sequence outputs y = B_L.

With A_L = c I + sigma(beta k_L^T q_L) and B_L = A_L B_{L-1}, the indices h_1 .. h_{L-1} and the output fix the
attention matrix of the last layer, ``S = y B_{L-1}^{-1} - c I``.  If the attention matrices of the last layer fill all
matrices of their kind (row sums one for softmax: M (M - 1) degrees of freedom; M^2 otherwise), every S in the range of
the activation is one of its outputs, and Z_out is the integral over h_1 .. h_{L-1}, restricted to that range, and over
the fibre of S.  If they fill a surface only, h_1 .. h_{L-1} must obey as many equations as dimensions are missing; this
is solved for two linear layers of rank 1 and two tokens, where y leaves eight points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from . import symbols
from .architecture import Architecture
from .channel import gaussian_log_density, last_indices
from .fibres import Fibre, Range, entry_jacobian, fibre, fibre_dimension
from .mixing import mixing_matrices
from .proof import prove_equal

__all__ = ["SequenceChannel", "missing_dimensions", "prove_linear_pair", "sequence_channel"]


@dataclass(frozen=True)
class SequenceChannel:
    """The integrand of ``Z_out = sum_signs Int dh_1 .. dh_{L-1} d(fibre) exp(log_integrand)`` for y = B_L.

    Attributes
    ----------
    model : Architecture
    output : sympy.Matrix
        y, M x M symbols.
    coordinates : tuple of sympy.Expr
        Functions of y that Z_out is the density of.
    attention : sympy.Matrix
        S = y B_{L-1}^{-1} - c I as a function of y and h_1 .. h_{L-1}.
    conditions : tuple of sympy.Expr
        The integrand counts only where all of them are > 0; it is zero elsewhere.
    variables : tuple of sympy.Symbol
        Entries of h_1 .. h_{L-1}, then the fibre variables.
    ranges : tuple of (sympy.Expr, sympy.Expr)
    signs : tuple of sympy.Symbol
        Each summed over +1 and -1.
    h : sympy.Matrix
        All indices, P x M.
    omega, covariance : sympy.Matrix
        P x M and P x P.
    log_weight : sympy.Expr
        log of the Jacobian, |d h_L / d(coordinates, fibre variables)| at fixed h_1 .. h_{L-1}.
    """

    model: Architecture
    output: sp.Matrix
    coordinates: tuple[sp.Expr, ...]
    attention: sp.Matrix
    conditions: tuple[sp.Expr, ...]
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    h: sp.Matrix
    omega: sp.Matrix
    covariance: sp.Matrix
    log_weight: sp.Expr

    @property
    def log_gaussian(self) -> sp.Expr:
        """Value of log N(h; omega, V); with symbols for V it grows with P!, so put numbers in first, by `at`."""
        return gaussian_log_density(self.h, self.omega, self.covariance)

    @property
    def log_integrand(self) -> sp.Expr:
        """Exponent of the integrand where the conditions hold."""
        return self.log_gaussian + self.log_weight

    def at(self, omega: sp.Matrix, covariance: sp.Matrix) -> SequenceChannel:
        """Return the channel with values (or other expressions) for omega (P x M) and V (P x P)."""
        return replace(self, omega=omega, covariance=covariance)


def _last(model: Architecture) -> Architecture:
    if model.output != "sequence":
        raise ValueError("the output must be 'sequence', y = B_L (25); for the last attention matrix see derive.fibres")
    return replace(model, output="last")


def missing_dimensions(model: Architecture) -> int:
    """Return how many equations the output y = B_L puts on h_1 .. h_{L-1}, for L >= 2.

    Degrees of freedom of an M x M matrix (M (M - 1) for softmax, whose rows sum to one) less those of the last layer's
    attention matrices, which are its readout's entries less the dimension of the fibre. Zero for softmax with M = 2,
    tied or untied, and for untied layers with r >= M - 1 (linear: r >= M).

    Parameters
    ----------
    model : Architecture
        Output "sequence", one head.

    References
    ----------
    troiani2025, (25)-(26); derived.
    """
    last, tokens = _last(model), model.tokens
    entries = (1 if model.tied else 2) * model.rank_vector[-1] * tokens
    whole = tokens * (tokens - 1) if model.activation == "softmax" else tokens**2
    return whole - (entries - fibre_dimension(last))


def sequence_channel(model: Architecture) -> SequenceChannel:
    """Derive the reduced channel of a sequence output.

    One layer: y - c I is the attention matrix, and the channel is that of its fibre, for every rank. More layers: as
    above, with ``|d y / d S| = (|det B_{L-1}|/kappa)^M`` for softmax, where kappa = (1 + c)^{L-1} is the row sum of
    B_{L-1} and the last column of y is left out, and |det B_{L-1}|^M for the linear activation.

    Parameters
    ----------
    model : Architecture
        Output "sequence", one head, softmax or linear.

    Returns
    -------
    SequenceChannel
        Coordinates of one layer: those of `derive.fibres.fibre` at y - c I. Of more layers: the entries y_ab but for
        the last column (linear: all entries). Two tied linear layers of rank 1 and two tokens have no variables: y
        leaves the eight points of three signs.

    Raises
    ------
    ValueError
        For another output, several heads, an activation given as a function, and where the attention matrices of the
        last layer fill a surface only (`missing_dimensions` > 0) at L >= 2.

    References
    ----------
    troiani2025, (25)-(26), (163)-(170); derived.
    """
    last = _last(model)
    tokens = model.tokens
    found = fibre(last)
    lacking = missing_dimensions(model)
    if (model.activation, model.tied, tokens, model.rank_vector) == ("linear", True, 2, (1, 1)):
        return _linear_pair(model)
    if model.layers > 1 and lacking:
        raise ValueError(
            f"y = B_{model.layers} puts {lacking} equation(s) on the indices of the earlier layers: the attention "
            f"matrices of the last layer, rank {model.rank_vector[-1]}, fill a surface of that codimension; the "
            "reduced channel is derived for softmax with 2 tokens, for untied layers of rank >= tokens - 1 (softmax) "
            "or >= tokens (linear), and for two tied linear layers of rank 1 with 2 tokens"
        )
    matrices = model.index_matrices()[:-1]
    mixing = mixing_matrices(last, (*matrices, model.index_matrices()[-1]))[-1]
    y = found.output
    determinant = mixing.det(method="berkowitz")
    attention = y * mixing.adjugate() / determinant - model.skip * sp.eye(tokens)
    place = dict(zip(y, attention, strict=True))
    data = {symbol: value.xreplace(place) for symbol, value in found.data}
    readout, log_fibre = found.readout.xreplace(data), found.log_density.xreplace(data)
    h_last, determinant = last_indices(mixing, readout)
    log_weight = log_fibre - readout.rows * sp.log(sp.Abs(determinant))
    if model.layers == 1:
        coordinates = tuple(value.xreplace(place) for value in found.coordinates)
    else:
        _, to_entries = entry_jacobian(found)
        log_weight -= sp.log(to_entries.xreplace(place))
        softmax = model.activation == "softmax"
        scale = (1 + model.skip) ** (model.layers - 1) if softmax else sp.S.One
        log_weight -= tokens * (sp.log(sp.Abs(determinant)) - sp.log(scale))
        coordinates = tuple(y[:, : tokens - 1]) if softmax else tuple(y)
    h = sp.Matrix.vstack(*matrices, h_last)
    omega = symbols.omega_matrix(model.indices, tokens)
    covariance = symbols.weight_covariance(model.indices)
    earlier = tuple(entry for matrix in matrices for entry in matrix)
    return SequenceChannel(
        model,
        y,
        coordinates,
        attention,
        _conditions(found, attention, data),
        (*earlier, *found.variables),
        (*(((-sp.oo, sp.oo),) * len(earlier)), *found.ranges),
        found.signs,
        h,
        omega,
        covariance,
        log_weight,
    )


def _linear_pair(model: Architecture) -> SequenceChannel:
    """Solve y = c^2 (I + a a^T)(I + b b^T) for a and b, the readouts of the second and first layer over sqrt(c/beta).

    N = y/c^2 - I has four invariants for the four unknowns: with alpha = |a|^2, gamma = |b|^2, x = a.b and the cross
    product k = a_1 b_2 - a_2 b_1, ``Tr N = alpha + gamma + x^2``, ``det(I + N) = (1 + alpha)(1 + gamma)``,
    ``N_12 - N_21 = x k``, ``alpha gamma = x^2 + k^2``; the direction of the traceless symmetric part gives that of a.
    Which of alpha and gamma is larger, and the signs of a and b, are free.  |d N/d(a, b)| = 4 k^2 |alpha - gamma|.
    """
    y = sp.Matrix(2, 2, lambda i, j: sp.Symbol(f"y{i + 1}{j + 1}", real=True))
    skip, beta = model.skip, model.beta
    first, second, larger = signs = sp.symbols("sign_1 sign_2 sign_larger", real=True)
    number = y / skip**2 - sp.eye(2)
    trace, twist = number.trace(), number[0, 1] - number[1, 0]
    square = (1 + number[0, 0]) * (1 + number[1, 1]) - number[0, 1] * number[1, 0] - 1 - trace  # k^2
    x = sp.Abs(twist) / sp.sqrt(square)
    cross = sp.sign(twist) * sp.sqrt(square)
    total = trace - x**2
    discriminant = total**2 - 4 * (square + x**2)
    alpha = (total + larger * sp.sqrt(discriminant)) / 2
    gamma = total - alpha
    # In complex form the traceless symmetric part is e^{2 i phi} times its value for a along the first axis.
    real, imaginary = alpha + (x**2 - square) / alpha + x**2, 2 * twist / alpha + twist
    plain, mixed = number[0, 0] - number[1, 1], number[0, 1] + number[1, 0]
    phi = sp.atan2(mixed * real - plain * imaginary, plain * real + mixed * imaginary) / 2
    cosine, sine = sp.cos(phi), sp.sin(phi)
    scale = sp.sqrt(skip / beta)
    a = sp.sqrt(alpha) * sp.Matrix([[cosine, sine]])
    b = sp.Matrix([[x * cosine - cross * sine, x * sine + cross * cosine]]) / sp.sqrt(alpha)
    # h_2 = a scale B_1^{-1}, B_1 = c (I + b^T b).
    h = sp.Matrix.vstack(first * scale * b, second * scale / skip * (a - x * b / (1 + gamma)))
    # c^8 of y, (beta/c)^2 of a and b, c^2 (1 + gamma) = det B_1 of h_2.
    jacobian = 4 * beta**2 * skip**8 * square * sp.Abs(alpha - gamma) * (1 + gamma)
    return SequenceChannel(
        model,
        y,
        tuple(y),
        skip * a.T * a,
        (square, total, discriminant),
        (),
        (),
        tuple(signs),
        h,
        symbols.omega_matrix(2, 2),
        symbols.weight_covariance(2),
        -sp.log(jacobian),
    )


def prove_linear_pair() -> None:
    """Prove the four invariants, the Jacobian and the direction that solve two linear layers of two tokens.

    Raises
    ------
    ProofError
        If one of the identities fails.
    """
    a, b = sp.Matrix(sp.symbols("a_1 a_2", real=True)), sp.Matrix(sp.symbols("b_1 b_2", real=True))
    number = (sp.eye(2) + a * a.T) * (sp.eye(2) + b * b.T) - sp.eye(2)
    alpha, gamma, x, cross = a.dot(a), b.dot(b), a.dot(b), a[0] * b[1] - a[1] * b[0]
    prove_equal(number.trace(), alpha + gamma + x**2, "trace of two linear layers")
    prove_equal((number + sp.eye(2)).det(), (1 + alpha) * (1 + gamma), "determinant of two linear layers")
    prove_equal(number[0, 1] - number[1, 0], x * cross, "antisymmetric part of two linear layers")
    prove_equal(alpha * gamma, x**2 + cross**2, "lengths, product and cross product")
    derivative = sp.Matrix(list(number)).jacobian([*a, *b]).det(method="berkowitz")
    prove_equal(derivative, -4 * cross**2 * (alpha - gamma), "Jacobian of two linear layers")
    # (a_1 + i a_2)^2 = alpha e^{2 i phi}; both sides times alpha^2, real and imaginary parts.
    real, imaginary = alpha**2 + x**2 - cross**2 + alpha * x**2, 2 * x * cross + alpha * x * cross
    turn = a[0] ** 2 - a[1] ** 2, 2 * a[0] * a[1]
    symmetric = sp.Matrix([number[0, 0] - number[1, 1], number[0, 1] + number[1, 0]])
    wanted = sp.Matrix([turn[0] * real - turn[1] * imaginary, turn[1] * real + turn[0] * imaginary])
    prove_equal(alpha**2 * symmetric, wanted, "direction of two linear layers")


def _conditions(found: Fibre, attention: sp.Matrix, data: dict[sp.Symbol, sp.Expr]) -> tuple[sp.Expr, ...]:
    """Return what must be positive: softmax entries, and the Gram matrix of a tied readout by its leading minors."""
    conditions = list(attention) if found.model.activation == "softmax" else []
    if found.model.tied:
        gram = [symbol for symbol, _ in found.data if symbol.name.startswith("C_")]
        size = int((sp.sqrt(8 * len(gram) + 1) - 1) / 2)
        matrix = sp.zeros(size, size)
        for symbol in gram:
            i, j = (int(part) - 1 for part in symbol.name.split("_")[1:])
            matrix[i, j] = matrix[j, i] = symbol
        for order in range(1, size + 1):
            conditions.append(matrix[:order, :order].det(method="berkowitz").xreplace(data))
    return tuple(conditions)
