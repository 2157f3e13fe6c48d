"""Sums over the outputs and omega_L given omega of the hidden layers, for their law of (A, tau) by random nodes.

The law, and the hidden layers' means under it, are moved onto a grid of (A, tau) v; what is left is the sum of two
layers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConvergenceError
from ...model.network import Network
from ...quadrature.rules import normal_qmc
from ..two_layers.nodes import Hidden
from ..two_layers.sums import output_sum, outputs, silent_sum
from .nodes import deposit, push

__all__ = ["GivenOmega", "Resolution"]

Array = NDArray[np.float64]

# The sum of all weights may miss one by so much.
_MASS = 2e-3


class Resolution(NamedTuple):
    """Of the sums over outputs and omega_L.

    Attributes
    ----------
    log_accuracy : float
        What is neglected is exp(-log_accuracy).
    fineness : float
        By so much steps are finer than the Gaussians alone ask for.
    grid : float
        Step of the grid of (A, tau) v over the last indices' standard deviation.
    """

    log_accuracy: float
    fineness: float
    grid: float


class GivenOmega:
    """E |<h_l> - omega_l|^2, or growth rates, of all layers given the hidden layers' omega.

    Parameters
    ----------
    model : Network
        Three or more softmax layers, two tokens, rank 1, c > 0.
    log2_nodes : int
        Nodes of the hidden layers, as a power of two.
    seed : int
        Randomises them.
    keep : bool, optional
        Keep the nodes of each point.
    """

    def __init__(self, model: Network, log2_nodes: int, seed: int, *, keep: bool = True) -> None:
        self._model, self._seed, self._keep = model, seed, keep
        hidden = model.layers - 1
        signs = min(hidden, log2_nodes - 6)
        self._signs = 1 - 2 * (np.arange(1 << signs)[:, None] >> np.arange(hidden) & 1)
        self._log2 = log2_nodes - signs
        self._sets: dict[int, Array] = {}
        # The least T, as of two layers with this skip.
        ratio = (model.skip / (1 + model.skip)) ** hidden
        self._skip = ratio / (1 - ratio)

    def _normals(self, index: int) -> Array:
        """Standard normals of a point's nodes, shape (L - 1, 2, n): both halves are nodes on their own."""
        drawn = self._sets.get(index)
        if drawn is None:
            hidden = self._model.layers - 1
            base = normal_qmc(2 * hidden, self._log2, np.random.default_rng([self._seed, index]))
            drawn = base.reshape(-1, hidden, 2)
            if self._keep:
                self._sets[index] = drawn
        signed = drawn[:, None] * self._signs[None, :, :, None]
        return np.ascontiguousarray(signed.reshape(-1, *signed.shape[2:]).transpose(1, 2, 0))

    def __call__(
        self, overlaps: Array, xi: Array, index: int, resolution: Resolution, *, half: int | None = None
    ) -> Array:
        """Values of all layers at omega_l = sqrt(q_ll) xi_l of the hidden ones.

        Parameters
        ----------
        overlaps : ndarray, shape (L,)
            Diagonal of q.
        xi : ndarray, shape (L - 1, 2)
        index : int
            Of the point: each one has nodes of its own.
        resolution : Resolution
        half : {0, 1}, optional
            Which half of the nodes is taken; all of them by default.

        Raises
        ------
        ConvergenceError
            The nodes do not resolve the posterior.
        """
        zeta = self._normals(index)
        hidden = overlaps[:-1, None]
        moved = np.sqrt(1 - hidden)[:, :, None] * zeta
        where = push((np.sqrt(hidden) * xi)[:, :, None] + moved, self._model.skip, self._model.beta)
        functions = [
            mine if overlap > 0 else np.array([mine[0] ** 2 - 1, mine[0] * mine[1], mine[1] ** 2 - 1])
            for mine, overlap in zip(moved, overlaps, strict=False)
        ]
        middle = zeta.shape[2] // 2
        cut = slice(None) if half is None else (slice(middle), slice(middle, None))[half]
        cut_functions = [f[:, cut] for f in functions]
        return self._sums(np.ascontiguousarray(where[:, cut]), cut_functions, float(overlaps[-1]), resolution)

    def _sums(self, where: Array, functions: list[Array], last: float, resolution: Resolution) -> Array:
        """Sums over outputs and omega_L for nodes of equal weight."""
        sd = math.sqrt(1 - last)
        log_accuracy, fineness, grid = resolution
        law = Hidden(np.full(where.shape[1], 1 / where.shape[1]), *np.zeros((2, where.shape[1])), *where)
        if last == 0:
            silent = [
                silent_sum(law, _three(f), multiplicity, self._skip, log_accuracy, fineness)
                for f, multiplicity in zip(functions, self._multiplicity(functions), strict=True)
            ]
            return self._checked([one.first for one in silent], silent[0].last, silent[0].mass, last)
        out, after, mass = np.zeros(len(functions)), 0.0, 0.0
        v, dv = outputs(law, self._skip, sd, log_accuracy, fineness)
        values = np.concatenate([law.weight[None], law.weight * np.concatenate(functions)])
        # Outputs v within this factor share one grid.
        factor, most_bands = 1.4, 6
        edges = np.searchsorted(v, v[-1] * factor ** np.arange(-most_bands, 1.0), side="right")
        # From the largest outputs, which ask for the finest grid, down; each grid moves on to the next.
        for start, end in reversed(list(zip([0, *edges[:-1]], edges, strict=True))):
            if end == start:
                continue
            where, values = deposit(where, values, grid * sd / float(v[end - 1]))
            weight = values[0]
            nodes = Hidden(weight, *np.zeros((2, len(weight))), *where)
            means = values[1:] / np.where(np.abs(weight) > 1e-300, weight, 1e-300)
            # Densities below this one, over the largest possible, are not resolved by the grid.
            floor = 1e-7 * float(where[1].max()) / (2 * math.pi * (1 - last))
            row = 0
            for layer, multiplicity in enumerate(self._multiplicity(functions)):
                f = means[row : row + len(functions[layer])]
                row += len(f)
                band, accuracy = (v[start:end], dv[start:end]), (log_accuracy, fineness)
                found = output_sum(nodes, _three(f), multiplicity, last, band, accuracy, floor=floor)
                out[layer] += found.first
            after, mass = after + found.last, mass + found.mass
        return self._checked(out, after, mass, last)

    @staticmethod
    def _multiplicity(functions: list[Array]) -> list[tuple[float, float, float]]:
        """Two means of a layer of which something is known, or three second moments."""
        return [(1.0, 1.0, 0.0) if len(f) == 2 else (1.0, 2.0, 1.0) for f in functions]

    def _checked(self, first: ArrayLike, after: float, mass: float, last: float) -> Array:
        if not abs(mass - 1) <= _MASS:
            raise ConvergenceError(
                f"the weights of the averages (95) of {self._model.describe()} sum to {mass:.6g} instead of 1 at "
                f"q_LL = {last:.6g}: raise nodes, or ask for a smaller overlap"
            )
        return np.append(first, after)


def _three(functions: Array) -> tuple[Array, Array, Array]:
    """Three functions of the nodes, the missing ones zero."""
    first, second, third = np.concatenate([functions, np.zeros((3 - len(functions), functions.shape[1]))])
    return first, second, third
