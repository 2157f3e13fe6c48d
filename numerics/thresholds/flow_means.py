"""Means over one layer of tied softmax attention of two tokens, which drive the flow of `flow`."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from attnlimits.generated.pair_softmax_m2.numpy64 import attention

from ..quadrature.rules import gauss_legendre, gauss_legendre_panels

__all__ = ["Means", "pair_means", "pair_rates"]

Array = NDArray[np.float64]

_CUT = 8.6
_PANEL = 12


@dataclass(frozen=True)
class Means:
    """Means over the indices of one layer at B = diag(a, b) in modes, named as in ``derive.flow.PairFlow``."""

    tau: float
    tau_variance: float
    s_square: float
    tau_t: float
    tau_tt: float
    tau_a: float
    tau_ss: float
    s_s: float


def _radii(rank: int, steepness: float, level: int) -> Array:
    """Edges of panels over rho: geometric from where the softmax is flat, then of equal width."""
    centre = math.sqrt(rank)
    lower, upper = max(centre - _CUT, 0.0), centre + _CUT
    width = 0.75 / (1 + 0.4 * level)
    start = [lower]
    if lower == 0:
        flat = 0.5 / max(1.0, steepness)
        start += list(flat * 2.0 ** np.arange(math.ceil(math.log2(width / flat)) + 1) if flat < width else [])
    rest = np.linspace(start[-1], upper, math.ceil((upper - start[-1]) / width) + 1)
    return np.array([*start, *rest[1:]])


def _half_line(centre: Array, width: Array, level: int) -> tuple[Array, Array]:
    """Nodes and weights over 0 < z < 8.6 for every pair of a column: panels that shrink towards a step at `centre`.

    Poles of the step lie at centre +- i pi width, of a panel at distance x they are at least x away.
    """
    growth = 1 + 1.5 / (1 + 0.4 * level)
    count = max(0, math.ceil(math.log(_CUT / float(width.min())) / math.log(growth)))
    offsets = width * growth ** np.arange(count + 1)
    plain = np.linspace(0.0, _CUT, 8 + 3 * level)
    edges = np.concatenate(
        [np.broadcast_to(plain, (len(centre), len(plain))), centre - offsets, centre + offsets], axis=1
    )
    edges = np.sort(np.clip(edges, 0.0, _CUT), axis=1)
    nodes, weights = gauss_legendre(_PANEL)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    z = 0.5 * (edges[:, 1:] + edges[:, :-1])[:, :, None] + half * nodes
    return z.reshape(len(centre), -1), (half * weights).reshape(len(centre), -1)


def pair_means(plus: float, minus: float, rank: int, beta: float, level: int) -> Means:
    """Average over rho = |x_m| (chi law of r degrees of freedom) and z (standard normal)."""
    # first = y_11 has a step of steepness s = beta a b rho at z = -z*, z* = b rho/a; second = y_22 is first at -z, so
    # that every mean is one over z > 0 with a step at z*.
    steepness = beta * plus * minus
    rho_rule = gauss_legendre_panels(_radii(rank, steepness, level), _PANEL)
    radii = rho_rule.nodes[:, None]
    z, weight = _half_line(minus * radii / plus, 1 / (steepness * radii), level)
    log_chi = (rank - 1) * np.log(radii) - 0.5 * radii**2 - (rank / 2 - 1) * math.log(2) - gammaln(rank / 2)
    weight = rho_rule.weights[:, None] * np.exp(log_chi) * weight
    # Panels beyond the ends have no width.
    inside = weight > 0
    rho, z = np.broadcast_to(radii, z.shape)[inside], z[inside]
    weight = weight[inside] * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    step = steepness * rho

    def mean(at_z: Array, at_minus_z: Array) -> float:
        return float(weight @ (at_z + at_minus_z))

    rise = beta * minus * rho * (minus * rho)
    # With their complements, which keep the digits of what is nearly one.
    first, no_first, no_second, second, gap, gain = attention(plus * z, minus * rho, beta)
    slope, slope_minus = first * no_first, second * no_second
    curve, curve_minus = slope * (no_first - first), slope_minus * (no_second - second)
    # gain = first + second - 1 is the same at -z, and gap = first - second changes sign.
    lost = no_first + no_second
    lost_mean, gain_mean = mean(lost, lost), mean(gain, gain)
    flat = gain_mean < lost_mean
    spread = (gain - gain_mean) ** 2 if flat else (lost - lost_mean) ** 2
    in_t, in_t_minus = 2 * rise / minus + step * z / minus, 2 * rise / minus - step * z / minus
    in_s = rise / minus
    return Means(
        tau=gain_mean if flat else 1 - lost_mean,
        tau_variance=mean(spread, spread),
        s_square=mean(gap**2, gap**2),
        tau_t=2 * mean(slope * in_t, slope_minus * in_t_minus),
        tau_tt=2
        * mean(
            curve * in_t**2 + slope * 2 * beta * rho**2, curve_minus * in_t_minus**2 + slope_minus * 2 * beta * rho**2
        ),
        # The difference of the slopes at z and at -z.
        tau_a=-2 * mean(gap * gain * step * z, np.zeros_like(z)) / plus,
        tau_ss=2 * mean(curve * in_s**2, curve_minus * in_s**2),
        s_s=2 * mean(slope * in_s, slope_minus * in_s),
    )


def pair_rates(t: float, state: Array, rank: int, beta: float, level: int) -> list[float]:
    """Derivatives by t of the eigenvalue `minus`, of c Var[T] and c Var[S], and of c (E[T] - minus)."""
    b, v_t, v_s, bias = state
    a = math.exp(t)
    m = pair_means(a, b, rank, beta, level)
    growth = m.tau + b * m.tau_t
    second = growth * b * m.tau + b * m.tau_a * a
    return [
        b * m.tau,
        2 * growth * v_t + b**2 * m.tau_variance,
        2 * (1 + b * m.s_s) * v_s + b**2 * m.s_square,
        growth * bias
        + 0.5 * (2 * m.tau_t + b * m.tau_tt) * v_t
        + 0.5 * b * m.tau_ss * v_s
        - 0.5 * t * a * b * m.tau_a
        - 0.5 * second,
    ]
