"""Quadrature rules with error estimates, and expansions that compress a measure onto few nodes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import legder, legval
from numpy.typing import NDArray

from ..core.results import Estimate
from .sobol import sobol

__all__ = [
    "Chebyshev",
    "Rule",
    "gauss_hermite",
    "gauss_legendre",
    "gauss_legendre_panels",
    "gaussian",
    "half_line",
    "normal_qmc",
    "refine",
    "scale_free",
    "sinh_trapezoid",
    "tanh_sinh",
    "trapezoid",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """Nodes and weights of a quadrature rule.

    Attributes
    ----------
    nodes, weights : ndarray, shape (n,)
    exact_to : int or None
        Highest degree of a polynomial (times the rule's weight function, per panel) that the rule integrates
        exactly; None for rules whose accuracy comes from analyticity.
    """

    nodes: Array
    weights: Array
    exact_to: int | None

    def integrate(self, f: Callable[[Array], Array]) -> float:
        """Sum of weights times f(nodes)."""
        return float(self.weights @ f(self.nodes))


def gauss_hermite(n: int) -> Rule:
    """Gauss rule for the standard normal weight: integrates f(x) exp(-x^2/2)/sqrt(2 pi)."""
    _count(n)
    nodes, weights = hermegauss(n)
    return Rule(nodes, weights / weights.sum(), 2 * n - 1)


@cache
def gauss_legendre(n: int) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1], computed once for each n; they cannot be written to.

    Those of `numpy.polynomial.legendre.leggauss`, which takes time of order n^3: it does not use that the matrix whose
    eigenvalues are the zeros of P_n is tridiagonal.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    highest = np.zeros(n + 1)
    highest[-1] = 1
    scale = 1 / np.sqrt(2 * np.arange(n) + 1)
    nodes = eigvalsh_tridiagonal(np.zeros(n), np.arange(1, n) * scale[:-1] * scale[1:], lapack_driver="sterf")
    slope = legval(nodes, legder(highest))
    nodes -= legval(nodes, highest) / slope
    # Up to a factor 1/(P_n'(x) P_{n-1}(x)), of numbers that do not overflow.
    below = legval(nodes, highest[1:])
    weights = 1 / ((below / np.abs(below).max()) * (slope / np.abs(slope).max()))
    nodes, weights = (nodes - nodes[::-1]) / 2, (weights + weights[::-1]) / 2
    weights *= 2 / weights.sum()
    for values in (nodes, weights):
        values.setflags(write=False)
    return nodes, weights


def gauss_legendre_panels(edges: Array, n: int) -> Rule:
    """Gauss-Legendre rule with n nodes on each panel between consecutive edges."""
    _count(n)
    edges = np.asarray(edges, dtype=np.float64)
    if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) > 0).all():
        raise ValueError("edges must be a strictly increasing sequence of at least two numbers")
    nodes, weights = gauss_legendre(n)
    half = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (edges[1:] + edges[:-1])[:, None]
    return Rule((middle + half * nodes).ravel(), (half * weights).ravel(), 2 * n - 1)


def trapezoid(lower: float, upper: float, step: float) -> Rule:
    """Trapezoidal rule on the multiples of `step` in [lower, upper].

    For a function analytic in a strip of half-width d that is negligible outside [lower, upper] the error
    is O(exp(-2 pi d/step)).
    """
    if not (upper > lower and step > 0):
        raise ValueError(f"need upper > lower and step > 0, got [{lower}, {upper}] and {step}")
    nodes = step * np.arange(np.ceil(lower / step), np.floor(upper / step) + 1)
    return Rule(nodes, np.full(nodes.size, step), None)


def sinh_trapezoid(scale: float, upper: float, step: float) -> Rule:
    """Half-line rule for an even function whose features range from `scale` to `upper`.

    x = scale sinh z, trapezoidal in z >= 0 with the node at zero counted half: about equally many nodes per
    factor of two above `scale`.
    """
    if not (0 < scale < upper and step > 0):
        raise ValueError(f"need 0 < scale < upper and step > 0, got {scale}, {upper}, {step}")
    z = step * np.arange(int(np.ceil(np.arcsinh(upper / scale) / step)) + 1)
    weights = scale * np.cosh(z) * step
    weights[0] *= 0.5
    return Rule(scale * np.sinh(z), weights, None)


def half_line(scale: float, upper: float, step: float, widest: float = math.inf) -> Rule:
    """Half-line rule for any function, integrable at zero, whose features range from `scale` to `upper`.

    x = scale exp(z - exp(-z)), trapezoidal in z: about equally many nodes per factor of two above `scale`, few below.
    Where nodes are to be no further apart than `widest`, w log(1 + x/w) takes the place of x, with w = widest/step.
    """
    if not (0 < scale < upper and step > 0 and widest > 0):
        raise ValueError(f"need 0 < scale < upper, step > 0 and widest > 0, got {scale}, {upper}, {step}, {widest}")
    w = widest / step
    last = math.log(upper / scale) if math.isinf(w) else math.log(w / scale) + upper / w
    # The least node is 1e-18 scale.
    z = step * np.arange(-int(np.ceil(3.65 / step)), int(np.ceil((max(last, 0.0) + 1) / step)) + 1)
    nodes = scale * np.exp(z - np.exp(-z))
    weights = nodes * (1 + np.exp(-z)) * step
    if math.isfinite(w):
        nodes, weights = w * np.log1p(nodes / w), weights / (1 + nodes / w)
    return Rule(nodes[nodes < upper], weights[nodes < upper], None)


def scale_free(scale: float, step: float) -> Rule:
    """Half-line rule for functions that fall off like 1/x^2 and have features at any size from `scale` to one.

    x = exp(z - scale exp(-z) + exp(z)), trapezoidal in z: equally many nodes per factor of two from `scale` to one.
    """
    if not (0 < scale <= 1 and step > 0):
        raise ValueError(f"need 0 < scale <= 1 and step > 0, got {scale}, {step}")
    z = step * np.arange(-int(np.ceil((3.65 - np.log(scale)) / step)), int(np.ceil(3.65 / step)) + 1)
    nodes = np.exp(z - scale * np.exp(-z) + np.exp(z))
    return Rule(nodes, nodes * (1 + scale * np.exp(-z) + np.exp(z)) * step, None)


def tanh_sinh(step: float) -> Rule:
    """Double-exponential rule on (-1, 1), blind to integrable endpoint singularities."""
    if not step > 0:
        raise ValueError(f"step must be > 0, got {step}")
    t = step * np.arange(-int(np.ceil(3.2 / step)), int(np.ceil(3.2 / step)) + 1)
    u = 0.5 * np.pi * np.sinh(t)
    return Rule(np.tanh(u), step * 0.5 * np.pi * np.cosh(t) / np.cosh(u) ** 2, None)


def refine(evaluate: Callable[[int], float], *, relative: float, first: int = 0, last: int = 6) -> tuple[Estimate, int]:
    """Evaluate at increasing levels until two in a row agree.

    Parameters
    ----------
    evaluate : callable
        Maps a level to a value; each level must be more accurate than the one before by orders of magnitude
        (exponentially convergent rules), so that the last difference bounds the error of the last value.
    relative : float
        Difference, relative to the value, at which to stop.
    first, last : int
        Levels to run through.

    Returns
    -------
    Estimate, int
        The last value with the last difference as its error, and how many levels were evaluated.
    """
    previous = evaluate(first)
    difference = np.inf
    level = first
    for level in range(first + 1, last + 1):
        value = evaluate(level)
        difference = abs(value - previous)
        previous = value
        if difference <= relative * abs(value):
            break
    # A float64 sum of a few thousand terms of one sign is not better than some units in the last place.
    return Estimate(previous, max(difference, 16 * np.finfo(float).eps * abs(previous)), "estimated"), (
        level - first + 1
    )


class Chebyshev:
    """Interpolation on n first-kind Chebyshev nodes of [lower, upper].

    A measure mu is compressed to weights on the nodes by its Chebyshev moments: for f analytic in a Bernstein
    ellipse the error of sum_i w_i f(x_i) against the integral of f decays geometrically in n.
    """

    def __init__(self, n: int, lower: float, upper: float) -> None:
        """Set up the nodes; a degenerate interval is a single point."""
        _count(n)
        self.lower, self.upper = lower, upper
        self.n = n if upper > lower else 1
        angles = (np.arange(self.n) + 0.5) * np.pi / self.n
        self.nodes: Array = 0.5 * (lower + upper) + 0.5 * (upper - lower) * np.cos(angles)
        # weights = moments @ _to_weights
        self._to_weights = np.cos(np.outer(np.arange(self.n), angles)) * 2 / self.n
        self._to_weights[0] *= 0.5

    def scale(self, x: Array) -> Array:
        """Map [lower, upper] to [-1, 1]."""
        if self.n == 1:
            return np.zeros_like(x)
        return (2 * x - (self.lower + self.upper)) / (self.upper - self.lower)

    def polynomials(self, x: Array) -> Array:
        """T_0..T_{n-1} at x: shape (n, *x.shape)."""
        z = self.scale(x)
        out = np.empty((self.n, *z.shape))
        out[0] = 1
        if self.n > 1:
            out[1] = z
        double = 2 * z
        for k in range(2, self.n):
            np.multiply(double, out[k - 1], out=out[k])
            out[k] -= out[k - 2]
        return out

    def weights(self, moments: Array) -> Array:
        """Turn moments of T_0..T_{n-1} (first axis) into weights on the nodes (first axis)."""
        return np.tensordot(self._to_weights, moments, axes=(0, 0))


def gaussian(x: Array) -> Array:
    """exp(-x^2/2), held above 1e-100: subnormal numbers would slow the sums a hundredfold."""
    return np.asarray(np.exp(np.maximum(-0.5 * x * x, -230.0)))


def normal_qmc(dimension: int, log2_n: int, rng: np.random.Generator) -> Array:
    """Standard normal points from a scrambled Sobol sequence.

    Parameters
    ----------
    dimension : int
    log2_n : int
        2**log2_n points.
    rng : numpy.random.Generator
        Randomises the scrambling; independent generators give independent, unbiased averages.

    Returns
    -------
    ndarray, shape (2**log2_n, dimension)
    """
    from scipy.special import ndtri

    uniform = sobol(dimension, 2**log2_n, rng)
    # The scrambled points live on a 2^-30 lattice that holds 0.
    return np.asarray(ndtri(np.clip(uniform, 2.0**-31, 1 - 2.0**-31)))


def _count(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"the number of nodes must be an integer >= 1, got {n!r}")
