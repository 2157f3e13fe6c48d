"""Output channels y | h of the attention-indexed model: the information F(c) of an output, and its score g_out.

Everything on h is in its independent entries a <= b, in the order of ``numpy.triu_indices(T)``, whose prior covariance
is Q (1 + delta_ab). F(c) = V sum_{a<=b} (1 + delta_ab) E g_ab^2 at c = q/V, so that qhat = (2 alpha/V) F(c).
"""

import math
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as scores

from ..core.errors import UnreachableOutputError
from ..core.results import Estimate
from ..core.validation import precision, softmax_rows
from ..learning.blocks import Array
from .checks import ACTIVATIONS, CITE, above_zero, check_outputs, count, from_zero
from .choices import choice_errors, predicted_choice
from .entries import pairs, variances, variances_of_rows
from .hardmax_channels import Hardmax, HardmaxMany
from .results import PredictionErrors

__all__ = ["Channel", "Hardmax", "HardmaxMany", "Linear", "Softmax", "channel", "pairs", "variances"]

# Logarithms of rows of a softmax computed in float64 are below this, and the rows sum to one within it.
_ROW_SUM = 1e-9
# Rounding of a logarithm.
_LOG = 4 * float(np.finfo(float).eps)


class Channel(Protocol):
    """What every channel has.

    Attributes
    ----------
    name : str
    tokens : int
    functionals : int or None
        K, where an output fixes K linear functionals of h and is silent on the rest: F = K then.
    noise : float
        Variance of what is added to an entry of the output, over 1 + delta_ab.
    scale_free : bool
        Whether a positive multiple of h has the same output.
    """

    name: str
    tokens: int
    functionals: int | None
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
        """g_out; see `g_out`."""

    def predict(self, omega: Array, V: float) -> Array:
        """Mean output without noise, shape (n, T, T), of h ~ N(omega, V (1 + delta_ab)); no logarithms."""

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """Errors of prediction in the limit, 0 < V <= Q; see `prediction`."""


class _Fixed:
    """An output that fixes K linear functionals of h; the score is a projection."""

    tokens: int
    functionals: int | None
    noise = 0.0
    scale_free = False

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F = K."""
        assert self.functionals is not None
        return Estimate(float(self.functionals), 0.0, "rigorous")

    def evidence(self, V: float, Q: float) -> Estimate:
        """-(K/2) log V, up to a constant."""
        assert self.functionals is not None
        return Estimate(-0.5 * self.functionals * math.log(V), _LOG, "rigorous")


class Linear(_Fixed):
    """y = h, or h and noise.

    Parameters
    ----------
    tokens : int
        T >= 2.
    noise : float
        Delta_n >= 0: entries a <= b get independent noise of variance Delta_n (1 + delta_ab).
    """

    def __init__(self, tokens: int, noise: float = 0.0) -> None:
        self.tokens = count("tokens", tokens, 2, "T")
        self.noise = from_zero("noise", noise, "linear channel")
        self.name = "linear"
        self.entries = self.tokens * (self.tokens + 1) // 2
        self.functionals = None if self.noise else self.entries

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F = K V/(V + Delta_n), K = T (T + 1)/2."""
        return Estimate(self.entries * (V / (V + self.noise)), 0.0, "rigorous")

    def evidence(self, V: float, Q: float) -> Estimate:
        """-(K/2) log(V + Delta_n), up to a constant."""
        return Estimate(-0.5 * self.entries * math.log(V + self.noise), _LOG, "rigorous")

    def observe(self, h: Array) -> Array:
        """Outputs without their noise."""
        return h

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs with their noise."""
        if not self.noise:
            return h
        half = rng.standard_normal(h.shape)
        # Entries of variance 1, and 2 on the diagonal.
        return np.asarray(h + np.sqrt(self.noise / 2) * (half + half.swapaxes(1, 2)))

    def check(self, y: ArrayLike) -> Array:
        """Refuse outputs that are not symmetric."""
        array = check_outputs(y, self.tokens)
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
        """(V Sigma + Delta_n diag(1 + delta_ab))^{-1} (y - omega)."""
        if sigma is None:
            return np.asarray(scores.linear_score(seen, omega, variances(self.tokens), V + self.noise)[0])
        covariance = V * sigma + self.noise * np.diag(variances(self.tokens))
        return np.asarray(np.linalg.solve(covariance, (seen - omega)[..., None])[..., 0])

    def predict(self, omega: Array, V: float) -> Array:
        """Return omega."""
        return omega

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """V times the sum of 1 + delta_ab over all entries, of both predictions."""
        error = Estimate(V * float(variances_of_rows(self.tokens).sum()), 0.0, "rigorous")
        return PredictionErrors(error, error)


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
        log_y = self._logarithms(h)
        return log_y if self.logarithms else np.exp(log_y)

    def _logarithms(self, h: Array) -> Array:
        exponent = self.beta * (h - h.max(axis=2, keepdims=True))
        return np.asarray(exponent - np.log(np.exp(exponent).sum(axis=2, keepdims=True)))

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs; they have no noise."""
        return self.observe(h)

    def check(self, y: ArrayLike) -> Array:
        """Refuse what are no rows of a softmax."""
        array = check_outputs(y, self.tokens)
        if not self.logarithms:
            remedy = "; where they underflow pass log y with logarithms=True (aim amp --log-outputs)"
            return softmax_rows(array, f"{CITE}, softmax", remedy)
        if (array > _ROW_SUM).any():
            raise UnreachableOutputError(
                f"log y must be <= 0 ({CITE}, softmax), got {array.max():.3g}; pass y with logarithms=False"
            )
        # Rounding of a logarithm is a relative error of y; the score does not depend on what a whole row is off by.
        worst = float(np.abs(np.exp(array).sum(axis=2) - 1).max())
        if worst > _ROW_SUM and worst > 4 * self.tokens * precision(array) * (1 + float(np.abs(array).max())):
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

    def predict(self, omega: Array, V: float) -> Array:
        """Mean output, or the output at omega."""
        if not V:
            return np.exp(self._logarithms(omega))
        return predicted_choice(self.beta * omega, self.beta**2 * V, soft=True)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """By the agreement of choices at finite temperature."""
        return choice_errors(self.beta**2 * V, self.beta**2 * Q, self.tokens, soft=True)


def channel(
    activation: Literal["softmax", "hardmax", "linear", "hardmax_published"] | str,
    tokens: int = 2,
    beta: float = 1.0,
    noise: float = 0.0,
) -> Channel:
    """Return the channel of a name.

    Raises
    ------
    ValueError
        An unknown name, T < 2, beta not positive, noise negative or of another channel than linear.
    KernelNotFoundError
        Hardmax of more than five tokens, or the published formula for more than two.
    """
    if activation == "linear":
        return Linear(tokens, noise)
    if from_zero("noise", noise, "linear channel") and activation in ACTIVATIONS:
        raise ValueError(
            f"noise is served for the linear channel ({CITE}, linear channel), got {noise!r} with {activation}; leave "
            "it out"
        )
    if activation == "softmax":
        return Softmax(tokens, beta)
    if activation == "hardmax" and tokens != 2:
        return HardmaxMany(tokens)
    if activation in ("hardmax", "hardmax_published"):
        return Hardmax(tokens, published=activation == "hardmax_published")
    raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)} ({CITE}, outputs), got {activation!r}")
