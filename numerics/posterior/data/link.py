"""Outputs of a link of the user's own: posterior sums over the entries of h that it or the prior couples."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...core.results import How
from ...core.typing import Array
from ...model.links import LinkKernel, Part
from ..link.cells import Nodes
from ..link.coupled import Coupled, coupled_parts
from ..link.moments import Group
from ..protocol import Settings

__all__ = ["LinkPosterior"]

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


def _coupled(kernel: LinkKernel) -> list[list[Part]]:
    """Parts whose indices meet in a token of some part: what V couples for good, and not by chance."""
    p = kernel.indices
    linked = np.eye(p, dtype=bool)
    for part in kernel.parts:
        for a in part.entries:
            for b in part.entries:
                linked[a % p, b % p] |= a // p == b // p
    for _ in range(p):
        linked = (linked.astype(int) @ linked) > 0
    return coupled_parts(kernel, linked)


class LinkPosterior:
    """Outputs y = g(h) of a link, with or without noise.

    Parameters
    ----------
    kernel : LinkKernel
    y : ndarray, shape (n, K)
    settings : Settings
        Nodes are those over several entries of h.
    """

    how: How = "monte-carlo"

    def __init__(self, kernel: LinkKernel, y: Array, settings: Settings) -> None:
        self.rows = len(y)
        self._kernel = kernel
        self._parts: list[_Coupled] = []
        # Nodes over several entries.
        usual = 256
        for parts in _coupled(kernel):
            self._parts.append(_Coupled(Group(kernel, parts), parts, y, settings.nodes or usual, settings.rng))
        # Rules along one entry are exact enough; the error of random nodes is common to all samples and adds up.
        self._slopes = all(nodes.x.shape[1] <= 1 for coupled in self._parts for nodes in coupled.nodes)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        g, curvature = np.zeros_like(omega), np.zeros_like(V)
        for coupled in self._parts:
            coupled.add(omega, V, part, g, curvature if self._slopes else None)
        return g, curvature if self._slopes else None

    def prior_moments(self) -> tuple[Array, Array]:
        """E[h | y] and Cov[h | y] of every output at omega = 0, V = I, shapes (n, P, M) and (n, P, M, P, M)."""
        p, m = self._kernel.indices, self._kernel.tokens
        mean = np.zeros((self.rows, p, m))
        identity = np.einsum("ab,mn->ambn", np.eye(p), np.eye(m))
        covariance = np.tile(identity, (self.rows, 1, 1, 1, 1))
        for coupled in self._parts:
            coupled.fill(mean, covariance)
        return mean, covariance


class _Coupled(Coupled):
    """Outputs of a data set, and which kind each of the samples is of."""

    def __init__(self, group: Group, parts: list[Part], y: Array, nodes: int, rng: np.random.Generator) -> None:
        super().__init__(group, parts)
        self.y = np.ascontiguousarray(y[:, self.numbers])
        self.kind = self.kinds(y, "Y")
        # Nodes along one entry.
        least = 96
        self.nodes = [
            Nodes.make(d, max(nodes, least) if d == 1 else nodes, stream)
            for d, stream in ((group.dimension(k), stream) for k, stream in enumerate(rng.spawn(len(group.kinds))))
        ]

    def add(self, omega: Array, V: Array, part: slice, g: Array, curvature: Array | None) -> None:
        """Add the scores of these entries, and their slopes if they are wanted."""
        token, place, cov = self.token, self.place, self.covariance(V)
        precision = np.asarray(np.linalg.inv(cov), np.float64)
        for rows, shift, second in self._moments(omega[:, place, token], cov, part, curvature is not None):
            g[rows[:, None], place, token] += shift @ precision
            if curvature is None or second is None:
                continue
            # Summed over samples first: dg = V^{-1} Cov[h | y] V^{-1} - V^{-1}.
            spread = (second - shift[:, :, None] * shift[:, None, :]).sum(axis=0)
            slope = len(rows) * precision - precision @ spread @ precision
            np.add.at(curvature, np.ix_(place, place), np.where(np.equal.outer(token, token), slope, 0.0))

    def fill(self, mean: Array, covariance: Array) -> None:
        """Write E[h | y] and Cov[h | y] of these entries at omega = 0, V = I; shapes (n, P, M) and (n, P, M, P, M)."""
        token, place, cov = self.token, self.place, np.eye(len(self.place))
        start = np.zeros((len(mean), len(place)))
        for rows, shift, second in self._moments(start, cov, slice(0, len(mean)), True):
            assert second is not None
            mean[rows[:, None], place, token] = shift
            at = rows[:, None, None], place[:, None], token[:, None], place, token
            covariance[at] = second - shift[:, :, None] * shift[:, None, :]

    def _moments(
        self, mean: Array, cov: Array, part: slice, second: bool
    ) -> Iterator[tuple[Integers, Array, Array | None]]:
        """Rows of each kind of output, E[h | y] - mean, and E[(h - mean)(h - mean)^T | y] if it is wanted."""
        kind, y = self.kind[part], self.y[part]
        for k, nodes in enumerate(self.nodes):
            rows = np.flatnonzero(kind == k)
            if not len(rows):
                continue
            sums = self.group.posterior(k, y[rows], mean[rows], cov, nodes, second)
            mass = sums.zero.sum(axis=1)
            lost = ~(np.isfinite(mass) & (mass > 1e-280))
            if lost.any():
                row = int(rows[lost.argmax()])
                raise ConvergenceError(
                    f"the posterior (12) of {int(lost.sum())} of {len(rows)} outputs meets no node, the first is "
                    f"{y[row].tolist()}: no h near omega = {mean[row].tolist()} gives it; check that Y is an output of "
                    "this link, or raise nodes"
                )
            products = None if sums.second is None else sums.second.sum(axis=1) / mass[:, None, None]
            yield rows, sums.first.sum(axis=1) / mass[:, None], products
