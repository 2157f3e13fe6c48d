"""The last-layer threshold at strong skip connections: that of one layer, with no term in 1/c."""

import sympy as sp

from .tied import gaussian_mean

__all__ = ["strong_skip_loss"]


def strong_skip_loss(deviation: sp.Matrix, rank: int = 1) -> sp.Expr:
    r"""Derive what a hidden layer takes from the eigenvalue of the last layer, ``E ||D K + K D^T||^2 / r^2 / c^2``.

    With two layers the output is a function of v = (I + S/c) h_2, where S = sigma_1(beta h_1^T h_1) does not depend on
    h_2; the tokens are the entries of h_2. Let K = h_2^T h_2 and D = S - E S.

    *No term in 1/c.* The eigenvalue ``E ||E[K|y]||^2`` is the maximum over functions psi of
    ``2 E <K, psi(y)> - E ||psi(y)||^2``. At the maximum its derivative in 1/c is that at fixed psi, which is linear in
    S, so that S may be replaced by its mean. By the symmetry of the tokens E S = a I + b 1 1^T: a known invertible
    matrix, which commutes with what a softmax forgets, and changes nothing that the output has of K. This holds for
    tied and untied layers of any rank and any number of hidden layers, whose sum S then is.

    *The term in 1/c^2*, where the output of one layer fixes K (tied, r < M for softmax). To first order
    E[K|y] = K - (D K + K D^T)/c, as h_1 and h_2 are still independent given v. What is lost is the variance of K given
    y, the mean square of the second part.

    Parameters
    ----------
    deviation : sympy.Matrix, shape (M, M)
        D.
    rank : int
        r of the last layer, 1 <= r < M.

    Returns
    -------
    sympy.Expr
        The mean over h_2, in the entries of D, of which the mean over h_1 is to be taken:
        ``2 [(M + 3) tr D D^T + (tr D)^2 + tr D^2]`` at rank 1.

    References
    ----------
    troiani2025, (15), (46); derived here.
    """
    tokens = deviation.rows
    if not 1 <= rank < tokens:
        raise ValueError(f"rank must be at least 1 and below M = {tokens}, got {rank}: the output is to fix h^T h")
    h = sp.Matrix(rank, tokens, lambda a, m: sp.Symbol(f"h_{a + 1}{m + 1}", real=True))
    moved = deviation * (h.T * h)
    moved += moved.T
    return sp.factor(gaussian_mean(sum(entry**2 for entry in moved), list(h)) / rank**2)
