"""Anderson's method: the next point of a fixed-point iteration from the last ones and their residuals."""

import math

import numpy as np

from ..blocks import Array

__all__ = ["Anderson"]

# Points that are combined, where their differences take no more bytes than this; but ten at least.
_MOST, _LEAST, _BYTES = 60, 10, 2 << 30
# The points are forgotten where a residual is so many times the least of them, and where so many residuals in turn are
# not below those before: there the iteration is far from linear, and may go around as long as they are kept.
_WORSE, _STALLED = 4.0, 30


class Anderson:
    """Points x of an iteration x + r(x), their residuals r, and what both have changed by.

    Parameters
    ----------
    size : int
        Of a point.
    """

    def __init__(self, size: int) -> None:
        self._memory = max(_LEAST, min(_MOST, _BYTES // (16 * size)))
        # Differences of points plus those of residuals, and of residuals, in places that are taken in turn.
        self._moved, self._turned = np.empty((2, self._memory, size))
        self._products = np.eye(self._memory)
        self._sizes: list[float] = []
        self._last: tuple[Array, Array] | None = None
        self._made = self._steps = 0

    def __call__(self, point: Array, residual: Array) -> Array:
        """Next point, where r(x) is as small as combinations of the last ones allow if it is linear."""
        self._steps += 1
        size = float(np.linalg.norm(residual))
        if size > _WORSE * min(self._sizes[-self._memory - 1 :], default=math.inf) or self._stalled():
            self.forget()
        self._sizes = [*self._sizes[-max(self._memory, _STALLED) :], size]
        if self._last is not None:
            self._add(point - self._last[0], residual - self._last[1])
        self._last = point, residual
        kept = min(self._made, self._memory)
        # Steps without it at first.
        first = 5
        if self._steps <= first or kept < 2:
            return point + residual
        turned, products = self._turned[:kept], self._products[:kept, :kept]
        scale = 1 / np.sqrt(products.diagonal())
        # Part of their own squares by which the differences are kept from being dependent.
        ridge = 1e-12
        matrix = products * np.outer(scale, scale) + ridge * np.eye(kept)
        shares = scale * np.linalg.solve(matrix, scale * (turned @ residual))
        mixed: Array = point + residual - shares @ self._moved[:kept]
        return mixed

    def _stalled(self) -> bool:
        """Whether the latest residuals are all above one of those before."""
        before = self._sizes[:-_STALLED]
        return bool(before) and min(self._sizes[-_STALLED:]) > min(before)

    def forget(self) -> None:
        """Start anew."""
        self._sizes, self._last, self._made = [], None, 0

    def _add(self, moved: Array, turned: Array) -> None:
        """Take a difference, in place of the oldest where there is no place left."""
        place = self._made % self._memory
        self._made += 1
        self._moved[place], self._turned[place] = moved + turned, turned
        kept = min(self._made, self._memory)
        products = self._turned[:kept] @ turned
        # Of a point that has not moved.
        products[place] = max(products[place], np.finfo(float).tiny)
        self._products[place, :kept] = self._products[:kept, place] = products
