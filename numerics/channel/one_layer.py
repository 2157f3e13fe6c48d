"""Channel averages of one tied layer of rank 1, by quadrature over two variables."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..model.network import Network
from ..quadrature.rules import gauss_legendre_panels
from .averages import ROUNDING, Averages, ChannelBase, interval

__all__ = ["OneLayer"]

Array = NDArray[np.float64]


class OneLayer(ChannelBase):
    """Depth 1: the posterior is h = +-v, and two variables remain, r = |omega| and the component of h along omega.

    With Nishimori's identity G = (E[|h|^2 tanh^2(omega.h/V)] - M q)/V^2; deterministic quadrature.
    """

    # Below this overlap sums of |h|^2 tanh^2 lose fewer digits to differences than those of |h|^2 sech^2.
    _small = 0.2

    # Of the two resolutions: order of the panels in r, and step in z. At r = x sd the functions have their poles pi/(2
    # x) off the real line, and the weight exp(-x^2/2): a step d misses exp(-pi^2/(x d) - x^2/2), at most 1.2e-15 and
    # 1e-16.
    _coarse, _fine = (24, 0.09), (32, 0.08)

    model: Network
    layers = (0,)
    sampled = False

    def __init__(self, model: Network) -> None:
        """Keep the model; rank 1 is checked by the caller."""
        self.model = model

    def __call__(self, q: Array) -> Averages:
        """Averages as the ends of an interval about the finer of two resolutions."""
        scalar = float(q[0, 0])
        coarse, fine = (self._value(scalar, *rule) for rule in (self._coarse, self._fine))
        m, v = self.model.tokens, 1 - scalar
        growth = np.full((2, 1), float(m * (m + 1)) if scalar == 0 else np.nan)
        # Differences leave the rounding of their terms.
        rounding = ROUNDING * (fine + 2 * m * scalar / v**2 if scalar < self._small else m / v)
        return Averages(interval(fine, coarse)[:, None, None], growth, np.array([[rounding]]), "estimated")

    def log_density(self, q: Array) -> Array:
        """E log Z_out by the two resolutions, shape (2,), Z_out the density of v up to its sign.

        It is the prior's entropy of h given omega, and E log(1 + exp(-2 omega.h/V)) for the other sign.
        """
        m, scalar = self.model.tokens, float(q[0, 0])
        constant = -0.5 * m * (math.log(2 * math.pi * (1 - scalar)) + 1)
        return constant + np.array([self._doubt(scalar, *rule) for rule in (self._coarse, self._fine)])

    @property
    def solved(self) -> float:
        """Entries of h that the output fixes, up to a sign."""
        return float(self.model.tokens)

    def _doubt(self, q: float, order: int, step: float) -> float:
        """E log(1 + exp(-2 omega.h/V)): minus E log of the posterior probability of the true sign."""
        if q == 0:
            return math.log(2.0)
        return self._mean(q, order, step, lambda r, along: np.logaddexp(0.0, -2 * r * along / (1 - q)))

    def _value(self, q: float, order: int, step: float) -> float:
        m, v = self.model.tokens, 1 - q
        if q == 0:
            return 0.0

        def squares(along: Array) -> Array:
            """|h|^2 given the component along omega."""
            out = along**2
            out += v * (m - 1)
            return out

        def known(r: Array, along: Array) -> Array:
            """|h|^2 tanh^2."""
            field = r * along
            field /= v
            np.tanh(field, out=field)
            field *= field
            field *= squares(along)
            return field

        def missing(r: Array, along: Array) -> Array:
            """|h|^2 sech^2, in place."""
            decay = np.abs(r * along)
            decay *= -2
            decay /= v
            np.exp(decay, out=decay)
            below = 1 + decay
            below *= below
            decay *= 4
            decay /= below
            decay *= squares(along)
            return decay

        if q < self._small:
            return (self._mean(q, order, step, known) - m * q) / v**2
        # E[|h|^2 tanh^2] - M q = M V - E[|h|^2 sech^2]: no cancellation as V -> 0.
        return (m * v - self._mean(q, order, step, missing)) / v**2

    def _mean(self, q: float, order: int, step: float, function: Callable[[Array, Array], Array]) -> float:
        """Mean of a function of r = |omega|, shape (n, 1), and of the component of h along it, shape (n, k)."""
        m, sd = self.model.tokens, math.sqrt(1 - q)
        # chi_M law of r = sqrt(q) rho; tanh switches at r ~ sd.
        edge = min(0.5, 0.5 * sd / math.sqrt(q))
        edges = [0.0]
        while edge < 1.0:
            edges.append(edge)
            edge *= 2
        # Normal variables end here, and panels in r beyond 1 are at most so wide.
        cut, widest = 9.0, 1.5
        top = math.sqrt(m) + cut
        wide = np.linspace(1.0, top, math.ceil((top - 1) / widest) + 1)
        rho = gauss_legendre_panels(np.unique([*edges, *wide]), order)
        log_density = (m - 1) * np.log(rho.nodes) - 0.5 * rho.nodes**2
        log_density -= (0.5 * m - 1) * math.log(2) + math.lgamma(0.5 * m)
        r = math.sqrt(q) * rho.nodes[:, None]
        reach = math.ceil(cut / step)
        z = step * np.arange(-reach, reach + 1)
        along = sd * z
        weight = np.exp(-0.5 * z**2) * step / math.sqrt(2 * math.pi)
        # Values of r at a time: arrays that stay in the cache, as to make larger ones takes longer than to fill them.
        rows = 16
        given = [function(r[i : i + rows], r[i : i + rows] + along) @ weight for i in range(0, len(r), rows)]
        return float((rho.weights * np.exp(log_density)) @ np.concatenate(given))
