"""The denoiser g_out and its derivative from the posterior moments of the indices (12)."""

from dataclasses import dataclass

import sympy as sp

from . import symbols
from .channel import gaussian_log_density
from .proof import prove_equal

__all__ = ["Denoiser", "denoiser_from_moments", "prove_moment_identities"]


@dataclass(frozen=True)
class Denoiser:
    """The denoiser and its derivative, from posterior moments.

    Attributes
    ----------
    g_out : sympy.Matrix
        P x M, the gradient of log Z_out with respect to omega (12).
    d_g_out : sympy.Matrix
        PM x PM, symmetric; row and column order is token by token: entry (m P + k, m' P + k').
    """

    g_out: sp.Matrix
    d_g_out: sp.Matrix


def _stack(matrix: sp.Matrix) -> sp.Matrix:
    """Return the columns of a P x M matrix below each other, token by token."""
    return sp.Matrix([matrix[k, m] for m in range(matrix.cols) for k in range(matrix.rows)])


def denoiser_from_moments(
    mean: sp.Matrix, second_moment: sp.Matrix, omega: sp.Matrix, covariance: sp.Matrix
) -> Denoiser:
    """Return g_out and its derivative from the posterior mean and second moment of the indices.

    ``g_out = V^{-1}(E[h|y] - omega)`` and
    ``d g_out/d omega = V^{-1} Cov[h|y] V^{-1} - V^{-1} (x) delta_{mm'}``.

    Parameters
    ----------
    mean : sympy.Matrix
        E[h|y], P x M.
    second_moment : sympy.Matrix
        E[h h^T|y] of the stacked indices, PM x PM, token by token.
    omega : sympy.Matrix
        P x M.
    covariance : sympy.Matrix
        V, P x P.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    References
    ----------
    troiani2025, (12).
    """
    indices, tokens = mean.shape
    size = indices * tokens
    if second_moment.shape != (size, size) or omega.shape != mean.shape or covariance.shape != (indices, indices):
        raise ValueError(
            f"mean is {indices} x {tokens}, so the second moment must be {size} x {size}, "
            f"omega {indices} x {tokens} and V {indices} x {indices}; "
            f"got {second_moment.shape}, {omega.shape}, {covariance.shape}"
        )
    precision = covariance.inv(method="ADJ")
    stacked = _stack(mean)
    blocks = sp.diag(*[precision] * tokens)
    posterior = second_moment - stacked * stacked.T
    return Denoiser(precision * (mean - omega), blocks * posterior * blocks - blocks)


def prove_moment_identities(indices: int, tokens: int) -> None:
    """Prove that the first two derivatives of N(h; omega, V) in omega are moments, so that (12) is one too.

    With S = V^{-1}(h - omega): ``dN = S N`` and ``d^2 N = (S S^T - V^{-1} (x) delta_{mm'}) N``.  Averaging
    over the weight of the channel turns them into g_out and d g_out as in `denoiser_from_moments`.

    Raises
    ------
    ProofError
        If a derivative differs.
    """
    h = sp.Matrix(indices, tokens, lambda k, m: sp.Symbol(f"h_{k + 1}_{m + 1}", real=True))
    omega = symbols.omega_matrix(indices, tokens)
    covariance = symbols.weight_covariance(indices)
    exponent = gaussian_log_density(h, omega, covariance)
    # A delta function at h has mean h and second moment h h^T; its covariance is zero.
    stacked = _stack(h)
    made = denoiser_from_moments(h, stacked * stacked.T, omega, covariance)
    unknowns = _stack(omega)
    gradient = sp.Matrix([sp.diff(exponent, unknown) for unknown in unknowns])
    prove_equal(gradient, _stack(made.g_out), "score of the channel")
    prove_equal(gradient.jacobian(unknowns), made.d_g_out, "curvature of the channel")
