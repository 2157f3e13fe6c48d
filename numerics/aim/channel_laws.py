"""Output channels that fix functionals of h: the linear one, and softmax."""

import math

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as scores

from ..core.errors import UnreachableOutputError
from ..core.results import Estimate
from ..core.shown import few_lines
from ..core.validation import precision, softmax_rows
from ..learning.blocks import Array
from .checks import CITE, above_zero, check_outputs, check_symmetric, count
from .choices import choice_errors, predicted_choice
from .entries import pairs, variances, variances_of_rows
from .results import PredictionErrors

__all__ = ["Fixed", "Linear", "Softmax", "covariance_of"]

# Rounding of a logarithm.
_LOG = 4 * float(np.finfo(float).eps)


@few_lines
class Fixed:
    """An output that fixes K linear functionals of h; the score is a projection."""

    tokens: int
    functionals: int | None
    observed: int
    noise = 0.0
    scale_free = False

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F = K."""
        return Estimate(float(self.observed), 0.0, "rigorous")

    def evidence(self, V: float, Q: float) -> Estimate:
        """-(K/2) log V, up to a constant."""
        return Estimate(-0.5 * self.observed * math.log(V), _LOG, "rigorous")

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs; they have no noise."""
        return self.observe(h)

    def observe(self, h: Array) -> Array:
        """Outputs."""
        raise NotImplementedError


def _variances_of(omega: Array) -> Array:
    return variances(math.isqrt(2 * omega.shape[1]))


def covariance_of(omega: Array, V: float, sigma: Array | None) -> Array:
    """Covariance V Sigma of the entries of each sample, V diag(1 + delta_ab) without Sigma."""
    matrix = np.diag(_variances_of(omega)) if sigma is None else sigma
    return np.broadcast_to(V * matrix, (*omega.shape, omega.shape[1]))


class Linear(Fixed):
    """y = h.

    Parameters
    ----------
    tokens : int
        T >= 2.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = count("tokens", tokens, 2, "T")
        self.name = "linear"
        self.functionals = self.observed = self.tokens * (self.tokens + 1) // 2

    def observe(self, h: Array) -> Array:
        """Outputs."""
        return h

    def check(self, y: ArrayLike) -> Array:
        """Refuse outputs that are not symmetric."""
        return check_symmetric(y, self.tokens, f"as h_ab = h_ba is ({CITE}, linear channel)")

    def prepare(self, y: Array) -> Array:
        """h, entries a <= b."""
        return np.asarray(y[:, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """(V Sigma)^{-1} (y - omega)."""
        if sigma is None:
            return np.asarray(scores.linear_score(seen, omega, variances(self.tokens), V)[0])
        return np.asarray(np.linalg.solve(V * sigma, (seen - omega)[..., None])[..., 0])

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Density of a Gaussian law, up to a constant."""
        size = np.linalg.slogdet(covariance_of(omega, V, sigma))[1]
        return np.asarray(-0.5 * (((seen - omega) * self.score(seen, omega, V, sigma)).sum(axis=1) + size))

    def predict(self, omega: Array, V: float) -> Array:
        """Return omega."""
        return omega

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """V times the sum of 1 + delta_ab over all entries, of both predictions."""
        error = Estimate(V * float(variances_of_rows(self.tokens).sum()), 0.0, "rigorous")
        return PredictionErrors(error, error)


class Softmax(Fixed):
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
        self.functionals = self.observed = self.tokens * (self.tokens + 1) // 2 - 1

    def observe(self, h: Array) -> Array:
        """Outputs."""
        log_y = self._logarithms(h)
        return log_y if self.logarithms else np.exp(log_y)

    def _logarithms(self, h: Array) -> Array:
        exponent = self.beta * (h - h.max(axis=2, keepdims=True))
        return np.asarray(exponent - np.log(np.exp(exponent).sum(axis=2, keepdims=True)))

    def check(self, y: ArrayLike) -> Array:
        """Refuse what are no rows of a softmax."""
        array = check_outputs(y, self.tokens)
        if not self.logarithms:
            remedy = "; where they underflow pass log y with logarithms=True (aim amp --log-outputs)"
            return softmax_rows(array, f"{CITE}, softmax", remedy)
        # Logarithms of rows of a softmax computed in float64 are below this, and the rows sum to one within it.
        row_sum = 1e-9
        if (array > row_sum).any():
            raise UnreachableOutputError(
                f"log y must be <= 0 ({CITE}, softmax), got {array.max():.3g}; pass y with logarithms=False"
            )
        # Rounding of a logarithm is a relative error of y; the score does not depend on what a whole row is off by.
        worst = float(np.abs(np.exp(array).sum(axis=2) - 1).max())
        if worst > row_sum and worst > 4 * self.tokens * precision(array) * (1 + float(np.abs(array).max())):
            raise UnreachableOutputError(
                f"each row of y must sum to 1 ({CITE}, softmax); the worst is off by {worst:.3g}; pass log y in full "
                "precision"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """phi_ab = l_ab - l_aT + l_Ta - l_TT, l = log(y)/beta: h up to the shift h_TT."""
        logs = y if self.logarithms else np.log(y)
        last = logs[:, -1:, :]
        phi = np.asarray(
            scores.softmax_index(logs, logs[:, :, -1:], last.swapaxes(1, 2), last[:, :, -1:], self.beta)[0]
        )
        return np.asarray(0.5 * (phi + phi.swapaxes(1, 2))[:, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """[v - u (1.v)/(1.u)]/V with v = Sigma^{-1}(phi - omega), u = Sigma^{-1} 1: the best shift is taken out."""
        off, ones = seen - omega, np.ones_like(omega)
        if sigma is None:
            v, u = off / variances(self.tokens), ones / variances(self.tokens)
        else:
            both = np.asarray(np.linalg.solve(sigma, np.stack([off, ones], axis=2)), np.float64)
            v, u = both[..., 0], both[..., 1]
        sums = (array.sum(axis=1, keepdims=True) for array in (v, u))
        return np.asarray(scores.projected_score(v, u, *sums, V)[0])

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Integral of a Gaussian density over the shift, up to a constant."""
        covariance = covariance_of(omega, V, sigma)
        of_shift = np.linalg.solve(covariance, np.ones_like(omega)[..., None]).sum(axis=(1, 2))
        size = np.linalg.slogdet(covariance)[1] + np.log(of_shift)
        return np.asarray(-0.5 * (((seen - omega) * self.score(seen, omega, V, sigma)).sum(axis=1) + size))

    def predict(self, omega: Array, V: float) -> Array:
        """Mean output, or the output at omega."""
        if not V:
            return np.exp(self._logarithms(omega))
        return predicted_choice(self.beta * omega, self.beta**2 * V, soft=True)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """By the agreement of choices at finite temperature."""
        return choice_errors(self.beta**2 * V, self.beta**2 * Q, self.tokens, soft=True)
