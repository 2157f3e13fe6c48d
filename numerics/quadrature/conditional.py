"""Moments of functions with jumps of one Gaussian variable given another one.

x = sqrt(s) xi, and y given x has the mean c x/s and the variance t - c^2/s. Panels end at all jumps, and on each of
them the functions are polynomials of low degree to the last digits (`resolved`). About where the jumps of one function
lie as seen through the other variable, panels are as fine as that sees them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from .rules import gauss_legendre

__all__ = ["Fineness", "Marks", "Piecewise", "given", "normal_rule", "product_mean", "resolved"]

Array = NDArray[np.float64]


class Piecewise(NamedTuple):
    """A function of one variable.

    Attributes
    ----------
    value : callable
        From an array of any shape to one of the same shape.
    cuts : ndarray, shape (k,)
        Where it or a derivative of it jumps.
    edges : ndarray, shape (m,)
        Ends of panels on which it is smooth, the cuts among them.
    """

    value: Callable[[Array], Array]
    cuts: Array
    edges: Array


def resolved(value: Callable[[Array], Array], cuts: Array) -> Piecewise:
    """A function with panels on each of which it is a polynomial to rounding, as seen by a standard normal variable.

    Panels are halved until it is; towards a singularity, or a jump that is not among the cuts, down to 3e-11.
    """
    # A function is resolved on a panel where the last coefficients of its polynomial, times the normal density and the
    # width of the panel, are below so much of the largest value. Panels end at this distance, begin with this width,
    # and are halved so often (to 3e-11, of which the rounding of an argument is a small part), or until there are so
    # many.
    degree, rest, reach, widest, halvings, most = 9, 1e-14, 16.0, 4.0, 37, 4000
    whole = np.linspace(-reach, reach, round(2 * reach / widest) + 1)
    places = np.unique(np.concatenate([whole, cuts[np.abs(cuts) < reach]]))
    nodes, weights = gauss_legendre(degree + 1)
    coefficients = legvander(nodes, degree) * weights[:, None] * (np.arange(degree + 1) + 0.5)
    # A jump beyond the last nodes is seen by the polynomial at this place, the ends being -1 and 1; by how much more
    # than the coefficients it may be off there, as it has their rounding times the sum of all polynomials.
    end, loose = 1 - 1e-7, 1e3
    # Those of the two highest polynomials: a smooth function has small ones of both. And the polynomial at the ends.
    highest, at_ends = coefficients[:, -2:], coefficients @ legvander(np.array([-end, end]), degree).T
    low, high, done, largest = places[:-1], places[1:], [places], 0.0
    for _ in range(halvings):
        middle, width = 0.5 * (low + high), high - low
        x = middle[:, None] + 0.5 * width[:, None] * nodes
        values, ends = value(x), value(middle[:, None] + 0.5 * end * width[:, None] * np.array([-1, 1]))
        largest = max(largest, float((np.abs(values) * _density(x)).max(initial=0.0)))
        left = np.maximum(np.abs(values @ highest).max(axis=1), np.abs(values @ at_ends - ends).max(axis=1) / loose)
        rough = ~(left * _density(np.clip(0.0, low, high)) * width <= rest * largest)
        if not rough.any() or sum(map(len, done)) > most:
            break
        low, high, middle = low[rough], high[rough], middle[rough]
        done.append(middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return Piecewise(value, cuts, np.unique(np.concatenate(done)))


class Fineness(NamedTuple):
    """How fine the panels are, in standard deviations: their width, their nodes, and where they end."""

    width: float
    order: int
    reach: float

    @property
    def edges(self) -> Array:
        """Ends of panels of this width."""
        return np.linspace(-self.reach, self.reach, 2 * math.ceil(self.reach / self.width) + 1)


class Marks(NamedTuple):
    """Places about which a function varies over this scale: zero for those at which it jumps."""

    at: Array
    scale: float


def _panels(low: Array, high: Array, order: int) -> tuple[Array, Array]:
    """Nodes and weights from `low` to `high`, shape (..., order)."""
    nodes, weights = gauss_legendre(order)
    half = 0.5 * (high - low)[..., None]
    return 0.5 * (low + high)[..., None] + half * nodes, half * weights


def normal_rule(fineness: Fineness, marks: tuple[Marks, ...]) -> tuple[Array, Array]:
    """Nodes and weights of a standard normal variable; from each mark on the widths of panels double."""
    edges = [fineness.edges]
    for at, scale in marks:
        edges.append(at)
        if 0 < scale < fineness.width:
            steps = scale * 2.0 ** np.arange(math.ceil(math.log2(fineness.width / scale)) + 1)
            edges += [(at[:, None] + sign * steps).ravel() for sign in (-1, 1)]
    points = np.unique(np.concatenate(edges))
    points = points[np.abs(points) <= fineness.reach]
    x, w = (part.ravel() for part in _panels(points[:-1], points[1:], fineness.order))
    return x, w * _density(x)


def given(function: Piecewise, centres: Array, sd: float, fineness: Fineness) -> tuple[Array, Array]:
    """Mean and variance of f(y) for y ~ N(centre, sd^2), each of the shape of the centres, (n,)."""
    if sd == 0:
        return function.value(centres), np.zeros_like(centres)
    fixed = fineness.edges
    size = (len(fixed) + len(function.edges)) * fineness.order
    mean, variance = np.empty_like(centres), np.empty_like(centres)
    # Entries of the largest array at once.
    chunk = 1 << 20
    for start in range(0, len(centres), max(1, chunk // size)):
        here = slice(start, start + max(1, chunk // size))
        centre = centres[here, None]
        own = np.clip((function.edges - centre) / sd, -fineness.reach, fineness.reach)
        edges = np.sort(np.concatenate([np.broadcast_to(fixed, (len(own), len(fixed))), own], axis=1), axis=1)
        low, high = edges[:, :-1], edges[:, 1:]
        row, column = np.nonzero(high > low)
        z, w = _panels(low[row, column], high[row, column], fineness.order)
        w *= _density(z)
        values = function.value(centre[row] + sd * z)
        mass = _sums(row, w)
        mean[here] = _sums(row, w * values) / mass
        variance[here] = _sums(row, w * (values - mean[here][row][:, None]) ** 2) / mass
    return mean, variance


def product_mean(first: Piecewise, second: Piecewise, covariance: tuple[float, float, float], rule: Fineness) -> float:
    """E f(x) g(y) for Gaussian x and y of zero mean.

    Parameters
    ----------
    first, second : Piecewise
        f and g.
    covariance : tuple of float
        E x^2, E y^2 and E x y.
    rule : Fineness
    """
    s, t, c = covariance
    if s == 0 or c == 0:
        return math.prod(float(given(f, np.zeros(1), math.sqrt(v), rule)[0][0]) for f, v in ((first, s), (second, t)))
    sd = math.sqrt(max(t - c * c / s, 0.0))
    marks = (
        Marks(first.edges / math.sqrt(s), 0.0),
        Marks(second.edges * (math.sqrt(s) / c), 0.0),
        Marks(second.cuts * (math.sqrt(s) / c), sd * math.sqrt(s) / abs(c)),
    )
    xi, w = normal_rule(rule, marks)
    seen, _ = given(second, c / math.sqrt(s) * xi, sd, rule)
    return float(w @ (first.value(math.sqrt(s) * xi) * seen) / w.sum())


def _sums(row: NDArray[np.int64], terms: Array) -> Array:
    """Sums over the panels of each row, which all have some."""
    return np.asarray(np.bincount(row, terms.sum(axis=1)), np.float64)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
