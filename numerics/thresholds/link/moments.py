"""Moments of h over pieces of a link, and what the operator (15) makes of them at given y."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...model.links import LinkKernel, Part
from ...posterior.link.quadrature import Piece

__all__ = ["Sums", "volume"]

Array = NDArray[np.float64]


class Sums:
    """Turns moments of (1, h, h h^T) at given y into the integrands of the averages."""

    def __init__(self, kernel: LinkKernel, part: Part, learned: Sequence[int]) -> None:
        p, self.tokens = kernel.indices, kernel.tokens
        touched = {entry % p for entry in part.entries}
        self.rest = tuple(i for i in range(p) if i in touched and i not in learned)
        self.known = [m * p + i for m in range(self.tokens) for i in learned if i in touched]
        self.entries = [m * p + i for m in range(self.tokens) for i in self.rest]
        n = len(self.entries)
        # Sign changes that leave the link, and what is known, as they are.
        self.signs = signs = [s for s in kernel.flips if all(s[k] > 0 for k in self.known)]
        self.mean = np.array([not any(s[e] < 0 for s in signs) for e in self.entries], dtype=float)
        self.pair = np.array(
            [[not any(s[a] != s[b] for s in signs) for b in self.entries] for a in self.entries], dtype=float
        )
        self.upper = np.triu_indices(n)
        self.n, self.r = n, len(self.rest)

    def width(self) -> int:
        """Moments per y."""
        return 1 + self.n + self.n * (self.n + 1) // 2

    def __call__(self, moments: Array) -> Array:
        """Return (Z, Z E[h h^T] summed over tokens, linear, operator), shape (k, 1 + n + r^2 + r^4)."""
        z, first = moments[:, 0], moments[:, 1 : 1 + self.n] * self.mean
        second = np.zeros((len(z), self.n, self.n))
        second[:, self.upper[0], self.upper[1]] = moments[:, 1 + self.n :]
        second[:, self.upper[1], self.upper[0]] = moments[:, 1 + self.n :]
        tiny = z < 1e-200
        safe = np.where(tiny, 1.0, z)
        g = (second - z[:, None, None] * np.eye(self.n)) * self.pair
        g = np.where(tiny[:, None, None], 0.0, g / np.sqrt(safe)[:, None, None])
        first = np.where(tiny[:, None], 0.0, first / np.sqrt(safe)[:, None])
        g = g.reshape(-1, self.tokens, self.r, self.tokens, self.r)
        first = first.reshape(-1, self.tokens, self.r)
        linear = np.einsum("ymi,ymj->yij", first, first)
        matrix = np.einsum("ymink,ymjnl->yijkl", g, g)
        diagonal = np.diagonal(second, axis1=1, axis2=2)
        count = len(z)
        return np.concatenate([z[:, None], diagonal, linear.reshape(count, -1), matrix.reshape(count, -1)], axis=1)

    def split(self, sums: Array) -> tuple[Array, Array, float]:
        """Return linear, operator, and how far probability and second moments are from one."""
        n, r = self.n, self.r
        defect = float(np.abs(sums[: 1 + n] - 1).max())
        linear = sums[1 + n : 1 + n + r * r].reshape(r, r)
        return linear, sums[1 + n + r * r :].reshape(r, r, r, r), defect


def volume(group: Sequence[Piece], order: int) -> Array:
    """Moments over pieces on which no output varies."""
    return np.asarray(np.sum([piece.volume(2 * order) for piece in group], axis=0))
