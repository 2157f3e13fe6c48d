"""Where the posterior of two layers lives: the plane of h_1 cut into rectangles with Gauss-Legendre orders, in float64.

The integrand is analytic. A rule of order n on [-1, 1] errs by at most 64/15 M rho^(-2 n)/(1 - rho^-2), where M is the
largest modulus on the ellipse with foci +-1 and semi-axes that sum to rho, for every rho within which there is no
singularity. Singular are the zeros of det B_1, which the winding of det B_1 along the ellipse counts. The logarithm of
the modulus has no floor in float64, so one table of ellipses gives the orders for any number of digits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...model.attention import Attention, kernel

__all__ = ["CUT", "Array", "Cut", "Integrand"]

Array = NDArray[np.float64]
Orders = NDArray[np.int64]

# Mass is neglected where the weight is below 10^-digits e^-CUT of the peak; of what is neglected, most is far below.
CUT = 15.0
# Rectangles at the start, per axis, and the cells that each is searched in for thin valleys.
_COARSE, _FINE = 4, 8
# Chebyshev points per axis of the search.
_SEARCH = 17
# Rectangles over which a whitened index varies by more are halved in any case: their samples are then at most 1.6
# apart in z, so no valley of Q (of width one in z) hides between them.
_WIDEST = 16.0
# A rectangle is halved, or quartered, if that saves this share of its nodes, and if they are more than it takes to find
# out.
_SAVING, _SMALL, _LARGE = 0.03, 64, 1000
# Exponents that the kernel may square.
_LARGEST = 1e150
# Prior widths within which the posterior is looked for.
_FARTHEST = 1e5
# A determinant that turns by more from one point to the next is not followed: the ellipse counts as singular.
_TURN = 2.4
# Orders above are not used: the rectangle is halved instead.
_MOST_ORDER = 2000
# Orders along rows are multiples of this, so that many rows share their nodes.
_STEP = 4


class _Ellipses:
    """A table of ellipses around lines through a rectangle: `lines`, log(rho), and points relative to a unit interval.

    The points go from one real one to the other; the other half of an ellipse is their mirror image.
    """

    def __init__(self, lines: int, ellipses: int, angles: int) -> None:
        self.lines = _lobatto(lines)
        self.log_rho = 0.13 * (13.0 ** (1 / (ellipses - 1))) ** np.arange(ellipses)
        self.points = 0.5 + 0.5 * np.cosh(self.log_rho[:, None] + 1j * np.linspace(0.0, math.pi, angles))
        self.constant = math.log(64 / 15 / 2) - np.log(-np.expm1(-2 * self.log_rho))


def _lobatto(points: int) -> Array:
    """Chebyshev-Lobatto points on [0, 1], increasing."""
    return 0.5 * (1.0 - np.cos(math.pi * np.arange(points) / (points - 1)))


# To compare ways to cut, and for the orders that are used.
_ROUGH, _GOOD = _Ellipses(7, 13, 17), _Ellipses(13, 30, 33)


@dataclass(frozen=True)
class Cut:
    """Rectangles in t that do not overlap and hold all weights that count.

    Attributes
    ----------
    boxes : ndarray, shape (n, 4)
        Left, bottom, width, height.
    along_p : ndarray of int, shape (n, lines)
        Gauss-Legendre orders along the plus mode on lines spread over the height.
    along_m : ndarray of int, shape (n,)
        Orders along the minus mode.
    errors : ndarray, shape (n,)
        Logarithm of the error of each rectangle's moments, where the largest weight is one.
    top : float
        Largest log-weight.
    """

    boxes: Array
    along_p: Orders
    along_m: Orders
    errors: Array
    top: float

    def row_orders(self, k: int, positions: Array) -> Orders:
        """Orders along the plus mode on rows of rectangle k, at `positions` between 0 and 1 of its height."""
        above = np.clip(np.searchsorted(_GOOD.lines, positions), 1, len(_GOOD.lines) - 1)
        most = np.maximum(self.along_p[k, above - 1], self.along_p[k, above])
        # Few different rules.
        return -(-most // _STEP) * _STEP


@dataclass(frozen=True)
class Integrand:
    """The integrand of (169) over t = h_1 - omega_1 in token modes, in float64.

    Attributes
    ----------
    model : Attention
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

    model: Attention
    parameters: tuple[float, ...]
    digits: int
    most: int = 200_000
    progress: Callable[[int, int], None] | None = None

    @property
    def depth(self) -> float:
        """Largest -log of a weight, relative to the peak, that counts."""
        return self.digits * math.log(10) + CUT

    def logs(self, tp: Array, tm: Array) -> tuple[Array, Array]:
        """Whitened indices, shape (2, 4, ...), and log-weights, shape (2, ...), of both branches."""
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = self.parameters
        try:
            a, b, inv_det = kernel(self.model, "numpy64").undo(w1p + tp, w1m + tm, vp, vm, c, beta)
        except OverflowError:
            raise ConvergenceError(
                f"the link overflows float64 where the posterior (169) is sought, {np.abs(w1p + tp).max():.0e} from 0: "
                "take V, omega or beta smaller"
            ) from None
        z = np.empty((2, 4, *np.shape(a)))
        z[:, 0], z[:, 1] = tp * i1, tm * i1
        for branch, sign in enumerate((1.0, -1.0)):
            z[branch, 2] = (sign * a - w2p - slope * tp) * i2
            z[branch, 3] = (sign * b - w2m - slope * tm) * i2
        return z, np.log(inv_det) - 0.5 * (z * z).sum(axis=1)

    def rectangles(self) -> Cut:
        """Cut the plane.

        Raises
        ------
        ConvergenceError
            The posterior is too narrow for a cut in float64, or needs too many rectangles.
        """
        sd = 1.0 / self.parameters[8]
        self._check_scale()
        # Outside the circle the prior alone is below the peak by `depth`; the peak is known from inside.
        radius, top = 0.0, 0.0
        for _ in range(60):
            enough = sd * math.sqrt(2 * max(self.depth - top + self._log_det_bound(), self.depth))
            if radius >= enough:
                break
            if enough > _FARTHEST * sd:
                raise ConvergenceError(
                    f"the posterior (169) lies more than {_FARTHEST:.0e} prior widths from omega: y is too unlikely "
                    "under (omega, V); check that they belong together"
                )
            radius = enough
            grid = np.linspace(-radius, radius, 513)
            top = float(self.logs(grid[:, None], grid[None, :])[1].max())
        xs, ys = _edges(radius, -self.parameters[4]), _edges(radius, -self.parameters[5])
        # A fine uniform cut to find every valley; coarse rectangles that hold a piece of one are kept.
        fine, top = self._alive(_product(_refine(xs, _FINE), _refine(ys, _FINE)), top)
        nx, ny = len(xs) - 1, len(ys) - 1
        keep = fine.reshape(nx, _FINE, ny, _FINE).any(axis=(1, 3)).ravel()
        boxes, top = self._halve_the_wide(_product(xs, ys)[keep], top)
        level = math.log(self._mass(boxes, top)) - self.digits * math.log(10)
        boxes = self._halve_where_cheaper(boxes, top, level - math.log(200.0))
        return self._ordered(boxes, top, level)

    def _ordered(self, boxes: Array, top: float, level: float) -> Cut:
        """Measure the orders that are used, and halve where the rough table missed a singularity."""
        for _ in range(40):
            target = level - math.log(2 * len(boxes))
            (along_p, error_p), (along_m, error_m) = (self._orders(boxes, axis, top, target, _GOOD) for axis in (0, 1))
            most = np.stack([along_p.max(axis=1), along_m.max(axis=1)])
            if most.max() < _MOST_ORDER:
                return Cut(boxes, along_p, most[1], np.logaddexp(error_p, error_m), top)
            bad = most.max(axis=0) >= _MOST_ORDER
            axes = most.argmax(axis=0)
            halves = np.concatenate([_halves(boxes[bad & (axes == axis)], axis) for axis in (0, 1)])
            boxes = np.concatenate([boxes[~bad], halves[self._alive(halves, top)[0]]])
        raise ConvergenceError(
            f"the rules of the posterior (169) would have more than {_MOST_ORDER} nodes a side: ask for fewer digits"
        )

    def _mass(self, boxes: Array, top: float) -> float:
        """Rough integral of the weight, the largest one counted as one."""
        ends = np.where(np.arange(_SEARCH) % (_SEARCH - 1) == 0, 0.5, 1.0)
        weights = ends * np.sin(math.pi * np.arange(_SEARCH) / (_SEARCH - 1)) * 0.5 * math.pi / (_SEARCH - 1)
        out = 0.0
        for part in _chunks(len(boxes)):
            values = np.exp(self._sample(boxes[part])[1] - top).sum(axis=0)
            out += float((weights @ values @ weights * boxes[part, 2] * boxes[part, 3]).sum())
        return max(out, 1e-280)

    def _count(self, tried: int, more: int) -> int:
        """Add to the number of rectangles that were tried; raise where they are too many."""
        if tried + more > self.most:
            raise ConvergenceError(
                f"the posterior (169) takes a search of more than {self.most} rectangles: V is too large for the scale "
                "on which the link changes, or y too unlikely under (omega, V); raise max_nodes, which bounds it, "
                "or ask for fewer digits"
            )
        if self.progress is not None:
            self.progress(0, self.most)
        return tried + more

    def _check_scale(self) -> None:
        """Raise where float64 cannot tell one whitened index from the next, or overflows."""
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = self.parameters
        farthest = max(abs(w1p), abs(w1m)) + _FARTHEST / i1
        if not beta * farthest * farthest < _LARGEST:
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

    def _log_det_bound(self) -> float:
        """Largest log(1/|det B_1|)."""
        c = self.parameters[2]
        return -math.log(c) - math.log(1 + c if self.model.activation == "softmax" else c)

    def _halve_the_wide(self, boxes: Array, top: float) -> tuple[Array, float]:
        """Halve until no index varies too much over a rectangle; drop those without weight; return also the peak."""
        done: list[Array] = []
        tried = 0
        while len(boxes):
            # A look at a rectangle costs a quarter of what its orders do.
            tried = self._count(tried, len(boxes) // 4)
            alive, top = self._alive(boxes, top)
            boxes = boxes[alive]
            steps = self._variation(boxes)
            wide = steps.max(axis=0) > _WIDEST
            axes = steps[1:].argmax(axis=0)
            done.append(boxes[~wide])
            boxes = np.concatenate([_halves(boxes[wide & (axes == axis)], axis) for axis in (0, 1)])
        kept = np.concatenate(done)
        alive, top = self._alive(kept, top)
        return kept[alive], top

    def _halve_where_cheaper(self, boxes: Array, top: float, target: float) -> Array:
        """Halve every rectangle whose halves need fewer nodes, and quarter it where only its quarters do.

        A fast change along a diagonal is of the second kind.
        """
        needed = self._both_orders(boxes, top, target)
        done: list[Array] = []
        tried = 0
        while len(boxes):
            tried = self._count(tried, len(boxes))
            # Across the side with more nodes.
            halved, parts, orders = self._parts(boxes, needed, top, target, quarters=False)
            left, needed = boxes[~halved], needed[~halved]
            quartered, more, more_orders = self._parts(left, needed, top, target, quarters=True)
            done.append(left[~quartered])
            boxes, needed = np.concatenate([parts, more]), np.concatenate([orders, more_orders])
        return np.concatenate(done)

    def _parts(
        self, boxes: Array, needed: Array, top: float, target: float, *, quarters: bool
    ) -> tuple[NDArray[np.bool_], Array, Array]:
        """Mark the rectangles whose halves across the longer rule, or quarters, need fewer nodes.

        Return these parts too, and their orders.
        """
        cost = needed.prod(axis=1)
        tried = np.flatnonzero(cost > (_LARGE if quarters else _SMALL))
        axes = needed[tried].argmax(axis=1)
        parts = np.concatenate([_halves(boxes[tried[axes == axis]], axis) for axis in (0, 1)])
        parents = np.concatenate([np.tile(tried[axes == axis], 2) for axis in (0, 1)])
        if quarters:
            other = 1 - needed[parents].argmax(axis=1)
            parts = np.concatenate([_halves(parts[other == axis], axis) for axis in (0, 1)])
            parents = np.concatenate([np.tile(parents[other == axis], 2) for axis in (0, 1)])
        alive, _ = self._alive(parts, top)
        orders = self._both_orders(parts, top, target)
        costs = np.bincount(parents, orders.prod(axis=1) * alive, len(boxes))
        split = np.zeros(len(boxes), dtype=bool)
        split[tried] = (costs < (1 - _SAVING) * cost)[tried]
        if not quarters:
            split[tried] |= (needed.max(axis=1) >= _MOST_ORDER)[tried]
        chosen = split[parents] & alive
        return split, parts[chosen], orders[chosen]

    def _both_orders(self, boxes: Array, top: float, target: float) -> Array:
        """Mean order of the rows, and the order across, shape (n, 2), from the rough table."""
        along_p, along_m = (self._orders(boxes, axis, top, target, _ROUGH)[0] for axis in (0, 1))
        return np.stack([along_p.mean(axis=1), along_m.max(axis=1)], axis=1)

    def _sample(self, boxes: Array) -> tuple[Array, Array]:
        """`logs` on the Chebyshev points: shapes (2, 4, n, k, k) and (2, n, k, k)."""
        unit = _lobatto(_SEARCH)
        tp = boxes[:, 0, None, None] + boxes[:, 2, None, None] * unit[:, None]
        tm = boxes[:, 1, None, None] + boxes[:, 3, None, None] * unit[None, :]
        return self.logs(*np.broadcast_arrays(tp, tm))

    def _alive(self, boxes: Array, top: float) -> tuple[NDArray[np.bool_], float]:
        """Mark rectangles whose weight may come within exp(-depth) of the peak; return also the improved peak."""
        bounds = np.empty(len(boxes))
        for part in _chunks(len(boxes)):
            z, log_w = self._sample(boxes[part])
            top = max(top, float(log_w.max()))
            low, high = z.min(axis=(-2, -1)), z.max(axis=(-2, -1))
            # What a sample may miss is less than the largest step between neighbours.
            slack = np.maximum(
                np.abs(np.diff(z, axis=-1)).max(axis=(-2, -1)), np.abs(np.diff(z, axis=-2)).max(axis=(-2, -1))
            )
            gap = np.maximum(0.0, np.maximum(low - slack, -high - slack))
            least = 0.5 * (gap * gap).sum(axis=1)
            log_det = log_w + 0.5 * (z * z).sum(axis=1)
            most = log_det.max(axis=(-2, -1)) + 1.0
            bounds[part] = (most - least).max(axis=0)
        return bounds > top - self.depth, top

    def _variation(self, boxes: Array) -> Array:
        """Return how much a whitened index varies over each rectangle, and along each of its sides, shape (3, n)."""
        out = np.empty((3, len(boxes)))
        for part in _chunks(len(boxes)):
            z, _ = self._sample(boxes[part])
            out[0, part] = np.ptp(z, axis=(-2, -1)).max(axis=(0, 1))
            out[1, part] = np.ptp(z, axis=-2).max(axis=(0, 1, 3))
            out[2, part] = np.ptp(z, axis=-1).max(axis=(0, 1, 3))
        return out

    def _orders(self, boxes: Array, axis: int, top: float, target: float, table: _Ellipses) -> tuple[Orders, Array]:
        """Orders on lines parallel to an axis, shape (n, lines), and the logarithm of the largest error, shape (n,).

        The rule may err by exp(target), where the largest weight is one.
        """
        orders = np.empty((len(boxes), len(table.lines)), dtype=np.int64)
        errors = np.empty(len(boxes))
        area = np.log(boxes[:, 2] * boxes[:, 3])
        for part in _chunks(len(boxes)):
            bound = self._largest(boxes[part], axis, table, target - area[part] + top) - top
            bound += table.constant + area[part, None, None]
            wanted = ((bound - target) / (2 * table.log_rho)).min(axis=-1)
            orders[part] = np.ceil(np.clip(wanted, 1.0, _MOST_ORDER))
            left = bound - 2 * orders[part, :, None] * table.log_rho
            errors[part] = left.min(axis=-1).max(axis=-1)
        return orders, errors

    def _largest(self, boxes: Array, axis: int, table: _Ellipses, targets: Array) -> Array:
        """Largest logarithm of |weight| (1 + |z|^2) of both branches, shape (n, lines, ellipses).

        In each ellipse around lines parallel to an axis; infinite where it holds a singularity, or the next larger one
        does: close to one, the points may miss the largest modulus. Infinite also where it has not been looked for:
        neighbours are tried until neither needs a lower order for the target, a logarithm for each box.
        """
        along, across = boxes[:, [axis, 2 + axis]], boxes[:, [1 - axis, 3 - axis]]
        out = np.full((len(boxes), len(table.lines), len(table.log_rho)), np.inf)
        _best_ellipses(
            self.model.activation == "linear", axis, np.ascontiguousarray(along), np.ascontiguousarray(across),
            table.lines, table.points, table.log_rho, table.constant, targets, self.parameters, out,
        )  # fmt: skip
        return out


# `undo` of the generated kernels at complex indices, where sign functions and absolute values do not apply; and a
# function with the zeros of det B_1 and no others, with the exponents whose phases it may follow.


@njit(error_model="numpy", cache=True)
def _split(x):  # type: ignore[no-untyped-def]
    """e^x and e^-x over e^|Re x|."""
    phase, least = complex(math.cos(x.imag), math.sin(x.imag)), math.exp(-2.0 * abs(x.real))
    if x.real >= 0:
        return phase, phase.conjugate() * least
    return phase * least, phase.conjugate()


@njit(error_model="numpy", cache=True)
def _inverse(x):  # type: ignore[no-untyped-def]
    """1/x, not finite at zero, where a compiled division would raise."""
    square = x.real * x.real + x.imag * x.imag
    return complex(x.real / square, -x.imag / square)


@njit(error_model="numpy", cache=True)
def _continued_softmax(xp, xm, vp, vm, c, beta):  # type: ignore[no-untyped-def]
    u, w = beta * xm * xm, beta * xp * xm
    up, wp = abs(u.real), abs(w.real)
    scale_u, scale_w = math.exp(min(up - wp, 0.0)), math.exp(min(wp - up, 0.0))
    (rise_u, fall_u), (rise_w, fall_w) = _split(u), _split(w)
    cosines = (rise_u + fall_u) * scale_u + (rise_w + fall_w) * scale_w
    det = c * cosines + (rise_u - fall_u) * scale_u
    inverse = _inverse(det)
    a = (vp - vm * ((rise_w - fall_w) * scale_w) * inverse) / (1 + c)
    return a, vm * cosines * inverse, cosines * inverse / (1 + c), det, u, w


@njit(error_model="numpy", cache=True)
def _continued_linear(xp, xm, vp, vm, c, beta):  # type: ignore[no-untyped-def]
    det = c * (c + beta * (xp * xp + xm * xm))
    inverse, cross = _inverse(det), beta * (vp * xm - vm * xp)
    return (c * vp + cross * xm) * inverse, (c * vm - cross * xp) * inverse, inverse, det, 0j, 0j


@njit(error_model="numpy", cache=True)
def _log_modulus(tp, tm, a, b, inv_det, parameters):  # type: ignore[no-untyped-def]
    """Logarithm of |weight| (1 + |z|^2), of the larger branch."""
    _, _, _, _, _, _, w2p, w2m, i1, slope, i2 = parameters
    det = inv_det.real * inv_det.real + inv_det.imag * inv_det.imag
    most = -math.inf
    for sign in (1.0, -1.0):
        real, imag = 0.0, 0.0
        for z in (tp * i1, tm * i1, (sign * a - w2p - slope * tp) * i2, (sign * b - w2m - slope * tm) * i2):
            real += z.real * z.real
            imag += z.imag * z.imag
        most = max(most, math.log1p(real + imag) - 0.5 * (real - imag))
    return most + 0.5 * math.log(det)


@njit(error_model="numpy", cache=True)
def _largest_on(linear, axis, fixed, start, length, points, parameters):  # type: ignore[no-untyped-def]
    """Largest log-modulus on an ellipse along an axis; infinite where it holds a singularity."""
    vp, vm, c, beta, w1p, w1m = parameters[:6]
    most, turned, before, follows_u, sense = -math.inf, 0.0, 0.0, True, 0.0
    # The middle first: the phase of the exponential that is largest there is no turn around a zero.
    for step in range(-1, len(points)):
        at = start + length * points[len(points) // 2 if step < 0 else step]
        tp, tm = (at, fixed) if axis == 0 else (fixed, at)
        if linear:
            a, b, inv_det, det, u, w = _continued_linear(w1p + tp, w1m + tm, vp, vm, c, beta)
        else:
            a, b, inv_det, det, u, w = _continued_softmax(w1p + tp, w1m + tm, vp, vm, c, beta)
        if step < 0:
            follows_u = abs(u.real) > abs(w.real)
            sense = np.sign(u.real if follows_u else w.real)
            continue
        value = _log_modulus(tp, tm, a, b, inv_det, parameters)
        if not -math.inf < value < math.inf:
            return math.inf
        most = max(most, value)
        phase = math.atan2(det.imag, det.real) - sense * (u.imag if follows_u else w.imag)
        if step > 0:
            turn = phase - before
            turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
            if not abs(turn) < _TURN:
                return math.inf
            turned += turn
        before = phase
    # Half an ellipse and its mirror image: a turn by 2 pi for every pair of zeros.
    return math.inf if abs(turned) > math.pi else most


@njit(error_model="numpy", cache=True)
def _best_ellipses(linear, axis, along, across, lines, points, log_rho, constant, targets, parameters, out):  # type: ignore[no-untyped-def]
    """Fill out, which holds infinities, as `Integrand._largest` describes."""
    ellipses = len(log_rho)
    wanted, most = np.empty(ellipses + 1), np.empty(ellipses + 1)
    best = ellipses // 2
    for n in range(len(along)):
        for line in range(len(lines)):
            fixed = complex(across[n, 0] + across[n, 1] * lines[line])
            wanted[:], most[:] = math.nan, math.nan
            # No ellipse is larger than the last.
            most[ellipses] = 0.0
            # Downhill from the best of the line before.
            while True:
                for k in range(best - 1, best + 2):
                    if 0 <= k < ellipses and wanted[k] != wanted[k]:
                        for j in (k, k + 1):
                            if most[j] != most[j]:
                                most[j] = _largest_on(
                                    linear, axis, fixed, along[n, 0], along[n, 1], points[j], parameters
                                )
                        bound = max(most[k], most[k - 1]) if k > 0 and most[k - 1] < math.inf else most[k]
                        wanted[k] = math.inf
                        if most[k] < math.inf and most[k + 1] < math.inf:
                            out[n, line, k] = bound
                            wanted[k] = (bound + constant[k] - targets[n]) / (2.0 * log_rho[k])
                if best + 1 < ellipses and wanted[best + 1] < wanted[best]:
                    best += 1
                elif best > 0 and (wanted[best - 1] < wanted[best] or wanted[best] == math.inf):
                    best -= 1
                else:
                    break


def _chunks(n: int, size: int = 512) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _edges(radius: float, axis: float) -> Array:
    """Intervals of [-radius, radius], one edge near `axis` if that is inside: there the kernel changes fastest.

    Edges are multiples of a power of two, so that halving is exact and neighbours share their edge to the last bit:
    a gap of one rounding between them would cost 1e-16 of the width of a narrow posterior, whatever the digits.
    """
    edges = np.linspace(-radius, radius, _COARSE + 1)
    if abs(axis) < radius:
        below = min(_COARSE - 1, max(1, round(_COARSE * (axis + radius) / (2 * radius))))
        edges = np.append(np.linspace(-radius, axis, below + 1), np.linspace(axis, radius, _COARSE + 1 - below)[1:])
    unit = 2.0 ** (math.floor(math.log2(radius)) - 11)
    edges = np.round(edges / unit)
    edges[0] -= 1
    edges[-1] += 1
    return unit * np.unique(edges)


def _refine(edges: Array, parts: int) -> Array:
    fractions = np.arange(parts) / parts
    inner = edges[:-1, None] + np.diff(edges)[:, None] * fractions
    return np.append(inner.ravel(), edges[-1])


def _product(xs: Array, ys: Array) -> Array:
    """Rectangles between the edges, rows of (left, bottom, width, height), the second axis running faster."""
    left, bottom = np.meshgrid(xs[:-1], ys[:-1], indexing="ij")
    width, height = np.meshgrid(np.diff(xs), np.diff(ys), indexing="ij")
    return np.stack([left, bottom, width, height], axis=-1).reshape(-1, 4)


def _halves(boxes: Array, axis: int) -> Array:
    """Return the first halves of rectangles along an axis, then the second ones."""
    first = boxes.copy()
    first[:, 2 + axis] *= 0.5
    second = first.copy()
    second[:, axis] += first[:, 2 + axis]
    return np.concatenate([first, second])
