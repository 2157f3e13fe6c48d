"""How many entries of h an output fixes: what makes Psi_out diverge towards q = I.

For V -> 0 the posterior of h is the prior restricted to {h: g(h) = y}, whose codimension k leaves Z_out the density of
a Gaussian in k dimensions: Psi_out = -(k/2) log V + O(1). Discrete and noisy outputs have k = 0.
"""

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Channel
from ..model.links import LinkKernel
from ..model.network import Network

__all__ = ["generic_rank", "solved_entries"]

Array = NDArray[np.float64]


def solved_entries(channel: Channel) -> float:
    """Mean codimension k of {h: g(h) = y} in the P M entries of h.

    Parameters
    ----------
    channel : Channel
        Its own number (`solved`) counts; where it has none, that of its model.
    """
    if channel.solved is not None:
        return float(channel.solved)
    model = channel.model
    if isinstance(model, Network):
        if model.noise:
            return 0.0
        # Of several layers y fixes the readout row v of the last one up to its sign (163)-(170).
        return float(_of_layer(model) if model.layers == 1 else model.tokens)
    return generic_rank(model)


def _of_layer(layer: Network) -> int:
    """P M less the dimension of the fibre: rotations or scales, and the shift that a softmax does not see."""
    m, r = layer.tokens, layer.ranks[0]
    softmax = layer.activation == "softmax"
    if not layer.tied:
        # Matrices k^T q of rank r, whose rows a softmax sees up to a constant.
        columns = m - 1 if softmax else m
        rank = min(r, columns)
        return rank * (m + columns - rank)
    gram = r * m - r * (r - 1) // 2 if r < m else m * (m + 1) // 2
    return min(gram, m * (m + 1) // 2 - 1) if softmax else gram


def generic_rank(kernel: LinkKernel, rng: int = 0) -> float:
    """Mean rank of the Jacobian of a link over h ~ N(0, I); zero under noise.

    Parameters
    ----------
    kernel : LinkKernel
    rng : int, optional
    """
    if kernel.noise > 0:
        return 0.0
    points, step = 512, 1e-5
    h = np.random.default_rng(rng).standard_normal((points, kernel.indices, kernel.tokens))
    columns = []
    for p in range(kernel.indices):
        for m in range(kernel.tokens):
            moved = np.zeros((kernel.indices, kernel.tokens))
            moved[p, m] = step
            columns.append((kernel.link(h + moved) - kernel.link(h - moved)) / (2 * step))
    # A step across a jump makes a slope of its size over the step, which is none of the link's.
    jacobian = np.stack(columns, axis=2)
    usual = np.abs(jacobian).max(axis=(1, 2)) < 0.01 / step
    values = np.linalg.svd(jacobian[usual], compute_uv=False)
    # Singular values of the Jacobian below this share of the largest are rounding.
    small = 1e-6
    return float((values > small * max(float(np.median(values[:, 0])), 1.0)).sum(axis=1).mean())
