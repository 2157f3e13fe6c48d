"""What sculpting assumes of a layer and its examples, checked before and between its steps."""

import numpy as np

from ...learning.blocks import Array
from ..errors import Degenerate, DegenerateSum, InsufficientCertifiedRows, NotIdentifiable

__all__ = ["check_bounded", "check_certified", "check_distinct", "check_shape", "check_sum"]


def check_shape(tokens: int, dim: int, heads: int) -> None:
    """Raise unless k >= 2 and d >= m (k - 1)."""
    if tokens < 2:
        raise NotIdentifiable(
            "X", "of one token per sample", "k >= 2", "give sequences: a softmax over one token is 1 whatever Theta is"
        )
    if dim < heads * (tokens - 1):
        raise Degenerate(
            "the dimension d of the tokens",
            str(dim),
            f"d >= m (k - 1) = {heads * (tokens - 1)}",
            'take fewer heads or tokens, or method="restarts"',
        )


def check_sum(s: Array, y: Array, heads: int, noise: float = 0.0) -> None:
    """Raise unless the sum of the W_i is of rank min(d, m (k - 1) + 1) at least.

    Parameters
    ----------
    s : ndarray, shape (d, d)
        Its estimate.
    y : ndarray, shape (n, k, d)
    heads : int
    noise : float
        Standard deviation that the noise of the outputs gives to an entry of the estimate: singular values that such
        noise has by itself do not count for the rank.
    """
    k, d = y.shape[1:]
    values = np.linalg.svd(s, compute_uv=False)
    # Of singular values that count for the rank of the sum, and of its size beside that of the outputs.
    least_rank, nothing = 1e-3, 1e-6
    if values[0] <= nothing * np.sqrt(np.mean(y**2)):
        raise DegenerateSum("S, the sum of the W_i", "zero", "a sum that does not vanish", 'try method="restarts"')
    # A matrix of d x d independent normal entries of deviation one has a norm above 2 sqrt(d) + 3 in one case of 100.
    above = 3.0
    least = max(least_rank * values[0], (2 * np.sqrt(d) + above) * noise)
    rank, needed = int(np.sum(values > least)), min(d, heads * (k - 1) + 1)
    if rank < needed:
        raise DegenerateSum(
            f"the rank of S, the sum of the W_i,{' above the noise,' if noise else ''}",
            str(rank),
            f"min(d, m (k - 1) + 1) = {needed}",
            'try method="restarts", for the regression on the simplex cannot tell patterns apart',
        )


def check_distinct(samples: int) -> None:
    """Raise InsufficientCertifiedRows if no example has tokens that differ: attention is the same for every Theta."""
    if not samples:
        raise InsufficientCertifiedRows(
            "the number of examples whose tokens differ", "0", "one at least", "give uniform +-1 inputs"
        )


def check_certified(constraints: int, dim: int) -> None:
    """Raise unless there are 1.5 d^2 independent constraints from certified rows."""
    # Independent constraints per unknown of Theta.
    needed = int(np.ceil(1.5 * dim * dim))
    if constraints < needed:
        raise InsufficientCertifiedRows(
            "the number of logit differences from certified rows, of attention weights inside the simplex,",
            str(constraints),
            f"1.5 d^2 = {needed}",
            "give more examples, for saturated heads have few such rows",
        )


def check_bounded(rows: Array) -> None:
    """Raise InsufficientCertifiedRows if constraints with these rows, shape (p, n), leave one of n directions open.

    Not the slack of a constraint decides, but whether there is one: rows are of integers, turned by an orthogonal
    matrix, so that eigenvalues of their Gram matrix are zero to 1e-15 of the largest, or no rounding.
    """
    values = np.linalg.eigvalsh(rows.T @ rows)
    # Of the largest eigenvalue of constraints: below, it is rounding.
    depends = 1e-12
    fixed = int(np.sum(values > depends * values[-1]))
    if fixed < len(values):
        raise InsufficientCertifiedRows(
            "the number of directions of Theta that logit differences from certified rows depend on",
            str(fixed),
            f"each of {len(values)}",
            "give more examples, for saturated heads have few such rows",
        )
