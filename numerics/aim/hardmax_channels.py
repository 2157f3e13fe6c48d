"""Channels of hardmax labels: of two tokens in closed form, of three to ten by chains of integrals."""

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as scores

from ..core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from ..core.results import Estimate
from ..core.shown import few_lines
from ..learning.blocks import Array
from . import hardmax, hardmax_many, hardmax_sampled
from .bivariate import Slopes, slopes
from .checks import CITE, check_outputs, count
from .choices import choice_errors, predicted_choice
from .entries import variances
from .hardmax_entropy import label_entropy
from .label_chains import label_chains
from .results import PredictionErrors

__all__ = ["Hardmax", "HardmaxMany"]

_CONTRAST = np.array([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]])


@few_lines
class Hardmax:
    """One-hot argmax of each row of h, two tokens.

    Parameters
    ----------
    published : bool, keyword-only
        F with the normal density in the place of the derivatives of Phi2, as the published curves have it. It is not
        Bayes-optimal and is here to overlay them; it has no score.
    """

    functionals: int | None = None
    observed = 0
    noise = 0.0
    scale_free = True

    def __init__(self, tokens: int = 2, *, published: bool = False) -> None:
        if count("tokens", tokens, 2, "T") > 2:
            raise KernelNotFoundError(
                f"no closed form of the hardmax channel for T = {tokens} ({CITE}, hardmax channel); take HardmaxMany, "
                'which is channel("hardmax", T), and has no published variant'
            )
        self.tokens, self.published = 2, published
        self.name = "hardmax_published" if published else "hardmax"

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F(c), interpolated between 28 values of a two-dimensional rule."""
        return hardmax.information_between(c, published=self.published)

    def evidence(self, V: float, Q: float) -> Estimate:
        """Minus the entropy of the labels given omega."""
        if self.published:
            raise KernelNotFoundError("hardmax_published is no model, and has no free entropy; use hardmax")
        return self._minus(hardmax.label_entropy((Q - V) / V))

    @staticmethod
    def _minus(found: Estimate) -> Estimate:
        return Estimate(-found.value, found.error, found.how)

    def observe(self, h: Array) -> Array:
        """Outputs."""
        return np.asarray(np.eye(self.tokens)[h.argmax(axis=2)])

    def draw(self, h: Array, rng: np.random.Generator) -> Array:
        """Outputs; they have no noise."""
        return self.observe(h)

    def check(self, y: ArrayLike) -> Array:
        """Refuse rows that are not one-hot."""
        array = check_outputs(y, self.tokens)
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
        s1, s2 = seen.T
        c1, c2, _ = self._spread(sigma)
        found = self._slopes(seen, omega, V, sigma)
        return np.stack(scores.hardmax_score(found.first, found.second, s1, s2, c1, c2, V), axis=1)

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Log Phi2(k1, k2; r)."""
        return self._slopes(seen, omega, V, sigma).log_z

    def _slopes(self, seen: Array, omega: Array, V: float, sigma: Array | None) -> Slopes:
        if self.published:
            raise KernelNotFoundError(
                "hardmax_published is no score of a model: it replaces a derivative by another function; use hardmax"
            )
        s1, s2 = seen.T
        c1, c2, r = self._spread(sigma)
        k1, k2 = scores.hardmax_arguments(*omega.T, s1, s2, c1, c2, V)
        return slopes(np.asarray(k1), np.asarray(k2), s1 * s2 * r)

    @staticmethod
    def _spread(sigma: Array | None) -> tuple[Array, Array, Array]:
        """Variances of h11 - h12 and h22 - h12 in units of V, and their correlation."""
        if sigma is None:
            return np.array(3.0), np.array(3.0), np.array(1 / 3)
        covariance = _CONTRAST @ sigma @ _CONTRAST.T
        c1, c2 = covariance[:, 0, 0], covariance[:, 1, 1]
        # Of the order of 1/3; in the smallest dimensions it is clipped to the range where `log_phi2` is accurate.
        return c1, c2, np.clip(covariance[:, 0, 1] / np.sqrt(c1 * c2), -0.9, 0.9)

    def predict(self, omega: Array, V: float) -> Array:
        """Probabilities of the labels, or the label at omega."""
        return predicted_choice(omega, V, soft=False) if V else self.observe(omega)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """By the agreement of choices at zero temperature: twice the share of wrong rows for the plug-in."""
        if self.published:
            raise KernelNotFoundError("hardmax_published is no model, and predicts nothing; use hardmax")
        return choice_errors(V, Q, self.tokens, soft=False)


class HardmaxMany(Hardmax):
    """One-hot argmax of each row of h, three to ten tokens (`label_chains`).

    Averages over labels are sums up to five tokens (`hardmax_many`), and sampled beyond (`hardmax_sampled`).
    """

    def __init__(self, tokens: int) -> None:
        if not 2 < count("tokens", tokens, 2, "T") <= hardmax_sampled.MOST_TOKENS:
            raise KernelNotFoundError(
                f"hardmax labels are served for T = 3 to {hardmax_sampled.MOST_TOKENS} ({CITE}, hardmax channel), got "
                f"T = {tokens}; take a smaller T, or the softmax channel"
            )
        super().__init__()
        self.tokens = tokens
        self._averages = hardmax_many if tokens <= hardmax_many.MOST_TOKENS else hardmax_sampled

    def information(self, c: float, V: float = 1.0) -> Estimate:
        """F(c), from its behaviour at both ends of c."""
        return self._averages.information(c, self.tokens)

    def evidence(self, V: float, Q: float) -> Estimate:
        """Minus the entropy of the labels given omega."""
        return self._minus(label_entropy((Q - V) / V, self.information))

    def check(self, y: ArrayLike) -> Array:
        """Refuse rows that are not one-hot, and labels of probability zero."""
        array = super().check(y)
        possible = hardmax_many.possible(array.argmax(axis=2))
        if not possible.all():
            raise UnreachableOutputError(
                f"y of sample {int(np.argmin(possible))} names a circle of three tokens or more as largest entries, "
                f"which asks for equal entries of h ({CITE}, hardmax); leave such samples out, of x too"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """Column of the largest entry in each row."""
        return np.asarray(y.argmax(axis=2), np.float64)

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Slope of log P[label] in omega; of sigma only the diagonal counts, its other entries vanish as d grows."""
        return self._chains(seen, omega, V, sigma)[1]

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Log P[label], with the same of sigma."""
        return self._chains(seen, omega, V, sigma)[0]

    def _chains(self, seen: Array, omega: Array, V: float, sigma: Array | None) -> tuple[Array, Array]:
        variance = variances(self.tokens) if sigma is None else np.diagonal(sigma, axis1=1, axis2=2)
        spread = np.broadcast_to(np.sqrt(V * variance), omega.shape)
        log_z, off, g = label_chains(seen.astype(np.int64), np.asarray(omega, np.float64), spread)
        # Of the score of a sample: an output that is as far off is no data of the model.
        known = 0.02
        if not (off < known).all():
            raise ConvergenceError(
                f"the score of sample {int(np.argmax(~(off < known)))} is known to {off.max():.1e} only ({CITE}, "
                "hardmax channel); omega is far from any h with this label: raise the damping"
            )
        return log_z, g
