"""Cosine similarity of estimated weights with those of a teacher, layer by layer."""

import numpy as np

from ...posterior.protocol import Model
from ..blocks import Array
from ..heads import weight_blocks

__all__ = ["cosines"]


def cosines(model: Model, overlap: Array, self_overlap: Array, teacher_overlap: Array) -> Array:
    """Cosine similarities of layers, of their heads if there are several, or of the indices of a link.

    Parameters
    ----------
    model : Network or LinkKernel
    overlap : ndarray, shape (..., P, P)
        W What^T / D at the best of the link's symmetries, as GAMP and `descend` give it.
    self_overlap, teacher_overlap : ndarray, shape (..., P, P)
        What What^T / D and W W^T / D.

    Returns
    -------
    ndarray, shape (..., layers)
        tr(W_l What_l^T) / (|W_l| |What_l|); 0 where What_l = 0.
    """
    found = []
    for _, rows in weight_blocks(model):
        both, own, truth = (
            np.trace(np.asarray(value)[..., rows, rows], axis1=-2, axis2=-1)
            for value in (overlap, self_overlap, teacher_overlap)
        )
        norms = np.sqrt(own * truth)
        found.append(np.where(norms > 0, both / np.where(norms > 0, norms, 1.0), 0.0))
    return np.stack(found, axis=-1)
