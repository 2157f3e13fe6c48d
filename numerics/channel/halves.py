"""Products of posterior moments by two independent sets of nodes: by the first half, by the second, and by all."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["excess", "product"]

Array = NDArray[np.float64]


def excess(x: Sequence[Array]) -> Array:
    """What a moment by all nodes is off by: half the nodes are off by twice that."""
    return 0.5 * (x[0] + x[1]) - x[2]


def product(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, Array]:
    """a.b of two posterior moments, each by half of the nodes, by the other half, and by all; and what it is off by.

    The halves are independent: the product has no variance in it, and is off by twice what each of them is.
    """
    plain = 0.5 * (a[0] * b[1] + a[1] * b[0]).sum(axis=1)
    return plain, 2 * (excess(a) * b[2] + excess(b) * a[2]).sum(axis=1)
