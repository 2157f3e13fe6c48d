r"""Scalar channels y = f(h) + noise, h ~ N(omega, s^2): posterior moments of single outputs, and their averages.

With h = omega + s t all integrals over t are by Gauss-Legendre on panels that end where f is not smooth and are no
wider than some standard deviations of the noise seen from t; those over y and omega are, too:

F = E_omega int dy Z(y) m(y)^2,  m = E[t | y, omega],  Z = int Dt N(y; f(omega + s t), D).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.polynomial.legendre import leggauss

from attnlimits.generated.aim_channels import numba64 as compiled
from attnlimits.generated.aim_channels import numpy64 as kernels

from ..core.errors import ConvergenceError
from ..learning.blocks import Array
from .checks import CITE

__all__ = ["Moments", "information", "law_of_omega", "moments", "smooth_moments"]

# Standard deviations out to which h and y are followed.
REACH = 9.0
_ORDER = 10
_NODES, _WEIGHTS = leggauss(_ORDER)
# Panels in standard deviations: of the law of h, of the noise, and most of them.
_PRIOR, _NOISE, _MOST = 2.5, 3.5, 2000

Function = Callable[[Array], Array]


class Moments(NamedTuple):
    """Log Z, mean and variance of t given y."""

    log_z: Array
    mean: Array
    variance: Array


class _Grid(NamedTuple):
    """Nodes and weights, shape (n, k)."""

    nodes: Array
    weights: Array


def panels(edges: Array) -> _Grid:
    """Gauss-Legendre between edges, shape (n, k), in ascending order; of no weight where two are equal."""
    half = 0.5 * np.diff(edges, axis=1)[..., None]
    middle = 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None]
    shape = (len(edges), -1)
    return _Grid((middle + half * _NODES).reshape(shape), (half * _WEIGHTS).reshape(shape))


def _prior(omega: Array, spread: Array, breaks: Array, width: float) -> _Grid:
    """Nodes of t and weights with the law of t, which end at the breaks of f."""
    count = int(np.ceil(2 * REACH / width))
    if count > _MOST:
        raise ConvergenceError(
            f"noise this far below the slopes of the activation needs {count} panels ({CITE}, (58)); raise --noise, or "
            "lower beta"
        )
    even = np.broadcast_to(np.linspace(-REACH, REACH, count + 1), (len(omega), count + 1))
    at = np.clip((breaks - omega[:, None]) / spread[:, None], -REACH, REACH)
    grid = panels(np.sort(np.concatenate([even, at], axis=1), axis=1))
    law = np.exp(-0.5 * grid.nodes**2) / np.sqrt(2 * np.pi)
    return _Grid(grid.nodes, grid.weights * law)


def _steepest(f: Function, omega: Array, spread: Array, breaks: Array) -> float:
    """Largest slope of f in units of t, by differences between the breaks, within some six standard deviations."""
    t = np.linspace(-6.0, 6.0, 193)
    h = omega[:, None] + spread[:, None] * t
    # A node at a break, where the value may be that of either side or of none, belongs to neither.
    left, right = np.searchsorted(breaks, h, "left"), np.searchsorted(breaks, h, "right")
    smooth = (right[:, :-1] == left[:, 1:]) & (left[:, :-1] == right[:, :-1]) & (left[:, 1:] == right[:, 1:])
    slopes = np.abs(np.diff(f(h), axis=1)) / (t[1] - t[0])
    return float(slopes[smooth].max(initial=0.0))


def moments(f: Function, breaks: Array, y: Array, omega: Array, spread: Array, noise: Array) -> Moments:
    """Posterior of t given single outputs.

    Parameters
    ----------
    f : callable
        Of h.
    breaks : ndarray, shape (k,)
        Where it is not smooth.
    y, omega, spread, noise : ndarray, shape (n,)
        Outputs, mean and standard deviation of h, and the variance of the noise.
    """
    few = slice(None, None, max(1, len(omega) // 500))
    steep = _steepest(f, omega[few], spread[few], breaks)
    width = min(_PRIOR, _NOISE * float(np.sqrt(noise.min())) / max(steep, 1e-300))
    # Numbers at a time.
    at_once = 1 << 22
    rows = max(1, int(at_once * width / (2 * REACH * _ORDER)))
    found = []
    for start in range(0, len(y), rows):
        part = slice(start, start + rows)
        grid = _prior(omega[part], spread[part], breaks, width)
        found.append(_moments(f(omega[part, None] + spread[part, None] * grid.nodes), y[part], noise[part], grid))
    return Moments(*map(np.concatenate, zip(*found, strict=True)))


def _moments(value: Array, y: Array, noise: Array, grid: _Grid) -> Moments:
    """From f at the nodes, whose weights have the law of t already."""
    exponent = kernels.entry_exponent(np.zeros(1), y[:, None], value, np.ones(1), noise[:, None])[0]
    top = exponent.max(axis=-1, keepdims=True)
    weight = np.exp(exponent - top) * grid.weights
    total = weight.sum(axis=-1)
    mean = (weight * grid.nodes).sum(axis=-1) / total
    square = (weight * grid.nodes**2).sum(axis=-1) / total
    return Moments(np.log(total) + top[..., 0] - 0.5 * np.log(2 * np.pi * noise), mean, square - mean**2)


def smooth_moments(f: Function, breaks: Array, omega: Array, spread: Array, width: float = 0.5) -> tuple[Array, Array]:
    """Mean and mean square of f(h), h ~ N(omega, spread^2), each of shape (n,)."""
    grid = _prior(omega, spread, breaks, width)
    value = f(omega[:, None] + spread[:, None] * grid.nodes)
    return (value * grid.weights).sum(axis=1), (value**2 * grid.weights).sum(axis=1)


def law_of_omega(deviation: float, spread: float, breaks: Array, width: float) -> tuple[Array, Array]:
    """Nodes and weights of omega ~ N(0, deviation^2), closer where f, seen with the spread of h, is not smooth."""
    if deviation < 1e-12:
        return np.zeros(1), np.ones(1)
    steps = spread * width * np.concatenate([[0.0], 2.5 ** np.arange(45)])
    near = np.concatenate([np.concatenate([b - steps, b + steps]) for b in breaks]) if len(breaks) else np.empty(0)
    even = np.linspace(-REACH, REACH, int(np.ceil(2 * REACH / width)) + 1) * deviation
    edges = np.unique(np.clip(np.concatenate([even, near]), even[0], even[-1]))
    grid = panels(edges[None])
    law = np.exp(-0.5 * (grid.nodes / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation)
    weights = (grid.weights * law)[0]
    kept = weights > 1e-15
    return grid.nodes[0, kept], weights[kept]


def information(
    f: Function, breaks: Array, deviation: float, spread: float, noise: float, *, scale: float = 1.0
) -> float:
    """E m(y)^2 over omega of that standard deviation and y: F of one entry.

    Parameters
    ----------
    f, breaks
        As in `moments`.
    deviation, spread : float
        Standard deviations of omega, and of h given omega.
    noise : float
        Variance of the noise.
    scale : float, keyword-only
        Of the widths of all panels.
    """
    omega, weights = law_of_omega(deviation, spread, breaks, 1.2 * scale)
    deviations = np.full(len(omega), spread)
    steep = _steepest(f, omega, deviations, breaks)
    root = math.sqrt(noise)
    grid = _prior(omega, deviations, breaks, min(_PRIOR, _NOISE * root / max(steep, 1e-300)) * scale)
    value = f(omega[:, None] + deviations[:, None] * grid.nodes)
    # Standard deviations of h out to which y is followed.
    live = np.abs(grid.nodes) < 6.5
    lows = np.where(live, value, np.inf).min(axis=1) - REACH * root
    highs = np.where(live, value, -np.inf).max(axis=1) + REACH * root
    if (highs - lows).max() > 20 * _MOST * root:
        raise ConvergenceError(
            f"noise of variance {noise:.1e} is too far below the range of the activation ({CITE}, (58)); raise "
            "--noise, or lower beta"
        )
    order = np.argsort(value, axis=1)
    value, law, t = (np.take_along_axis(a, order, 1) for a in (value, grid.weights, grid.nodes))
    rule = _Rule(_NODES, _WEIGHTS, _NOISE * scale * root)
    return float(weights @ _squares(value, _Law(law, law * t), np.stack([lows, highs], axis=1), rule, noise))


class _Law(NamedTuple):
    """Weights of t, and these times t, shape (n, k)."""

    weight: Array
    moment: Array


class _Rule(NamedTuple):
    """Gauss-Legendre on panels of about this width."""

    nodes: Array
    weights: Array
    width: float


@njit(cache=True, nogil=True, error_model="numpy")
def _squares(values: Array, law: _Law, ends: Array, rule: _Rule, noise: float) -> Array:
    """Integral of Z m^2 over y for each omega: both are sums over ascending values, of which those near y count."""
    out = np.zeros(len(values))
    reach = REACH * math.sqrt(noise)
    for k in range(len(values)):
        value, low, high = values[k], 0, 0
        panels_of = math.ceil((ends[k, 1] - ends[k, 0]) / rule.width)
        half = 0.5 * (ends[k, 1] - ends[k, 0]) / panels_of
        for p in range(panels_of):
            for i in range(len(rule.nodes)):
                y = ends[k, 0] + half * (2 * p + 1 + rule.nodes[i])
                while low < len(value) and value[low] < y - reach:
                    low += 1
                while high < len(value) and value[high] <= y + reach:
                    high += 1
                z, first = 0.0, 0.0
                for j in range(low, high):
                    density = math.exp(compiled.entry_exponent(0.0, y, value[j], 1.0, noise)[0])
                    z += density * law.weight[k, j]
                    first += density * law.moment[k, j]
                if z > 1e-290:
                    out[k] += half * rule.weights[i] * first * first / z
    return out / math.sqrt(2 * math.pi * noise)
