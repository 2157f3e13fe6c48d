"""Outputs of noisy indices, sigma(h + z), z_ab = z_ba of variance Delta_n (1 + delta_ab): channels at V + Delta_n."""

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as kernels

from ..core.results import Estimate
from ..core.shown import few_lines
from ..learning.blocks import Array
from .checks import above_zero
from .entries import symmetric_normals, variances
from .protocol import Channel
from .results import PredictionErrors

__all__ = ["Noisy"]


@few_lines
class Noisy:
    """A channel whose indices have Gaussian noise of their own in every sample.

    With Z_out and F without the noise, those with it are Z_out(y; omega, V + Delta_n) and
    F = V/(V + Delta_n) F(q/(V + Delta_n)).

    Parameters
    ----------
    clean : Channel
        Without noise.
    noise : float
        Delta_n > 0, the variance of z_ab over 1 + delta_ab.

    Notes
    -----
    The noise is on the scores, so that an output remains what the activation gives: rows of a softmax, one-hot labels.
    It has the law of h given omega, with z_ab = z_ba; outputs of softmax have then logarithms that are those of
    symmetric scores, as they have without noise. In softmax(beta (h + z)) the logits have noise of variance
    beta^2 Delta_n (1 + delta_ab), and F is free of beta; labels of hardmax are the limit of large beta.

    References
    ----------
    boncoraglio2025, (57).
    """

    functionals: int | None = None
    # The noise sets a scale.
    scale_free = False

    def __init__(self, clean: Channel, noise: float) -> None:
        self.clean = clean
        self.noise = above_zero("noise", noise, "noisy scores")
        self.name, self.tokens, self.observed = clean.name, clean.tokens, clean.observed

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """V/(V + Delta_n) F(q/(V + Delta_n)), q = c V."""
        _, share = self._noisy(V)
        found = self.clean.information(c * share)
        return Estimate(share * found.value, share * found.error, found.how)

    def information_per_variance(self, Q: float) -> Estimate:
        """Limit of F/V as V vanishes, F(Q/Delta_n)/Delta_n."""
        found = self.clean.information(Q / self.noise)
        return Estimate(found.value / self.noise, found.error / self.noise, found.how)

    def _noisy(self, V: float) -> tuple[float, float]:
        """V + Delta_n, and the share of V in it."""
        total, share = kernels.noisy_indices(V, self.noise)
        return float(total), float(share)

    def evidence(self, V: float, Q: float) -> Estimate:
        """That without noise, at the variances with it."""
        return self.clean.evidence(V + self.noise, Q + self.noise)

    def observe(self, h: Array) -> Array:
        """Outputs without noise."""
        return self.clean.observe(h)

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs of h + z."""
        return self.clean.observe(h + symmetric_normals(rng, h.shape, self.noise))

    def check(self, y: ArrayLike) -> Array:
        """As without noise."""
        return self.clean.check(y)

    def prepare(self, y: Array) -> Array:
        """As without noise."""
        return self.clean.prepare(y)

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """g_out without noise, where the indices have the covariance V Sigma + Delta_n diag(1 + delta_ab)."""
        return self.clean.score(seen, omega, self._noisy(V)[0], self._sigma(V, sigma))

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Log Z_out without noise, at the same covariance."""
        return self.clean.log_evidence(seen, omega, self._noisy(V)[0], self._sigma(V, sigma))

    def _sigma(self, V: float, sigma: Array | None) -> Array | None:
        if sigma is None:
            return None
        return np.asarray(kernels.noisy_covariance(sigma, np.diag(variances(self.tokens)), V, self.noise)[0])

    def predict(self, omega: Array, V: float) -> Array:
        """Mean output without noise."""
        return self.clean.predict(omega, V)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """Errors of predicting outputs without noise, which depend on V alone."""
        return self.clean.prediction_errors(V, Q)
