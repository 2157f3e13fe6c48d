"""Outputs entry by entry, y_ab = f(beta h_ab), with noise of their own or without, where f is strictly monotone."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as kernels

from ..core.results import Estimate
from ..core.shown import few_lines
from ..learning.blocks import Array
from . import scalar
from .channel_laws import Linear
from .checks import CITE, above_zero, check_symmetric, count
from .entries import pairs, symmetric_normals, variances, variances_of_rows
from .entry_series import information_series
from .protocol import Channel
from .results import PredictionErrors
from .score_functions import EntryFunction

__all__ = ["Entries", "OneToOne", "entrywise"]


def entrywise(text: str, tokens: int, beta: float, noise: float) -> Channel:
    """Return the channel of a function of one score.

    Parameters
    ----------
    text : str
        A function of z in the grammar of links, such as "tanh(z)".
    tokens : int
    beta, noise : float

    Raises
    ------
    ValueError
        The text cannot be read; or f is not provably strictly monotone, and there is no noise.
    """
    function = _read(text, beta)
    if noise:
        return Entries(function, tokens, noise)
    if not function.one_to_one:
        raise ValueError(
            f"activation {text!r} is not provably strictly monotone, so that its outputs do not fix the scores "
            f"({CITE}, (58)); give --noise > 0, with which any function is served"
        )
    return OneToOne(function, tokens)


@lru_cache(maxsize=32)
def _read(text: str, beta: float) -> EntryFunction:
    """One object for each function, of which averages are kept."""
    return EntryFunction(text, beta)


@few_lines
class _Predicted:
    """Predictions of f(beta h)."""

    function: EntryFunction
    tokens: int
    scale_free = False

    def observe(self, h: Array) -> Array:
        """Outputs without noise."""
        return self.function(h)

    def predict(self, omega: Array, V: float) -> Array:
        """Mean of f(beta h), or f(beta omega)."""
        if not V:
            return self.function(omega)
        spread = np.broadcast_to(np.sqrt(V * variances_of_rows(self.tokens)), omega.shape)
        rows = 1 << 14
        flat = [(omega.ravel()[k : k + rows], spread.ravel()[k : k + rows]) for k in range(0, omega.size, rows)]
        means = [scalar.smooth_moments(self.function, self.function.breaks, *part)[0] for part in flat]
        return np.concatenate(means).reshape(omega.shape)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """Sums over all entries of E Var(f | omega) and E (f(h) - f(omega))^2, by rules of two widths."""
        # Widths of panels for predictions.
        narrow, wide = 0.5, 0.75
        fine, coarse = (self._prediction_errors(V, Q, width) for width in (narrow, wide))
        return PredictionErrors(
            *(Estimate(a, abs(a - b) + 1e-13 * abs(a), "estimated") for a, b in zip(fine, coarse, strict=True))
        )

    def _prediction_errors(self, V: float, Q: float, width: float) -> tuple[float, float]:
        mean_square = plug_in = 0.0
        f, breaks = self.function, self.function.breaks
        for kind, number in ((2.0, self.tokens), (1.0, self.tokens * (self.tokens - 1))):
            spread, deviation = math.sqrt(V * kind), math.sqrt(max(Q - V, 0.0) * kind)
            omega, weights = scalar.law_of_omega(deviation, spread, breaks, width)
            mean, square = scalar.smooth_moments(f, breaks, omega, np.full(len(omega), spread), width)
            variance = np.maximum(square - mean**2, 0.0)
            mean_square += number * float(weights @ variance)
            plug_in += number * float(weights @ (variance + (mean - f(omega)) ** 2))
        return mean_square, plug_in


@few_lines
class OneToOne(_Predicted, Linear):
    """Outputs of a strictly monotone f without noise: they fix h, as the linear ones do.

    Parameters
    ----------
    function : EntryFunction
    tokens : int
    """

    def __init__(self, function: EntryFunction, tokens: int) -> None:
        Linear.__init__(self, tokens)
        self.function, self.name = function, function.text

    def check(self, y: ArrayLike) -> Array:
        """Refuse outputs that are not symmetric, or that no score has."""
        array = Linear.check(self, y)
        self.function.inverse(array)
        return array

    def prepare(self, y: Array) -> Array:
        """h, entries a <= b."""
        return self.function.inverse(y[:, *pairs(self.tokens)])


@few_lines
class Entries(_Predicted):
    """y_ab = f(beta h_ab) + noise of variance Delta_n (1 + delta_ab), y_ab = y_ba: a scalar channel for each entry.

    Parameters
    ----------
    function : EntryFunction
    tokens : int
    noise : float
        Delta_n > 0.

    References
    ----------
    boncoraglio2025, (58).
    """

    functionals: int | None = None
    observed = 0

    def __init__(self, function: EntryFunction, tokens: int, noise: float) -> None:
        self.function, self.tokens = function, count("tokens", tokens, 2, "T")
        self.noise, self.name = above_zero("noise", noise, "outputs entry by entry"), function.text

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F at V and q = c V, interpolated along V at the same Q."""
        found = information_series(self.function, self.noise, float(f"{V * (1 + c):.13g}"), self.tokens)
        return found.information(V)

    def evidence(self, V: float, Q: float) -> Estimate:
        """Minus the entropy of the noise, and minus the integral of F/(2 V) from 0 to V."""
        return information_series(self.function, self.noise, float(f"{Q:.13g}"), self.tokens).evidence(V)

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs with their noise."""
        return self.observe(h) + symmetric_normals(rng, h.shape, self.noise)

    def check(self, y: ArrayLike) -> Array:
        """Refuse outputs that are not symmetric."""
        return check_symmetric(y, self.tokens, f"as h_ab = h_ba is, and its noise ({CITE}, (58))")

    def prepare(self, y: Array) -> Array:
        """Entries a <= b."""
        return np.asarray(y[:, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Posterior means; of sigma only the diagonal counts, its other entries vanish as d grows."""
        spread = self._spread(omega, V, sigma)
        mean = omega + spread * self._moments(seen, omega, spread).mean.reshape(omega.shape)
        return np.asarray(kernels.linear_score(mean, omega, spread**2 / V, V)[0])

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Sum over the entries, with the same of sigma."""
        return self._moments(seen, omega, self._spread(omega, V, sigma)).log_z.reshape(omega.shape).sum(axis=1)

    def _spread(self, omega: Array, V: float, sigma: Array | None) -> Array:
        variance = variances(self.tokens) if sigma is None else np.diagonal(sigma, axis1=1, axis2=2)
        return np.broadcast_to(np.sqrt(V * variance), omega.shape)

    def _moments(self, seen: Array, omega: Array, spread: Array) -> scalar.Moments:
        noise = np.broadcast_to(self.noise * variances(self.tokens), omega.shape)
        return scalar.moments(
            self.function, self.function.breaks, seen.ravel(), omega.ravel(), spread.ravel(), noise.ravel()
        )
