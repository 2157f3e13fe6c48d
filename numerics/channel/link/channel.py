"""Averages over the output channel of a user's own link at a given overlap, for its state evolution.

Entries of h that neither the link nor the overlap couples make groups, whose averages add. One entry, or the square
of one combination of entries, and up to three entries of one output are averaged by deterministic quadrature; other
groups by randomised quasi-Monte Carlo over (omega, h), with posterior sums over two halves of inner nodes.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.cluster_pool import Workers
from ...core.errors import NotServedError
from ...core.results import How
from ...model.link_symmetry import couplings
from ...model.links import LinkKernel, Part
from ..averages import ROUNDING, SAFETY, Averages, ChannelBase, interval
from .entries import same_token
from .fibres import FibreAverages, FibreGroup, Resolved
from .noisy_entry import NoisyEntry
from .scalar_noise import OfOne, scalar_link
from .scores import SampledGroup, Sizes

__all__ = ["LinkChannel", "by_fibres_or_samples"]

Array = NDArray[np.float64]
Found = TypeVar("Found")


class LinkChannel(ChannelBase):
    """Averages of a link: G = E sum_m g_m g_m^T, (14), and the operator (15) at any overlap.

    Parameters
    ----------
    kernel : LinkKernel
    samples, replicas : int
        Outer points per randomisation, and independent randomisations.
    inner : int
        Multiplies the number of inner nodes.
    rng : numpy.random.Generator
    mask : ndarray of bool, shape (P, P), optional
        `couplings`; by default those of a diagonal overlap.
    exchanges : sequence of tuple of int, optional
        Permutations of the indices over which the averages are averaged.
    noiseless : LinkKernel, optional
        The same link without noise, whose branches place nodes where the noise is narrow.
    workers : int, ClusterPool or None
        Of a cluster: each randomisation of a group that is sampled goes to one of them where it has 1024 points or
        more. Threads are not used.
    tolerance : float, optional
        Error of overlaps at which quadrature over fibres asks for no finer resolution.
    fibres : bool, optional
        Whether there are such quadratures; all of several entries is sampled otherwise.

    Raises
    ------
    ValueError
        A group of outputs that is not served.
    """

    model: LinkKernel

    def __init__(
        self,
        kernel: LinkKernel,
        *,
        samples: int,
        replicas: int,
        rng: np.random.Generator,
        inner: int = 1,
        mask: NDArray[np.bool_] | None = None,
        exchanges: Sequence[tuple[int, ...]] = (),
        noiseless: LinkKernel | None = None,
        workers: Workers = None,
        tolerance: float | None = None,
        fibres: bool = True,
    ) -> None:
        self.model, self._tolerance, self._by_fibres = kernel, tolerance, fibres
        self._exchanges = [list(order) for order in exchanges] or [list(range(kernel.indices))]
        self.mask = couplings(kernel, np.zeros((kernel.indices,) * 2)) if mask is None else mask
        self.layers = tuple(range(kernel.indices))
        self._scalar: list[OfOne] = []
        self._fibres: list[FibreGroup] = []
        self._sampled: list[SampledGroup] = []
        groups = self._groups((noiseless or kernel).parts)
        for parts, streams in zip(groups, rng.spawn(len(groups)), strict=True):
            found = self._deterministic(noiseless or kernel, parts)
            if isinstance(found, FibreGroup):
                self._fibres.append(found)
            elif found is not None:
                self._scalar.append(found)
            else:
                self._sampled.append(SampledGroup(kernel, parts, Sizes(samples, replicas, inner), streams, workers))
        self.replicas = replicas if self._sampled else 2
        self.sampled = bool(self._sampled)
        others = self._scalar or self._sampled
        self.tolerance = 0.0 if others else min((group.tolerance for group in self._fibres), default=0.0)
        self._how: How = "monte-carlo" if self._sampled else "estimated"

    def _deterministic(self, noiseless: LinkKernel, parts: Sequence[Part]) -> OfOne | FibreGroup | None:
        """Quadrature for a group, None where none is known."""
        if len(parts) > 1:
            return None
        if len(parts[0].entries) == 1 or (parts[0].direction and not self.model.noise):
            if self.model.noise and noiseless is not self.model and self._by_fibres:
                with suppress(NotServedError):
                    return NoisyEntry(self.model, noiseless, parts[0], self._tolerance)
            with suppress(NotServedError):
                return scalar_link(self.model, parts[0])
        if self._by_fibres:
            with suppress(NotServedError):
                return FibreGroup(noiseless, parts[0], self.model.noise, self._tolerance)
        return None

    def _groups(self, parts: Sequence[Part]) -> list[list[Part]]:
        """Parts whose entries an overlap may couple belong together."""
        p = self.model.indices
        groups: list[list[Part]] = []
        for part in parts:
            near = [
                group
                for group in groups
                if any(
                    a // p == b // p and self.mask[a % p, b % p]
                    for other in group
                    for a in other.entries
                    for b in part.entries
                )
            ]
            groups = [group for group in groups if group not in near]
            groups.append([*(one for group in near for one in group), part])
        return groups

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q, shape (P, P)."""
        return self._averages(q, second=False)[0]

    def operator(self, q: Array) -> tuple[Averages, Array]:
        """Averages, and the operator (15) at q, shape (replicas, P, P, P, P): image[i, j] = [i, j, k, l] M[k, l]."""
        averages, matrix = self._averages(q, second=True)
        assert matrix is not None
        return averages, matrix

    def derivative(self, q: Array) -> Array | None:
        """Mean of dG/dq, shape (P, P, P, P); None where a group is sampled.

        As g is a martingale in q, dG_ij = sum_kl E[(dg_i/domega_k) (dg_j/domega_l)] dq_kl, over all pairs of tokens.
        """
        if self._sampled:
            return None
        q = np.where(self.mask, q, 0.0)
        matrix = np.zeros((1, *(self.model.indices,) * 4))
        for scalar in self._scalar:
            overlap, along = self._overlap(scalar, q)
            square = along.T @ along
            matrix += scalar(overlap)[1][1] * np.multiply.outer(square, square)
        for fibres in self._fibres:
            self._add_operator(fibres, fibres.slopes(q)[None], matrix)
        return self._exchanged(matrix)[0]

    def coarse(self, q: Array) -> tuple[Averages, Array] | None:
        """Averages by coarse rules over fibres, and their derivative; None where others take most of the time."""
        if self._sampled or not self._fibres:
            return None
        slopes = self.derivative(q)
        assert slopes is not None
        return replace(self._averages(q, second=False, coarse=True)[0], method="few digits"), slopes

    def coarse_operator(self, q: Array) -> tuple[Averages, Array]:
        """Averages and the operator (15) at q, of few digits where rules over fibres have fewer."""
        averages, matrix = self._averages(q, second=True, coarse=not self._sampled)
        assert matrix is not None
        return averages, matrix

    def log_density(self, q: Array) -> Array | None:
        """E log Z_out by two resolutions, shape (2,), up to a constant; None where a group is sampled."""
        if self._sampled:
            return None
        q = np.where(self.mask, q, 0.0)
        found = [scalar.log_density(self._overlap(scalar, q)[0]) for scalar in self._scalar]
        return np.sum([*found, *(group.log_density(q) for group in self._fibres)], axis=0)

    @property
    def solved(self) -> float | None:
        """Entries of h that the outputs fix on average, up to finitely many choices; None where a group is sampled."""
        if self._sampled:
            return None
        return float(sum(group.solved for group in (*self._scalar, *self._fibres)))

    def _overlap(self, scalar: OfOne, q: Array) -> tuple[float, Array]:
        """Overlap of the combination that an output depends on, and its direction, shape (M, P)."""
        along = np.zeros((self.model.tokens, self.model.indices))
        along.ravel()[list(scalar.places)] = scalar.direction
        return float(np.clip((along @ q * along).sum(), 0.0, None)), along

    def _averages(self, q: Array, second: bool, coarse: bool = False) -> tuple[Averages, Array | None]:
        p = self.model.indices
        q = np.where(self.mask, q, 0.0)
        g, bias = np.zeros((self.replicas, p, p)), np.zeros((p, p))
        matrix = np.zeros((self.replicas, p, p, p, p)) if second else None
        for scalar in self._scalar:
            self._add_scalar(scalar, q, g, bias, matrix)
        for fibres in self._fibres:
            found = fibres.coarse(q, second) if coarse else fibres(q, second)
            self._add_fibres(fibres, found, g, bias, matrix)
        for group in self._sampled:
            self._add_sampled(group, q, g, bias, matrix)
        g, bias = (np.mean([x[..., o, :][..., o] for o in self._exchanges], axis=0) for x in (g, bias))
        if matrix is not None:
            matrix = self._exchanged(matrix)
        growth = np.full((self.replicas, p), np.nan)
        return Averages(np.where(self.mask, g, 0.0), growth, bias, self._how), matrix

    def _exchanged(self, matrix: Array) -> Array:
        """An operator averaged over the exchanges of the indices."""
        replicas = range(len(matrix))
        return np.asarray(np.mean([matrix[np.ix_(replicas, o, o, o, o)] for o in self._exchanges], axis=0))

    def _add_scalar(self, scalar: OfOne, q: Array, g: Array, bias: Array, matrix: Array | None) -> None:
        overlap, along = self._overlap(scalar, q)
        square = along.T @ along
        values, changes = scalar(overlap)
        rounding = ROUNDING * (abs(values[1]) + 1 / (1 - overlap))
        if not self.sampled:
            g += interval(values[1], values[0])[:, None, None] * square
            bias += rounding * np.abs(square)
        else:
            g += values[1] * square
            bias += (SAFETY * abs(values[1] - values[0]) + rounding) * np.abs(square)
        if matrix is not None:
            outer = np.multiply.outer(square, square)
            # Of the square of a quotient of two sums.
            off = 4 * ROUNDING * (abs(changes[1]) + 1 / (1 - overlap) ** 2)
            ends = interval(changes[1], changes[0]) + np.array([-off, off])
            matrix += changes[1] * outer if self.sampled else np.multiply.outer(ends, outer)

    def _add_fibres(self, group: FibreGroup, found: FibreAverages, g: Array, bias: Array, matrix: Array | None) -> None:
        place, pairs = same_token(group.entries, self.model.indices)
        scores = _ends(found.score, self.sampled, len(g))
        for a, b in pairs:
            g[:, place[a], place[b]] += scores[:, a, b]
            bias[place[a], place[b]] += found.score.error[a, b] if self.sampled else 0.0
        if matrix is not None and found.change is not None:
            self._add_operator(group, _ends(found.change, self.sampled, len(g)), matrix)

    def _add_operator(self, group: FibreGroup | SampledGroup, operator: Array, matrix: Array) -> None:
        """Add E of products of two entries of dg/domega, over all pairs of tokens."""
        place, pairs = same_token(group.entries, self.model.indices)
        for a, c in pairs:
            for b, d in pairs:
                matrix[:, place[a], place[c], place[b], place[d]] += operator[:, a, b, c, d]

    def _add_sampled(self, group: SampledGroup, q: Array, g: Array, bias: Array, matrix: Array | None) -> None:
        found = group(q, matrix is not None)
        place, pairs = same_token(group.entries, self.model.indices)
        for a, b in pairs:
            value, off = found.product(a, b)
            g[:, place[a], place[b]] += value
            bias[place[a], place[b]] += off
        if matrix is not None:
            self._add_operator(group, found.operator(), matrix)


def _ends(found: Resolved, sampled: bool, count: int) -> Array:
    """Ends of the interval of an average; beside sampled ones, where the error is a bias, its value as often."""
    if sampled:
        return np.broadcast_to(found.value, (count, *found.value.shape))
    return np.array([found.value - found.error, found.value + found.error])


def by_fibres_or_samples(solve: Callable[[bool], Found]) -> Found:
    """What averages by quadrature over fibres give, and by samples if an overlap is met that no rule serves.

    Fibres that rules resolve at small overlaps may be too narrow for them at larger ones.

    Parameters
    ----------
    solve : callable
        Called with `fibres` of the channel.
    """
    try:
        return solve(True)
    except NotServedError:
        return solve(False)
