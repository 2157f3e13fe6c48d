"""The committee of many hidden layers: the sum of their features is Gaussian, by the central limit theorem.

Given the omegas of n = L - 1 hidden layers of overlap q each, X = sum_l (s_l, t_l) has independent entries of variance
n S_i(q) up to fluctuations of relative order n^{-1/2}, and the noise has the variance rho/b_L^2, q_L = 1 - rho/c^2.
With r = rho/n and A(u) = E_b[u/(u + b^2)], to leading order in 1/c the state evolution (14) is

    last layer:     sum_i A(r/S_i) = 1/alpha,
    hidden layers:  q/(1 - q) = (alpha/n) sum_i (N_i'(q)/S_i) (1 - A(r/S_i)),

and both are where the free entropy (10) is stationary,

    Phi = (log rho)/2 + (n/2)(q + log(1 - q)) - (alpha/2) sum_i E_b log(rho + n S_i b^2) + const.

Off the diagonal the overlaps stay zero: the output does not see the sign of one layer's indices, so that at a diagonal
overlap E g_l g_l'^T = 0.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx

from ..core.results import Estimate
from ..core.validation import whole, within
from ..quadrature.rules import Rule, gauss_legendre_panels
from .features import Stability, stability

__all__ = ["GaussianCommittee", "GaussianPoint", "limit_threshold"]

Array = NDArray[np.float64]


def _unseen(u: Array) -> Array:
    """A(u) = E[u/(u + b^2)], b standard normal: sqrt(pi u/2) exp(u/2) erfc(sqrt(u/2))."""
    return np.asarray(np.sqrt(0.5 * np.pi * u) * erfcx(np.sqrt(0.5 * u)))


def _seen(u: Array) -> Array:
    """1 - A(u), which is 1/u to leading order where A is one but for rounding."""
    large = u > 1e4
    far = 1 / np.where(large, u, 1.0)
    return np.where(large, far * (1 - 3 * far * (1 - 5 * far)), 1 - _unseen(np.where(large, 1.0, u)))


@dataclass(frozen=True)
class GaussianPoint:
    """A fixed point of the state evolution of many hidden layers; numbers are off by rounding and the root's tolerance.

    Attributes
    ----------
    alpha : float
    overlap : float
        q of every hidden layer.
    remainder : float
        rho = c^2 (1 - q_L) of the last layer.
    free_entropy : float
        Phi less that at q = 0, per dimension, all layers together.
    kind : {"zero", "stable", "unstable"}
        Zero overlap; or whether the free entropy has a maximum or a minimum along the hidden overlap.
    stability : float
        Factor by which a small deviation of q grows per iteration.
    """

    alpha: float
    overlap: float
    remainder: float
    free_entropy: float
    kind: str
    stability: float


class GaussianCommittee:
    """State evolution and free entropy at a cost that does not depend on the depth.

    Parameters
    ----------
    layers : int
        Depth L >= 2; the law of the sum is that of large L.
    beta : float, optional
        Inverse temperature of the hidden layers.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    troiani2025, (10), (14), (46)-(54).
    """

    def __init__(self, layers: int, beta: float = 1.0) -> None:
        self.hidden = whole("layers", layers, 2, "(52)") - 1
        self.features: Stability = stability(beta)
        # For E_b log: the integrand has a scale down to sqrt(r).
        self._b: Rule = gauss_legendre_panels(np.concatenate([[0.0], np.geomspace(1e-12, 8.6, 48)]), 12)
        self._weights = self._b.weights * np.exp(-0.5 * self._b.nodes**2) * math.sqrt(2 / math.pi)

    def remainder(self, alpha: float, q: float = 0.0) -> float:
        """Return rho at the fixed point of the last layer.

        Raises
        ------
        ValueError
            alpha <= 1/2, where the last layer is not recovered at any c: 1 - q_L is no longer of order c^-2.
        """
        if not (math.isfinite(alpha) and alpha > 0.5):
            raise ValueError(
                f"alpha must be > 1/2 for the committee, got {alpha!r}: below it the last layer is that of one layer "
                "alone to leading order in 1/c (52); use Network(1)"
            )
        within("alpha", alpha)
        rest = self.features.rest(q)

        def wrong(log_r: float) -> float:
            return float(_unseen(math.exp(log_r) / rest).sum()) - 1 / alpha

        # A(u) is between its bounds sqrt(pi u/2) and 1 - 1/(1 + u).
        low = 2 * math.log(1 / (8 * alpha)) + math.log(float(rest.min()))
        high = math.log(4 * float(rest.max()) / (2 - 1 / alpha)) + 1.0
        # Of the root in log r.
        close = 1e-14
        return self.hidden * math.exp(brentq(wrong, low, high, xtol=close, rtol=close))

    def conjugate(self, alpha: float, q: float) -> float:
        """Return qhat of a hidden layer, the last layer being at its fixed point."""
        rest = self.features.rest(q)
        u = self.remainder(alpha, q) / self.hidden / rest
        return float(alpha / self.hidden * (self.features.slope(q) / rest) @ _seen(u))

    def growth(self, alpha: float) -> float:
        """Factor by which a small overlap of the hidden layers grows per iteration: one at their threshold."""
        rest = self.features.rest(0.0)
        u = self.remainder(alpha) / self.hidden / rest
        return float(alpha / self.hidden * (self.features.curvature / rest) @ _seen(u))

    def threshold(self) -> float:
        """Return alpha at which the hidden layers turn unstable."""
        low, high = 0.5 + 1e-6, 1.0 + 2.0 * self.hidden
        return float(brentq(lambda alpha: self.growth(alpha) - 1, low, high, xtol=1e-13))

    def free_entropy(self, alpha: float, q: float, rho: float) -> float:
        """Phi up to a constant that depends neither on q nor on rho.

        Parameters
        ----------
        alpha : float
        q : float
            0 <= q < 1.
        rho : float
            > 0.
        """
        n = self.hidden
        spread = rho + n * np.outer(self._b.nodes**2, self.features.rest(q))
        output = 0.5 * alpha * float((self._weights @ np.log(spread)).sum())
        return 0.5 * math.log(rho) + 0.5 * n * (q + math.log1p(-q)) - output

    def points(self, alpha: float) -> tuple[GaussianPoint, ...]:
        """All fixed points below recovery, in the order of their overlap; zero is the first."""
        base = self.free_entropy(alpha, 0.0, self.remainder(alpha))

        def gap(w: float) -> float:
            q = -math.expm1(-w)
            return self.conjugate(alpha, q) * math.exp(-w) / q - 1

        # Overlaps scanned for sign changes.
        scan = 64
        grid = np.geomspace(1e-6, -math.log1p(-self.features.furthest), scan)
        values = [gap(float(w)) for w in grid]
        found = [GaussianPoint(alpha, 0.0, self.remainder(alpha), 0.0, "zero", self.growth(alpha))]
        for a, b, left, right in zip(grid[:-1], grid[1:], values[:-1], values[1:], strict=True):
            if left * right < 0:
                q = -math.expm1(-float(brentq(gap, float(a), float(b), xtol=1e-13)))
                rho = self.remainder(alpha, q)
                value = self.free_entropy(alpha, q, rho) - base
                found.append(
                    GaussianPoint(alpha, q, rho, value, "stable" if left > 0 else "unstable", self._slope(alpha, q))
                )
        return tuple(found)

    def _slope(self, alpha: float, q: float) -> float:
        """F'(q) along the hidden overlap, by a central difference of an analytic function."""
        step = 1e-4 * (1 - q) * min(q, 1.0)
        up, down = (self.conjugate(alpha, x) for x in (q + step, q - step))
        return float((up - down) / (2 * step) * (1 - q) ** 2)


def limit_threshold(beta: float = 1.0) -> Estimate:
    """Limit of alpha/(L - 1) at the threshold of the hidden layers for L -> infinity, after c -> infinity.

    There the noise no longer counts: 1 / sum_i N_i''(0)/S_i(0). Recovery is at alpha/(L - 1) = 1/2, by counting.

    Parameters
    ----------
    beta : float, optional

    Returns
    -------
    Estimate
        With the difference of two quadratures as its error.
    """
    # Coarser nodes for an error.
    coarse = 200
    values = [
        1 / float((found.curvature / found.rest(0.0)).sum()) for found in (stability(beta, coarse), stability(beta))
    ]
    # Rounding of sums of a hundred thousand terms.
    return Estimate(values[1], abs(values[1] - values[0]) + 1e-13, "estimated")
