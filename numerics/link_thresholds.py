"""Weak-recovery thresholds of a user's own link: the operator (15)-(16) at zero overlap, and the grand staircase."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .link_quadrature import CUT, Piece, adaptive, half_interval_rule, pieces
from .links import LinkKernel
from .quadrature import normal_qmc
from .results import How, versions

__all__ = ["LinkStaircase", "LinkThreshold", "Operator", "operator", "staircase", "threshold"]

Array = NDArray[np.float64]

MAX_DIGITS = 13
# Two values of the link this close are one.
_SAME = 1e-11
# E || E[h|y] ||^2 or the operator's norm below this is zero for float64 sums; above _SURELY it is not.
_SURELY, _ZERO = 1e-7, 1e-11
# An operator known no better than this says neither that it vanishes nor what it is.
_USELESS = 0.1

# Correlations of h with functions of y: randomised quasi-random points, and what counts as beyond doubt.
_REPLICAS = 8
_LOG2_POINTS = 13
_SIGMAS = 30.0
# With noise: the share of the mass that may be sampled more coarsely than the noise, and how many nodes are too many:
# the share wanted, and the one that is enough where the nodes run out.
# Several entries: a coarse step along one of them is resolved by the others.
_COARSE_SHARE = {1: (1e-12, 1e-4), 2: (1e-4, 1e-4), 3: (1e-2, 1e-2)}
_MANY_NODES = 4_000_000
_MOST_ORDER = 1600
_LEAST_CORRELATION = 1e-3


@dataclass(frozen=True)
class LinkThreshold:
    """Threshold of a user's link (15)-(16).

    Attributes
    ----------
    value : str or None
        alpha = N/D in decimal; "0" if E[h | y] does not vanish; None if E[h h^T | y] = I for every y, where no
        number is: the threshold is infinite at this order.
    error : float or None
        Absolute error of `value`; None with it.
    how : {"rigorous", "estimated"}
    exact : str or None
        Closed form, "0" and "oo" included.
    subspace : str
        Which indices become learnable.
    eigenvector : ndarray, shape (P, P)
        PSD, of unit Frobenius norm: where the operator attains its norm; for a zero threshold E of the squared
        E[h | y]; zero if nothing is learnable.
    operator_norm : float
        1 / alpha; infinite for a zero threshold, 0 for an infinite one.
    given : tuple of int
        Indices taken as perfectly known, counted from 1.
    converged, status, n_iter, kernel_hash, versions
        Provenance; `n_iter` counts evaluations of the quadrature.
    """

    value: str | None
    error: float | None
    how: How
    exact: str | None
    subspace: str
    eigenvector: Array
    operator_norm: float
    given: tuple[int, ...]
    converged: bool
    status: str
    n_iter: int
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)


@dataclass(frozen=True)
class LinkStaircase:
    """Thresholds one after the other, each with the subspaces before it perfectly known (17)-(18).

    Attributes
    ----------
    steps : tuple of LinkThreshold
    converged, status, kernel_hash
        Provenance.
    """

    steps: tuple[LinkThreshold, ...]
    converged: bool
    status: str
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)


@dataclass(frozen=True)
class Operator:
    """Averages over y at zero overlap of the indices that are not known.

    Attributes
    ----------
    rest : tuple of int
        Indices, counted from 0.
    linear : ndarray, shape (R, R)
        E sum_m E[h_m | y] E[h_m | y]^T.
    matrix : ndarray, shape (R, R, R, R)
        The operator (15): image[i, j] = sum_kl matrix[i, j, k, l] M[k, l].
    error : float
        Estimated error of both in the spectral norm, from two refinements, the quadrature's own estimate, and how well
        probability and second moments are conserved.
    defect : float
        The last of these alone.
    evaluations : int
        Values of y at which moments were computed.
    """

    rest: tuple[int, ...]
    linear: Array
    matrix: Array
    error: float
    defect: float
    evaluations: int


class _Sums:
    """Turns moments of (1, h, h h^T) at given y into the integrands of the averages."""

    def __init__(self, kernel: LinkKernel, learned: Sequence[int]) -> None:
        p, self.tokens = kernel.indices, kernel.tokens
        self.rest = tuple(i for i in range(p) if i not in learned)
        self.entries = [m * p + i for m in range(self.tokens) for i in self.rest]
        n = len(self.entries)
        # Sign changes that leave the link, and what is known, as they are.
        known = [m * p + i for m in range(self.tokens) for i in learned]
        self.signs = signs = [s for s in kernel.flips if all(s[k] > 0 for k in known)]
        self.mean = np.array([not any(s[e] < 0 for s in signs) for e in self.entries], dtype=float)
        self.pair = np.array(
            [[not any(s[a] != s[b] for s in signs) for b in self.entries] for a in self.entries], dtype=float
        )
        self.upper = np.triu_indices(n)
        self.n, self.r = n, len(self.rest)

    def width(self) -> int:
        """Moments per y."""
        return 1 + self.n + self.n * (self.n + 1) // 2

    def __call__(self, moments: Array) -> Array:
        """Return (Z, Z E[h h^T] summed over tokens, linear, operator), shape (k, 1 + n + r^2 + r^4)."""
        z, first = moments[:, 0], moments[:, 1 : 1 + self.n] * self.mean
        second = np.zeros((len(z), self.n, self.n))
        second[:, self.upper[0], self.upper[1]] = moments[:, 1 + self.n :]
        second[:, self.upper[1], self.upper[0]] = moments[:, 1 + self.n :]
        tiny = z < 1e-200
        safe = np.where(tiny, 1.0, z)
        g = (second - z[:, None, None] * np.eye(self.n)) * self.pair
        g = np.where(tiny[:, None, None], 0.0, g / np.sqrt(safe)[:, None, None])
        first = np.where(tiny[:, None], 0.0, first / np.sqrt(safe)[:, None])
        g = g.reshape(-1, self.tokens, self.r, self.tokens, self.r)
        first = first.reshape(-1, self.tokens, self.r)
        linear = np.einsum("ymi,ymj->yij", first, first)
        matrix = np.einsum("ymink,ymjnl->yijkl", g, g)
        diagonal = np.diagonal(second, axis1=1, axis2=2)
        count = len(z)
        return np.concatenate([z[:, None], diagonal, linear.reshape(count, -1), matrix.reshape(count, -1)], axis=1)

    def split(self, sums: Array) -> tuple[Array, Array, float]:
        """Return linear, operator, and how far probability and second moments are from one."""
        n, r = self.n, self.r
        defect = float(np.abs(sums[: 1 + n] - 1).max())
        linear = sums[1 + n : 1 + n + r * r].reshape(r, r)
        return linear, sums[1 + n + r * r :].reshape(r, r, r, r), defect


def operator(kernel: LinkKernel, learned: Sequence[int] = ()) -> Operator:
    """Averages (15) of a link at zero overlap of all indices but the learned ones, which are known exactly.

    Parameters
    ----------
    kernel : LinkKernel
    learned : sequence of int
        Indices counted from 0.

    Returns
    -------
    Operator

    Raises
    ------
    ValueError
        The link couples more entries of h than the quadrature serves; the message says which and what to do.

    References
    ----------
    troiani2025, (12), (15)-(18).
    """
    if any(not region.branches and region.constant is None for region in kernel.regions) and kernel.noise == 0:
        raise ValueError(
            f"the kernel of {kernel.describe()} holds no branches: its threshold is known in closed form "
            f"({kernel.exact}), other quantities need --noise DELTA"
        )
    known = {m * kernel.indices + i for m in range(kernel.tokens) for i in learned}
    active = max(len(set(region.active) - known) for region in kernel.regions)
    coarse, fine = (12, 16) if active <= 2 else (6, 8)
    with threadpool_limits(1, "blas"):
        first = _average(kernel, tuple(learned), coarse)
        last = _average(kernel, tuple(learned), fine)
    sums = _Sums(kernel, learned)
    linear, matrix, defect = sums.split(last[0])
    own_linear, own_matrix, _ = sums.split(last[1])
    before_linear, before_matrix, _ = sums.split(first[0])
    # In the spectral norm: an eigenvalue moves by no more.
    size = max(1.0, float(np.linalg.norm(_flat(matrix), 2)))
    error = max(
        float(np.linalg.norm(_flat(matrix - before_matrix), 2) + np.linalg.norm(_flat(own_matrix), 2)),
        float(np.linalg.norm(linear - before_linear, 2) + np.linalg.norm(own_linear, 2)),
    )
    error += (4 * defect + 1e-15) * size
    return Operator(sums.rest, linear, matrix, error, defect, first[2] + last[2])


def _flat(matrix: Array) -> Array:
    r = len(matrix)
    return matrix.reshape(r * r, r * r)


def _average(kernel: LinkKernel, learned: tuple[int, ...], order: int) -> tuple[Array, Array, int]:
    """Averages over y and over the known entries: sums, their errors, evaluations."""
    sums = _Sums(kernel, learned)
    known = [m * kernel.indices + i for m in range(kernel.tokens) for i in learned]
    if not known:
        return _over_y(kernel, sums, {}, order)
    if len(known) > 2:
        raise ValueError(f"{len(known)} entries of h are known at this step; at most 2 are supported")
    rules = [_known_rule(kernel, entry, order) for entry in known]
    grids = [grid.ravel() for grid in np.meshgrid(*(rule[0] for rule in rules), indexing="ij")]
    weights = rules[0][1]
    for _, w in rules[1:]:
        weights = np.multiply.outer(weights, w).ravel()
    total: Array | None = None
    error: Array | None = None
    count = 0
    for k, weight in enumerate(weights):
        if weight < 1e-18:
            continue
        value, own, used = _over_y(kernel, sums, {e: float(g[k]) for e, g in zip(known, grids, strict=True)}, order)
        total = weight * value if total is None else total + weight * value
        error = weight * own if error is None else error + weight * own
        count += used
    assert total is not None and error is not None
    return total, error, count


def _known_rule(kernel: LinkKernel, entry: int, order: int) -> tuple[Array, Array]:
    """Rule over a known entry, density included, cut where the link changes its form."""
    marks = {-CUT, 0.0, CUT}
    for region in kernel.regions:
        marks |= {b for b in region.interval(entry) if abs(b) < CUT}
    edges = np.array(sorted(marks))
    middle = 0.5 * (edges[1:] + edges[:-1])
    x, w = half_interval_rule(np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle]), order + 2, 0.2)
    return x.ravel(), (w * np.exp(-0.5 * x * x)).ravel() / math.sqrt(2 * math.pi)


def _over_y(kernel: LinkKernel, sums: _Sums, known: dict[int, float], order: int) -> tuple[Array, Array, int]:
    parts = pieces(kernel, known)
    for piece in parts:
        piece.check()
    if kernel.noise > 0:
        return _noisy(kernel, sums, parts, order)
    still = [piece for piece in parts if not piece.varies]
    moving = [piece for piece in parts if piece.varies and piece.free_mass > 0]
    width = 1 + sums.n + sums.r**2 + sums.r**4
    value, error, count = np.zeros(width), np.zeros(width), 0
    if not known:  # once; not worth it for each of many known values
        with np.errstate(all="ignore"):
            moving = [piece.planned() if len(piece.active) > 1 else piece for piece in moving]
    for moments in _atoms(still, order).values():
        value += sums(moments[None])[0]
        count += 1
    if moving:
        calls = [0]

        def f(y: Array) -> Array:
            calls[0] += len(y)
            total = np.zeros((len(y), sums.width()))
            with np.errstate(all="ignore"):  # candidates that are no solutions are NaN, and dropped
                for piece in moving:
                    total += piece.density(y, order)
            return sums(total)

        start, end, least = _y_intervals(moving)
        active = max(len(piece.active) for piece in moving)
        tolerance = {1: 1e-13, 2: 1e-11}.get(active, 1e-6) * (order / 12) ** 2
        most = 60_000 if active < 3 else 400
        if known:
            # One of many integrals, over the known entries; singular values of y are not near zero, so rounded.
            tolerance, most = max(tolerance, 1e-9), min(most, 4000)
        more, own = adaptive(f, start, end, least, tolerance, order=10 if active < 3 else 6, most=most)
        value, error, count = value + more, error + own, count + calls[0]
    return value, error, count


def _values(piece: Piece) -> tuple[float, ...]:
    return tuple(float(v) for v in piece.region.output(piece.entries({})))


def _atoms(still: Sequence[Piece], order: int) -> dict[tuple[float, ...], Array]:
    """Moments of the outputs that have positive probability."""
    found: dict[tuple[float, ...], Array] = {}
    for piece in still:
        value = _values(piece)
        key = next((k for k in found if np.allclose(k, value, rtol=_SAME, atol=_SAME)), value)
        moments = piece.volume(2 * order)
        found[key] = found[key] + moments if key in found else moments
    return found


def _y_intervals(moving: Sequence[Piece]) -> tuple[Array, Array, Array]:
    """Intervals of y between values where densities may be singular, each dense towards one end."""
    low, high = math.inf, -math.inf
    marks = {0.0}
    for piece in moving:
        values, special = _range(piece)
        # The grid misses the ends themselves, where the density may be largest.
        low, high = min(low, float(values.min()), *special), max(high, float(values.max()), *special)
        marks |= special
    edges = np.array(sorted({low, high, *(m for m in marks if low < m < high)}))
    # Neighbours that differ by rounding alone are one.
    keep = np.concatenate([[True], np.diff(edges) > 1e-12 * (1 + np.abs(edges[1:]))])
    edges = edges[keep]
    middle = 0.5 * (edges[1:] + edges[:-1])
    start = np.concatenate([edges[:-1], edges[1:]])
    end = np.concatenate([middle, middle])
    least = np.clip(np.sqrt(0.02 / np.abs(end - start)), 1e-7, 0.3)
    return start, end, least


def _range(piece: Piece) -> tuple[Array, set[float]]:
    """Values of the output on a grid over the piece, and values at critical points and corners."""
    active = piece.active
    count = {1: 4001, 2: 401}.get(len(active), 61)
    lines = [_line(*piece.limits(i), count) for i in active]
    grids = np.meshgrid(*lines, indexing="ij")
    entries = piece.entries({i: g[1:-1] if len(active) == 1 else g for i, g in zip(active, grids, strict=True)})
    with np.errstate(all="ignore"):
        values = np.broadcast_to(piece.region.output(entries)[0], entries[active[0]].shape)
        ok = np.isfinite(values) & np.broadcast_to(piece.inside(entries), values.shape)
        inside = values[ok]
        marks = set(piece.region.critical) if not piece.known else set()
        origin = piece.entries({i: np.array(float(np.clip(0.0, *piece.limits(i)))) for i in active})
        marks.add(float(piece.region.output(origin)[0]))
        ends = [[b for b in piece.region.interval(i) if math.isfinite(b)] for i in active]
        if len(active) == 1:
            marks |= {float(piece.region.output(piece.entries({active[0]: np.array(b)}))[0]) for b in ends[0]}
            marks |= _turning_values(piece, lines[0])
        elif all(ends):
            corners = np.meshgrid(*ends, indexing="ij")
            corner = piece.entries({i: c.ravel() for i, c in zip(active, corners, strict=True)})
            marks |= {float(v) for v in np.ravel(piece.region.output(corner)[0])}
    if not inside.size:
        return np.zeros(1), set()
    return inside, {m for m in marks if math.isfinite(m)}


def _line(low: float, high: float, count: int) -> Array:
    """Points of an interval, even and also dense towards its ends and towards zero, where outputs may grow large."""
    even = np.linspace(low, high, count)
    near = np.geomspace(1e-10, 0.1, max(9, count // 20))
    marks = np.array([low, high, *([0.0] if low < 0 < high else [])])
    points = np.unique(np.concatenate([even, *(m + near for m in marks), *(m - near for m in marks)]))
    return np.asarray(points[(points >= low) & (points <= high)])


def _turning_values(piece: Piece, grid: Array) -> set[float]:
    """Outputs where the slope in the only active entry changes sign."""
    entry = piece.active[0]
    slope_of = piece.region.branches[piece.unknown][2]

    def slope(x: Array) -> Array:
        return np.broadcast_to(slope_of(piece.entries({entry: x}))[0], x.shape)

    sign = np.sign(slope(grid))
    at = np.flatnonzero(sign[1:] * sign[:-1] < 0)
    a, b, left = grid[at], grid[at + 1], sign[at]
    for _ in range(60 if len(at) else 0):
        middle = 0.5 * (a + b)
        same = np.sign(slope(middle)) == left
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    x = np.concatenate([0.5 * (a + b), grid[sign == 0]])
    return {float(v) for v in np.ravel(np.broadcast_to(piece.region.output(piece.entries({entry: x}))[0], x.shape))}


# --- with noise ------------------------------------------------------------------------------------------------------


def _noisy(kernel: LinkKernel, sums: _Sums, parts: Sequence[Piece], order: int) -> tuple[Array, Array, int]:
    """Averages where every output carries Gaussian noise: the density of y is a mixture of Gaussians over h."""
    sigma = math.sqrt(kernel.noise)
    centres, rows, coarse = _mixture(parts, sums, order, sigma)
    if centres.shape[1] > 2:
        raise ValueError(f"with noise at most 2 outputs are supported, got {centres.shape[1]}")
    if centres.shape[1] == 1:
        value, error, count = _noisy_one(sums, centres[:, 0], rows, sigma, order)
    else:
        value, error, count = _noisy_two(sums, centres, rows, sigma, order)
    # What is sampled too coarsely carries that share of the mass, and moments a few times as large.
    return value, error + 10 * coarse * np.abs(value), count


def _mixture(parts: Sequence[Piece], sums: _Sums, order: int, sigma: float) -> tuple[Array, Array, float]:
    """Outputs without noise, shape (n, K), the moments carried by each, shape (n, width), and the coarse share.

    Neighbouring nodes must give outputs no further apart than the deviation of the noise: else the mixture is a comb,
    and every refinement of it sees the link without noise.
    """
    centres, rows, coarse = [], [], 0.0
    half = _half(sums, [piece for piece in parts if piece.varies])
    for value, moments in _atoms([piece for piece in parts if not piece.varies], order).items():
        centres.append(np.array([value]))
        rows.append(moments[None])
    for piece in (p for p in parts if p.varies and p.free_mass > 0):
        values, weights, share = _resolved(piece, 2 * order if len(piece.active) < 3 else order, sigma)
        coarse = max(coarse, share if len(piece.active) == 1 else 0.0)
        keep = weights > 1e-19
        for entry in half:
            keep = keep & (values[entry] > 0)
        weights = weights * 2 ** len(half)
        values, weights = {i: v[keep] for i, v in values.items()}, weights[keep]
        outputs = piece.region.output(piece.entries(values))
        centres.append(np.stack([np.broadcast_to(o, weights.shape) for o in outputs], axis=1))
        rows.append(piece.moments(weights, values, np.arange(len(weights)), len(weights)))
    return np.concatenate(centres), np.concatenate(rows), coarse


def _resolved(piece: Piece, order: int, sigma: float) -> tuple[dict[int, Array], Array, float]:
    """Nodes of a piece, doubled until their outputs are no further apart than sigma, but for a share of the mass."""
    while True:
        values, weights = piece.nodes(order, 0.05)
        share = float(weights[_increments(piece, values) > sigma].sum() / max(weights.sum(), 1e-300))
        wanted, enough = _COARSE_SHARE[min(len(piece.active), 3)]
        last = order > _MOST_ORDER or len(weights) * 4 ** len(piece.active) > _MANY_NODES
        if share < (enough if last else wanted):
            return values, weights, share
        if last:
            raise ValueError(
                f"noise of deviation {sigma:.2g} is too narrow for a quadrature over {len(piece.active)} entries of h: "
                "ask for more noise (--noise), or for none"
            )
        order *= 2


def _increments(piece: Piece, values: dict[int, Array]) -> Array:
    """Largest change of an output from each node to its next one along any entry."""
    last, *outer = sorted(piece.active, reverse=True)
    here = np.stack([np.broadcast_to(o, values[last].shape) for o in piece.region.output(piece.entries(values))])
    # Panels come one after the other, each from an end of its interval: sort within every row.
    by = np.lexsort([values[last], *(values[entry] for entry in outer)])
    row = np.zeros(len(by) - 1, dtype=bool)
    for entry in outer:
        row |= np.diff(values[entry][by]) != 0
    along = np.where(row, 0.0, np.abs(np.diff(here[:, by], axis=1)).max(axis=0))
    found = np.empty(len(by))
    found[by] = np.maximum(np.append(along, 0.0), np.append(0.0, along))
    for entry in outer:
        known = np.unique(values[entry])
        step = np.diff(known, append=known[-1])[np.searchsorted(known, values[entry])]
        there = piece.region.output(piece.entries({**values, entry: values[entry] + step}))
        moved = np.stack([np.broadcast_to(o, here.shape[1:]) for o in there])
        found = np.maximum(found, np.nan_to_num(np.abs(moved - here)).max(axis=0))
    return found


def _half(sums: _Sums, moving: Sequence[Piece]) -> list[int]:
    """Entries of h that a symmetry of the link lets run over h > 0 alone: all moments that do not vanish are even."""
    found: list[int] = []
    common = set.intersection(*(set(piece.active) for piece in moving)) if moving else set()
    for entry in sorted(common):
        if any(s[entry] < 0 and all(s[e] > 0 for e in found) for s in sums.signs):
            found.append(entry)
    return found


def _noisy_one(sums: _Sums, centres: Array, rows: Array, sigma: float, order: int) -> tuple[Array, Array, int]:
    arrange = np.argsort(centres)
    centres, rows = centres[arrange], rows[arrange]
    calls = [0]

    def f(y: Array) -> Array:
        calls[0] += len(y)
        out = np.zeros((len(y), rows.shape[1]))
        by = np.argsort(y)
        for begin in range(0, len(y), 64):
            take = by[begin : begin + 64]
            # Only centres within ten standard deviations count.
            near = slice(*np.searchsorted(centres, [y[take[0]] - 10 * sigma, y[take[-1]] + 10 * sigma]))
            x = (y[take][:, None] - centres[near]) / sigma
            out[take] = np.exp(-0.5 * x * x) @ rows[near]
        return sums(out / (sigma * math.sqrt(2 * math.pi)))

    low, high = centres[0] - 9 * sigma, centres[-1] + 9 * sigma
    mass = np.abs(rows[:, 0])
    # Marks at quantiles: no peak can hide between the nodes.
    share = np.searchsorted(np.cumsum(mass) / mass.sum(), np.linspace(0.02, 0.98, 25))
    marks = [m for m in centres[np.clip(share, 0, len(centres) - 1)] if low < m < high]
    edges = np.unique(np.concatenate([[low, high], marks]))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * sigma])]
    middle = 0.5 * (edges[1:] + edges[:-1])
    start, end = np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle])
    least = np.clip(np.sqrt(sigma / np.abs(end - start)), 1e-6, 0.3)
    value, error = adaptive(f, start, end, least, 1e-10)
    return value, error, calls[0]


def _noisy_two(sums: _Sums, centres: Array, rows: Array, sigma: float, order: int) -> tuple[Array, Array, int]:
    # Trapezoidal: the integrand is analytic on the scale of sigma. The law of each output is cut at 1e-12.
    step = sigma * (0.5 if order < 8 else 0.4 if order < 12 else 0.33)
    lines = []
    for k in range(2):
        by = np.argsort(centres[:, k])
        share = np.cumsum(np.abs(rows[by, 0]))
        low, high = np.interp([1e-12, 1 - 1e-12], share / share[-1], centres[by, k])
        lines.append(np.arange(low - 7.5 * sigma, high + 7.5 * sigma + step, step))
    if len(lines[0]) * len(lines[1]) > 400_000:
        raise ValueError(
            f"two outputs with noise of deviation {sigma:g} over a range of {np.ptp(lines[0]):.3g} x "
            f"{np.ptp(lines[1]):.3g} need too many points; ask for more noise (--noise), or for bounded outputs"
        )
    arrange = np.argsort(centres[:, 0])
    centres, rows = centres[arrange], rows[arrange]
    value = np.zeros(1 + sums.n + sums.r**2 + sums.r**4)
    for y in lines[0]:
        # Only what lies within eight standard deviations counts.
        near = slice(*np.searchsorted(centres[:, 0], [y - 8 * sigma, y + 8 * sigma]))
        other, some = centres[near, 1], rows[near]
        if not len(other):
            continue
        line = lines[1][(lines[1] > other.min() - 8 * sigma) & (lines[1] < other.max() + 8 * sigma)]
        some = some * np.exp(-0.5 * ((y - centres[near, 0]) / sigma) ** 2)[:, None]
        heavy = np.abs(some[:, 0]) > 1e-22
        matrix = np.exp(-0.5 * ((line[:, None] - other[heavy]) / sigma) ** 2)
        value += step * step * sums(matrix @ some[heavy] / (2 * math.pi * sigma**2)).sum(axis=0)
    # The cuts at 1e-12, and the tails beyond them in moments of second order.
    return value, 1e-10 * np.abs(value), len(lines[0]) * len(lines[1])


# --- thresholds ------------------------------------------------------------------------------------------------------


def threshold(kernel: LinkKernel, *, digits: int | None = None, given: Sequence[int] = ()) -> LinkThreshold:
    """Smallest alpha at which an index of the link can be learned from nothing.

    Parameters
    ----------
    kernel : LinkKernel
    digits : int, optional
        Significant digits to print, 1 to 13; by default as many as the error supports.
    given : sequence of int
        Indices, counted from 1, taken as perfectly known (a step of the grand staircase).

    Returns
    -------
    LinkThreshold
        `value` is "0" if E[h | y] does not vanish, and None if the operator does: "infinite at this order".

    Raises
    ------
    ValueError
        digits or given out of range, or a link that the quadrature does not serve.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D. alpha_c is the inverse of the largest eigenvalue of the operator (15), whose
    eigenvector is PSD: the image of I under the projection on the top eigenspace.

    References
    ----------
    troiani2025, (15)-(18).
    """
    if digits is not None and (
        isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= MAX_DIGITS
    ):
        raise ValueError(f"digits must be an integer from 1 to {MAX_DIGITS} (float64 arithmetic), got {digits!r}")
    learned = tuple(sorted(set(given)))
    if any(not isinstance(i, int) or not 1 <= i <= kernel.indices for i in learned) or len(learned) >= kernel.indices:
        raise ValueError(f"given must name some, not all, of the indices 1 to {kernel.indices}, got {tuple(given)}")
    if not learned and kernel.exact_value is not None and kernel.reason == "y fixes h h^T":
        return _fixed(kernel, digits)
    unsolved = kernel.exact == "0" and kernel.kind != "discrete"
    if not learned and (kernel.exact is None or unsolved) and (seen := _correlation(kernel)) is not None:
        return _Maker(kernel, seen, learned, kernel.exact, digits).zero()
    found = operator(kernel, [i - 1 for i in learned])
    exact = kernel.exact if not learned else None
    make = _Maker(kernel, found, learned, exact, digits)
    linear = float(np.linalg.eigvalsh(found.linear)[-1])
    if exact == "0" or (exact is None and linear > max(_SURELY, 10 * found.error)):
        return make.zero()
    if exact is None and linear > _ZERO + found.error:
        return make.undecided(f"E ||E[h|y]||^2 = {linear:.1e} is neither zero nor clearly not")
    norm, vector = _top(found.matrix, found.error)
    if exact is None and found.error > _USELESS:
        return make.undecided(f"the operator (15) is {norm:.1e} +- {found.error:.1e}")
    if exact == "oo" or (exact is None and norm < max(_ZERO, found.error)):
        return make.infinite(norm)
    return make.number(norm, vector)


def _correlation(kernel: LinkKernel) -> Operator | None:
    """What correlates with functions of y, beyond doubt; None if nothing does.

    E[h f(y)] = E[E[h | y] f(y)], so one correlation that is not zero shows that E[h | y] is not. Noise on y changes
    nothing: the convolution of E[h | g] p(g) with a Gaussian vanishes only where it does. It takes milliseconds, and
    the quadrature of E[h | y] need not converge for it.
    """
    means = []
    for replica in range(_REPLICAS):
        h = normal_qmc(kernel.size, _LOG2_POINTS, np.random.default_rng(replica))
        y = kernel.link(h.reshape(-1, kernel.indices, kernel.tokens))
        if not np.isfinite(y).all():
            return None
        centred = y - np.median(y, axis=0)
        # A discrete y may have most of its mass at the median, where the scale is then zero.
        with np.errstate(over="ignore"):
            scaled = centred / (np.median(np.abs(centred), axis=0) + np.finfo(float).tiny)
            features = [f(scaled * s) for s in (0.5, 1.0, 2.0) for f in (np.tanh, lambda z: 1 / (1 + z * z))]
        means.append(h.T @ np.concatenate(features, axis=1) / len(h))
    mean = np.mean(means, axis=0)
    sigma = np.std(means, axis=0, ddof=1) / math.sqrt(_REPLICAS)
    sure = np.where(np.abs(mean) > np.maximum(_SIGMAS * sigma, _LEAST_CORRELATION), mean, 0.0)
    if not sure.any():
        return None
    rows = sure.reshape(kernel.indices, -1)
    size = (kernel.indices,) * 4
    everything = tuple(range(kernel.indices))
    return Operator(everything, rows @ rows.T, np.zeros(size), float(sigma.max()), 0.0, _REPLICAS)


def _top(matrix: Array, error: float) -> tuple[float, Array]:
    """Largest eigenvalue of the operator and a PSD eigenvector."""
    r = len(matrix)
    flat = _flat(matrix)
    values, vectors = np.linalg.eigh(0.5 * (flat + flat.T))
    # The identity is interior to the cone, so it has a part in the top eigenspace of a map that keeps the cone.
    near = vectors[:, values >= values[-1] - max(1e-7 * values[-1], 4 * error)]
    image = (near @ (near.T @ np.eye(r).ravel())).reshape(r, r)
    size = np.linalg.norm(image)
    if size > 0:
        image = image / size
    return float(values[-1]), 0.5 * (image + image.T)


def _fixed(kernel: LinkKernel, digits: int | None) -> LinkThreshold:
    assert kernel.exact_value is not None
    p = kernel.indices
    text = _decimal(kernel.exact_value, digits or MAX_DIGITS)
    return LinkThreshold(
        value=text,
        error=abs(float(text) - kernel.exact_value) + 1e-16,
        how="rigorous",
        exact=kernel.exact,
        subspace=_names(range(p)),
        eigenvector=np.eye(p) / math.sqrt(p),
        operator_norm=1 / kernel.exact_value,
        given=(),
        converged=True,
        status=f"converged: closed form, {kernel.reason}",
        n_iter=0,
        kernel_hash=kernel.kernel_hash,
    )


@dataclass(frozen=True)
class _Maker:
    """Builds the result for each outcome."""

    kernel: LinkKernel
    found: Operator
    learned: tuple[int, ...]
    exact: str | None
    digits: int | None

    def _result(
        self,
        value: str | None,
        error: float | None,
        how: How,
        exact: str | None,
        matrix: Array,
        norm: float,
        status: str,
        converged: bool = True,
    ) -> LinkThreshold:
        p = self.kernel.indices
        full = np.zeros((p, p))
        full[np.ix_(self.found.rest, self.found.rest)] = matrix
        given = f" given {_names(i - 1 for i in self.learned)}" if self.learned else ""
        learned = [i for i in range(p) if full[i, i] > 1e-6]
        return LinkThreshold(
            value=value,
            error=error,
            how=how,
            exact=exact,
            subspace=(_names(learned) if learned else "none") + given,
            eigenvector=full,
            operator_norm=norm,
            given=self.learned,
            converged=converged,
            status=status,
            n_iter=self.found.evaluations,
            kernel_hash=self.kernel.kernel_hash,
        )

    def zero(self) -> LinkThreshold:
        """E[h | y] does not vanish."""
        matrix = self.found.linear / np.linalg.norm(self.found.linear)
        status = "converged: E[h | y] does not vanish, so any alpha > 0 gives a positive overlap"
        how: How = "rigorous" if self.exact == "0" else "estimated"
        return self._result("0", 0.0, how, "0", matrix, math.inf, status)

    def infinite(self, norm: float) -> LinkThreshold:
        """G vanishes."""
        zero = np.zeros((len(self.found.rest),) * 2)
        proof = "exactly" if self.exact == "oo" else f"to {max(norm, self.found.error):.0e}"
        status = (
            f"converged: infinite at this order; E[h h^T | y] = I for every y {proof}, so no alpha of order one "
            "leaves zero overlap"
        )
        how: How = "rigorous" if self.exact == "oo" else "estimated"
        return self._result(None, None, how, "oo" if self.exact == "oo" else None, zero, 0.0, status)

    def undecided(self, reason: str) -> LinkThreshold:
        """The quadrature cannot tell."""
        zero = np.zeros((len(self.found.rest),) * 2)
        status = f"not converged: {reason}; write the link so that its symmetry shows, or add noise"
        return self._result(None, None, "estimated", None, zero, 0.0, status, converged=False)

    def number(self, norm: float, matrix: Array) -> LinkThreshold:
        """A positive threshold."""
        alpha, how = 1 / norm, "estimated"
        error = self.found.error * alpha**2
        if self.exact is not None and self.kernel.exact_value is not None:
            alpha, error, how = self.kernel.exact_value, 4e-16 * self.kernel.exact_value, "rigorous"
        # The last digit may be uncertain, so that rounding never adds more than the error itself.
        possible = max(1, min(MAX_DIGITS, math.ceil(-math.log10(2 * error / alpha))))
        digits = self.digits or possible
        text = _decimal(alpha, digits)
        unit = 10.0 ** (math.floor(math.log10(alpha)) - digits + 1)
        # Without digits asked for, three are the least that count as a result.
        good = error <= 0.5 * unit if self.digits else error <= 1e-3 * alpha
        status = (
            ("converged: closed form" if self.exact else "converged: two refinements agree")
            if good
            else f"{self.digits or 3} digits were not reached: the error is {error:.1e}; ask for fewer digits"
        )
        return self._result(
            text,
            error + abs(float(text) - alpha),
            "rigorous" if how == "rigorous" else "estimated",
            self.exact,
            matrix,
            1 / alpha,
            status,
            good,
        )


def _decimal(value: float, digits: int) -> str:
    """Positional decimal with that many significant digits."""
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def _names(indices: Iterable[int]) -> str:
    numbers = [str(i + 1) for i in indices]
    return ("index " if len(numbers) == 1 else "indices ") + ", ".join(numbers)


def staircase(kernel: LinkKernel, *, digits: int | None = None) -> LinkStaircase:
    """Thresholds step by step: each with the subspaces before it perfectly known.

    Parameters
    ----------
    kernel : LinkKernel
    digits : int, optional
        As in `threshold`.

    Returns
    -------
    LinkStaircase
        Steps until all indices are learned, or the rest cannot be at this order. A step of value "0" is learned
        as soon as the steps before it are. The smallest alpha of a step is the largest value so far, and not
        less: below perfect knowledge of the earlier indices its threshold can only be higher.

    References
    ----------
    troiani2025, (17)-(18): linearised at q* = the projector on what is learned.
    """
    steps: list[LinkThreshold] = []
    learned: set[int] = set()
    while len(learned) < kernel.indices:
        step = threshold(kernel, digits=digits, given=sorted(learned))
        steps.append(step)
        if step.value is None or not step.converged:
            break
        axes = [i for i in range(kernel.indices) if step.eigenvector[i, i] > 1e-6]
        rank = int(np.linalg.matrix_rank(step.eigenvector, tol=1e-6))
        if rank != len(axes):
            status = (
                f"stopped: the subspace of step {len(steps)} mixes indices {', '.join(str(i + 1) for i in axes)}; "
                "rotate the indices so that it is spanned by some of them"
            )
            return LinkStaircase(tuple(steps), False, status, kernel.kernel_hash)
        learned |= {i + 1 for i in axes}
    last = steps[-1]
    if last.value is None:
        status = last.status
    else:
        status = "converged: all indices are learned" if last.converged else last.status
    return LinkStaircase(tuple(steps), last.converged, status, kernel.kernel_hash)
