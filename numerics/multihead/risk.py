"""Difference of two layers over all inputs of entries +-1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .batch import Batch

__all__ = ["ExactRisk", "exact_risk"]

# Of k d, of the inputs of a block.
_DOMAIN_BITS, _BLOCK_BITS = 20, 14


@dataclass(frozen=True)
class ExactRisk:
    """Difference of two layers over all inputs {+-1}^{k x d}.

    Attributes
    ----------
    nmse : float
        E |F' - F|^2 / E |F|^2.
    largest : float
        Largest |F' - F| of any entry of any input.
    inputs : int
        2^{k d}.
    """

    nmse: float
    largest: float
    inputs: int


def exact_risk(theta: ArrayLike, w: ArrayLike, theta_true: ArrayLike, w_true: ArrayLike, tokens: int) -> ExactRisk:
    """Compare two layers on all inputs.

    Parameters
    ----------
    theta, w : array_like, shape (m, d, d)
    theta_true, w_true : array_like, shape (m', d, d)
    tokens : int
        k, with k d <= 20.

    Raises
    ------
    ValueError
        k d > 20.
    """
    learned, true = (
        tuple(np.asarray(a, dtype=np.float64) for a in pair) for pair in ((theta, w), (theta_true, w_true))
    )
    dim = true[0].shape[1]
    bits = tokens * dim
    if bits > _DOMAIN_BITS:
        raise ValueError(
            f"tokens * dim must be <= {_DOMAIN_BITS} for all 2^(k d) inputs (chen2024), got {tokens} * {dim}; "
            "use a test sample"
        )
    squares = size = largest = 0.0
    for begin in range(0, 1 << bits, 1 << _BLOCK_BITS):
        codes = np.arange(begin, min(begin + (1 << _BLOCK_BITS), 1 << bits))
        batch = Batch(2.0 * (codes[:, None] >> np.arange(bits) & 1).reshape(-1, tokens, dim) - 1.0)
        wanted = batch.predict(*true)
        off = batch.predict(*learned) - wanted
        squares += float(np.vdot(off, off))
        size += float(np.vdot(wanted, wanted))
        largest = max(largest, float(np.abs(off).max()))
    return ExactRisk(squares / size, largest, 1 << bits)
