"""Output channels y | h of the attention-indexed model: what an output tells, F(c), and its score g_out.

Everything on h is in its independent entries a <= b, in the order of ``numpy.triu_indices(T)``, whose prior covariance
is Q (1 + delta_ab). F(c) = V sum_{a<=b} (1 + delta_ab) E g_ab^2 at c = q/V, so that qhat = (2 alpha/V) F(c).
"""

import math
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import KernelNotFoundError, UnreachableOutputError
from ..results import Estimate
from ..validation import numbers
from . import hardmax
from .bivariate import slopes
from .checks import ACTIVATIONS, CITE, above_zero, count

__all__ = ["Channel", "Hardmax", "Linear", "Softmax", "channel", "pairs", "variances"]

Array = NDArray[np.float64]
# Rows of a softmax computed in float64 sum to one within this.
_ROW_SUM = 1e-9


@lru_cache
def pairs(tokens: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of the independent entries of h."""
    rows, columns = np.triu_indices(tokens)
    return rows, columns


@lru_cache
def variances(tokens: int) -> Array:
    """1 + delta_ab of the independent entries."""
    rows, columns = pairs(tokens)
    return np.asarray(1.0 + (rows == columns))


class Channel(Protocol):
    """What every channel has.

    Attributes
    ----------
    name : str
    tokens : int
    functionals : int or None
        K, where an output fixes K linear functionals of h and is silent on the rest: F = K then.
    """

    name: str
    tokens: int
    functionals: int | None

    def information(self, c: float) -> Estimate:
        """F(c)."""

    def observe(self, h: Array) -> Array:
        """Outputs, shape (n, T, T), of h of the same shape."""

    def check(self, y: ArrayLike) -> Array:
        """Return outputs as an array of shape (n, T, T), or raise UnreachableOutputError."""

    def prepare(self, y: Array) -> Array:
        """What of checked outputs the score needs, shape (n, ...)."""

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """g_out; see `g_out`."""


class _Fixed:
    """An output that fixes K linear functionals of h; the score is a projection."""

    tokens: int
    functionals: int | None

    def information(self, c: float) -> Estimate:
        """F(c) = K."""
        assert self.functionals is not None
        return Estimate(float(self.functionals), 0.0, "rigorous")


class Linear(_Fixed):
    """y = h, without noise.

    Parameters
    ----------
    tokens : int
        T >= 2.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = count("tokens", tokens, 2, "T")
        self.name = "linear"
        self.functionals = self.tokens * (self.tokens + 1) // 2

    def observe(self, h: Array) -> Array:
        """Outputs."""
        return h

    def check(self, y: ArrayLike) -> Array:
        """Refuse outputs that are not symmetric."""
        array = _outputs(y, self.tokens)
        off = float(np.abs(array - np.swapaxes(array, 1, 2)).max())
        if off > 1e-9 * (1 + float(np.abs(array).max())):
            raise UnreachableOutputError(
                f"y must be symmetric, as h_ab = h_ba is ({CITE}, linear channel); it is off by {off:.3g}; pass "
                "(y + y^T)/2 if that is rounding"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """h, entries a <= b."""
        return np.asarray(y[:, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Sigma^{-1} (h - omega)/V."""
        return _solve(sigma, self.tokens, seen - omega) / V


class Softmax(_Fixed):
    """y_ab = e^{beta h_ab}/sum_c e^{beta h_ac}: it fixes h up to one shift of all its entries.

    Parameters
    ----------
    tokens : int
        T >= 2.
    beta : float
        Inverse temperature, finite and > 0. F does not depend on it.
    logarithms : bool, keyword-only
        Outputs are log y, which does not underflow at large beta.
    """

    def __init__(self, tokens: int, beta: float = 1.0, *, logarithms: bool = False) -> None:
        self.tokens = count("tokens", tokens, 2, "T")
        self.beta = above_zero("beta", beta, "softmax")
        self.logarithms = logarithms
        self.name = "softmax"
        self.functionals = self.tokens * (self.tokens + 1) // 2 - 1

    def observe(self, h: Array) -> Array:
        """Outputs."""
        exponent = self.beta * (h - h.max(axis=2, keepdims=True))
        log_y = exponent - np.log(np.exp(exponent).sum(axis=2, keepdims=True))
        return log_y if self.logarithms else np.exp(log_y)

    def check(self, y: ArrayLike) -> Array:
        """Refuse what are no rows of a softmax."""
        array = _outputs(y, self.tokens)
        if self.logarithms:
            if (array > _ROW_SUM).any():
                raise UnreachableOutputError(
                    f"log y must be <= 0 ({CITE}, softmax), got {array.max():.3g}; pass y with logarithms=False"
                )
            sums = np.exp(array).sum(axis=2)
        else:
            if (array <= 0).any() or (array > 1 + _ROW_SUM).any():
                raise UnreachableOutputError(
                    f"y must have entries in (0, 1], the range of a softmax ({CITE}, softmax), got "
                    f"[{array.min():.3g}, {array.max():.3g}]; where they underflow pass log y with logarithms=True"
                )
            sums = array.sum(axis=2)
        worst = float(np.abs(sums - 1).max())
        if worst > _ROW_SUM:
            raise UnreachableOutputError(
                f"each row of y must sum to 1 ({CITE}, softmax); the worst is off by {worst:.3g}; pass y in full "
                "precision"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """phi_ab = l_ab - l_aT + l_Ta - l_TT, l = log(y)/beta: h up to the shift h_TT."""
        logs = (y if self.logarithms else np.log(y)) / self.beta
        phi = logs - logs[:, :, -1:] + logs[:, -1:, :].swapaxes(1, 2) - logs[:, -1:, -1:]
        return np.asarray(0.5 * (phi + phi.swapaxes(1, 2))[:, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """[v - u (1.v)/(1.u)]/V with v = Sigma^{-1}(phi - omega), u = Sigma^{-1} 1: the best shift is taken out."""
        v = _solve(sigma, self.tokens, seen - omega)
        u = _solve(sigma, self.tokens, np.ones_like(omega))
        return np.asarray((v - u * (v.sum(axis=1) / u.sum(axis=1))[:, None]) / V)


class Hardmax:
    """One-hot argmax of each row of h, two tokens.

    Parameters
    ----------
    published : bool, keyword-only
        F with the normal density in the place of the derivatives of Phi2, as the published curves have it. It is not
        Bayes-optimal and is here to overlay them; it has no score.
    """

    functionals: int | None = None

    def __init__(self, tokens: int = 2, *, published: bool = False) -> None:
        if count("tokens", tokens, 2, "T") > 2:
            raise KernelNotFoundError(
                f"no closed form of the hardmax channel for T = {tokens} ({CITE}, hardmax channel); it is served at "
                "T = 2"
            )
        self.tokens, self.published = 2, published
        self.name = "hardmax_published" if published else "hardmax"

    def information(self, c: float) -> Estimate:
        """F(c), interpolated between 28 values of a two-dimensional rule."""
        return hardmax.information_between(c, published=self.published)

    def observe(self, h: Array) -> Array:
        """Outputs."""
        return np.asarray(np.eye(self.tokens)[h.argmax(axis=2)])

    def check(self, y: ArrayLike) -> Array:
        """Refuse rows that are not one-hot."""
        array = _outputs(y, self.tokens)
        if not (((array == 0) | (array == 1)).all() and (array.sum(axis=2) == 1).all()):
            raise UnreachableOutputError(
                f"each row of y must be one-hot ({CITE}, hardmax); for attention matrices of finite temperature use "
                "the softmax channel"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """Signs of h11 - h12 and h22 - h12."""
        return np.stack([2 * y[:, 0, 0] - 1, 2 * y[:, 1, 1] - 1], axis=1)

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Slope of log Phi2(k1, k2; r) in omega."""
        if self.published:
            raise KernelNotFoundError(
                "hardmax_published is no score of a model: it replaces a derivative by another function; use hardmax"
            )
        contrast = np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]])
        difference = omega @ contrast.T
        if sigma is None:
            spread, r = np.full(difference.shape, math.sqrt(3 * V)), np.full(len(omega), 1 / 3)
        else:
            covariance = contrast @ sigma @ contrast.T
            variance = np.stack([covariance[:, 0, 0], covariance[:, 1, 1]], axis=1)
            spread = np.sqrt(V * variance)
            # Of the order of 1/3; held where `log_phi2` is accurate in the smallest dimensions.
            r = np.clip(covariance[:, 0, 1] / np.sqrt(variance.prod(axis=1)), -0.9, 0.9)
        k = seen * difference / spread
        found = slopes(k[:, 0], k[:, 1], seen.prod(axis=1) * r)
        pull = seen * np.stack([found.first, found.second], axis=1) / spread
        return np.asarray(pull @ contrast)


def _outputs(y: ArrayLike, tokens: int) -> Array:
    array = numbers("y", y)
    if array.ndim != 3 or array.shape[1:] != (tokens, tokens) or not len(array):
        raise ValueError(
            f"y must have shape (n, T, T) = (n, {tokens}, {tokens}) ({CITE}, outputs), got {array.shape}; stack one "
            "attention matrix per sample"
        )
    if not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array).all(axis=(1, 2))))
        raise ValueError(f"y must be finite, got NaN or infinity in sample {bad}; leave such samples out, of x too")
    return array


def _solve(sigma: Array | None, tokens: int, v: Array) -> Array:
    """Sigma^{-1} v, with diag(1 + delta_ab) for None."""
    if sigma is None:
        return np.asarray(v / variances(tokens))
    return np.asarray(np.linalg.solve(sigma, v[..., None])[..., 0])


def channel(
    activation: Literal["softmax", "hardmax", "linear", "hardmax_published"] | str, tokens: int = 2, beta: float = 1.0
) -> Channel:
    """Return the channel of a name.

    Raises
    ------
    ValueError
        An unknown name, T < 2, beta not positive.
    KernelNotFoundError
        Hardmax of more than two tokens.
    """
    if activation == "softmax":
        return Softmax(tokens, beta)
    if activation == "linear":
        return Linear(tokens)
    if activation in ("hardmax", "hardmax_published"):
        return Hardmax(tokens, published=activation == "hardmax_published")
    raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)} ({CITE}, outputs), got {activation!r}")
