"""Prediction errors of links of at most three entries by quadrature over all of them, in the axes of the overlap."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import ROUNDING, SAFETY
from ..model.links import LinkKernel
from ..quadrature.conditional import Fineness, normal_rule
from .finer_rules import by_finer_rules
from .predicted import Predicted, seen

__all__ = ["GridErrors"]

Array = NDArray[np.float64]

# Differences of the last two, over the square of the output, from which on samples are as good.
_UNRESOLVED = 1e-5


class GridErrors:
    """Errors of the posterior mean and of the plug-in prediction as functions of the overlap.

    Parameters
    ----------
    kernel : LinkKernel

    Notes
    -----
    In the axes in which q is diagonal, with overlaps rho, entries are independent: h and h' given one omega have the
    correlation rho, and h and omega/sqrt(rho) of correlation sqrt(rho). With the values of g on a grid of nodes and
    the density of two correlated variables on pairs of them, axis by axis,

        posterior mean: E g(h)^2 - E g(h) g(h'), plug-in: E g(h)^2 - 2 E g(h) g(omega) + E g(omega)^2.

    With label noise they are of predicting the label that is seen. Kinks beside the planes through zero along the axes
    make two rules differ, which then do not serve.
    """

    def __init__(self, kernel: LinkKernel) -> None:
        self._kernel = kernel
        # Panels of each entry, coarse to fine, by the number of entries; panels end at zero, where links have their
        # kinks.
        rules = {
            2: (Fineness(2.0, 10, 9.0), Fineness(1.3, 13, 9.5), Fineness(0.8, 17, 10.0)),
            3: (Fineness(4.2, 12, 8.4), Fineness(4.2, 16, 8.4), Fineness(3.0, 16, 9.0), Fineness(1.8, 14, 9.0)),
        }
        self._rules = rules.get(max(2, kernel.indices * kernel.tokens), ())
        #: Whether there are few enough entries.
        self.served = bool(self._rules)

    def __call__(self, q: Array, wanted: float = 0.0) -> Predicted | None:
        """Both errors; None where the quadrature does not converge.

        Parameters
        ----------
        q : ndarray, shape (P, P)
        wanted : float, optional
            Relative error at which no finer panels are taken.
        """
        # Standard deviations of an entry given the other one that no rule resolves: its nodes are 0.05 apart.
        narrow = 0.05
        if ((left := 1 - _axes(q)[0]) > 0).all() and math.sqrt(left.min()) < narrow:
            return None
        refined = by_finer_rules(partial(self._by, q), self._rules, _UNRESOLVED, wanted)
        if refined is None:
            return None
        off = SAFETY * refined.gap + ROUNDING * refined.size
        return Predicted(refined.value, off, refined.coarse).seen(self._kernel.label_noise)

    def values(self, q: Array) -> Array:
        """Both errors by the coarsest panels: for their change with the overlap."""
        return seen(self._by(q, self._rules[0])[0], self._kernel.label_noise)

    def _by(self, q: Array, rule: Fineness) -> tuple[Array, float]:
        """Errors by one rule, with label noise also the squares at omega and at h; and the mean square of outputs."""
        rho, axes = _axes(q)
        rho = np.repeat(rho, self._kernel.tokens)
        x, weights = normal_rule(rule, ())
        weights /= weights.sum()
        there, known = self._values(axes, x, np.ones_like(rho)), self._values(axes, x, np.sqrt(rho))
        noise = self._kernel.label_noise
        if noise is not None:
            there, known = there - noise.centre, known - noise.centre
        means = [_mean(there, there, x, weights, one) for one in (np.ones_like(rho), rho)]
        crossed = _mean(there, known, x, weights, np.sqrt(rho))
        square = _mean(known, known, x, weights, np.ones_like(rho))
        errors = [means[0] - means[1], means[0] - 2 * crossed + square]
        return np.array(errors if noise is None else [*errors, square, means[0]]), means[0]

    def _values(self, axes: Array, x: Array, scale: Array) -> Array:
        """Outputs at the nodes of all entries, times a scale each, shape (n, .., n, K)."""
        kernel = self._kernel
        # Along an entry that is zero, one node has the values of all.
        grid = np.stack(np.meshgrid(*(one * x if one else np.zeros(1) for one in scale), indexing="ij"), axis=-1)
        found = kernel.link(axes @ grid.reshape(-1, kernel.indices, kernel.tokens)).reshape(*grid.shape[:-1], -1)
        return np.broadcast_to(found, (*(len(x) for _ in scale), found.shape[-1]))


def _axes(q: Array) -> tuple[Array, Array]:
    """Overlaps along the axes in which q is diagonal, and these axes as columns; those of h where q is diagonal."""
    if not (q - np.diag(q.diagonal())).any():
        return np.clip(q.diagonal(), 0.0, 1.0), np.eye(len(q))
    values, axes = np.linalg.eigh(q)
    return np.clip(values, 0.0, 1.0), axes


def _mean(first: Array, second: Array, x: Array, weights: Array, correlation: Array) -> float:
    """E f(x) g(y), summed over outputs, for standard normal x and y of such correlations, entry by entry."""
    moved = second
    for axis, r in enumerate(correlation):
        if r < 1:
            moved = np.moveaxis(np.tensordot(_density(x, weights, float(r)), moved, (1, axis)), 0, axis)
    for axis in range(len(correlation)):
        first = first * weights.reshape([-1 if k == axis else 1 for k in range(first.ndim)])
    return float(np.vdot(first, moved))


def _density(x: Array, weights: Array, r: float) -> Array:
    """Weights of y given x for correlation r, rows by x; they sum to one where panels resolve the density."""
    found = weights * np.exp((2 * r * np.multiply.outer(x, x) - r**2 * (x[:, None] ** 2 + x**2)) / (2 * (1 - r**2)))
    return np.asarray(found / math.sqrt(1 - r**2))
