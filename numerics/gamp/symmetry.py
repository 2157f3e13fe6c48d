"""Overlaps modulo what a link does not see: signs of layers, rotations of their rows, exchanges of indices."""

from itertools import accumulate, pairwise, permutations, product

import numpy as np
from numpy.typing import NDArray

from ..fibres import LastLayer
from ..links import LinkKernel
from .outputs import Model

__all__ = ["Symmetry", "symmetry"]

Array = NDArray[np.float64]

# Indices whose signs and orders are all tried, and the random h they are tried on; rounding of the outputs.
_MOST, _PROBES, _EQUAL = 4, 256, 1e-9


class Symmetry:
    """Orthogonal matrices R such that the indices R h give the outputs of h.

    Parameters
    ----------
    blocks : sequence of (slice, bool)
        Rows that turn together: any rotation O(r) if True, a common sign otherwise.
    elements : sequence of ndarray, shape (P, P)
        Instead: all of them, if they are few.
    """

    def __init__(self, blocks: list[tuple[slice, bool]], elements: list[Array] | None = None) -> None:
        self._blocks, self._elements = blocks, elements

    def rotation(self, overlap: Array) -> Array:
        """The R for which R What has the largest overlap with the teacher, tr(W What^T R^T)/D.

        Parameters
        ----------
        overlap : ndarray, shape (P, P)
            W What^T / D: rows of the teacher, columns of the estimate.
        """
        if self._elements is not None:
            return max(self._elements, key=lambda r: float(np.sum(overlap * r)))
        out = np.zeros_like(overlap)
        for rows, turns in self._blocks:
            block = overlap[rows, rows]
            if turns:
                left, _, right = np.linalg.svd(block)
                out[rows, rows] = left @ right
            else:
                out[rows, rows] = np.eye(len(block)) * (-1.0 if np.trace(block) < 0 else 1.0)
        return out

    def align(self, overlap: Array) -> Array:
        """W (R What)^T / D at the best R."""
        return np.asarray(overlap @ self.rotation(overlap).T)


def symmetry(model: Model) -> Symmetry:
    """Return the symmetries of a model's link.

    Notes
    -----
    Tied layers: O(r) each (a sign at rank 1). Untied: a common sign of keys and queries (of all (t k, q/t) only these
    keep the prior). Links: changes of sign and exchanges of up to four indices, found by trying; no rotations.
    """
    if isinstance(model, LinkKernel):
        return Symmetry([], _signed_permutations(model))
    if isinstance(model, LastLayer):
        return Symmetry([(slice(0, model.indices), model.tied)])
    edges = [0, *accumulate(model.ranks)]
    return Symmetry([(slice(a, b), True) for a, b in pairwise(edges)])


def _signed_permutations(kernel: LinkKernel) -> list[Array]:
    p = kernel.indices
    identity = np.eye(p)
    if p > _MOST:
        return [identity]
    h = np.random.default_rng(0).standard_normal((_PROBES, p, kernel.tokens))
    y = kernel.link(h)
    found = []
    for order in permutations(range(p)):
        for signs in product((1.0, -1.0), repeat=p):
            element = np.diag(signs) @ identity[list(order)]
            if np.allclose(kernel.link(element @ h), y, rtol=_EQUAL, atol=_EQUAL):
                found.append(element)
    return found
