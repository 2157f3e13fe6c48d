"""Posterior moments at any depth and number of tokens: the trapezoidal rule in whitened indices, in fixed point.

The integrand of (169) is analytic and falls off like a Gaussian, so that the rule converges exponentially. Its cost
grows as a power of the digits, the number of dimensions M (L - 1): this is for few dimensions and moderate digits.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ...arithmetic.fixed_words import words_for
from ...core.errors import ConvergenceError
from ...model.network import Network
from .lattice_sums import GRAIN, Whitened, lattice_moments

__all__ = ["Grid"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Progress = Callable[[int, int], None]

# Nodes of the first search, in all; of a slab; and of a batch of fixed-point numbers.
_SEARCH, _SLAB, _BATCH = 300_000, 65_536, 4096


@dataclass(frozen=True)
class _Region:
    """Cells of a lattice near which there is weight.

    Attributes
    ----------
    low : ndarray, shape (axes,)
    step : float
    cells : ndarray of bool, one axis for each
    """

    low: Array
    step: float
    cells: NDArray[np.bool_]

    @classmethod
    def around(cls, nodes: Array, step: float) -> "_Region":
        """Cells that hold a node, and their neighbours."""
        low = nodes.min(axis=0) - 1.5 * step
        at = ((nodes - low) / step).astype(np.int64)
        cells = np.zeros(at.max(axis=0) + 2, dtype=bool)
        cells[tuple(at.T)] = True
        for axis in range(cells.ndim):
            before = cells.copy()
            line = np.moveaxis(cells, axis, 0)
            line[1:] |= np.moveaxis(before, axis, 0)[:-1]
            line[:-1] |= np.moveaxis(before, axis, 0)[1:]
        return cls(low, step, cells)

    @property
    def high(self) -> Array:
        return self.low + self.step * np.array(self.cells.shape)

    def nodes(self, step: float) -> float:
        """How many nodes of a lattice are in it."""
        return float(self.cells.sum()) * (self.step / step) ** self.cells.ndim

    def holds(self, z: Array) -> NDArray[np.bool_]:
        at = np.floor((z - self.low) / self.step).astype(np.int64)
        limits = np.array(self.cells.shape)
        near = np.clip(at, 0, limits - 1)
        return (at == near).all(axis=-1) & self.cells[tuple(near.T)]


@dataclass(frozen=True)
class Grid:
    """The trapezoidal rule over z, the whitened indices.

    Attributes
    ----------
    posterior : Whitened
    digits : int
    bits : int
        Bits below the largest weight that the sums keep.
    max_nodes : int
        Bound of the nodes with weight.
    progress : callable or None
        Called with (nodes done, nodes planned), with none done during the search.
    """

    posterior: Whitened
    digits: int
    bits: int
    max_nodes: int
    progress: Progress | None = None
    _floats: tuple[Network, Array, Array, Array] = field(init=False, repr=False)

    # The first step, in prior widths.
    _widest = 0.5

    def __post_init__(self) -> None:
        """Take the float64 copies."""
        exact = self.posterior
        model = replace(exact.model, skip=float(exact.skip), beta=float(exact.beta))
        copies = (np.asarray(numbers, dtype=float) for numbers in (exact.v, exact.omega, exact.factor))
        object.__setattr__(self, "_floats", (model, *copies))

    @property
    def _axes(self) -> int:
        return (self.posterior.model.layers - 1) * self.posterior.model.tokens

    @property
    def _depth(self) -> float:
        # Mass is neglected where the weight is below 10^-digits e^-CUT of the peak.
        cut = 10.0
        return self.digits * math.log(10) + cut

    # In float64 -----------------------------------------------------------------------------------------------------

    def logs(self, z: Array) -> tuple[Array, Array]:
        """All whitened indices, shape (2, n, L M), and log-weights, shape (2, n), of both branches at z, (n, axes)."""
        model, v, omega, factor = self._floats
        last, tokens = model.layers - 1, model.tokens
        rows = z.reshape(len(z), last, tokens)
        h = np.zeros((len(z), last + 1, tokens))
        h[:, :last] = omega[:last] + factor[:last, :last] @ rows
        mixing = model.mixing(h)
        lean = omega[last] + np.einsum("k,nkm->nm", factor[last, :last], rows)
        indices = np.linalg.solve(mixing, np.broadcast_to(v[:, None], (len(z), tokens, 1)))[..., 0]
        out = np.empty((2, len(z), (last + 1) * tokens))
        out[:, :, : last * tokens] = z
        for branch, sign in enumerate((1.0, -1.0)):
            out[branch, :, last * tokens :] = (sign * indices - lean) / factor[last, last]
        return out, -0.5 * (out * out).sum(axis=-1) - np.linalg.slogdet(mixing)[1]

    def _search(self) -> tuple[_Region, float]:
        """Where the weights that count are, roughly, and the largest log-weight found."""
        radius, top = 0.0, 0.0
        # The prior alone, at the largest step that is tried.
        self._check_cost(0.0, (2 * math.sqrt(2 * self._depth) / self._widest) ** self._axes)
        while True:
            enough = math.sqrt(2 * max(self._depth - top + self._log_det_bound(), self._depth))
            if radius >= 0.99 * enough:
                break
            if enough > 1e3:
                raise ConvergenceError(
                    "the posterior (169) lies more than 1000 prior widths from omega: y is too unlikely under "
                    "(omega, V); check that they belong together"
                )
            radius = enough
            points = max(7, int(_SEARCH ** (1 / self._axes))) | 1
            step = 2 * radius / (points - 1)
            everywhere = _Region(
                np.full(self._axes, -radius - step), 2 * radius + 2 * step, np.ones(self._axes * (1,), bool)
            )
            found = [(z, log_w.max(axis=0)) for z, _, log_w in self._looked_at(everywhere, step, 0.0)]
            top = max(float(best.max()) for _, best in found)
        # Nodes of the first search count down to the square of the least weight: it may be larger between them.
        unseen = 2.0
        kept = np.concatenate([z[best > top - unseen * self._depth] for z, best in found])
        return _Region.around(kept, step), top

    def _log_det_bound(self) -> float:
        """Largest log(1/|det B|): every factor's eigenvalues are c at least."""
        return (
            -(self.posterior.model.layers - 1) * self.posterior.model.tokens * min(0.0, math.log(self._floats[0].skip))
        )

    def _slabs(self, region: _Region, step: float, shift: float) -> Iterator[tuple[Array, Array, Array]]:
        """Yield nodes of the lattice (k + shift) step in a region, and what `logs` says of them."""
        first = np.floor(region.low / step)
        counts = (np.ceil(region.high / step) - first).astype(int)
        total = math.prod(counts.tolist())
        self._check_cost(region.nodes(step), total)
        for start in range(0, total, _SLAB):
            at = np.unravel_index(np.arange(start, min(start + _SLAB, total)), counts)
            z = (first + np.stack(at, axis=-1) + shift) * step
            z = z[region.holds(z)]
            if len(z):
                yield (z, *self.logs(z))

    def _looked_at(self, region: _Region, step: float, shift: float) -> Iterator[tuple[Array, Array, Array]]:
        """`_slabs` before the number of nodes is known."""
        for slab in self._slabs(region, step, shift):
            if self.progress is not None:
                self.progress(0, 1)
            yield slab

    def _check_cost(self, near: float, total: float) -> None:
        # Lattice nodes near weight, for each that has it, at most; and all of them.
        sparse, empty = 10, 100
        nodes = max(near, total * sparse / empty)
        if nodes > sparse * self.max_nodes:
            raise ConvergenceError(
                f"the precise denoiser (169) of {self.posterior.model.describe()} integrates over {self._axes} "
                f"dimensions and would look at {nodes:.1e} nodes for {self.digits} digits alone, "
                f"{nodes * 3e-6 / 3600:.1g} hours or more; {sparse} for each of max_nodes = {self.max_nodes} are "
                "allowed: ask for fewer digits, or raise max_nodes"
            )

    def _pilot(self, region: _Region, top: float) -> tuple[float, _Region, float]:
        """Step for the digits, where the weights that count are, and the largest log-weight, from float64."""
        step, origin = self._widest, top
        # The pilot in float64 stops where both halves of its lattice agree to half of the digits, and to so many at
        # most.
        agree = 6
        while True:
            sums, kept = [], []
            for shift in (0.0, 0.5):
                total = np.zeros(1 + self._axes)
                for z, _, log_w in self._looked_at(region, step, shift):
                    best = log_w.max(axis=0)
                    top = max(top, float(best.max()))
                    kept.append(z[best > top - self._depth - 1.0])
                    w = np.exp(log_w - origin)
                    total += [w.sum(), *(w.sum(axis=0) @ (z * z))]
                sums.append(total)
            gap = float(np.abs(sums[0] - sums[1]).max() / sums[0][0]) if sums[0][0] > 0 else 1.0
            region = _Region.around(np.concatenate(kept), step)
            if gap < 10.0 ** -min(agree, self.digits / 2):
                # exp(-k/step): the nearest singularity is at a finite distance.
                share = math.log(max(gap, 1e-13)) / (-(self.digits + 1) * math.log(10))
                return step * min(1.0, share), region, top
            step *= 0.8

    # In fixed point -------------------------------------------------------------------------------------------------

    def total(self) -> tuple[arb_mat, float, float, int]:
        """Moments of (1, z), shape (1 + L M, 1 + L M), their relative error, the log-scale, and the nodes."""
        region, top = self._search()
        step, region, top = self._pilot(region, top)
        nodes = 0
        for _ in range(4):
            step = math.floor(step * 2**GRAIN) / 2**GRAIN
            if step <= 0:
                raise ConvergenceError("the posterior (169) is too narrow for a lattice: take V away from singular")
            halves = []
            for half in (0, 1):
                made, count = self._sum(region, step, half, top, nodes)
                halves.append(made)
                nodes += count
            mass = float(halves[0][0, 0])
            size = len(halves[0].tolist())
            gap = max(abs(float(halves[0][i, j] - halves[1][i, j])) for i in range(size) for j in range(size)) / mass
            if gap < 10.0**-self.digits:
                return (halves[0] + halves[1]) * arb(step) ** self._axes / 2, gap, top, nodes
            step *= max(0.5, min(0.95, math.log(gap) / (-(self.digits + 1) * math.log(10))))
        raise ConvergenceError(
            f"the trapezoidal rule of (169) reached {gap:.1e} where {self.digits} digits were asked for: softmax is "
            "too steep for it (large beta or small skip); ask for fewer digits"
        )

    def _sum(self, region: _Region, step: float, half: int, top: float, spent: int) -> tuple[arb_mat, int]:
        """Sum over a lattice, or over the one in the middle of its cells."""
        planned = int(region.nodes(step))
        size = 1 + self.posterior.model.layers * self.posterior.model.tokens
        out, nodes, done = arb_mat(size, size), 0, 0
        words = words_for(self.bits)
        for z, _, log_w in self._slabs(region, step, 0.5 * half):
            wanted = log_w > top - self._depth
            at = np.flatnonzero(wanted.any(axis=0))
            nodes += len(at)
            if spent + nodes > self.max_nodes:
                raise ConvergenceError(
                    f"the precise denoiser (169) needs more than max_nodes = {self.max_nodes} nodes for {self.digits} "
                    "digits: raise max_nodes, or ask for fewer digits"
                )
            for start in range(0, len(at), _BATCH):
                part = at[start : start + _BATCH]
                out += lattice_moments(self.posterior, z[part], wanted[:, part], top, words)
            done += len(z)
            if self.progress is not None:
                self.progress(min(done, planned) + half * planned, 2 * planned)
        return out, nodes
