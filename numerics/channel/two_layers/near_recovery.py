"""Averages of two layers near recovery: the limit of the linearised network, and a series in 1 - q_11 about it.

With V_ll = 1 - q_ll and r = V_22/V_11, V_ll G_ll -> T_l(r) as V -> 0, the trace of what the linearised output tells of
h_l: with the squares lambda of the singular values of (dv/dh_2)^{-1} dv/dh_1, T_1 = E sum lambda/(lambda + r) and
T_2 = 2 - T_1. Beyond the limit log(V_ll G_ll/T_l) = V_11 f_l, along the path of fixed points, on which both layers ask
for the same alpha: f_l(V) = a + b log V + c V + .., as what is lost at h, where signs are open, is of relative size
V/|h|^2, whose mean over the plane diverges like a logarithm. Three quadratures on the path fix a, b and c; what sqrt V
in the logarithm's place gives elsewhere measures the error.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.network import Network
from ...quadrature.rules import normal_qmc
from ..deep.linearised import jacobians

__all__ = ["NearRecovery", "NearValue"]

Array = NDArray[np.float64]

# The quadratures are at these multiples of the closest, 1 - q_11 of which is one of these. Up to 1.4 times the closest
# their relative errors enter with weights of at most .08, .57 and 1.26: the others are coarser by these factors.
_MULTIPLES, _COARSER = (4.0, 2.0, 1.0), (5.0, 1.5, 1.0)


class NearValue(NamedTuple):
    """G_11 and G_22 with what they may be off by, relative."""

    g: Array
    error: Array


class _Series(NamedTuple):
    """f_l at the quadratures, shape (3, 2), and their 1 - q_11."""

    v: Array
    f: Array

    def at(self, v: float) -> tuple[Array, Array]:
        """f_l, and its distance to that with a square root."""
        here, other = (_through(self.v, self.f, v, curved) for curved in (np.log, np.sqrt))
        return here, np.abs(here - other)


def _through(nodes: Array, values: Array, v: float, curved: Callable[[Array], Array]) -> Array:
    """Value at v of the combination of 1, V and a curved function of V through three points."""
    basis, here = (np.stack([np.ones_like(x), x, curved(x)], axis=-1) for x in (nodes, np.array(v)))
    return np.asarray(here @ np.linalg.solve(basis, values))


class NearRecovery:
    """Averages at diagonal overlaps near recovery.

    Parameters
    ----------
    model : Network
        Two layers of rank 1 over two tokens.
    quadrature : callable
        Gives (G_11, G_22) at (1 - q_11, 1 - q_22) to a relative accuracy; None where it does not go.

    References
    ----------
    troiani2025, (14), (95).
    """

    def __init__(self, model: Network, quadrature: Callable[[float, float, float], Array | None]) -> None:
        self._model, self._quadrature = model, quadrature
        self._sums: tuple[Array, Array] | None = None
        # f_l by 1 - q_11 and accuracy.
        self._known: dict[tuple[float, float], Array | None] = {}

    def __call__(self, v1: float, v2: float, accuracy: float, kept: bool | None = None) -> NearValue | None:
        """G_ll at 1 - q_11 = v1 and 1 - q_22 = v2; None where the series does not have this relative accuracy.

        `kept`: whether a neighbour, to which they are compared, is by the series; None where there is no neighbour.
        """
        # The series serves 1 - q_11 up to this multiple of the closest quadrature; one at q itself costs less farther
        # away. Beside a neighbour by the series it serves somewhat farther, beside one by a quadrature only much
        # nearer.
        usual, beside = 1.2, {True: 1.4, False: 0.5}
        served = usual if kept is None else beside[kept]
        distances = (0.05, 0.025, 0.0125)
        for closest in distances:
            if v1 > served * closest:
                break
            if (series := self._through_quadratures(closest, accuracy)) is None:
                break
            f, gap = series.at(v1)
            # Beside the path f_l is another: by no more than itself, where r changes by a factor of e.
            gap = gap + np.abs(f) * abs(math.log(v2 / v1) - math.log(self._ratio(v1, f)))
            if v1 * gap.max() <= accuracy:
                return NearValue(self._limits(v2 / v1) / (v1, v2) * np.exp(v1 * f), v1 * gap)
        return None

    def _through_quadratures(self, closest: float, accuracy: float) -> _Series | None:
        """Series through quadratures: of this accuracy at the closest, coarser farther away, as they count less.

        None where one of them does not go so far. What the quadratures miss is no part of the error of the series: it
        is found by comparing accuracies, as that of all rules.
        """
        points = np.array(_MULTIPLES) * closest
        values: list[Array] = []
        # Coarsest relative accuracy of a quadrature.
        coarsest = 1e-2
        for v, factor in zip(points.tolist(), _COARSER, strict=True):
            key = v, min(float(f"{factor * accuracy:.3g}"), coarsest)
            if key not in self._known:
                coarser = [f for (at, _), f in self._known.items() if at == v and f is not None]
                guess = coarser[-1] if coarser else values[-1] if values else np.zeros(2)
                self._known[key] = self._on_path(v, guess, key[1])
            if (found := self._known[key]) is None:
                return None
            values.append(found)
        return _Series(points, np.array(values))

    def _on_path(self, v: float, f: Array, accuracy: float) -> Array | None:
        """f_l at the point of the path with 1 - q_11 = v, from a first guess."""
        tries = 4
        # Where on the path, relative, quadratures are close enough: f_l is nearly flat in r.
        on_path = 0.02
        for _ in range(tries):
            ratio = self._ratio(v, f)
            if (g := self._quadrature(v, ratio * v, accuracy)) is None:
                return None
            f = np.log((v, ratio * v) * g / self._limits(ratio)) / v
            if abs(math.log(self._ratio(v, f) / ratio)) <= on_path:
                break
        return f

    def _ratio(self, v: float, f: Array) -> float:
        """Ratio r at which both layers ask for the same alpha = (1 - V_ll)/(V_ll G_ll)."""
        # A fifth of a second at the start of every evolution, of which few come near recovery.
        from scipy.optimize import brentq

        # Range of log r.
        ends = 40.0

        def apart(log_ratio: float) -> float:
            ratio = math.exp(log_ratio)
            if v * ratio >= 1:  # of the last layer nothing is known, and it asks for alpha = 0
                return -ends
            first, last = self._limits(ratio)
            if min(first, last) <= 0:
                return math.copysign(ends, first - 1)
            return float(math.log(first / last) - math.log((1 - v) / (1 - v * ratio)) + v * (f[0] - f[1]))

        return math.exp(brentq(apart, -ends, min(ends, -math.log(v)), xtol=1e-12))

    def _limits(self, ratio: float) -> Array:
        """T_1 and T_2."""
        if self._sums is None:
            self._sums = self._tangent()
        trace, determinant = self._sums
        along = trace * ratio
        first = float(np.mean((along + 2 * determinant) / (ratio**2 + along + determinant)))
        return np.array([first, 2 - first])

    def _tangent(self) -> tuple[Array, Array]:
        """Sum and product of the lambda of many h."""
        # Of the means over h: randomisations, points of each as a power of two, and their seed.
        replicas, log2_points, seed = 4, 15, 0x2EC0
        streams = (np.random.default_rng([seed, k]) for k in range(replicas))
        h = np.concatenate([normal_qmc(4, log2_points, stream) for stream in streams]).reshape(-1, 2, 2)
        slopes = jacobians(self._model, h)
        product = np.linalg.solve(slopes[:, 1], slopes[:, 0])
        return (product**2).sum(axis=(1, 2)), np.linalg.det(product) ** 2
