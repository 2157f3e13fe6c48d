"""Quadrature rules and Chebyshev expansions in pairs of float64: those of `quadrature`, to about 30 digits."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from mpmath import mpf
from mpmath.ctx_mp import MPContext
from numba import njit
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from ...arithmetic.doubledouble import add, mul
from ...arithmetic.pairs import Pairs, Parts

__all__ = [
    "Grid",
    "PairRule",
    "cos_sin",
    "cut",
    "double_exponential",
    "gauss_legendre",
    "gaussian",
    "panels",
    "pi",
    "sinh_half_line",
    "uniform",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PairRule:
    """Nodes and weights of a quadrature rule in pairs, shape (n,)."""

    nodes: Pairs
    weights: Pairs

    def __len__(self) -> int:
        """Count the nodes."""
        return self.nodes.hi.size


def _context() -> MPContext:
    ctx = MPContext()
    ctx.prec = 140
    return ctx


def _from_mp(values: "list[mpf]") -> Pairs:
    hi = np.array([float(v) for v in values])
    return Pairs(hi, np.array([float(v - h) for v, h in zip(values, hi.tolist(), strict=True)]))


@cache
def pi() -> Pairs:
    """Pi, shape ()."""
    return _from_mp([+_context().pi])[0]


def cos_sin(angle: Pairs) -> tuple[Pairs, Pairs]:
    """Cosine and sine of a few angles."""
    ctx = _context()
    angles = [ctx.mpf(float(h)) + ctx.mpf(float(lo)) for h, lo in zip(angle.hi, angle.lo, strict=True)]
    return _from_mp([ctx.cos(x) for x in angles]), _from_mp([ctx.sin(x) for x in angles])


def cut(digits: float) -> float:
    """Where standard normal variables are cut: x^6 exp(-x^2/2) is below 10^-digits beyond."""
    x = 6.0
    for _ in range(20):
        x = math.sqrt(2 * (math.log(10) * digits + 6 * math.log(x)))
    return x


def gaussian(x: Pairs) -> Pairs:
    """exp(-x^2/2)."""
    return (x * x * -0.5).exp()


@cache
def gauss_legendre(n: int) -> PairRule:
    """Gauss-Legendre rule with n nodes on [-1, 1]: Newton's iteration from the float64 rule."""
    x = Pairs(leggauss(n)[0])
    for _ in range(2):
        older, newer = Pairs(np.ones(n)), x
        for k in range(2, n + 1):
            older, newer = newer, (x * newer * (2 * k - 1) - older * (k - 1)) / Pairs(float(k))
        slope = (older - x * newer) * float(n) / (1.0 - x * x)
        x = x - newer / slope
    # At the last x but one: dw/dx = O(residual), and the residual was 1e-16 squared.
    return PairRule(x, 2.0 / ((1.0 - x * x) * slope * slope))


def panels(edges: Array, n: int) -> PairRule:
    """Gauss-Legendre rule with n nodes on each panel between consecutive edges, which count as exact numbers."""
    rule = gauss_legendre(n)
    left, right = Pairs(edges[:-1, None]), Pairs(edges[1:, None])
    half = (right - left) * 0.5
    return PairRule(((right + left) * 0.5 + half * rule.nodes).ravel(), (half * rule.weights).ravel())


def uniform(lower: float, upper: float, step: float) -> PairRule:
    """Trapezoidal rule on the multiples of `step` in [lower, upper]."""
    k = np.arange(math.ceil(lower / step), math.floor(upper / step) + 1, dtype=np.float64)
    return PairRule(Pairs(k) * step, Pairs(np.full(k.size, step)))


def sinh_half_line(scale: float, upper: float, step: float) -> PairRule:
    """Half-line rule for an even function whose features range from `scale` to `upper`: x = scale sinh z."""
    z = uniform(0.0, math.asinh(upper / scale) + step, step).nodes
    up, down = z.exp() * (0.5 * scale), (-z).exp() * (0.5 * scale)
    half = np.ones(up.hi.size)
    half[0] = 0.5
    return PairRule(up - down, (up + down) * step * half)


def double_exponential(lower: float, upper: float, step: float) -> PairRule:
    """Half-line rule x = exp(z - exp(-z)), trapezoidal in z between the z of `lower` and of `upper`.

    The weight decays doubly exponentially towards zero, so an integrand that is smooth in log x and bounded there
    needs few nodes at small x.
    """
    ends = []
    for x in (lower, upper):
        z = max(math.log(x), -math.log(1 + max(0.0, -math.log(x)))) if x < 1 else math.log(x)
        for _ in range(60):
            z -= (z - math.exp(-z) - math.log(x)) / (1 + math.exp(-z))
        ends.append(z)
    z_rule = uniform(ends[0], ends[1] + step, step)
    inner = (-z_rule.nodes).exp()
    nodes = (z_rule.nodes - inner).exp()
    return PairRule(nodes, nodes * (inner + 1.0) * step)


class Grid:
    """First-kind Chebyshev nodes of [lower, upper]; a measure is compressed to weights on them by its moments."""

    def __init__(self, n: int, lower: Pairs, upper: Pairs) -> None:
        """Set up the nodes."""
        self.n = n
        self.lower, self.upper = lower, upper
        ctx = _context()
        table = _from_mp([ctx.cospi(ctx.mpf(k) / (2 * n)) for k in range(4 * n)])
        index = np.outer(np.arange(n), 2 * np.arange(n) + 1) % (4 * n)
        scale = np.full((n, 1), 2.0)
        scale[0] = 1.0
        # weights = to_weights^T @ moments
        self._to_weights = table[index.T] * scale.T / Pairs(float(n))
        self.nodes = (lower + upper) * 0.5 + (upper - lower) * 0.5 * table[index[1] if n > 1 else index[0]]

    def weights(self, moments: Pairs) -> Pairs:
        """Turn moments of T_0..T_{n-1} (first axis) into weights on the nodes (first axis)."""
        return matmul(self._to_weights, moments)

    def coefficients(self, values: Pairs) -> Pairs:
        """Turn values at the nodes (first axis) into Chebyshev coefficients (first axis)."""
        return matmul(Pairs(self._to_weights.hi.T, self._to_weights.lo.T), values)


def matmul(a: Pairs, b: Pairs) -> Pairs:
    """Matrix product."""
    out = Parts.zeros(a.shape[0], b.shape[1])
    _matmul(*a.parts, *b.parts, *out)
    return Pairs(*out)


@njit(error_model="numpy", nogil=True, cache=True)
def _matmul(ah, al, bh, bl, ch, cl):  # type: ignore[no-untyped-def]
    """C += A B."""
    for i in range(ah.shape[0]):
        for k in range(ah.shape[1]):
            for j in range(bh.shape[1]):
                ph, pl = mul(ah[i, k], al[i, k], bh[k, j], bl[k, j])
                ch[i, j], cl[i, j] = add(ch[i, j], cl[i, j], ph, pl)
