"""Posterior moments of h given the outputs of a link and the prior N(omega, V), for many (y, omega) at once.

Every entry of h but one per output is drawn from the prior, and the link is solved for the others by the branches of
its kernel; each solution weighs prior density over slope. Which entries are solved for varies, and a partition of unity
p ~ (slopes times standard deviations)^4 adds up the choices: where a slope vanishes another one counts. The nodes scale
with the prior, so a narrow one is resolved as a wide one is. Noise is one more entry of every
output, in which y is linear.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...channel.link.scalar import interval_posterior
from ...model.links import LinkKernel, Part
from .cells import Cell, Nodes
from .quadrature import Piece
from .sections import within

__all__ = ["Group", "Sums"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sums:
    """Posterior sums of 1, h - omega and its products, from each half of the nodes.

    Attributes
    ----------
    zero : ndarray, shape (n, 2)
    first : ndarray, shape (n, 2, k)
    second : ndarray, shape (n, 2, k, k), or None
    squares : ndarray, shape (n,)
        Sum of squared weights; zero where the sums are exact.
    """

    zero: Array
    first: Array
    second: Array | None
    squares: Array


class Group:
    """Outputs whose entries of h the prior or the link couples.

    Parameters
    ----------
    kernel : LinkKernel
    parts : sequence of Part
        Of this kernel, or of the same link without noise.
    anywhere : bool, optional
        Of its cells.

    Raises
    ------
    NotServedError
        Without noise: outputs that cannot be solved one after the other.
    """

    def __init__(self, kernel: LinkKernel, parts: Sequence[Part], *, anywhere: bool = False) -> None:
        self.kernel = kernel
        self.sigma = math.sqrt(kernel.noise)
        every = product(*(part.regions for part in parts))
        self.cells = [Cell(kernel, parts, regions, anywhere=anywhere) for regions in every]
        self.entries = self.cells[0].entries
        self.outputs = len(self.cells[0].outputs)
        kinds: list[list[int]] = []
        for index, cell in enumerate(self.cells):
            for kind in kinds:
                if self.sigma > 0 or cell.same_label(self.cells[kind[0]]):
                    kind.append(index)
                    break
            else:
                kinds.append([index])
        if kernel.label_noise is not None:
            # Those of the labels, in their order; regions that are empty may seem to give others.
            number = kernel.label_noise.number(np.array([self.cells[kind[0]].label for kind in kinds], dtype=float))
            kinds = [kinds[k] for k in np.argsort(number, kind="stable") if number[k] >= 0]
        self.kinds = kinds

    def link(self, h: Array) -> tuple[Array, NDArray[np.int64]]:
        """Outputs without noise, and the kind of each row of entries (n, k); -1 on a boundary of regions."""
        y = np.zeros((len(h), self.outputs))
        kind = np.full(len(h), -1)
        values = {e: h[:, i] for i, e in enumerate(self.entries)}
        for number, members in enumerate(self.kinds):
            for index in members:
                cell = self.cells[index]
                here = np.broadcast_to(cell.inside(values), kind.shape) & (kind < 0)
                kind[here] = number
                some = {e: v[here] for e, v in values.items()}
                for k in range(self.outputs):
                    y[here, k] = cell.value(k, some)
        return y, kind

    @property
    def random(self) -> int:
        """Number of random variables in the noise of its outputs."""
        return self.outputs if self.sigma > 0 else int(self.kernel.label_noise is not None)

    def observed(self, y: Array, kind: NDArray[np.int64], normals: Array) -> tuple[Array, NDArray[np.int64]]:
        """Outputs with their noise and their kinds, from standard normal variables of shape (n, `random`)."""
        if self.kernel.label_noise is not None:
            return y, self.kernel.label_noise.replaced(kind, normals[:, 0])
        return (y + self.sigma * normals if self.sigma > 0 else y), kind

    def dimension(self, kind: int) -> int:
        """Entries drawn from the prior, for outputs of this kind."""
        return len(self.entries) - (0 if self.sigma > 0 else len(self.cells[self.kinds[kind][0]].moving))

    def discrete(self, kind: int) -> bool:
        """Whether outputs of this kind have, without noise, one value on each of its cells."""
        return not any(cell.moving for cell, _ in self.cells_of(kind))

    def cells_of(self, kind: int) -> Iterator[tuple[Cell, float]]:
        """Cells from which outputs of a kind, or that are seen as this label, come, with the probability of that."""
        noise = self.kernel.label_noise
        for own, members in enumerate(self.kinds):
            share = float(own == kind) if noise is None else float(noise.matrix[kind][own])
            if share > 0:
                yield from ((self.cells[index], share) for index in members)

    def posterior(self, kind: int, y: Array, omega: Array, cov: Array, nodes: Nodes, second: bool) -> Sums:
        """Posterior sums of outputs of one kind, or that are seen as this label.

        Parameters
        ----------
        kind : int
        y : ndarray, shape (n, outputs)
        omega : ndarray, shape (n, k)
        cov : ndarray, shape (k, k)
            Of the prior.
        nodes : Nodes
        second : bool
            Whether second moments are wanted.
        """
        if self.kernel.label_noise is None:
            return self._of_kind(kind, y, omega, cov, nodes, second)
        share = self.kernel.label_noise.matrix[kind]
        found = [self._of_kind(own, y, omega, cov, nodes, second) for own in range(len(self.kinds))]
        zero, first = (
            np.tensordot(share, np.array(values), 1)
            for values in ([sums.zero for sums in found], [sums.first for sums in found])
        )
        products = [sums.second for sums in found if sums.second is not None]
        squares = np.tensordot(share**2, np.array([sums.squares for sums in found]), 1)
        return Sums(zero, first, np.tensordot(share, np.array(products), 1) if products else None, squares)

    def _of_kind(self, kind: int, y: Array, omega: Array, cov: Array, nodes: Nodes, second: bool) -> Sums:
        """Posterior sums of outputs of one kind without label noise."""
        k, n = len(self.entries), len(y)
        zero, first, squares = np.zeros((n, 2)), np.zeros((n, 2, k)), np.zeros(n)
        products = np.zeros((n, 2, k, k)) if second else None
        diagonal = not np.abs(cov - np.diag(cov.diagonal())).any()
        chunk = 200_000
        step = max(1, chunk // len(nodes.x))
        for begin in range(0, n, step):
            part = slice(begin, begin + step)
            for index in self.kinds[kind]:
                cell = self.cells[index]
                if self.sigma == 0 and not cell.moving and cell.plain and diagonal:
                    self._box(
                        cell, omega[part], cov, zero[part], first[part], None if products is None else products[part]
                    )
                    continue
                for weight, shift in self._weighted(cell, y[part], omega[part], cov, nodes):
                    halves = weight.reshape(len(weight), 2, -1)
                    zero[part] += halves.sum(axis=2)
                    # Without entries to draw, the sums are exact.
                    squares[part] += (weight**2).sum(axis=1) if nodes.x.shape[1] else 0.0
                    for i in range(k):
                        own = halves * shift[i].reshape(halves.shape)
                        first[part, :, i] += own.sum(axis=2)
                        if products is None:
                            continue
                        for j in range(i + 1):
                            value = (own * shift[j].reshape(halves.shape)).sum(axis=2)
                            products[part, :, i, j] += value
                            if i != j:
                                products[part, :, j, i] += value
        return Sums(zero, first, products, squares)

    def _box(self, cell: Cell, omega: Array, cov: Array, zero: Array, first: Array, products: Array | None) -> None:
        """Closed form: independent entries within bounds."""
        each = []
        for i, e in enumerate(self.entries):
            low, high = cell.bounds.get(e, (-math.inf, math.inf))
            each.append(interval_posterior(np.array(low), np.array(high), omega[:, i], math.sqrt(cov[i, i])))
        mass = np.prod([m[0] for m in each], axis=0)
        safe = [np.maximum(m[0], 1e-300) for m in each]
        mean = np.stack([m[1] / s for m, s in zip(each, safe, strict=True)], axis=1)
        zero += 0.5 * mass[:, None]
        first += 0.5 * (mass[:, None] * mean)[:, None, :]
        if products is not None:
            square = mean[:, :, None] * mean[:, None, :]
            for i, (m, s) in enumerate(zip(each, safe, strict=True)):
                square[:, i, i] = m[2] / s
            products += 0.5 * (mass[:, None, None] * square)[:, None]

    def _weighted(
        self, cell: Cell, y: Array, omega: Array, cov: Array, nodes: Nodes
    ) -> "list[tuple[Array, list[Array]]]":
        """Weights (n, nodes) and h - omega of each entry, for each way to place nodes on the level set."""
        with np.errstate(all="ignore"):
            if self.sigma == 0 and not cell.moving:
                return [self._bounded(cell, omega, cov, nodes)]
            return [found for choice in cell.choices for found in self.level(cell, choice, y, omega, cov, nodes)]

    def _bounded(self, cell: Cell, omega: Array, cov: Array, nodes: Nodes) -> tuple[Array, list[Array]]:
        """Entries within their bounds one after the other, each given those before it."""
        root = np.linalg.cholesky(cov)
        shape = (len(omega), len(nodes.x))
        weight = np.broadcast_to(nodes.weight, shape).copy()
        drawn: list[Array] = []
        shift: list[Array] = []
        for i, e in enumerate(self.entries):
            mean = sum((root[i, j] * drawn[j] for j in range(i)), np.zeros(shape))
            low, high = cell.bounds.get(e, (-math.inf, math.inf))
            if math.isinf(low) and math.isinf(high):
                u = np.broadcast_to(nodes.x[:, i], shape)
            else:
                a, b = ((end - omega[:, i, None] - mean) / root[i, i] for end in (low, high))
                share, u = within(a, b, nodes.x[:, i])
                weight *= share
            drawn.append(u)
            shift.append(mean + root[i, i] * u)
        values = {e: omega[:, i, None] + shift[i] for i, e in enumerate(self.entries)}
        # The bounds hold by construction, up to rounding.
        ok: Bools = np.asarray(True)
        for region in cell.regions:
            for condition in region.conditions(cell.fill(values)) if region.conditions is not None else ():
                ok = ok & (np.asarray(condition) > 0)
        return np.where(ok, weight, 0.0), shift

    def level(
        self,
        cell: Cell,
        choice: Sequence[tuple[int, int, Piece]],
        y: Array,
        omega: Array,
        cov: Array,
        nodes: Nodes,
    ) -> "list[tuple[Array, list[Array]]]":
        """Nodes on the level set, by solving for the entries of one choice, and for the noise of the other outputs."""
        place = {e: i for i, e in enumerate(self.entries)}
        unknown = [place[e] for _, e, _ in choice]
        drawn = [i for i in range(len(self.entries)) if i not in unknown]
        others = [
            number for number in range(self.outputs) if self.sigma > 0 and number not in [n for n, _, _ in choice]
        ]
        if self.sigma > 0:
            # The last coordinates are the noise of the outputs that are solved for entries.
            target = {n: y[:, n, None] - self.sigma * nodes.x[:, -1 - c] for c, (n, _, _) in enumerate(choice)}
        else:
            target = {n: y[:, n, None] for n, _, _ in choice}
        normals = nodes.x[:, : len(drawn)]
        root = np.linalg.cholesky(cov[np.ix_(drawn, drawn)])
        back = np.linalg.solve(root, cov[np.ix_(drawn, unknown)])
        inner = np.linalg.cholesky(cov[np.ix_(unknown, unknown)] - back.T @ back)
        shape = (len(y), len(nodes.x))
        moved = normals @ root.T
        mean = normals @ back
        start = {self.entries[i]: omega[:, i, None] + moved[:, column] for column, i in enumerate(drawn)}
        found = []
        for numbers in product(*(range(piece.branch_count) for _, _, piece in choice)):
            values, ok = dict(start), np.ones(shape, dtype=bool)
            for (number, entry, piece), branch in zip(choice, numbers, strict=True):
                z, good = piece.branch(np.broadcast_to(target[number], shape), values, branch)
                values[entry] = z
                ok &= good
            if not ok.any():
                continue
            ok &= cell.inside(values)
            jacobian = np.full(shape, self.sigma ** len(others))
            for number, entry, _ in choice:
                jacobian = jacobian * cell.slope(number, entry, values)
            share = self._share(cell, choice, values, cov, jacobian)
            gap = [values[self.entries[i]] - omega[:, i, None] - mean[:, c] for c, i in enumerate(unknown)]
            # Forward substitution: the unknown entries given those drawn.
            exponent = np.zeros(shape)
            for number in others:
                exponent = exponent - 0.5 * ((y[:, number, None] - cell.value(number, values)) / self.sigma) ** 2
            scaled: list[Array] = []
            for i, own in enumerate(gap):
                scaled.append((own - sum((inner[i, j] * scaled[j] for j in range(i)), np.zeros(1))) / inner[i, i])
                exponent = exponent - 0.5 * scaled[i] ** 2
            weight = nodes.weight * np.exp(exponent) / math.prod(inner.diagonal(), start=1.0) * share / jacobian
            shift = [np.zeros(0)] * len(self.entries)
            for column, i in enumerate(drawn):
                shift[i] = np.broadcast_to(moved[:, column], shape)
            for i in unknown:
                shift[i] = np.where(ok, values[self.entries[i]] - omega[:, i, None], 0.0)
            found.append((np.where(ok & (jacobian > 0) & np.isfinite(weight), weight, 0.0), shift))
        return found

    def _share(
        self,
        cell: Cell,
        choice: Sequence[tuple[int, int, Piece]],
        values: dict[int, Array],
        cov: Array,
        jacobian: Array,
    ) -> Array:
        """Partition of unity over the choices of unknown entries, by fourth powers of their Jacobians."""
        if len(cell.choices) == 1:
            return np.ones(jacobian.shape)
        scale = {e: math.sqrt(cov[i, i]) for i, e in enumerate(self.entries)}
        total, mine = np.zeros(jacobian.shape), np.zeros(jacobian.shape)
        for other in cell.choices:
            size = np.full(jacobian.shape, self.sigma ** (self.outputs - len(other)) if self.sigma > 0 else 1.0)
            for number, entry, _ in other:
                size = size * cell.slope(number, entry, values) * scale[entry]
            square = size * size
            power = square * square
            total = total + power
            if other is choice:
                mine = power
        return np.asarray(mine / total)
