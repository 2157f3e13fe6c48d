"""Overlaps modulo the symmetries of a link: signs of layers, rotations of their rows, exchanges of indices."""

from collections.abc import Sequence

import numpy as np

from ..model.links import LinkKernel
from ..posterior.protocol import Model
from .blocks import Array
from .permutations import PermutationGroup, signed_permutations

__all__ = ["Symmetry", "symmetry"]


class Symmetry:
    """Orthogonal matrices R such that the indices R h give the outputs of h.

    Parameters
    ----------
    blocks : sequence of sequence of slice
        Rows that turn together: each of the slices by the same rotation of O(r), a sign where r is 1.
    group : PermutationGroup, optional
        Instead: changes of sign and exchanges of indices.
    fixed : sequence of slice, optional
        Rows that stay as they are.
    """

    def __init__(
        self, blocks: list[list[slice]], group: PermutationGroup | None = None, fixed: Sequence[slice] = ()
    ) -> None:
        self._blocks, self._group, self._fixed = blocks, group, fixed

    def rotation(self, overlap: Array) -> Array:
        """The R for which R What has the largest overlap with the teacher, tr(W What^T R^T)/D.

        Parameters
        ----------
        overlap : ndarray, shape (P, P)
            W What^T / D: rows of the teacher, columns of the estimate.
        """
        if self._group is not None:
            return self._group.best(overlap)
        out = np.zeros_like(overlap)
        for rows in self._fixed:
            out[rows, rows] = np.eye(rows.stop - rows.start)
        for together in self._blocks:
            left, _, right = np.linalg.svd(np.sum([overlap[rows, rows] for rows in together], axis=0))
            for rows in together:
                out[rows, rows] = left @ right
        return out

    def align(self, overlap: Array) -> Array:
        """W (R What)^T / D at the best R."""
        return np.asarray(overlap @ self.rotation(overlap).T)


def symmetry(model: Model) -> Symmetry:
    """Return the symmetries of a model's link.

    Notes
    -----
    Tied layers: O(r) each (a sign at rank 1). Untied: a common rotation of the keys and queries of a layer (of all
    (t k, q/t) only these keep the prior). Links: changes of sign and exchanges of indices, such as those of equivalent
    heads, found by trying; no rotations.
    """
    if isinstance(model, LinkKernel):
        return Symmetry([], signed_permutations(model.link, model.indices, model.tokens))
    if model.chain is not None:
        turned = [part for part in model.parts if not model.chain.fixed(part[0][0])]
        rows = [rows.slice for rows in model.chain.rows if model.chain.fixed(rows.slice)]
        return Symmetry([[rows for kind in part for rows in kind] for part in turned], fixed=rows)
    blocks, start = [], 0
    for rank in model.ranks:
        for _ in range(model.heads):
            edges = [start + kind * rank for kind in range(model.kinds)]
            blocks.append([slice(edge, edge + rank) for edge in edges])
            start += rank * model.kinds
    return Symmetry(blocks)
