"""Last layer of two layers of linear attention: rotations leave one integral over |v| and one over |h_1|.

B_1 = c I + beta h_1 h_1^T stretches the direction n of h_1 to t = c + beta |h_1|^2, so that h_2 = B_1^{-1} v has, with
k = cos(v, n) and delta = 1/t - 1/c,
    component along v:  R (1/c + delta k^2),    length across v:  R delta k (1 - k^2)^(1/2),    R = |v|.
The average over the directions n gives confluent hypergeometric functions of D = R^2 (1/c^2 - 1/t^2)/2:
    <k^{2j} exp(D k^2)> = (1/2)_j/(M/2)_j 1F1(j + 1/2; j + M/2; D).
"""

import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb

from ...arithmetic.balls import Ball, Balls

__all__ = ["HalfLineRule", "LinearRules", "choose_linear", "linear_norm"]


@dataclass(frozen=True)
class HalfLineRule:
    """Trapezoidal rule in Y for x = scale exp(Y - exp(-Y)): nodes first, first + step, .., count of them."""

    scale: float
    first: float
    step: float
    count: int


@dataclass(frozen=True)
class LinearRules:
    """Rules in |h_1|^2/2 and in R, the accuracy L (below exp(-L) is neglected) and the precision."""

    hidden: HalfLineRule
    output: HalfLineRule
    log_accuracy: float
    bits: int


def choose_linear(skip: float, beta: float, tokens: int, digits: float, fineness: float = 1.0) -> LinearRules:
    """Rules that reach so many digits."""
    accuracy = digits * math.log(10.0) + 4.0
    # Half-width of the strip in which both double-exponential maps keep Re(R^2/t^2) > 0.
    strip = 0.5
    step = 2 * math.pi * strip / accuracy / fineness

    def half_line(scale: float, least: float, most: float) -> HalfLineRule:
        """Cover [least, most], both relative to scale."""
        # Y - exp(-Y) = log(least) < 0 by Newton's method, from the left where it is concave.
        low = -math.log(1 - math.log(least))
        for _ in range(50):
            low -= (low - math.exp(-low) - math.log(least)) / (1 + math.exp(-low))
        return HalfLineRule(scale, low, step, math.ceil((math.log(most) + 1 - low) / step) + 1)

    # q = |h_1|^2/2 has density q^(M/2 - 1) exp(-q)/Gamma(M/2): tau = 1/t turns at q = c/(2 beta).
    power = 0.5 * tokens
    turn = min(1.0, skip / (2 * beta))
    most_q = accuracy + power * math.log(accuracy) + 2
    hidden = half_line(turn, math.exp(-accuracy / power) / turn, most_q / turn)
    # R = t |h_2|: the least stretched scale is c; |h_1|^2/2 + |h_2|^2/2 <= L at the far end.
    share = most_q / 3
    most_r = (skip + 4 * beta * share) * math.sqrt(2 * share) * 1.5 + skip * math.sqrt(2 * most_q)
    output = half_line(skip, math.exp(-accuracy / tokens), most_r / skip)
    # exp(-R^2/(2 c^2)) cancels what 1F1 grows by: the relative error of either is that of its argument.
    bits = math.ceil((digits + 14.0) * math.log2(10.0) + 2 * math.log2(most_r / skip))
    return LinearRules(hidden, output, accuracy + 14.0, bits)


def half_line_nodes(rule: HalfLineRule) -> tuple[Balls, Balls]:
    """Nodes and weights."""
    nodes, weights = [], []
    first, step, scale = arb(rule.first), arb(rule.step), arb(rule.scale)
    for k in range(rule.count):
        y = first + k * step
        e = (-y).exp()
        x = scale * (y - e).exp()
        nodes.append(x)
        weights.append(x * (1 + e) * step)
    return nodes, weights


def linear_norm(skip: Ball, beta: Ball, tokens: int, rules: LinearRules, tick: Callable[[float], None]) -> Ball:
    """Operator norm 1/alpha of the last of two layers of linear attention, any number of tokens.

    Parameters
    ----------
    skip, beta : arb
    tokens : int
        M >= 2.
    rules : LinearRules
    tick : callable
        Called with the share that is done.

    Returns
    -------
    arb
        int d^M v [(M_along - Z)^2 + (M - 1)(M_across/(M - 1) - Z)^2]/Z.

    References
    ----------
    troiani2025, (171)-(174), (184)-(185).
    """
    half_m = arb(tokens) / 2
    q, dq = half_line_nodes(rules.hidden)
    inverse_skip = 1 / skip
    hidden = []
    # |v| beyond which a node of the hidden layer no longer counts; it grows with the node.
    faint = []
    reach = math.sqrt(2 * rules.log_accuracy)
    for x, wx in zip(q, dq, strict=True):
        t = skip + 2 * beta * x
        mass = wx * x ** (half_m - 1) * (-x).exp() / t
        delta = 1 / t - inverse_skip
        hidden.append((mass, delta, (inverse_skip * inverse_skip - 1 / (t * t)) / 2))
        faint.append(reach * float(t))
    # Densities: of q, and 1/((2 pi)^(M/2) det B) of v; the sphere's area over all.
    norm_q = 1 / half_m.gamma()
    first = arb(1) / 2 / half_m
    second = first * arb(3) / 2 / (half_m + 1)
    total = arb(0)
    half = arb(1) / 2
    floor = math.exp(-rules.log_accuracy)
    every = max(1, rules.output.count // 10)
    for k, (r, wr) in enumerate(zip(*half_line_nodes(rules.output), strict=True)):
        r2 = r * r
        envelope = (-r2 * inverse_skip * inverse_skip / 2).exp()
        z = along = across = arb(0)
        for mass, delta, rate in hidden[bisect(faint, float(r)) :]:
            d = r2 * rate
            f0 = mass * d.hypgeom_1f1(half, half_m)
            f1 = mass * first * d.hypgeom_1f1(half + 1, half_m + 1)
            f2 = mass * second * d.hypgeom_1f1(half + 2, half_m + 2)
            shift = delta * delta
            z += f0
            along += f0 * inverse_skip * inverse_skip + 2 * inverse_skip * delta * f1 + shift * f2
            across += shift * (f1 - f2)
        if k % every == 0:
            tick(k / rules.output.count)
        z *= envelope
        if not z > floor:
            continue
        along = along * envelope * r2 - z
        across = across * envelope * r2 / (tokens - 1) - z
        total += wr * r ** (tokens - 1) * (along * along + (tokens - 1) * across * across) / z
    area = 2 * arb.pi() ** half_m / half_m.gamma()
    return total * area * norm_q * inverse_skip ** (tokens - 1) / (2 * arb.pi()) ** half_m
