"""Denoiser at any precision: the oracle of the float64 one, by another quadrature in other coordinates.

`denoise` sums a sheared trapezoidal lattice that certified ranges prune. Here the plane of h_1 is cut into rectangles;
each has its own Gauss-Legendre orders, set in float64 by how fast the Chebyshev coefficients of the integrand fall, and
all are summed again with higher orders. Float64 only steers: nodes, integrand and sums are those of an own
mpmath context.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from mpmath.ctx_mp import MPContext
from numpy.polynomial import legendre
from numpy.typing import NDArray

from .denoiser import check_covariance
from .errors import ConvergenceError, KernelNotFoundError
from .models import Attention, kernel
from .readout import invert_readout
from .results import How

__all__ = ["PreciseDenoiserResult", "denoise_mp"]

Array = NDArray[np.float64]
Mpf = Any  # mpmath ships no types

# Decimal digits carried beyond those asked for.
_GUARD = 8
# Rectangles are sampled on this many Chebyshev points per axis.
_POINTS = 17
# Rectangles over which a whitened index varies by more are halved: their samples are then at most 1.6 apart in z, so no
# valley of Q (of width one in z) hides between them.
_WIDEST = 16.0
# Mass is neglected where the weight is below 10^-digits e^-_CUT of the peak; of what is neglected, most is far below.
_CUT = 15.0
# Factor of the orders from one summation to the next.
_GROWTH = 1.1


@dataclass(frozen=True)
class PreciseDenoiserResult:
    """Posterior summary of one output (12), in numbers of an mpmath context of its own.

    Attributes
    ----------
    log_z : mpf
        log Z_out(y; omega, V), normalised as in `denoise`.
    g_out : ndarray of mpf, shape (P, M)
        V^{-1} (E[h | y] - omega).
    dg_out : ndarray of mpf, shape (P, M, P, M)
        V^{-1} Cov[h | y] V^{-1} - V^{-1} delta_{mm'}.
    error : mpf
        Largest change of a posterior moment of the whitened indices, relative to the mass, from the last summation but
        one to the last.
    how : {"rigorous", "estimated", "monte-carlo"}
    digits : int
        Digits asked for.
    nodes : int
        Evaluations of the integrand, all summations together.
    """

    log_z: Mpf
    g_out: NDArray[np.object_]
    dg_out: NDArray[np.object_]
    error: Mpf
    how: How
    digits: int
    nodes: int


def denoise_mp(
    model: Attention, y: Any, omega: Any, V: Any, *, digits: int = 30, max_nodes: int = 2_000_000
) -> PreciseDenoiserResult:
    """Posterior of the indices given one output, to any number of digits.

    log_z = log Z_out(y; omega, V), g_out = V^{-1} (E[h | y] - omega) and its derivative in omega.

    Parameters
    ----------
    model : Attention
        Rank 1, and depth 1 (any number of tokens) or depth 2 with two tokens.
    y : array_like, shape (M, M)
        One output. Entries may be floats, which count as the exact binary numbers they are, strings or mpf.
    omega : array_like, shape (P, M)
        Prior means of the indices; entries as for y.
    V : array_like, shape (P, P)
        Prior covariance of the indices, positive definite; entries as for y.
    digits : int, optional
        The posterior moments are within 10^-digits of the mass, with h - omega whitened by V; 5 to 200.
    max_nodes : int, optional
        Bound of the work; about 10^4 nodes a second.

    Returns
    -------
    PreciseDenoiserResult

    Raises
    ------
    ValueError
        Shapes, NaN, digits, V not positive definite.
    UnreachableOutputError
        y outside the range of the link.
    KernelNotFoundError
        No denoiser for this architecture.
    ConvergenceError
        Two summations within `max_nodes` do not agree to `digits`.

    Notes
    -----
    Z_out is a density as in `denoise`. The global precision of mpmath is neither read nor set.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 5 <= digits <= 200:
        raise ValueError(f"digits must be an integer in [5, 200], got {digits!r}")
    p, m = model.indices, model.tokens
    if set(model.ranks) != {1} or model.layers > 2 or (model.layers == 2 and m != 2):
        raise KernelNotFoundError(f"no precise denoiser for {model.describe()}; see `denoise` for what exists")
    ctx = MPContext()
    ctx.dps = digits + _GUARD
    rows, mean, covariance = (
        _convert(ctx, "y", y, (m, m)),
        _convert(ctx, "omega", omega, (p, m)),
        _convert(ctx, "V", V, (p, p)),
    )
    check_covariance("V", covariance.astype(float), p)
    v, log_jacobian = _invert(ctx, model, rows)
    if model.layers == 1:
        return _one_layer(ctx, v, log_jacobian, mean[0], covariance[0, 0], digits)
    return _two_layers(ctx, model, v, log_jacobian, mean, covariance, digits, max_nodes)


def _convert(ctx: MPContext, name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.object_]:
    array = np.asarray(value, dtype=object)
    if array.shape != shape:
        raise ValueError(f"{name} must be a single one, of shape {shape}, got {array.shape}")
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        entry = array[index]
        out[index] = ctx.convert(float(entry) if isinstance(entry, int | np.number) else entry)  # type: ignore[unreachable]
        if not ctx.isfinite(out[index]):
            raise ValueError(f"{name} must be finite, got {entry!r}")
    return out


def _invert(ctx: MPContext, model: Attention, y: NDArray[np.object_]) -> tuple[NDArray[np.object_], Mpf]:
    """Return the readout row v, tokens, and the log-Jacobian; `invert_readout` checks the range and picks the pivot."""
    rough = invert_readout(model, y.astype(float))[0]
    if model.tokens == 2:
        vp, vm, log_jacobian = kernel(model, "mp").invert(ctx, y[0, 0], y[0, 1], y[1, 0], y[1, 1], model.beta)
        return np.array([vp + vm, vp - vm], dtype=object) / ctx.sqrt(2), log_jacobian
    beta = ctx.mpf(model.beta)
    if model.activation == "linear":
        row = int(np.abs(rough).argmax())
        return y[row] / ctx.sqrt(beta * y[row, row]), ctx.mpf(0)
    # d_ab = log(y_aa/y_ab)/beta = v_a (v_a - v_b), on the pair furthest apart.
    a, b = int(rough.argmax()), int(rough.argmin())
    if abs(rough[a]) < abs(rough[b]):
        a, b = b, a
    distances = np.array(
        [[ctx.log(y[i, i] / y[i, j]) / beta for j in range(model.tokens)] for i in (a, b)], dtype=object
    )
    pivot = distances[0, b] / ctx.sqrt(distances[0, b] + distances[1, a])
    return pivot - distances[0] / pivot, ctx.mpf(0)


def _one_layer(
    ctx: MPContext,
    v: NDArray[np.object_],
    log_jacobian: Mpf,
    omega: NDArray[np.object_],
    variance: Mpf,
    digits: int,
) -> PreciseDenoiserResult:
    """Two-point posterior h = +-v: closed form."""
    tokens = len(v)
    field = (omega * v).sum() / variance
    g = (v * ctx.tanh(field) - omega) / variance
    dg = np.outer(v, v) * ctx.sech(field) ** 2 / variance**2 - np.eye(tokens, dtype=int) / variance
    log_z = (
        -((v * v).sum() + (omega * omega).sum()) / (2 * variance)
        + ctx.log(2 * ctx.cosh(field))
        - ctx.mpf(tokens) / 2 * ctx.log(2 * ctx.pi * variance)
        - log_jacobian
    )
    error = ctx.mpf(10) ** (1 - ctx.dps)
    return PreciseDenoiserResult(log_z, g[None, :], dg[None, :, None, :], error, "estimated", digits, 0)


# Two layers ---------------------------------------------------------------------------------------------------------


@cache
def _gauss_legendre(order: int, dps: int) -> tuple[list[Any], list[Any]]:
    """Nodes and weights on [-1, 1] to `dps` digits: Newton's iteration from the float64 rule."""
    ctx = MPContext()
    ctx.dps = dps + 5
    nodes, weights = [], []
    for start in legendre.leggauss(order)[0]:
        x = ctx.mpf(float(start))
        # 14 digits at the start double with each step; the last pass is for the derivative.
        for _ in range(1 + max(1, math.ceil(math.log2(ctx.dps / 14)))):
            before, value = ctx.one, x
            for k in range(2, order + 1):
                before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
            slope = order * (before - x * value) / (1 - x * x)
            x -= value / slope
        nodes.append(x)
        weights.append(2 / ((1 - x * x) * slope * slope))
    return nodes, weights


def _chebyshev() -> tuple[Array, Array]:
    """Chebyshev-Lobatto points on [-1, 1], increasing, and the matrix from values to coefficients."""
    n = _POINTS - 1
    angle = math.pi * np.arange(n, -1, -1) / n
    ends = np.where((np.arange(n + 1) % n) == 0, 0.5, 1.0)
    return np.cos(angle), (2.0 / n) * ends[:, None] * np.cos(np.outer(np.arange(n + 1), angle)) * ends[None, :]


_SAMPLES, _TO_COEFFICIENTS = _chebyshev()


@dataclass(frozen=True)
class _Posterior:
    """The integrand over x = h_1 in token modes, steered by float64 copies of the parameters.

    `exact` = (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2) as in the generated `posterior64`.
    """

    ctx: MPContext
    model: Attention
    exact: tuple[Mpf, ...]
    digits: int

    def logs(self, xp: Array, xm: Array) -> tuple[Array, Array]:
        """Whitened indices, shape (2, 4, ...), and log-weights, shape (2, ...), of both branches in float64."""
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = (float(number) for number in self.exact)
        a, b, inv_det = kernel(self.model, "numpy64").undo(xp, xm, vp, vm, c, beta)
        dp, dm = xp - w1p, xm - w1m
        z = np.empty((2, 4, *np.shape(a)))
        z[:, 0], z[:, 1] = dp * i1, dm * i1
        for branch, sign in enumerate((1.0, -1.0)):
            z[branch, 2] = (sign * a - w2p - slope * dp) * i2
            z[branch, 3] = (sign * b - w2m - slope * dm) * i2
        return z, np.log(inv_det) - 0.5 * (z * z).sum(axis=1)

    def rectangles(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Cut the plane; return (left, bottom, width, height) and the orders of the kept rectangles."""
        w1p, w1m, sd = float(self.exact[4]), float(self.exact[5]), 1.0 / float(self.exact[8])
        depth = self.digits * math.log(10) + _CUT
        # Outside the circle the prior alone is below the peak by `depth`; the peak is known from inside.
        radius, top = 0.0, 0.0
        for _ in range(60):
            enough = sd * math.sqrt(2 * max(depth - top + self._log_det_bound(), depth))
            if radius >= enough:
                break
            radius = enough
            grid = np.linspace(-radius, radius, 513)
            top = float(self.logs(w1p + grid[:, None], w1m + grid[None, :])[1].max())
        xs, ys = _edges(w1p - radius, w1p + radius), _edges(w1m - radius, w1m + radius)
        # A fine uniform cut to find every valley; coarse rectangles that hold a piece of one are kept.
        fine = self._alive_mask(_product(_refine(xs, 4), _refine(ys, 4)), top, depth)
        nx, ny = len(xs) - 1, len(ys) - 1
        keep = fine[0].reshape(nx, 4, ny, 4).any(axis=(1, 3)).ravel()
        boxes, top = _product(xs, ys)[keep], max(top, fine[1])
        done: list[Array] = []
        for _ in range(80):
            if not len(boxes):
                break
            alive, top = self._alive_mask(boxes, top, depth)
            boxes = boxes[alive]
            split = self._split(boxes, top)
            done.append(boxes[split < 0])
            boxes = np.concatenate([_halves(boxes[split == axis], axis) for axis in (0, 1)])
            if sum(map(len, done)) + len(boxes) > 200_000:
                raise ConvergenceError(
                    "the posterior (169) needs too many rectangles: y is too unlikely, or V too narrow"
                )
        kept = np.concatenate(done)
        alive, top = self._alive_mask(kept, top, depth)
        kept = kept[alive]
        return kept, self._orders(kept, top)

    def _log_det_bound(self) -> float:
        """Largest log(1/|det B_1|)."""
        c = float(self.exact[2])
        return -math.log(c) - math.log(1 + c if self.model.activation == "softmax" else c)

    def _sample(self, boxes: Array) -> tuple[Array, Array]:
        """`logs` on the Chebyshev points: shapes (2, 4, n, k, k) and (2, n, k, k)."""
        unit = 0.5 * (_SAMPLES + 1)
        xp = boxes[:, 0, None, None] + boxes[:, 2, None, None] * unit[:, None]
        xm = boxes[:, 1, None, None] + boxes[:, 3, None, None] * unit[None, :]
        return self.logs(*np.broadcast_arrays(xp, xm))

    def _alive_mask(self, boxes: Array, top: float, depth: float) -> tuple[NDArray[np.bool_], float]:
        """Mark rectangles whose weight may come within exp(-depth) of the peak; return also the improved peak."""
        alive = np.empty(len(boxes), dtype=bool)
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
        alive = bounds > top - depth
        return alive, top

    def _wanted(self, boxes: Array, top: float) -> Array:
        """Real-valued orders along both axes, shape (2, n), from the tails of the Chebyshev coefficients.

        The last coefficients above rounding, `ends`, and the rate at which the second half of them falls give the error
        of order n as end rate^(2 n - index). The rate of the first half would belong to a large smooth part that hides
        a small one with faster changes.
        """
        sizes, ends, indices, rates = (np.full((2, 2, len(boxes)), 1e-300) for _ in range(4))
        for part in _chunks(len(boxes)):
            values = np.exp(self._sample(boxes[part])[1] - top)
            coefficients = np.abs(_TO_COEFFICIENTS @ values @ _TO_COEFFICIENTS.T)
            floor = 1e-14 * values.max(axis=(-2, -1)) + 1e-290
            for axis, other in ((0, -1), (1, -2)):
                # Largest coefficient from each index on.
                tail = np.maximum.accumulate(coefficients.max(axis=other)[..., ::-1], axis=-1)[..., ::-1]
                tail = np.maximum(tail, floor[..., None])
                end = np.minimum((tail > 3 * floor[..., None]).sum(axis=-1), _POINTS - 1)
                at_end = np.take_along_axis(tail, end[..., None], axis=-1)[..., 0]
                middle = end // 2
                at_middle = np.take_along_axis(tail, middle[..., None], axis=-1)[..., 0]
                rate = np.minimum(at_end / at_middle, 0.9) ** (1.0 / np.maximum(end - middle, 1))
                sizes[axis, :, part], ends[axis, :, part] = tail[..., 0], at_end
                indices[axis, :, part], rates[axis, :, part] = end, rate
        area = boxes[:, 2] * boxes[:, 3]
        mass = max(float((sizes * area).max(initial=0.0)), 1e-280)
        excess = np.log(ends * area / mass) + self.digits * math.log(10) + 4.0
        wanted = 0.5 * (indices + np.maximum(excess, 0.0) / -np.log(rates))
        # Where less than the whole tail matters: the order at which it falls below the target.
        size = np.log(sizes * area / mass) + self.digits * math.log(10) + 4.0
        share = np.clip(size / np.maximum(size - excess, 1e-300), 0.0, 1.0)
        return np.where(excess > 0, wanted, 0.5 * indices * share).max(axis=1)

    def _split(self, boxes: Array, top: float) -> NDArray[np.int64]:
        """Axis along which to halve each rectangle, or -1."""
        out = np.full(len(boxes), -1)
        if not len(boxes):
            return out
        wanted = self._wanted(boxes, top)
        most = 1.3 * self.digits + 10.0
        worst = wanted.argmax(axis=0)
        out = np.where(wanted.max(axis=0) > most, worst, out)
        for part in _chunks(len(boxes)):
            z, _ = self._sample(boxes[part])
            along_p = np.ptp(z, axis=-2).max(axis=(0, 1, 3))
            along_m = np.ptp(z, axis=-1).max(axis=(0, 1, 3))
            wide = np.ptp(z, axis=(-2, -1)).max(axis=(0, 1)) > _WIDEST
            out[part] = np.where(wide, np.where(along_p >= along_m, 0, 1), out[part])
        return out

    def _orders(self, boxes: Array, top: float) -> NDArray[np.int64]:
        # Moments carry two factors z beside the weight.
        return np.ceil(self._wanted(boxes, top)).astype(np.int64).T + 2

    def moments(self, boxes: Array, orders: NDArray[np.int64], shift: Mpf) -> tuple[list[Mpf], int]:
        """Integrals of w, w z_i and w z_i z_j (i <= j) with w = exp(shift - |z|^2/2) inv_det; and the nodes."""
        ctx = self.ctx
        vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2 = self.exact
        undo = kernel(self.model, "mp").undo
        least = float(-shift) - self.digits * math.log(10) - _CUT
        bits = ctx.prec + 16
        # Sums of integers: z and the weight, at most one, as multiples of 2^-bits.
        sums = [0] * 15
        nodes = 0
        half = ctx.mpf("0.5")
        for box, (order_p, order_m) in zip(boxes, orders, strict=True):
            left, bottom, width, height = (ctx.mpf(float(edge)) for edge in box)
            (tp, cp), (tm, cm) = (
                _gauss_legendre(int(order_p), ctx.dps),
                _gauss_legendre(int(order_m), ctx.dps),
            )
            xs = [left + width * (1 + t) * half for t in tp]
            ys = [bottom + height * (1 + t) * half for t in tm]
            area = width * height / 4
            _, log_w = self.logs(
                np.array([float(x) for x in xs])[:, None] + np.zeros(len(ys)),
                np.array([float(x) for x in ys])[None, :] + np.zeros((len(xs), 1)),
            )
            rows = [
                (y, y - w1m, (y - w1m) * i1, w2m + slope * (y - w1m), k * area) for y, k in zip(ys, cm, strict=True)
            ]
            for i, x in enumerate(xs):
                dp = x - w1p
                z1, hp = dp * i1, w2p + slope * dp
                f1, q1 = z1.to_fixed(bits), z1 * z1
                for j, (y, _, z2, hm, factor) in enumerate(rows):
                    plus, minus = log_w[0, i, j] > least, log_w[1, i, j] > least
                    if not (plus or minus):
                        continue
                    nodes += 1
                    a, b, inv_det = undo(ctx, x, y, vp, vm, c, beta)
                    scale = cp[i] * factor * inv_det
                    f2 = z2.to_fixed(bits)
                    prior = shift - (q1 + z2 * z2) * half
                    for sign, wanted in ((1, plus), (-1, minus)):
                        if not wanted:
                            continue
                        z3, z4 = (sign * a - hp) * i2, (sign * b - hm) * i2
                        weight = scale * ctx.exp(prior - (z3 * z3 + z4 * z4) * half)
                        w = weight.to_fixed(bits)
                        f3, f4 = z3.to_fixed(bits), z4.to_fixed(bits)
                        w1, w2, w3, w4 = w * f1 >> bits, w * f2 >> bits, w * f3 >> bits, w * f4 >> bits
                        sums[0] += w
                        sums[1] += w1
                        sums[2] += w2
                        sums[3] += w3
                        sums[4] += w4
                        sums[5] += w1 * f1
                        sums[6] += w1 * f2
                        sums[7] += w1 * f3
                        sums[8] += w1 * f4
                        sums[9] += w2 * f2
                        sums[10] += w2 * f3
                        sums[11] += w2 * f4
                        sums[12] += w3 * f3
                        sums[13] += w3 * f4
                        sums[14] += w4 * f4
        out = [ctx.ldexp(ctx.mpf(total), -bits * (1 if k < 5 else 2)) for k, total in enumerate(sums)]
        return out, nodes


def _chunks(n: int, size: int = 512) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _edges(low: float, high: float) -> Array:
    """Eight intervals, one edge at zero if it is inside: the kernel's fastest changes lie along the axes.

    Edges are multiples of a power of two, so that halving is exact and neighbours share their edge to the last bit:
    a gap of one rounding between them would cost 1e-16 of the width of a narrow posterior, whatever the digits.
    """
    if low < 0.0 < high:
        below = min(7, max(1, round(-8 * low / (high - low))))
        edges = np.concatenate([np.linspace(low, 0.0, below + 1), np.linspace(0.0, high, 9 - below)[1:]])
    else:
        edges = np.linspace(low, high, 9)
    unit = 2.0 ** (math.floor(math.log2(high - low)) - 12)
    edges = np.round(edges / unit)
    edges[0] -= 1
    edges[-1] += 1
    return unit * edges


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
    first = boxes.copy()
    first[:, 2 + axis] *= 0.5
    second = first.copy()
    second[:, axis] += first[:, 2 + axis]
    return np.concatenate([first, second])


def _two_layers(
    ctx: MPContext,
    model: Attention,
    v: NDArray[np.object_],
    log_jacobian: Mpf,
    omega: NDArray[np.object_],
    V: NDArray[np.object_],
    digits: int,
    max_nodes: int,
) -> PreciseDenoiserResult:
    root = ctx.sqrt(ctx.mpf("0.5"))

    def modes(row: NDArray[np.object_]) -> tuple[Mpf, Mpf]:
        return (row[0] + row[1]) * root, (row[0] - row[1]) * root

    slope = V[0, 1] / V[0, 0]
    i1, i2 = 1 / ctx.sqrt(V[0, 0]), 1 / ctx.sqrt(V[1, 1] - slope * V[0, 1])
    constants = (ctx.mpf(model.skip), ctx.mpf(model.beta))
    posterior = _Posterior(
        ctx, model, (*modes(v), *constants, *modes(omega[0]), *modes(omega[1]), i1, slope, i2), digits
    )
    boxes, orders = posterior.rectangles()
    shift = ctx.mpf(-max(float(posterior._sample(boxes[part])[1].max()) for part in _chunks(len(boxes))))
    target = ctx.mpf(10) ** (-digits)
    before, nodes = posterior.moments(boxes, orders, shift)
    error = ctx.inf
    while True:
        orders = np.ceil(_GROWTH * orders).astype(np.int64) + 1
        if nodes + int(orders.prod(axis=1).sum()) > max_nodes:
            raise ConvergenceError(
                f"the precise denoiser (169) did not reach {digits} digits in {max_nodes} nodes (last change "
                f"{float(error):.1e}): raise max_nodes, or ask for fewer digits"
            )
        after, more = posterior.moments(boxes, orders, shift)
        nodes += more
        # A moment may be much smaller or larger than the mass: relative to the larger of the two.
        error = max(abs(new - old) / max(after[0], abs(new)) for new, old in zip(after, before, strict=True))
        if error <= target:
            break
        before = after
    first = np.array([entry / after[0] for entry in after[1:5]], dtype=object)
    second = np.empty((4, 4), dtype=object)
    for k, (i, j) in enumerate(zip(*np.triu_indices(4), strict=True)):
        second[i, j] = second[j, i] = after[5 + k] / after[0]
    covariance = second - np.outer(first, first) - np.eye(4, dtype=int)
    # Rows (index, mode) of z to rows (index, token) of V^{-1} (h - omega).
    zero = ctx.mpf(0)
    whiten = np.array([[i1, zero], [-slope * i2, i2]], dtype=object)
    rotate = np.array([[root, root], [root, -root]], dtype=object)
    back = np.array(
        [[whiten[k, p] * rotate[t, m] for k in range(2) for t in range(2)] for p in range(2) for m in range(2)],
        dtype=object,
    )
    g = (back @ first).reshape(2, 2)
    dg = (back @ covariance @ back.T).reshape(2, 2, 2, 2)
    log_z = ctx.log(after[0]) - shift - 2 * ctx.log(2 * ctx.pi) + 2 * ctx.log(i1 * i2) - log_jacobian
    return PreciseDenoiserResult(log_z, g, dg, cast(Mpf, error), "estimated", digits, nodes)
