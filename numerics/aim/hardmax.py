r"""The hardmax channel of two tokens: scores in closed form, F(c) and the entropy of labels by rules in two dimensions.

With signs s1 = sgn(h11 - h12), s2 = sgn(h22 - h12) and r = s1 s2/3,

    k_i = s_i (omega_ii - omega_12)/(3 V)^{1/2},  Z_out = Phi2(k1, k2; r),  P_i = dPhi2/dk_i,
    g_11 = s1 P1/((3 V)^{1/2} Z), g_22 = s2 P2/((3 V)^{1/2} Z), g_12 = -(g_11 + g_22),
    F(c) = 2 sum_{r = +-1/3} E_k [P1^2 + P2^2 + 2 r P1 P2]/Z,  k ~ N(0, c [[1, r], [r, 1]]).

The published curves follow from the density phi2(k1, k2; r) in the place of P1 and P2, which is no derivative of Z.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval

from attnlimits.generated.aim_channels.numpy64 import hardmax_slopes

from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import sinh_trapezoid, trapezoid
from .bivariate import log_phi2
from .checks import from_zero

__all__ = ["information", "information_between", "label_entropy"]

_EPS = float(np.finfo(float).eps)
_CORRELATION = 1 / 3
# Standard deviations out to which the rules go: what is beyond is 1e-16 of the whole.
_REACH = 9.0


def _terms(k1: Array, k2: Array, r: float, published: bool) -> Array:
    """(P1^2 + r P1 P2)/Z, half of the integrand: the law of k is symmetric."""
    z = np.exp(log_phi2(k1, k2, np.asarray(r)))
    if published:
        root = math.sqrt(1 - r * r)
        density = np.exp(-0.5 * (k1 * k1 - 2 * r * k1 * k2 + k2 * k2) / (1 - r * r)) / (2 * math.pi * root)
        return np.asarray((1 + r) * density**2 / z)
    first, second = hardmax_slopes(k1, k2, r)
    return np.asarray(first * (first + r * second) / z)


def _mirrored(unit: float, reach: float, step: float) -> tuple[Array, Array]:
    """Nodes and weights of a rule on the line that has its unit near zero, out to the reach."""
    half = sinh_trapezoid(unit, reach, step)
    return np.concatenate([-half.nodes[::-1], half.nodes]), np.concatenate([half.weights[::-1], half.weights])


def _two_steps(average: Callable[[float], float]) -> Estimate:
    """A rule at its finer step; the difference from the coarser one is its error."""
    coarse, fine = average(0.2), average(0.15)
    return Estimate(fine, abs(fine - coarse) + 1e-13 * fine, "estimated")


def _average(c: float, step: float, published: bool) -> float:
    """F(c) by trapezoids: k1 where its term lives, k2 in a variable that has its unit near 0 and c^{1/2} far out."""
    total = 0.0
    # phi(k1) times the law of k1.
    narrow = 1 / math.sqrt(1 + 1 / c)
    one = trapezoid(-_REACH, _REACH, 2.5 * step)
    k1 = narrow * one.nodes[:, None]
    k2, w2 = _mirrored(narrow, _REACH * (math.sqrt(c) + 1), step)
    # Below, Z and with it the term is less than 1e-16 of what it is at 0.
    kept = k2 > -_REACH
    k2, w2 = k2[kept], w2[kept]
    for r in (_CORRELATION, -_CORRELATION):
        quadratic = (k1 * k1 - 2 * r * k1 * k2 + k2 * k2) / (1 - r * r)
        law = np.exp(-0.5 * quadratic / c) / (2 * math.pi * c * math.sqrt(1 - r * r))
        live = law * np.exp(-0.5 * k1 * k1) > 1e-25 * law.max()
        inner = np.zeros(law.shape)
        grid1, grid2 = np.broadcast_arrays(k1, k2)
        inner[live] = law[live] * _terms(grid1[live], grid2[live], r, published)
        total += narrow * float(one.weights @ inner @ w2)
    return 4 * total


@lru_cache(maxsize=1024)
def information(c: float, *, published: bool = False) -> Estimate:
    """F(c) of hardmax with two tokens, by a deterministic rule in two dimensions.

    Parameters
    ----------
    c : float
        q/V, >= 0.
    published : bool, keyword-only
        With the density phi2 where the derivatives of Phi2 belong, as the published curves have it.

    Returns
    -------
    Estimate
        The difference of two steps is its error.

    References
    ----------
    boncoraglio2025, hardmax channel.
    """
    if c < 1e-8:
        # Its slope there is below 2.
        zero = np.zeros(1)
        value = 4 * sum(float(_terms(zero, zero, r, published)[0]) for r in (_CORRELATION, -_CORRELATION))
        return Estimate(value, 2 * c + 8 * _EPS, "estimated")
    return _two_steps(lambda step: _average(c, step, published))


@lru_cache
def _interpolation(published: bool) -> tuple[Array, float]:
    """Chebyshev coefficients of F (1 + c)^{1/2} in u = 2/(1 + c)^{1/2} - 1, and their error."""
    # Nodes of the interpolation of F (1 + c)^{1/2} in 1/(1 + c)^{1/2}.
    nodes = 28
    angles = (np.arange(nodes) + 0.5) * math.pi / nodes
    u = np.cos(angles)
    values = np.array([_scaled(2 / (1 + v), published) for v in u])
    coefficients = 2 / nodes * np.cos(np.outer(np.arange(nodes), angles)) @ values
    coefficients[0] *= 0.5
    # What the rules at the nodes leave, and what the series leaves out.
    return coefficients, 1e-11 + 4 * float(np.abs(coefficients[-4:]).max())


def _scaled(root: float, published: bool) -> float:
    """F(c) (1 + c)^{1/2} at (1 + c)^{1/2} = root."""
    return information(max(root * root - 1, 0.0), published=published).value * root


def information_between(c: float, *, published: bool = False) -> Estimate:
    """F(c) as `information` has it, interpolated: a millionth of its cost, once the nodes are known."""
    coefficients, error = _interpolation(published)
    root = math.sqrt(1 + c)
    return Estimate(float(chebval(2 / root - 1, coefficients)) / root, error / root, "estimated")


def label_entropy(c: float) -> Estimate:
    """-2 sum_{r = +-1/3} E_k Phi2(k1, k2; r) log Phi2(k1, k2; r), k ~ N(0, c [[1, r], [r, 1]]).

    Parameters
    ----------
    c : float
        q/V, >= 0.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    c = from_zero("c", c, "q/V")
    if c < 1e-12:
        zero = np.zeros(1)
        values = [float(log_phi2(zero, zero, np.asarray(r))[0]) for r in (1 / 3, -1 / 3)]
        return Estimate(-2 * sum(math.exp(v) * v for v in values), 2 * c + 1e-15, "estimated")
    return _two_steps(lambda step: _average_entropy(c, step))


def _average_entropy(c: float, step: float) -> float:
    narrow = 1 / math.sqrt(1 + 1 / c)
    nodes, weights = _mirrored(narrow, _REACH * math.sqrt(c), step)
    k1, k2 = np.meshgrid(nodes, nodes, indexing="ij")
    total = 0.0
    for r in (1 / 3, -1 / 3):
        law = np.exp(-0.5 * (k1 * k1 - 2 * r * k1 * k2 + k2 * k2) / (1 - r * r) / c)
        # By symmetry; what is far below zero has no probability, what is far above no entropy.
        live = (law > 1e-20) & (k1 >= k2) & (k2 > -_REACH) & (k2 < _REACH)
        log_z = log_phi2(k1[live], k2[live], np.asarray(r))
        terms = np.zeros(law.shape)
        terms[live] = law[live] * np.exp(log_z) * log_z * np.where(k1[live] > k2[live], 2.0, 1.0)
        total += float(weights @ terms @ weights) / (2 * math.pi * c * math.sqrt(1 - r * r))
    return -2 * total
