"""F of outputs entry by entry along V at one Q: a Chebyshev series, of which the error is measured between nodes.

In t = asinh (V/Delta_n)^{1/2}, V/(V + Delta_n) = tanh^2 t. Below the noise t goes with the root of V and above it with
its logarithm, so that noise far below Q leaves no layer at the end V = Q. F/tanh^2 t is smooth where f is continuous,
and F/tanh t where it jumps.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval

from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import gauss_legendre_panels
from . import scalar
from .entries import variances
from .score_functions import EntryFunction

__all__ = ["InformationSeries", "information_series"]


class _Fitted(NamedTuple):
    """Values at nodes, coefficients, and the largest errors of the series and of the rules between the nodes."""

    values: Array
    coefficients: Array
    series: float
    rules: float


class InformationSeries:
    """F at one Q as a function of V.

    Parameters
    ----------
    function : EntryFunction
    noise : float
        Delta_n > 0.
    Q : float
        1 + rho.
    tokens : int
    """

    # Nodes of the first series, each next of three times as many, and of the last.
    _first, _last = 28, 252

    # Places between nodes at which a series is compared with F itself; there, by wider rules, too. F is followed at
    # these few places alone: twice the largest difference is stated, of which 0.68 are reached in 102 cases
    # (tests/calibration/test_entry_series.py).
    _checks, _coarse, _safety = 8, 1.35, 2

    def __init__(self, function: EntryFunction, noise: float, Q: float, tokens: int) -> None:
        self.function, self.noise, self.Q, self.tokens = function, noise, Q, tokens
        self.power = 1 if function.jumps else 2
        self.end = math.asinh(math.sqrt(Q / noise))
        nodes, fitted = self._first, self._fit(self._first, np.empty(0))
        # Of the largest value: a series that is closer than that, or than the rules are, is taken.
        enough = 1e-7
        while (
            fitted.series > max(enough * float(np.abs(fitted.coefficients).sum()), fitted.rules) and nodes < self._last
        ):
            nodes *= 3
            fitted = self._fit(nodes, fitted.values)
        self.coefficients, self.error = fitted.coefficients, self._safety * (fitted.series + fitted.rules)

    def _fit(self, nodes: int, known: Array) -> _Fitted:
        """The series of so many nodes, compared with F where the polynomial that vanishes at the nodes is largest.

        The nodes of a third as many are among them, with values that are known.
        """
        angles = (np.arange(nodes) + 0.5) * math.pi / nodes
        values = np.empty(nodes)
        values[1::3] = known if len(known) else [self._scaled(t) for t in self._at(angles[1::3])]
        for part in (slice(0, None, 3), slice(2, None, 3)):
            values[part] = [self._scaled(t) for t in self._at(angles[part])]
        coefficients = 2 / nodes * np.cos(np.outer(np.arange(nodes), angles)) @ values
        coefficients[0] *= 0.5
        between = self._at(np.unique(np.linspace(0, nodes - 1, self._checks).round()) * math.pi / nodes)
        fine, coarse = (np.array([self._scaled(t, scale) for t in between]) for scale in (1.0, self._coarse))
        off = float(np.abs(self._series(between, coefficients) - fine).max())
        return _Fitted(values, coefficients, off, float(np.abs(fine - coarse).max() + 1e-14 * np.abs(values).max()))

    def _at(self, angles: Array) -> Array:
        return np.asarray(0.5 * self.end * (1 + np.cos(angles)))

    def _scaled(self, t: float, scale: float = 1.0) -> float:
        """F over tanh t to the power, by rules whose panels are wider by the scale."""
        V = self.noise * math.sinh(t) ** 2
        total = 0.0
        for kind, number in ((2.0, self.tokens), (1.0, self.tokens * (self.tokens - 1) // 2)):
            deviation, spread = math.sqrt(max(self.Q - V, 0.0) * kind), math.sqrt(V * kind)
            total += number * scalar.information(
                self.function, self.function.breaks, deviation, spread, self.noise * kind, scale=scale
            )
        return total / math.tanh(t) ** self.power

    def _series(self, t: Array, coefficients: Array) -> Array:
        return np.asarray(chebval(2 * t / self.end - 1, coefficients))

    def information(self, V: float) -> Estimate:
        """F, which is not negative."""
        t = math.asinh(math.sqrt(V / self.noise))
        scale = math.tanh(t) ** self.power
        value = float(self._series(np.array(t), self.coefficients)) * scale
        return Estimate(max(value, 0.0), self.error * scale, "estimated")

    def evidence(self, V: float) -> Estimate:
        """E log Z_out, minus the entropy of the noise and the integral of F/(2 V) from 0 to V: dV/V = 2 dt/tanh t."""
        panels = len(self.coefficients) // self._first
        rule = gauss_legendre_panels(np.linspace(0.0, math.asinh(math.sqrt(V / self.noise)), panels + 1), 40)
        weights = rule.weights * np.tanh(rule.nodes) ** (self.power - 1)
        start = -0.5 * float(np.log(2 * math.pi * math.e * self.noise * variances(self.tokens)).sum())
        value = start - float(weights @ self._series(rule.nodes, self.coefficients))
        return Estimate(value, self.error * float(weights.sum()) + 1e-14 * abs(value), "estimated")


@lru_cache(maxsize=32)
def information_series(function: EntryFunction, noise: float, Q: float, tokens: int) -> InformationSeries:
    """One series for each function, noise, Q and number of tokens."""
    return InformationSeries(function, noise, Q, tokens)
