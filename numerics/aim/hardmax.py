r"""The hardmax channel of two tokens: its scores in closed form, and F(c) by a rule in two dimensions.

With signs s1 = sgn(h11 - h12), s2 = sgn(h22 - h12) and r = s1 s2/3,

    k_i = s_i (omega_ii - omega_12)/(3 V)^{1/2},  Z_out = Phi2(k1, k2; r),  P_i = dPhi2/dk_i,
    g_11 = s1 P1/((3 V)^{1/2} Z), g_22 = s2 P2/((3 V)^{1/2} Z), g_12 = -(g_11 + g_22),
    F(c) = 2 sum_{r = +-1/3} E_k [P1^2 + P2^2 + 2 r P1 P2]/Z,  k ~ N(0, c [[1, r], [r, 1]]).

The published curves follow from the density phi2(k1, k2; r) in the place of P1 and P2, which is no derivative of Z.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray

from attnlimits.generated.aim_channels.numpy64 import hardmax_slopes

from ..core.results import Estimate
from ..quadrature.rules import sinh_trapezoid, trapezoid
from .bivariate import log_phi2

__all__ = ["information", "information_between"]

Array = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
_CORRELATION = 1 / 3
# Standard deviations out to which the rules go: what is beyond is 1e-16 of the whole.
_REACH = 9.0
# Nodes of the interpolation of F (1 + c)^{1/2} in 1/(1 + c)^{1/2}.
_NODES = 28


def _terms(k1: Array, k2: Array, r: float, published: bool) -> Array:
    """(P1^2 + r P1 P2)/Z, half of the integrand: the law of k is symmetric."""
    z = np.exp(log_phi2(k1, k2, np.asarray(r)))
    if published:
        root = math.sqrt(1 - r * r)
        density = np.exp(-0.5 * (k1 * k1 - 2 * r * k1 * k2 + k2 * k2) / (1 - r * r)) / (2 * math.pi * root)
        return np.asarray((1 + r) * density**2 / z)
    first, second = hardmax_slopes(k1, k2, r)
    return np.asarray(first * (first + r * second) / z)


def _average(c: float, step: float, published: bool) -> float:
    """F(c) by trapezoids: k1 where its term lives, k2 in a variable that has its unit near 0 and c^{1/2} far out."""
    total = 0.0
    # phi(k1) times the law of k1.
    narrow = 1 / math.sqrt(1 + 1 / c)
    one = trapezoid(-_REACH, _REACH, 2.5 * step)
    k1 = narrow * one.nodes[:, None]
    half = sinh_trapezoid(narrow, _REACH * (math.sqrt(c) + 1), step)
    nodes, weights = half.nodes, half.weights
    k2 = np.concatenate([-nodes[::-1], nodes])
    w2 = np.concatenate([weights[::-1], weights])
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
    coarse, fine = _average(c, 0.2, published), _average(c, 0.15, published)
    return Estimate(fine, abs(fine - coarse) + 1e-13 * fine, "estimated")


@lru_cache
def _interpolation(published: bool) -> tuple[Array, float]:
    """Chebyshev coefficients of F (1 + c)^{1/2} in u = 2/(1 + c)^{1/2} - 1, and their error."""
    angles = (np.arange(_NODES) + 0.5) * math.pi / _NODES
    u = np.cos(angles)
    values = np.array([_scaled(2 / (1 + v), published) for v in u])
    coefficients = 2 / _NODES * np.cos(np.outer(np.arange(_NODES), angles)) @ values
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
