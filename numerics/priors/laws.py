"""Laws of the eigenvalues of a feature covariance, of mean 1: quadratures against them, and what D coordinates have.

All that a spectrum enters by are averages E[lambda f(lambda)] over its law: those of f over the law biased by size,
which has no atom at zero and is again a probability law, as E lambda = 1. Rules are of that law.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.shown import in_html

__all__ = ["MarchenkoPastur", "PowerLaw", "Rule", "Ruled", "SpectralLaw", "scaled"]

Array = NDArray[np.float64]

# Steps of the double-exponential rule and of a coarser one, whose distance states its error; how far it goes.
_STEP, _COARSE = 1 / 32, 1 / 24
_REACH = 6.0
# Nodes of a table of the distribution of Marchenko and Pastur.
_TABLE = 1 << 15


class Rule(NamedTuple):
    """Nodes and weights: sum of the weights times f(nodes) is E[lambda f(lambda)]."""

    nodes: Array
    weights: Array


class SpectralLaw(Protocol):
    """Law of the eigenvalues of Sigma, of mean 1."""

    @property
    def fine(self) -> Rule:
        """Rule for E[lambda f(lambda)]."""

    @property
    def coarse(self) -> Rule:
        """Another one, whose distance from it bounds the error of both; the same where they are sums."""

    @property
    def square(self) -> Fraction | float:
        """E lambda^2: a fraction where it is known exactly."""

    @property
    def share(self) -> float:
        """Probability of eigenvalues above zero."""

    def of(self, dimension: int) -> Array:
        """Eigenvalues of D coordinates, shape (D,), of mean 1."""

    def describe(self) -> str:
        """One line."""


class Ruled:
    """Rules of a law, made once: a fine one, and a coarser one or, of a sum, itself."""

    @property
    def _rules(self) -> tuple[Rule, Rule]:
        raise NotImplementedError

    @property
    def fine(self) -> Rule:
        """Rule for E[lambda f(lambda)]."""
        return self._rules[0]

    @property
    def coarse(self) -> Rule:
        """Another one."""
        return self._rules[1]


def _double_exponential(step: float) -> tuple[Array, Array, Array]:
    """Nodes of (0, 1), their distances to one, and weights, of the rule of Takahasi and Mori."""
    t = step * np.arange(-round(_REACH / step), round(_REACH / step) + 1)
    u = 0.5 * np.pi * np.sinh(t)
    # exp(-2 |u|)/(1 + exp(-2 |u|)) is exact near either end.
    small = np.exp(-2 * np.abs(u)) / (1 + np.exp(-2 * np.abs(u)))
    near, far = np.where(u < 0, small, 1 - small), np.where(u < 0, 1 - small, small)
    weights = step * np.pi * np.cosh(t) * near * far
    keep = weights > 0
    return near[keep], far[keep], weights[keep]


def scaled(values: Array) -> Array:
    """The same with mean 1."""
    if not values.any():
        raise ValueError(f"all of D = {len(values)} coordinates have eigenvalue 0 by this law: take a larger dimension")
    return np.asarray(values / values.mean())


@in_html
@dataclass(frozen=True)
class MarchenkoPastur(Ruled):
    """Eigenvalues of the sample covariance of n standard normal vectors in D = gamma n dimensions.

    With theta from 0 to pi, lambda = 1 + gamma - 2 gamma^{1/2} cos(theta) and E[lambda f(lambda)] =
    (2/pi) int sin(theta)^2 f(lambda(theta)) d theta; where gamma > 1, eigenvalues are zero with probability
    1 - 1/gamma. E lambda = 1, E lambda^2 = 1 + gamma.

    Parameters
    ----------
    gamma : Fraction
        > 0.
    """

    gamma: Fraction

    def __post_init__(self) -> None:
        """Check the aspect."""
        if not 0 < self.gamma <= 10**6:
            raise ValueError(f"the aspect gamma = D/n of mp:gamma must be in (0, 1e6], got {float(self.gamma):g}")

    @cached_property
    def _rules(self) -> tuple[Rule, Rule]:
        """Nodes crowd at both edges."""
        return self._rule(_STEP), self._rule(_COARSE)

    def _rule(self, step: float) -> Rule:
        near, far, weights = _double_exponential(step)
        nodes = self._at(np.pi * near, np.pi * far)
        weights = 2 * np.sin(np.pi * np.minimum(near, far)) ** 2 * weights
        keep = (nodes > 0) & (weights > 0)
        return Rule(nodes[keep], weights[keep])

    def _at(self, theta: Array, rest: Array) -> Array:
        """Lambda at theta = pi - rest, to rounding at both edges, the lower one perhaps zero."""
        root = float(self.gamma) ** 0.5
        low = float(1 - self.gamma) / (1 + root)
        lower = low * low + 4 * root * np.sin(0.5 * theta) ** 2
        return np.where(theta < rest, lower, (1 + root) ** 2 - 4 * root * np.sin(0.5 * rest) ** 2)

    @property
    def square(self) -> Fraction:
        """1 + gamma."""
        return 1 + self.gamma

    @property
    def share(self) -> float:
        """min(1, 1/gamma)."""
        return min(1.0, float(1 / self.gamma))

    def of(self, dimension: int) -> Array:
        """Quantiles at (i - 1/2)/D, the largest first, over their mean."""
        theta = np.linspace(0, np.pi, _TABLE + 1)
        middle = 0.5 * (theta[1:] + theta[:-1])
        density = np.sin(middle) ** 2 / self._at(middle, np.pi - middle)
        mass = np.concatenate([[0.0], np.cumsum(density)])
        level = (np.arange(dimension) + 0.5) / dimension
        inside = level > 1 - self.share
        at = np.interp((level - (1 - self.share)) / self.share, mass / mass[-1], theta)
        return scaled(np.where(inside, self._at(at, np.pi - at), 0.0)[::-1])

    def describe(self) -> str:
        """One line."""
        return f"Marchenko-Pastur spectrum of aspect {float(self.gamma):g}"


@in_html
@dataclass(frozen=True)
class PowerLaw(Ruled):
    """Lambda_i proportional to i^{-a}, i = 1 .. D, as D grows: lambda = (1 - a) u^{-a}, u uniform in (0, 1).

    With v = u^{1 - a}, which is uniform under the law biased by size, lambda = (1 - a) v^{-a/(1 - a)}.

    Parameters
    ----------
    a : Fraction
        In (0, 1/2), where E lambda^2 = (1 - a)^2/(1 - 2 a) is finite.
    """

    a: Fraction

    def __post_init__(self) -> None:
        """Check the exponent."""
        if not 0 < self.a <= Fraction(45, 100):
            raise ValueError(
                f"the exponent a of power:a must be in (0, 0.45], got {float(self.a):g}: from 1/2 on E lambda^2 grows "
                "without bound with D, and thresholds fall to zero; power:a:D takes the D eigenvalues i^-a of a "
                "finite dimension, with any a"
            )

    @cached_property
    def _rules(self) -> tuple[Rule, Rule]:
        """Nodes crowd at the largest eigenvalues."""
        return self._rule(_STEP), self._rule(_COARSE)

    def _rule(self, step: float) -> Rule:
        near, _, weights = _double_exponential(step)
        a = float(self.a)
        return Rule((1 - a) * near ** (-a / (1 - a)), weights)

    @property
    def square(self) -> Fraction:
        """(1 - a)^2/(1 - 2 a)."""
        return (1 - self.a) ** 2 / (1 - 2 * self.a)

    @property
    def share(self) -> float:
        """One."""
        return 1.0

    def of(self, dimension: int) -> Array:
        """Means of the law over D equal shares of it, the largest first: those of i^{-a} without its sum's error."""
        edges = (np.arange(dimension + 1) / dimension) ** (1 - float(self.a))
        return scaled(np.diff(edges))

    def describe(self) -> str:
        """One line."""
        return f"power-law spectrum of exponent {float(self.a):g}"
