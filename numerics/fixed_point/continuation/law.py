"""What a curve needs of the law of the weights: F on overlaps that are diagonal along some axes, one for each group.

In w = -log(1 - q) the Gaussian prior has qhat = q/(1 - q) = exp(w) - 1 for each group by itself.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...channel.averages import Channel
from ...channel.link.rotated import RotatedLink
from ...core.errors import ConvergenceError
from ...priors import Prior, is_standard

__all__ = ["GaussianLaw", "Law", "law_of"]

Array = NDArray[np.float64]
# Largest change of a logarithm of qhat.
_MOST = 50.0
# Overlaps whose qhat is kept.
_KEPT = 16


class Law(Protocol):
    """F along the groups; arrays have one entry for each of them, w = 0 where there is no overlap."""

    def log_qhat(self, w: Array) -> Array:
        """Logarithm of qhat at these overlaps, 0 where there is none."""

    def image(self, w: Array, log_ratio: Array) -> Array:
        """The w of F where the logarithms of qhat are larger by some; 0 where there is no overlap."""

    def rise(self, w: Array) -> Array:
        """Derivatives of the overlaps by the logarithms of qhat, shape (n, n)."""

    def growth(self, w: Array) -> Array:
        """Derivatives of overlaps by qhat where there is none."""


class GaussianLaw:
    """The groups do not know of each other."""

    def log_qhat(self, w: Array) -> Array:
        """Log(q/(1 - q))."""
        x = -np.expm1(-w)
        return np.where(x > 0, np.log(np.where(x > 0, x, 1.0)) + w, 0.0)

    def image(self, w: Array, log_ratio: Array) -> Array:
        """Exp w - 1 is qhat."""
        return np.where(w > 0, np.log1p(np.expm1(w) * np.exp(np.clip(log_ratio, -_MOST, _MOST))), 0.0)

    def rise(self, w: Array) -> Array:
        """Q (1 - q)."""
        x = -np.expm1(-w)
        return np.diag(x * (1 - x))

    def growth(self, w: Array) -> Array:
        """One."""
        return np.ones(len(w))


@dataclass(frozen=True, eq=False)
class _PriorLaw:
    """Of any prior whose F keeps overlaps diagonal along the axes, as symmetries of a link that are its own do."""

    prior: Prior
    axes: Array
    groups: tuple[tuple[int, ...], ...]

    @lru_cache(maxsize=_KEPT)  # noqa: B019
    def _solved(self, w: bytes) -> Array:
        """Qhat of the overlaps by Newton's method in logarithms: logit F rises with log qhat, and is nearly a line."""
        there = np.frombuffer(w)
        on = there > 0
        target = np.log(np.expm1(there[on]))
        log_qhat = np.where(on, np.log(np.expm1(np.where(on, there, 1.0))), -np.inf)
        # What is left of an overlap is rounding below this.
        rounded = 1e-13
        # Steps of Newton's method, the longest one, and the last one.
        tries, longest, close = 100, 1.0, 1e-12
        for _ in range(tries):
            qhat = np.exp(log_qhat)
            at = self._matrix(qhat)
            known, left = (self._values(one) for one in (self.prior.overlap(at), self.prior.mmse(at)))
            far = left < rounded
            if far.any():
                log_qhat[far] -= longest
                continue
            wrong = target - np.log(known[on] / left[on])
            slopes = self._rise(qhat)[np.ix_(on, on)] / (known * left)[on][:, None]
            step = np.clip(np.linalg.solve(slopes, wrong), -longest, longest)
            log_qhat[on] += step
            if np.abs(step).max(initial=0.0) <= close:
                return np.exp(log_qhat)
        raise ConvergenceError(
            f"no qhat with F(qhat) = q for the {self.prior.describe()} was found in {tries} steps at 1 - q = "
            f"{np.exp(-there)} (14); move the parameter"
        )

    def log_qhat(self, w: Array) -> Array:
        """Logarithms of those."""
        qhat = self._solved(w.tobytes())
        return np.where(w > 0, np.log(np.where(w > 0, qhat, 1.0)), 0.0)

    def image(self, w: Array, log_ratio: Array) -> Array:
        """From what is left of the overlap, which keeps its digits."""
        qhat = self._solved(w.tobytes()) * np.exp(np.clip(np.where(w > 0, log_ratio, 0.0), -_MOST, _MOST))
        left = self._values(self.prior.mmse(self._matrix(qhat)))
        # Least of what is left of an overlap.
        least = 1e-300
        return np.where(w > 0, -np.log(np.maximum(left, least)), 0.0)

    def rise(self, w: Array) -> Array:
        """Of groups that may know of each other."""
        return self._rise(self._solved(w.tobytes()))

    def growth(self, w: Array) -> Array:
        """One where an axis is that of an index, or nothing is known."""
        qhat = self._matrix(self._solved(w.tobytes()))
        units = np.eye(len(w))
        return np.array([self._values(self.prior.slope(qhat, self._matrix(one)))[k] for k, one in enumerate(units)])

    def _rise(self, qhat: Array) -> Array:
        at = self._matrix(qhat)
        return np.array([self._values(self.prior.slope(at, self._matrix(unit))) for unit in np.diag(qhat)]).T

    def _matrix(self, values: Array) -> Array:
        diagonal = np.zeros(len(self.axes))
        for group, value in zip(self.groups, values, strict=True):
            diagonal[list(group)] = value
        return np.asarray((self.axes * diagonal) @ self.axes.T)

    def _values(self, matrix: Array) -> Array:
        diagonal = np.einsum("ia,ij,ja->a", self.axes, matrix, self.axes)
        return np.array([diagonal[list(group)].mean() for group in self.groups])


def law_of(prior: Prior, channel: Channel) -> Law:
    """Law of the overlaps that the averages of a channel take."""
    if is_standard(prior):
        return GaussianLaw()
    axes = channel.axes if isinstance(channel, RotatedLink) else np.eye(channel.model.indices)
    return _PriorLaw(prior, axes, channel.groups)
