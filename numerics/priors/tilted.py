"""Moments of one entry under p(w) exp(b w - A w^2/2), by Gauss-Legendre panels of the density and of the Gaussian.

For each field b the panels of the density that hold anything are cut at the centre m = b/A of the Gaussian, clipped to
them, and at the distances from it at which it has fallen by factors exp(-4.5), exp(-18) and exp(-40.5). Distances from
the centre are what is computed with, so that they keep their digits where the Gaussian is narrow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from .panels import Panels, legendre

__all__ = ["Entry", "Moments"]

Array = NDArray[np.float64]

# Logarithms of what is left at the cuts of the Gaussian, and of what is nothing beside the largest.
_FALLEN, _NOTHING = (4.5, 18.0, 40.5), 48.0
# Nodes that are made at a time.
_AT_ONCE = 1 << 20
# Exponents below which exp(u) - 1 - u is a series, and its terms: 0.1^9/10! is below rounding.
_SMALL, _TERMS = 0.1, 10
# Share of the law of an entry that averages over weak channels leave out.
_LEFT_OUT = 1e-24
# What an even density may differ by from its mirror image, for it is centred by sums.
_MIRRORED = 1e-13
# Share of a posterior in the last panel of an unbounded density that a precision below zero may leave.
_EDGE = 1e-9


class Moments(NamedTuple):
    """Of the entry at each field.

    Attributes
    ----------
    log_mass : ndarray, shape (n,)
        log of the integral of p(w) exp(b w - A w^2/2).
    completed : ndarray, shape (n,)
        log of that of p(w) exp(-A (w - b/A)^2/2), which keeps its digits where A is large; of A > 0.
    mean, variance : ndarray, shape (n,)
    """

    log_mass: Array
    completed: Array
    mean: Array
    variance: Array


class _Nodes(NamedTuple):
    """Offsets from the centre, weights, and log p there, shape (n, K)."""

    centre: Array
    pull: Array  # b - A centre
    offset: Array
    weight: Array
    log_density: Array


@dataclass(frozen=True, eq=False)
class Entry:
    """Law of an entry: log p(w) of mean 0 and variance 1, and its panels.

    Parameters
    ----------
    log_density : callable
        Of an array of w; -inf where there is nothing.
    panels : Panels

    Attributes
    ----------
    even : bool
        Whether p(-w) = p(w).
    """

    log_density: Callable[[Array], Array]
    panels: Panels
    _upper: Array = field(init=False, repr=False)
    _middle: Array = field(init=False, repr=False)
    _core: tuple[int, int] = field(init=False, repr=False)
    even: bool = field(init=False)

    def __post_init__(self) -> None:
        """Bounds of log p on each panel."""
        edges = self.panels.edges
        x, _ = legendre(16)
        # Beside the edges: what jumps there has its value from within.
        x = np.concatenate([[-1 + 1e-9], x, [1 - 1e-9]])
        at = 0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * x
        values = self.log_density(at)
        object.__setattr__(self, "_upper", values.max(axis=1) + 0.5)
        object.__setattr__(self, "_middle", self.log_density(0.5 * (edges[1:] + edges[:-1])))
        object.__setattr__(self, "_core", self._places(_LEFT_OUT))
        mirrored = len(edges) % 2 == 1 and np.allclose(edges, -edges[::-1], rtol=0, atol=_MIRRORED)
        held = self._upper > self._upper.max() - _NOTHING
        even = mirrored and np.allclose(values[held], values[::-1, ::-1][held], rtol=0, atol=1e3 * _MIRRORED)
        object.__setattr__(self, "even", bool(even))

    def quantiles(self, share: float) -> tuple[float, float]:
        """Edges beyond which less than a share of the law is, on both sides."""
        first, last = self._places(share)
        return float(self.panels.edges[first]), float(self.panels.edges[last])

    def _places(self, share: float) -> tuple[int, int]:
        """Numbers of these edges."""
        edges = self.panels.edges
        x, weights = legendre(16)
        at = 0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * x
        mass = 0.5 * np.diff(edges) * (np.exp(self.log_density(at)) @ weights)
        below, above = np.cumsum(mass), np.cumsum(mass[::-1])
        first = int(np.searchsorted(below, share))
        last = len(mass) - int(np.searchsorted(above, share))
        return first, last

    def moments(self, precision: float, fields: Array, order: int = 16) -> Moments:
        """Moments under exp(b w - A w^2/2).

        Parameters
        ----------
        precision : float
            A.
        fields : ndarray, shape (n,)
            b.
        order : int, optional
            Nodes of each panel.

        Raises
        ------
        ConvergenceError
            A is so far below zero that the posterior runs off to infinity.
        """
        parts = [self._part(precision, part, order) for part in self._parts(fields, order)]
        return Moments(*(np.concatenate(one) for one in zip(*parts, strict=True)))

    def near_zero(self, precision: float, fields: Array, order: int = 16) -> Moments:
        """The same for small A, where means, and masses less one, keep their digits: E w = 0 is used."""
        parts = []
        for part in self._parts(fields, order):
            nodes = self._nodes(precision, part, order, whole=True)
            w = nodes.centre[:, None] + nodes.offset
            mass = nodes.weight * np.exp(nodes.log_density)
            linear = part[:, None] * w
            u = linear - 0.5 * precision * w * w
            grown = np.expm1(u)
            small = np.abs(u) < _SMALL
            less = grown - linear
            less[small] = _beyond_linear(u[small]) + (u - linear)[small]
            less_one = (mass * less).sum(axis=1)
            mean = (mass * w * grown).sum(axis=1) / (1 + less_one)
            variance = (mass * (1 + grown) * (w - mean[:, None]) ** 2).sum(axis=1) / (1 + less_one)
            log_mass = np.log1p(less_one)
            completed = log_mass - 0.5 * part**2 / precision
            parts.append(Moments(log_mass, completed, mean, variance))
        return Moments(*(np.concatenate(one) for one in zip(*parts, strict=True)))

    def _parts(self, fields: Array, order: int) -> list[Array]:
        rows = max(1, _AT_ONCE // (order * (len(self.panels.edges) + 2 * len(_FALLEN))))
        return [fields[k : k + rows] for k in range(0, len(fields), rows)]

    def _part(self, precision: float, fields: Array, order: int) -> Moments:
        nodes = self._nodes(precision, fields, order)
        offset = nodes.offset
        exponent = nodes.log_density + offset * (nodes.pull[:, None] - 0.5 * precision * offset)
        top = exponent.max(axis=1)
        weight = nodes.weight * np.exp(exponent - top[:, None])
        total = weight.sum(axis=1)
        moved = (weight * offset).sum(axis=1) / total
        variance = (weight * (offset - moved[:, None]) ** 2).sum(axis=1) / total
        if precision < 0:
            self._check_ends(precision, weight, total, order)
        log = top + np.log(total)
        c = nodes.centre
        short = c - fields / precision if precision > 0 else np.zeros_like(c)
        return Moments(log + c * (fields - 0.5 * precision * c), log - 0.5 * precision * short**2, c + moved, variance)

    def _check_ends(self, precision: float, weight: Array, total: Array, order: int) -> None:
        ends = np.maximum(weight[:, :order].sum(axis=1), weight[:, -order:].sum(axis=1))
        bounded = np.isin(self.panels.edges[[0, -1]], self.panels.kinks).all()
        if not bounded and (ends > _EDGE * total).any():
            raise ConvergenceError(f"the posterior precision A has the eigenvalue {precision:.3g}")

    def _nodes(self, precision: float, fields: Array, order: int, whole: bool = False) -> _Nodes:
        edges = self.panels.edges
        low, high = float(edges[0]), float(edges[-1])
        if precision > 0:
            with np.errstate(over="ignore"):
                centre = np.clip(fields / precision, low, high)
            # Nothing pulls where the centre is that of the Gaussian.
            inside = (centre > low) & (centre < high)
            pull = np.where(inside, 0.0, fields - precision * centre)
        else:
            centre, pull = np.zeros_like(fields), fields
        first, last = (np.full(len(fields), end) for end in self._core)
        if not whole:
            first, last = self._window(precision, centre, pull)
        count = int((last - first).max())
        picked = np.minimum(first[:, None] + np.arange(count + 1), last[:, None])
        offsets = edges[picked] - centre[:, None]
        if precision > 0:
            with np.errstate(divide="ignore"):
                size = np.abs(pull)
                cuts = np.array([2 * k / (size + np.sqrt(size**2 + 2 * precision * k)) for k in _FALLEN]).T
            cuts = np.concatenate([-cuts, np.zeros((len(fields), 1)), cuts], axis=1)
            cuts = np.clip(cuts, offsets[:, :1], offsets[:, -1:])
            offsets = np.sort(np.concatenate([offsets, cuts], axis=1), axis=1)
        x, weights = legendre(order)
        half = 0.5 * np.diff(offsets, axis=1)
        middle = offsets[:, :-1] + half
        at = (middle[:, :, None] + half[:, :, None] * x).reshape(len(fields), -1)
        weight = (half[:, :, None] * weights).reshape(len(fields), -1)
        return _Nodes(centre, pull, at, weight, self.log_density(centre[:, None] + at))

    def _window(self, precision: float, centre: Array, pull: Array) -> tuple[Array, Array]:
        """First edge, and last one, of the panels that hold anything of each posterior."""
        edges = self.panels.edges
        offset = edges - centre[:, None]
        peak = pull[:, None] / precision if precision > 0 else np.full((len(pull), 1), np.nan)

        def value(d: Array) -> Array:
            return np.asarray(d * (pull[:, None] - 0.5 * precision * d))

        if precision > 0:
            most = self._upper + value(np.clip(peak, offset[:, :-1], offset[:, 1:]))
        else:
            most = self._upper + np.maximum(value(offset[:, :-1]), value(offset[:, 1:]))
        known = self._middle + value(0.5 * (offset[:, 1:] + offset[:, :-1]))
        top = np.maximum(known.max(axis=1), self.log_density(centre))
        kept = most >= top[:, None] - _NOTHING
        first = kept.argmax(axis=1)
        last = len(edges) - 1 - kept[:, ::-1].argmax(axis=1)
        return first, last


def _beyond_linear(u: Array) -> Array:
    """exp(u) - 1 - u of small numbers."""
    series = np.ones_like(u)
    for k in range(_TERMS, 2, -1):
        series = 1 + u / k * series
    return 0.5 * u * u * series
