"""Whether a further head would have been seen: planted heads beside the scatter that the noise leaves to a fit."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..learning.blocks import Array
from .batch import Batch
from .gram import gram, rows
from .holdout import Split

__all__ = ["Resolution", "in_two", "needed", "resolution"]

# Half the distance of two heads planted in place of one, of its norms; norm of W of a further head, of the largest.
_APART, _FAINT = 1 / 6, 1 / 30


@dataclass(frozen=True)
class Resolution:
    """How well a further head would have been seen.

    Attributes
    ----------
    apart, faint : float
        chi^2 that no layer near the one learned explains: of two heads in place of one, each a sixth of its norms away
        from it, the least over the heads; and of a further head with W of 1/30 of the largest norm.
    needed : float
        chi^2 at which the gain on held-out examples is three standard errors on average: one in a thousand such heads
        would then look like none.
    """

    apart: float
    faint: float
    needed: float

    @property
    def seen(self) -> bool:
        """Whether both would have been seen."""
        return min(self.apart, self.faint) >= self.needed

    @property
    def status(self) -> str:
        """What would not have been seen, or empty."""
        missed = []
        if self.apart < self.needed:
            missed.append(f"two heads {2 * _APART:.0%} apart in place of one")
        if self.faint < self.needed:
            missed.append(f"a head with W of {_FAINT:.0%} of the largest norm")
        return f"{' and '.join(missed)} would not be seen in these data" if missed else ""


def needed(parameters: int, share: float) -> float:
    """The chi^2 that a further head must explain in the examples fitted to, to be seen in those held out.

    Parameters
    ----------
    parameters : int
        P, of the head.
    share : float
        r, held-out examples per example fitted to.

    Notes
    -----
    On held-out examples the gain is r (chi^2 - P) on average, as fitting P parameters costs as much as it explains,
    with a standard deviation of 2 sqrt(r (chi^2 + P)).
    """
    # Standard errors of the mean gain: the paired test then finds none at all with probability 1e-3.
    power = 3.0
    c = 2 * power / math.sqrt(share)
    return ((c + math.sqrt(c * c + 8 * parameters)) / 2) ** 2 - parameters


def resolution(split: Split, theta: Array, w: Array, noise_std: float) -> Resolution | None:
    """Plant further heads into a learned layer, and take off what its own parameters make up for, to first order.

    Parameters
    ----------
    split : Split
    theta, w : ndarray, shape (m, d, d)
    noise_std : float
        Above 0.

    Returns
    -------
    Resolution or None
        None where the normal equations of the layer are singular.
    """
    kept = split.X[: rows(split.X, theta)]
    found, scale = gram(kept, theta, w), len(split.X) / len(kept)
    diagonal = np.diag(found)
    # Of eigenvalues of the scaled normal equations, as certificates call them singular, and of their diagonal: sums of
    # n squares of rounding are below 1e-28 of it.
    singular, zero = 1e-12, 1e-26
    if diagonal.min() <= zero * diagonal.max():
        return None
    unit = 1 / np.sqrt(diagonal)
    try:
        scaled = found * unit[:, None] * unit
        # Rounding makes a singular matrix indefinite or not; less 1e-12, far above rounding, it is indefinite.
        cho_factor(scaled - singular * np.eye(len(scaled)), lower=True)
        factor = cho_factor(scaled, lower=True)
    except LinAlgError:
        return None
    batch = Batch(kept)
    clean = batch.predict(theta, w)

    def chi2(*planted: Array) -> float:
        change = batch.predict(*planted) - clean
        # The gradient of the squared error of a layer whose outputs are off by the change: J^T change.
        off = Batch(kept, batch.unpack(clean - change))
        _, d_theta, d_w = off.loss(theta, w)
        slope = np.concatenate([d_theta.ravel(), d_w.ravel()]) * off.size * unit
        return scale * float(np.vdot(change, change) - slope @ cho_solve(factor, slope)) / noise_std**2

    rng = np.random.default_rng(0)
    draws = 2
    apart = min(
        float(np.mean([chi2(*in_two(theta, w, head, rng)) for _ in range(draws)])) for head in range(len(theta))
    )
    faint = float(np.mean([chi2(*_one_more(theta, w, rng)) for _ in range(draws)]))
    share = len(split.X_val) / len(split.X)
    return Resolution(apart, faint, needed(2 * theta[0].size, share))


def in_two(theta: Array, w: Array, head: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The layer with two heads, Theta +- e_1 and W/2 +- e_2, in place of one."""
    planted = []
    for matrices, shares in ((theta, 1.0), (w, 0.5)):
        step = _unit(rng, theta) * _APART * float(np.linalg.norm(matrices[head])) * shares
        own = shares * matrices[head]
        planted.append(np.concatenate([np.delete(matrices, head, axis=0), [own + step, own - step]]))
    return planted[0], planted[1]


def _one_more(theta: Array, w: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The layer with a further head of small values."""
    norms = [np.linalg.norm(matrices, axis=(1, 2)) for matrices in (theta, w)]
    sizes = (float(np.median(norms[0])), _FAINT * float(norms[1].max()))
    theta_new, w_new = (
        np.concatenate([matrices, [_unit(rng, theta) * size]]) for matrices, size in zip((theta, w), sizes, strict=True)
    )
    return theta_new, w_new


def _unit(rng: np.random.Generator, theta: Array) -> Array:
    step = rng.standard_normal(theta.shape[1:])
    return np.asarray(step / np.linalg.norm(step))
