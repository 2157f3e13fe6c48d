"""The integrand of the posterior of two layers (169) in float64, and what can be said of it on rectangles."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...model.network import Network, kernel
from .ellipses import Ellipses, Link, Sides, best_ellipses, lobatto
from .rectangles import chunks

__all__ = ["CUT", "FARTHEST", "MOST_ORDER", "Array", "Integrand", "Logs", "Orders"]

Array = NDArray[np.float64]
Orders = NDArray[np.int64]

# Mass is neglected where the weight is below 10^-digits e^-CUT of the peak; of what is neglected, most is far below.
CUT = 15.0
# Prior widths within which the posterior is looked for.
FARTHEST = 1e5
# Orders above are not used: the rectangle is halved instead.
MOST_ORDER = 2000


class Logs(NamedTuple):
    """What the integrand is at some points t = h_1 - omega_1.

    Attributes
    ----------
    plus, minus : ndarray
        Whitened indices of the first layer, of the shapes of t_+ and t_-.
    second : ndarray, shape (2, 2, ..)
        Those of the last layer, by branch.
    squares, log_weight : ndarray, shape (2, ..)
        Sum of the squares of all four, and logarithm of the weight.
    """

    plus: Array
    minus: Array
    second: Array
    squares: Array
    log_weight: Array


@dataclass(frozen=True)
class Integrand:
    """The integrand of (169) over t = h_1 - omega_1 in token modes, in float64.

    Attributes
    ----------
    model : Network
        Two layers, two tokens, rank 1.
    parameters : tuple of float
        (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2) as in the generated `posterior64`.
    digits : int
        Weights down to 10^-digits of the peak count.
    most : int
        Rectangles that may be tried.
    progress : callable or None
        Called with (0, most) now and then.
    """

    model: Network
    parameters: tuple[float, ...]
    digits: int
    most: int = 200_000
    progress: Callable[[int, int], None] | None = None

    # Chebyshev points per axis of the search.
    _search = 17
    # Points per axis of the grid on which the peak is looked for; rows of it, or rectangles, that are taken at a time.
    _grid, _few = 513, 32

    @property
    def depth(self) -> float:
        """Largest -log of a weight, relative to the peak, that counts."""
        return self.digits * math.log(10) + CUT

    def logs(self, tp: Array, tm: Array) -> Logs:
        """Whitened indices and log-weights of both branches; tp and tm are broadcast against each other."""
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = self.parameters
        try:
            a, b, inv_det = kernel(self.model, "numpy64").undo(w1p + tp, w1m + tm, vp, vm, c, beta)
        except OverflowError:
            raise ConvergenceError(
                f"the link overflows float64 where the posterior (169) is sought, {np.abs(w1p + tp).max():.0e} from 0: "
                "take V, omega or beta smaller"
            ) from None
        first = tp * i1, tm * i1
        second = np.empty((2, 2, *np.shape(a)))
        for branch, sign in enumerate((1.0, -1.0)):
            second[branch, 0] = (sign * a - w2p - slope * tp) * i2
            second[branch, 1] = (sign * b - w2m - slope * tm) * i2
        squares = first[0] ** 2 + first[1] ** 2 + second[:, 0] ** 2 + second[:, 1] ** 2
        return Logs(*first, second, squares, np.log(inv_det) - 0.5 * squares)

    def check_scale(self) -> None:
        """Raise where float64 cannot tell one whitened index from the next, or overflows."""
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = self.parameters
        farthest = max(abs(w1p), abs(w1m)) + FARTHEST / i1
        # Exponents that the kernel may square.
        if not beta * farthest * farthest < 1e150:
            raise ConvergenceError(
                f"the posterior (169) lies where float64 overflows: beta h_1^2 would reach {farthest:.0e}^2 beta; take "
                "V, omega and beta smaller"
            )
        largest = max(i1 * max(abs(w1p), abs(w1m)), i2 * max(abs(vp) / c, abs(vm) / c, abs(w2p), abs(w2m)))
        if not max(largest, i2 * abs(slope) / i1) < 1e13:
            raise ConvergenceError(
                "the posterior (169) is too narrow for its search in float64: V is singular to 13 digits next to the "
                "indices' size, or omega too many prior widths from 0; take V away from singular, e.g. V + 1e-12 I"
            )

    def log_det_bound(self) -> float:
        """Largest log(1/|det B_1|)."""
        c = self.parameters[2]
        return -math.log(c) - math.log(1 + c if self.model.activation == "softmax" else c)

    def largest_within(self, radius: float) -> float:
        """Largest log-weight on a square grid of t that reaches this far."""
        grid = np.linspace(-radius, radius, self._grid)
        # Rows by few, whose arrays stay in the cache.
        rows = (grid[part, None] for part in chunks(self._grid, self._few))
        return float(np.max([self.logs(tp, grid[None, :]).log_weight.max() for tp in rows]))

    def sample(self, boxes: Array) -> Logs:
        """`logs` on the Chebyshev points: the last axes are (n, k, k)."""
        unit = lobatto(self._search)
        tp = boxes[:, 0, None, None] + boxes[:, 2, None, None] * unit[:, None]
        tm = boxes[:, 1, None, None] + boxes[:, 3, None, None] * unit[None, :]
        return self.logs(tp, tm)

    def mass(self, boxes: Array, top: float) -> float:
        """Rough integral of the weight, the largest one counted as one."""
        ends = np.where(np.arange(self._search) % (self._search - 1) == 0, 0.5, 1.0)
        weights = (
            ends * np.sin(math.pi * np.arange(self._search) / (self._search - 1)) * 0.5 * math.pi / (self._search - 1)
        )
        out = 0.0
        for part in chunks(len(boxes)):
            values = np.exp(self.sample(boxes[part]).log_weight - top).sum(axis=0)
            out += float((weights @ values @ weights * boxes[part, 2] * boxes[part, 3]).sum())
        return max(out, 1e-280)

    def alive(self, boxes: Array, top: float) -> tuple[NDArray[np.bool_], float]:
        """Mark rectangles whose weight may come within exp(-depth) of the peak; return also the improved peak."""
        bounds = np.empty(len(boxes))
        for part in chunks(len(boxes), 4 * self._few):
            found = self.sample(boxes[part])
            top = max(top, float(found.log_weight.max()))
            first = _least_size(found.plus) ** 2 + _least_size(found.minus) ** 2
            least = first + (_least_size(found.second) ** 2).sum(axis=1)
            log_det = found.log_weight + 0.5 * found.squares
            most = log_det.max(axis=(-2, -1)) + 1.0
            bounds[part] = (most - 0.5 * least).max(axis=0)
        return bounds > top - self.depth, top

    def variation(self, boxes: Array) -> Array:
        """Return how much a whitened index varies over each rectangle, and along each of its sides, shape (3, n)."""
        out = np.empty((3, len(boxes)))
        for part in chunks(len(boxes), 4 * self._few):
            found = self.sample(boxes[part])
            # Along its own side a first index varies as over the whole rectangle, and along the other one not at all.
            plus, minus = np.ptp(found.plus, axis=(-2, -1)), np.ptp(found.minus, axis=(-2, -1))
            second = found.second
            out[0, part] = np.maximum(np.maximum(plus, minus), np.ptp(second, axis=(-2, -1)).max(axis=(0, 1)))
            out[1, part] = np.maximum(plus, np.ptp(second, axis=-2).max(axis=(0, 1, 3)))
            out[2, part] = np.maximum(minus, np.ptp(second, axis=-1).max(axis=(0, 1, 3)))
        return out

    def orders(self, boxes: Array, axis: int, top: float, target: float, table: Ellipses) -> tuple[Orders, Array]:
        """Orders on lines parallel to an axis, shape (n, lines), and the logarithm of the largest error, shape (n,).

        The rule may err by exp(target), where the largest weight is one.
        """
        orders = np.empty((len(boxes), len(table.lines)), dtype=np.int64)
        errors = np.empty(len(boxes))
        area = np.log(boxes[:, 2] * boxes[:, 3])
        for part in chunks(len(boxes)):
            bound = self._largest(boxes[part], axis, table, target - area[part] + top) - top
            bound += table.constant + area[part, None, None]
            wanted = ((bound - target) / (2 * table.log_rho)).min(axis=-1)
            orders[part] = np.ceil(np.clip(wanted, 1.0, MOST_ORDER))
            left = bound - 2 * orders[part, :, None] * table.log_rho
            errors[part] = left.min(axis=-1).max(axis=-1)
        return orders, errors

    def _largest(self, boxes: Array, axis: int, table: Ellipses, targets: Array) -> Array:
        """Largest logarithm of |weight| (1 + |z|^2) of both branches, shape (n, lines, ellipses).

        In each ellipse around lines parallel to an axis; infinite where it holds a singularity, or the next larger one
        does: close to one, the points may miss the largest modulus. Infinite also where it has not been looked for:
        neighbours are tried until neither needs a lower order for the target, a logarithm for each box.
        """
        along, across = boxes[:, [axis, 2 + axis]], boxes[:, [1 - axis, 3 - axis]]
        out = np.full((len(boxes), len(table.lines), len(table.log_rho)), np.inf)
        sides = Sides(axis, np.ascontiguousarray(along), np.ascontiguousarray(across))
        best_ellipses(Link(self.model.activation == "linear", self.parameters), sides, table, targets, out)
        return out


def _least_size(values: Array) -> Array:
    """Least size over a rectangle of what is sampled on its points, the last two axes.

    What a sample may miss is less than the largest step between neighbours.
    """
    both = (-2, -1)
    steps = [np.abs(np.diff(values, axis=axis)).max(axis=both) for axis in both if values.shape[axis] > 1]
    slack = np.maximum(steps[0], steps[-1])
    return np.asarray(np.maximum(0.0, np.maximum(values.min(axis=both) - slack, -values.max(axis=both) - slack)))
