"""The equations of a fixed point in the entries of the overlap that are free."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Channel

__all__ = ["FreeEntries"]

Array = NDArray[np.float64]

# Steps for slopes, as a share of the distance to the ends of the range; of small entries.
_STEP, _SMALL = 0.02, 1e-3
# Share of the distance to the ends of the range that a step leaves; how often one is halved to do so.
_LEFT, _HALVINGS = 0.2, 30


class FreeEntries:
    """R(x; G) = 0 for x = F(alpha G(x)), as `fixed_point_error` takes it.

    On the diagonal alone r = logit F - logit x, which is log alpha less a smooth function of x down to x = 0, where
    F - x would vanish with x. With entries off the diagonal r = F - x.

    Parameters
    ----------
    channel : Channel
    entries : sequence of (int, int)
        Rows and columns of the free entries.
    matrix : callable
        From x to the overlap.
    image : callable
        From averages to F(alpha G).
    largest : float
        Of an eigenvalue.
    """

    def __init__(
        self,
        channel: Channel,
        entries: Sequence[tuple[int, int]],
        matrix: Callable[[Array], Array],
        image: Callable[[Array], Array],
        largest: float,
    ) -> None:
        self._channel, self._matrix, self._image, self._largest = channel, matrix, image, largest
        self._rows, self._columns = np.array(entries).T
        self._diagonal = bool((self._rows == self._columns).all())

    def averages(self, x: Array) -> Averages:
        """Averages at x."""
        return self._channel(self._matrix(x))

    def rest(self, x: Array, g: Array) -> Array:
        """Positive where the iteration raises x."""
        image = self._image(g)[self._rows, self._columns]
        if not self._diagonal:
            return np.asarray(image - x)
        # Displaced averages of small overlaps may be negative.
        image = np.clip(image, 1e-300, 1 - 1e-16)
        return np.asarray(np.log(image / (1 - image)) - np.log(x / (1 - x)))

    def room(self, x: Array) -> Array:
        """Distance of each entry to the ends of its range."""
        if self._diagonal:
            return np.minimum(x, 1 - x)
        return np.full(len(x), max(self._margin(x), 1e-300))

    def step(self, x: Array, k: int) -> float:
        """Change of entry k for slopes: towards the inside."""
        size = _STEP * min(abs(x[k]), 1 - abs(x[k]))
        if self._diagonal:
            # Down to zero overlap r changes with x and not with its logarithm.
            return _SMALL if x[k] < _SMALL / _STEP else -size
        # Up or down, as it stays further from the ends of the range.
        unit = np.eye(len(x))[k]
        size = max(size, _SMALL)
        return float(max((-size, size), key=lambda step: self._margin(x + step * unit)))

    def inside(self, x: Array, moved: Array) -> Array:
        """Keep a share of the distance to the ends of the range."""
        if self._diagonal:
            return np.minimum(np.clip(moved, _LEFT * x, 1 - _LEFT * (1 - x)), self._largest)
        least = _LEFT * min(self._margin(x), 1e-6)
        for _ in range(_HALVINGS):
            if self._margin(moved) >= least:
                break
            moved = 0.5 * (x + moved)
        return moved

    def pull(self, x: Array) -> Array:
        """Matrix by which dr/dx becomes F' - 1."""
        return np.diag(x * (1 - x)) if self._diagonal else np.eye(len(x))

    def _margin(self, x: Array) -> float:
        """Distance of the eigenvalues, among the indices that are free, to 0 and 1."""
        q = np.zeros((self._channel.model.indices,) * 2)
        q[self._rows, self._columns] = q[self._columns, self._rows] = x
        active = np.unique(self._rows)
        values = np.linalg.eigvalsh(q[np.ix_(active, active)])
        return float(min(values[0], 1 - values[-1]))
