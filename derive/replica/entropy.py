"""The replicated free entropy as n -> 0, its stationary points, and a channel that is solved at every n.

(139) and (132) give the exponent of E Z^n per dimension, ``(log det Q - Tr Q + (n + 1) P)/2 + alpha log I_out``; its
slope at n = 0 is the free entropy (159)-(160). Where that is stationary in q and qhat, (100)-(103) hold: (14) at rest.
"""

from dataclasses import dataclass

import sympy as sp

from ..proof import prove_equal
from .replica import ReplicaSymmetric, extra_replicas, overlap, overlap_matrix, slope

__all__ = [
    "LinearChannel",
    "free_entropy",
    "linear_channel",
    "prior_slope",
    "prove_linear_channel",
    "prove_prior_slope",
    "prove_stationarity",
]

_ALPHA = sp.Symbol("alpha", positive=True)


def prior_slope(q: sp.Expr = overlap) -> sp.Expr:
    """Return the prior part (144) per replica: its trace over the P indices is (log det(I - q) + Tr q)/2."""
    whole = overlap_matrix(q)
    # Tr Q = (n + 1) P, whatever q is.
    exponent = (whole.log_determinant() - (extra_replicas + 1) * whole.diagonal + extra_replicas + 1) / 2
    return slope(exponent)


def prove_prior_slope() -> None:
    """Prove (144) at any P: the slope of the prior part is the functional of (10) at its infimum over qhat.

    There qhat = q (I - q)^{-1} is a function of q, so that one commuting symbol stands for both.

    Raises
    ------
    ProofError
        If an identity fails.
    """
    q = overlap
    qhat = q / (1 - q)
    value = -q * qhat / 2 + qhat / 2 - sp.log(sp.cancel(1 + qhat)) / 2
    # log(1/(1 - q)) in both: SymPy writes it as -log(1 - q) only if told the sign.
    spread = sp.Symbol("V", positive=True)
    prove_equal(prior_slope().subs(q, 1 - spread), sp.expand_log(value.subs(q, 1 - spread), force=True), "(144)")


def _symmetric(name: str, size: int) -> sp.Matrix:
    return sp.Matrix(size, size, lambda i, j: sp.Symbol(f"{name}_{min(i, j) + 1}{max(i, j) + 1}", real=True))


def _gradient(value: sp.Expr, at: sp.Matrix) -> sp.Matrix:
    """Return G with d value = Tr(G d at) on symmetric matrices; the two entries of a pair are one symbol."""
    return sp.Matrix(*at.shape, lambda i, j: sp.diff(value, at[i, j]) / (1 if i == j else 2))


def free_entropy(q: sp.Matrix, qhat: sp.Matrix, output: sp.Expr, alpha: sp.Expr = _ALPHA) -> sp.Expr:
    """Return the functional of (10), (96), (160).

    Parameters
    ----------
    q, qhat : sympy.Matrix
        P x P, symmetric.
    output : sympy.Expr
        Psi_out(q).
    alpha : sympy.Expr
        N/D.
    """
    one = sp.eye(q.rows)
    return -(q * qhat).trace() / 2 + qhat.trace() / 2 - sp.log((one + qhat).det()) / 2 + alpha * output


def prove_stationarity(size: int) -> None:
    """Prove (100)-(101) for a generic output potential: q = qhat (I + qhat)^{-1} and qhat = 2 alpha grad Psi_out.

    Parameters
    ----------
    size : int
        P.

    Raises
    ------
    ProofError
        If the gradients of the functional are others.
    """
    q, qhat = _symmetric("q", size), _symmetric("k", size)
    output = sp.Function("Psi_out")(*[q[i, j] for i in range(size) for j in range(i, size)])
    phi = free_entropy(q, qhat, output)
    one = sp.eye(size)
    prior = _gradient(phi, qhat) * 2 + q
    # F(qhat)(I + qhat) = qhat: a polynomial identity after the one division by the determinant.
    prove_equal(prior * (one + qhat), qhat, f"(101), P = {size}")
    prove_equal(2 * _gradient(phi, q) + qhat, 2 * _ALPHA * _gradient(output, q), f"(100), P = {size}")


@dataclass(frozen=True)
class LinearChannel:
    """y = h + sqrt(Delta) z of one index: everything in closed form, at every n.

    Attributes
    ----------
    channel_part : sympy.Expr
        log I_out (132), for symbolic n.
    output : sympy.Expr
        Psi_out.
    conjugate : sympy.Expr
        qhat of (14).
    error : sympy.Expr
        1 - q at the fixed point.
    noise : sympy.Symbol
        Delta.
    """

    channel_part: sp.Expr
    output: sp.Expr
    conjugate: sp.Expr
    error: sp.Expr
    noise: sp.Symbol


def linear_channel() -> LinearChannel:
    """Return the replica computation of the linear channel, from the joint Gaussian of y and all replicas.

    The density of h + sqrt(Delta) z at the vector (y, .., y), integrated over y, is a Gaussian integral with the
    replica-symmetric matrix Q + Delta I: no replica is decoupled by hand. One token; M tokens are M factors.
    """
    n, q = extra_replicas, overlap
    noise = sp.Symbol("Delta", positive=True)
    replicas = n + 1
    whole = overlap_matrix() + ReplicaSymmetric(noise, noise, replicas)
    # 1^T Z^{-1} 1 = N / together, for the vector of ones belongs to the mean of the replicas.
    log_form = sp.log(replicas) - sp.log(whole.together)
    log_part = -whole.log_determinant() / 2 - log_form / 2 - n * sp.log(2 * sp.pi) / 2
    output = -(sp.log(2 * sp.pi * (1 - q + noise)) + 1) / 2
    # g_out = (y - omega)/(V + Delta), and y - omega has the variance V + Delta.
    conjugate = _ALPHA / (1 - q + noise)
    half = (_ALPHA + noise - 1) / 2
    return LinearChannel(log_part, output, conjugate, sp.sqrt(half**2 + noise) - half, noise)


def prove_linear_channel(channel: LinearChannel | None = None) -> None:
    """Prove the chain (132) -> (155) -> (158) -> (160) -> (14) for the linear channel.

    Parameters
    ----------
    channel : LinearChannel, optional
        By default `linear_channel()`.

    Raises
    ------
    ProofError
        If a link fails: log I_out against the decoupled form, its slope against Psi_out, the stationary point of the
        free entropy against (14), or the error against the quadratic equation that (14) is.
    """
    told = linear_channel() if channel is None else channel
    n, q = extra_replicas, overlap
    # Decoupled: int dy N(y; omega, W)^N = (2 pi W)^{-n/2} N^{-1/2}.
    w = 1 - q + told.noise
    decoupled = -n * sp.log(2 * sp.pi * w) / 2 - sp.log(n + 1) / 2
    # Compared at V = 1 - q, so that every logarithm is one of a sum of positive numbers.
    spread = sp.Symbol("V", positive=True)

    def plain(value: sp.Expr) -> sp.Expr:
        return sp.expand_log(value.subs(q, 1 - spread), force=True)

    prove_equal(plain(told.channel_part), plain(decoupled), "(132) against (155)")
    prove_equal(plain(slope(told.channel_part)), plain(told.output), "(158)")
    phi = prior_slope() + _ALPHA * told.output
    # grad of the prior part is -qhat(q)/2.
    prove_equal(2 * sp.diff(phi, q) + q / (1 - q), told.conjugate, "stationarity against (14)")
    at_rest = (q - (1 - q) * told.conjugate) * w
    prove_equal(at_rest.subs(q, 1 - told.error), sp.S.Zero, "fixed point of (14)")
