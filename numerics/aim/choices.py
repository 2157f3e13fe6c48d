r"""Rows of softmax and hardmax as choices: the entry at which h_c + xi_c/beta is largest, xi_c of Gumbel's law.

P[choice = c | h] = e^{beta h_c}/sum e^{beta h}, so that a mean of products of two outputs is the probability that two
choices agree. With Gamma(s) = exp(-e^{-s}), in units of 1/beta, and Gaussian h and h' for two rows,

E sum_c sigma_c(h) sigma_c(h') = sum_c int dt dt' (d^2 B_c/dt dt') prod_{j != c} B_j,
B_j(t, t') = E Gamma(t - h_j) Gamma(t' - h'_j).

d = h_j - h'_j is independent of m = l h_j + (1 - l) h'_j for one l. At t = tau + (1 - l) u, t' = tau - l u, x = u - d

Gamma(t - h) Gamma(t' - h') = Gamma(tau - L(x) - m),  L(x) = log(e^{-(1 - l) x} + e^{l x}),
d^2/dt dt' of it           = p (1 - p) (Gamma'' + Gamma')(tau - L(x) - m),  p = 1/(1 + e^x),

so that an average over m is a function of one variable, and B_j an average of that over d. At beta = infinity B_j is
the bivariate normal law.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, ndtr, owens_t

from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import Rule, gauss_hermite, gaussian, trapezoid
from .entries import variances_of_rows
from .results import PredictionErrors

__all__ = ["agreement", "choice_errors", "mean_choice", "predicted_choice"]

# Standard deviations out to which Gaussian rules go, and where Gamma and its tail end, in units of 1/beta.
_REACH, _LEAST, _TAIL = 9.0, -4.5, 38.0
# Kinds of the entries of a row, by their variances: its own token, and the others.
_KINDS = (2.0, 1.0)


def _normal(z: Array) -> Array:
    """Density of the standard normal law."""
    return gaussian(z) / math.sqrt(2 * math.pi)


class _Laws(NamedTuple):
    """Averages over m of variance sigma^2, as functions of s between two ends, beyond which they are constant."""

    ends: tuple[float, float]
    splines: CubicSpline

    def __call__(self, s: Array) -> tuple[Array, Array]:
        """Both at s."""
        found = self.splines(np.clip(s, *self.ends))
        return found[..., 0], found[..., 1]


@lru_cache(maxsize=256)
def _laws(sigma: float, order: int) -> _Laws:
    """Averages of Gamma(s - m), and of Gamma' (order 1) or Gamma'' + Gamma' (order 2), e^{-order s} times Gamma."""
    ends = (_LEAST - _REACH * sigma, _TAIL + _REACH * sigma)
    # Nodes of the tables of averages over m, per unit of their scale.
    dense = 60
    grid = np.linspace(*ends, int(dense * (ends[1] - ends[0]) / math.hypot(1.0, sigma)))
    # Below, an average over m is by nodes of m, and above by nodes of xi.
    narrow = 0.5
    if sigma < narrow:
        rule = trapezoid(-_REACH, _REACH, 0.5)
        falling = np.exp(-(grid[:, None] - sigma * rule.nodes))
        gamma = np.exp(-falling) * _normal(rule.nodes) * rule.weights
        values = [gamma.sum(axis=1), (gamma * falling**order).sum(axis=1)]
    else:
        rule = trapezoid(_LEAST, _TAIL, 0.35)
        falling = np.exp(-rule.nodes)
        gamma = np.exp(-falling) * rule.weights
        z = (grid[:, None] - rule.nodes) / sigma
        values = [ndtr(z) @ (gamma * falling), _normal(z) @ (gamma * falling**order) / sigma]
    return _Laws(ends, CubicSpline(grid, np.stack(values, axis=1)))


class _Pair(NamedTuple):
    """Entries h and h' of one kind: l, the standard deviation of m, and that of d."""

    share: float
    mean: float
    difference: float

    @classmethod
    def of(cls, first: float, second: float, apart: float, kind: float) -> "_Pair":
        """From Var h, Var h' and Var(h - h') over the kind's variance."""
        share = min(max(0.5 * (second - first + apart) / apart, 0.0), 1.0) if apart else 0.5
        rest = share * first + (1 - share) * second - share * (1 - share) * apart
        return cls(share, math.sqrt(max(kind * rest, 0.0)), math.sqrt(kind * apart))


@lru_cache(maxsize=4096)
def agreement(first: float, second: float, apart: float, tokens: int, *, soft: bool) -> Estimate:
    """Probability that two choices of a row agree, E sum_c sigma_c(h) sigma_c(h').

    Parameters
    ----------
    first, second, apart : float
        Var h_c, Var h'_c and Var(h_c - h'_c) over the variance of the kind: 2 for the entry of the row's own token, 1
        for the others. In units of 1/beta^2 for softmax.
    tokens : int
    soft : bool, keyword-only
        Softmax, or hardmax.

    Returns
    -------
    Estimate
        Its error is the difference of two steps, and that of the tables.
    """
    if not soft and apart and not second:
        # Any scale of the second gives the same.
        first, second, apart = 1.0, 1.0, 2.0
    evaluate = _soft if soft else _hard
    fine, coarse = (evaluate(first, second, apart, tokens, step) for step in (0.75, 1.0))
    # What the interpolation of the tables leaves.
    of_tables = 5e-10
    return Estimate(fine, abs(fine - coarse) + (of_tables if soft else 1e-14), "estimated")


def _sum(B: Sequence[Array], a: Sequence[Array], tokens: int) -> Array:
    """The choice is of the row's own token, or of another one: a of it, and B of all others."""
    own, other = a
    return np.asarray(own * B[1] ** (tokens - 1) + (tokens - 1) * other * B[0] * B[1] ** (tokens - 2))


def _soft(first: float, second: float, apart: float, tokens: int, step: float) -> float:
    wide, narrow = (_Pair.of(first, second, apart, kind) for kind in _KINDS)
    # There the density falls as e^{-tau/max(l, 1 - l)}.
    high = _TAIL * max(wide.share, 1 - wide.share) + 1.5 * _REACH * wide.mean
    tau = trapezoid(_LEAST - _REACH * wide.mean, high, 0.35 * step * math.hypot(1, narrow.mean))
    reach = _TAIL + _REACH * wide.difference
    u = trapezoid(-reach, reach, 0.5 * step * math.hypot(1, narrow.difference))
    B, a = zip(*(_joint(pair, tau.nodes, u.nodes, step) for pair in (wide, narrow)), strict=True)
    return float(u.weights @ _sum(B, a, tokens) @ tau.weights)


def _joint(pair: _Pair, tau: Array, u: Array, step: float) -> tuple[Array, Array]:
    """B of a kind and its density, shape (u, tau)."""
    laws = _laws(pair.mean, 2)

    def given(x: Array) -> tuple[Array, Array]:
        """Averages over m at x, with tau in the last axis."""
        s = tau - np.logaddexp(-(1 - pair.share) * x, pair.share * x)[..., None]
        B, second = laws(s)
        return B, (expit(x) * expit(-x))[..., None] * second

    # Spread of d below which eight nodes of its law are enough.
    sharp = 0.05
    if pair.difference < sharp:
        rule = gauss_hermite(8 if pair.difference else 1)
        B, a = (np.moveaxis(f, 1, 2) @ rule.weights for f in given(u[:, None] - pair.difference * rule.nodes))
        return B, a
    reach = u[-1] + _REACH * pair.difference
    if pair.difference < 1:
        rule = trapezoid(-reach, reach, 0.8 * step * pair.difference)
    else:
        # The unit of p is one, and nodes stay closer than the spread of d as far as it reaches.
        z = trapezoid(-math.asinh(reach), math.asinh(reach), 0.06 * step)
        rule = Rule(np.sinh(z.nodes), np.cosh(z.nodes) * z.weights, None)
    law = _normal((u[:, None] - rule.nodes) / pair.difference) / pair.difference * rule.weights
    B, a = (law @ f for f in given(rule.nodes))
    return B, a


def _hard(first: float, second: float, apart: float, tokens: int, step: float) -> float:
    if not apart:
        return 1.0
    rule = trapezoid(-_REACH, _REACH, 0.3 * step)
    nodes, weights = rule.nodes, rule.weights * _normal(rule.nodes)
    pairs = [_Pair.of(first, second, apart, kind) for kind in _KINDS]
    root = pairs[1].mean * pairs[1].difference / math.sqrt(first * second)
    total = 0.0
    for pair, count in zip(pairs, (1, tokens - 1), strict=True):
        m, d = pair.mean * nodes[:, None], pair.difference * nodes
        t, at = m + (1 - pair.share) * d, m - pair.share * d
        own, other = (_phi2(t / math.sqrt(kind * first), at / math.sqrt(kind * second), root) for kind in _KINDS)
        rest = other ** (tokens - 1) if pair is pairs[0] else own * other ** (tokens - 2)
        total += count * float(weights @ rest @ weights)
    return total


def _phi2(h: Array, k: Array, root: float) -> Array:
    """Bivariate normal law of correlation r = (1 - root^2)^{1/2} to 1e-15, by Owen's function."""
    r = math.sqrt(max(1 - root * root, 0.0))
    h, k = (np.where(x == 0, 1e-290, x) for x in (h, k))
    away = 0.5 * ((h < 0) != (k < 0))
    return np.asarray(
        0.5 * (ndtr(h) + ndtr(k)) - owens_t(h, (k - r * h) / (h * root)) - owens_t(k, (h - r * k) / (k * root)) - away
    )


def choice_errors(V: float, Q: float, tokens: int, *, soft: bool) -> PredictionErrors:
    """Errors of prediction of all rows at a variance V of Q, both in units of 1/beta^2 for softmax.

    References
    ----------
    boncoraglio2025, (55)-(56).
    """
    q = max(Q - V, 0.0)

    def total(*terms: tuple[float, Estimate]) -> Estimate:
        value = tokens * math.fsum(factor * found.value for factor, found in terms)
        error = tokens * math.fsum(abs(factor) * found.error for factor, found in terms)
        return Estimate(max(value, 0.0), error, "estimated")

    def at(first: float, second: float, apart: float) -> Estimate:
        return agreement(first, second, apart, tokens, soft=soft)

    own = at(Q, Q, 0.0)
    return PredictionErrors(
        total((1, own), (-1, at(Q, Q, 2 * V))), total((1, own), (1, at(q, q, 0.0)), (-2, at(Q, q, V)))
    )


def predicted_choice(omega: Array, V: float, *, soft: bool) -> Array:
    """Posterior mean of outputs at omega, shape (n, T, T), and a variance V > 0, both in units of 1/beta."""
    return mean_choice(omega, np.sqrt(V * variances_of_rows(omega.shape[-1])), soft=soft)


def mean_choice(omega: Array, spread: Array, *, soft: bool) -> Array:
    """E sigma(h) of rows h ~ N(omega, spread^2): the posterior mean of an output.

    sigma_c = int dt B_c'(t) prod_{j != c} B_j(t), B_j(t) = P[h_j + xi_j < t].

    Parameters
    ----------
    omega, spread : ndarray, shape (..., T)
        In units of 1/beta for softmax; at most two different spreads, which are > 0.
    soft : bool, keyword-only

    Returns
    -------
    ndarray, shape (..., T)
    """
    spreads = np.unique(spread)
    low, high = (_LEAST, _TAIL) if soft else (0.0, 0.0)
    step = 0.45 * (math.hypot(1.0, spreads[0]) if soft else spreads[0])
    reach = _REACH * spreads[-1]
    steps = np.arange(math.floor((low - reach) / step), math.ceil((high + reach) / step) + 1)
    s = step * steps

    def law(kind: float, away: Array) -> tuple[Array, Array]:
        return _laws(kind, 1)(away) if soft else (ndtr(away / kind), _normal(away / kind) / kind)

    out = np.empty(omega.shape)
    for c in range(omega.shape[-1]):
        product = np.ones((*omega.shape[:-1], len(s)))
        for kind in map(float, spreads):
            density = law(kind, s)[1]
            for j in range(omega.shape[-1]):
                away = s + (omega[..., c] - omega[..., j])[..., None]
                factor = density if j == c else law(kind, away)[0]
                product *= np.where((spread[..., j] == kind)[..., None], factor, 1.0)
        out[..., c] = step * product.sum(axis=-1)
    return out
