"""What every output channel y | h has: the information F(c) of an output, and its score g_out.

Everything on h is in its independent entries a <= b, in the order of ``numpy.triu_indices(T)``, whose prior covariance
is Q (1 + delta_ab). F(c) = V sum_{a<=b} (1 + delta_ab) E g_ab^2 at c = q/V, so that qhat = (2 alpha/V) F(c).
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..core.results import Estimate
from ..learning.blocks import Array
from .results import PredictionErrors

__all__ = ["Channel"]


class Channel(Protocol):
    """What every channel has.

    Attributes
    ----------
    name : str
    tokens : int
    functionals : int or None
        K, where an output fixes K linear functionals of h and is silent on the rest: F = K then.
    observed : int
        K, also where the functionals have noise; 0 where an output fixes none.
    noise : float
        Delta_n, the variance of noise on an entry, of the scores or of an output entry by entry, over 1 + delta_ab.
    scale_free : bool
        Whether a positive multiple of h has the same output.
    """

    name: str
    tokens: int
    functionals: int | None
    observed: int
    noise: float
    scale_free: bool

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F at c = q/V; V by itself counts only where there is noise."""

    def evidence(self, V: float, Q: float) -> Estimate:
        """E sum over y of Z_out log Z_out, 0 < V <= Q; see `free_energy.psi_out`."""

    def observe(self, h: Array) -> Array:
        """Outputs without their noise, shape (n, T, T), of h of the same shape."""

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs with their noise."""

    def check(self, y: ArrayLike) -> Array:
        """Return outputs as an array of shape (n, T, T), or raise UnreachableOutputError."""

    def prepare(self, y: Array) -> Array:
        """What of checked outputs the score needs, shape (n, ...)."""

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Slope of log Z_out in omega, entries a <= b, at the covariance V sigma, sigma that of each sample."""

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Log Z_out of each sample, shape (n,), up to what depends on the output alone."""

    def predict(self, omega: Array, V: float) -> Array:
        """Mean output without noise, shape (n, T, T), of h ~ N(omega, V (1 + delta_ab)); no logarithms."""

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """Errors of prediction in the limit, 0 < V <= Q; see `prediction`."""
