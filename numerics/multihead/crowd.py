"""Where the starts of a search ended: which is the best, how often it was found, and what fits as well."""

import numpy as np

from ..learning.blocks import Array
from .holdout import EXACT, Split
from .refine import Descent

__all__ = ["Crowd"]


class Crowd:
    """Ends of descents from several starts, by their outputs: heads have no order, and signs may be free.

    Parameters
    ----------
    split : Split
    count : int
        Samples that the descents were given.
    size : int
        Unknowns of each.
    noise_std : float or None
        None: what the best leaves over.

    Notes
    -----
    All ends have the same number of parameters, so that the squared errors on the examples that they were fitted to
    compare them as well as those held out do; the best is that of the least sum of both, and the first of those whose
    sums are a chi^2 of 0.1 from it at most: which of them has the least is a matter of rounding.

    Beside a difference of chi^2 in its favour, and |f - g|^2 of the outputs in units of the variance, the other layer
    is rejected at (chi^2 + |f - g|^2) / (2 |f - g|) >= sqrt(chi^2) standard errors of the paired differences: 4.5 at
    the limit of 20.
    """

    def __init__(self, split: Split, count: int, size: int, noise_std: float | None) -> None:
        self._split, self._noise_std, self._size = split, noise_std, size
        self._entries = split.Y[:count].size
        self._square = float(np.sum(split.Y[:count] ** 2))
        self.ends: list[Descent] = []
        self.errors: list[float] = []
        self._outputs: list[Array] = []

    def add(self, end: Descent) -> None:
        """Take note of an end."""
        held = self._split.held
        outputs = held.predict(end.theta, end.w)
        off = outputs - held.y
        self.ends.append(end)
        self.errors.append(float(np.vdot(off, off)) / held.size)
        self._outputs.append(outputs)

    @property
    def best(self) -> int:
        """Number of the best end."""
        squares = np.array([self._squares(i) for i in range(len(self.ends))])
        least = float(squares.min())
        # Ends whose chi^2 differs by less are of one layer, or of two that nothing tells apart: the first of them is
        # the best. Descents end at 1e-6 of the loss, which is a chi^2 of 0.1 for 1e5 entries.
        tied = 0.1
        return int(np.argmax(squares <= least + tied * self._variance(least)))

    @property
    def exact(self) -> bool:
        """Whether an end leaves nothing but rounding."""
        return min(self.errors) <= EXACT

    def _squares(self, number: int) -> float:
        return self.ends[number].loss * self._square + self.errors[number] * self._split.held.size

    def _variance(self, least: float) -> float:
        """Of the noise, given or what the least sum of squares leaves."""
        freedom = max(self._entries - self._size, 1) + self._split.held.y.size
        return max(self._noise_std**2 if self._noise_std else least / freedom, float(np.finfo(float).tiny))

    def _sorted(self) -> tuple[int, int]:
        """How many ended at the best, and how many elsewhere with the same likelihood."""
        best = self.best
        least = self._squares(best)
        variance = self._variance(least)
        same = equal = 0
        # Two starts end at one layer if outputs differ by less than this share of the variance of a fit due to noise;
        # layers fit equally well if their chi^2 differs by less than the second number.
        near, as_well = 0.1, 20.0
        for number, outputs in enumerate(self._outputs):
            apart = float(np.mean((outputs - self._outputs[best]) ** 2)) * self._entries / (variance * self._size)
            worse = (self._squares(number) - least) / variance
            same += apart < near
            equal += apart >= near and worse < as_well
        return same, equal

    @property
    def times(self) -> int:
        """How many starts ended at the best."""
        return self._sorted()[0]

    def doubt(self, *, flipped: int = 0) -> str:
        """Why the best may not be that of the largest likelihood, or empty.

        Parameters
        ----------
        flipped : int
            So many of the last ends are of starts made from others.
        """
        same, equal = self._sorted()
        starts = len(self.ends) - flipped
        if equal:
            return f"other parameters fit equally well, after {starts} starts"
        return "" if same > 1 else f"one of {starts} starts found this layer; more of them may find a better one"
