"""Two tied linear layers of rank 1 and two tokens, solved: the output y = B_2 leaves eight points.

The general channel of `derive.sequence_inversion` has two equations for the two entries of h_1 here; these are their
solutions in closed form.
"""

import sympy as sp

from . import symbols
from .architecture import Architecture
from .proof import prove_equal
from .sequence_channel import SequenceChannel

__all__ = ["linear_pair", "prove_linear_pair"]


def linear_pair(model: Architecture) -> SequenceChannel:
    """Solve y = c^2 (I + a a^T)(I + b b^T) for a and b, the readouts of the second and first layer over sqrt(c/beta).

    N = y/c^2 - I has four invariants for the four unknowns: with alpha = |a|^2, gamma = |b|^2, x = a.b and the cross
    product k = a_1 b_2 - a_2 b_1, ``Tr N = alpha + gamma + x^2``, ``det(I + N) = (1 + alpha)(1 + gamma)``,
    ``N_12 - N_21 = x k``, ``alpha gamma = x^2 + k^2``; the direction of the traceless symmetric part gives that of a.
    Which of alpha and gamma is larger, and the signs of a and b, are free.  |d N/d(a, b)| = 4 k^2 |alpha - gamma|.

    Parameters
    ----------
    model : Architecture
        Output "sequence", tied, linear, one head, L = 2, M = 2, rank 1.

    Returns
    -------
    SequenceChannel
        Without variables and equations: the sum over three signs is the whole channel.

    Raises
    ------
    ValueError
        For any other model.

    References
    ----------
    troiani2025, (25)-(26); derived.
    """
    if (model.activation, model.tied, model.heads, model.tokens, model.rank_vector, model.output) != (
        *("linear", True, 1, 2, (1, 1)),
        "sequence",
    ):
        raise ValueError(
            "the eight points are those of the sequence output (25) of two tied linear layers of rank 1, two tokens, "
            f"one head; got {model.name} with ranks {model.rank_vector}; see derive.sequence_inversion.sequence_channel"
        )
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
        model=model,
        output=y,
        coordinates=tuple(y),
        dependent=(),
        body=(),
        attentions=(skip * a.T * a,),
        conditions=(square, total, discriminant),
        equations=(),
        jacobian=sp.zeros(0, 0),
        earlier=(),
        fibre_variables=(),
        fibre_ranges=(),
        signs=tuple(signs),
        h=h,
        omega=symbols.omega_matrix(2, 2),
        covariance=symbols.weight_covariance(2),
        log_weight=-sp.log(jacobian),
        log_surface_weight=-sp.log(jacobian),
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
