"""Moments of the indices given their output alone, E[h | y] and Cov[h | y], for unknown weights.

The indices fall into groups that the posterior does not couple: by parity the layers of tied attention, and by rotation
the rows of one layer, which are alike.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import kve

from ...posterior.data.branches import BranchedPosterior
from ...posterior.data.chart import ChartedPosterior
from ...posterior.data.deep import DeepPosterior
from ...posterior.data.deep_pair import DeepPairPosterior
from ...posterior.data.fibre import TiedPosterior, UntiedPosterior
from ...posterior.data.link import LinkPosterior
from ...posterior.data.readout import ReadoutPosterior
from ...posterior.denoiser import denoise_readout
from ...posterior.protocol import Model, Posterior
from ..blocks import Array

__all__ = ["Group", "groups", "prior_moments"]


@dataclass(frozen=True)
class Group:
    """Indices that the posterior couples, and how often.

    Attributes
    ----------
    rows : slice
        Rows of W.
    width : int
        How many of them are coupled: all, or 1 where every row stands for itself and all are alike.
    """

    rows: slice
    width: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.rows.stop - self.rows.start)


def groups(model: Model) -> list[Group]:
    """Return the groups of a model's indices."""
    if model.coupled:
        return [Group(slice(0, model.indices), model.indices)]
    return [Group(rows, 1) for _, rows in model.blocks]


def prior_moments(model: Model, output: Posterior) -> tuple[Array, list[Array]]:
    """Return E[h | y] of all indices and Cov[h | y] of each group at omega = 0, V = I.

    Parameters
    ----------
    model : Network or LinkKernel
    output : Posterior
        `posterior` of the outputs.

    Returns
    -------
    mean : ndarray, shape (n, P, M)
    covariances : list of ndarray, shape (n, w M, w M)
        One per group of width w, over its indices and tokens, index by index.

    References
    ----------
    troiani2025, (12), (15), (163)-(170).
    """
    n, m = output.rows, model.tokens
    mean = np.zeros((n, model.indices, m))
    if isinstance(output, ReadoutPosterior):
        p = model.indices
        slopes = denoise_readout(output.model, output.readout, np.zeros((p, m)), np.eye(p), tol=1e-6).dg_out
        return mean, [slopes[:, a, :, a] + np.eye(m) for a in range(p)]
    if isinstance(output, TiedPosterior):
        return mean, [_tied(output)]
    if isinstance(output, UntiedPosterior):
        return mean, [_untied(output)]
    if isinstance(output, LinkPosterior):
        mean, covariance = output.prior_moments()
        return mean, [covariance.reshape(n, model.indices * m, -1)]
    if isinstance(output, ChartedPosterior | BranchedPosterior):
        return mean, [_of_group(output.prior_moments(), group) for group in groups(model)]
    assert isinstance(output, DeepPosterior | DeepPairPosterior)
    seconds = output.prior_moments()
    return mean, [seconds[:, layer] for layer in range(model.indices)]


def _of_group(second: Array, group: Group) -> Array:
    """E[h h^T | y] of a group from that of all indices, shape (n, P, M, P, M): the mean of rows that are alike."""
    n, _, m = second.shape[:3]
    if group.width > 1:
        return second[:, group.rows, :, group.rows].reshape(n, group.width * m, -1)
    return np.asarray(np.einsum("npapb->nab", second[:, group.rows, :, group.rows]) / group.count)


def _tied(output: TiedPosterior) -> Array:
    """E[h_1^T h_1 | y] of one of r rows that rotations exchange: the Gram matrix of a point of the fibre, over r.

    Where softmax leaves a shift of all tokens free, orthogonal to their differences, it has the variance 1/M in each of
    its r - M + 1 directions.
    """
    layer, points = output.layer, output.points
    m, r = layer.tokens, layer.indices
    gram = np.swapaxes(points, 1, 2) @ points
    if output.shifted:
        gram = gram + (r - m + 1) / m
    return np.asarray(gram / r)


def _untied(output: UntiedPosterior) -> Array:
    """Keys t a and queries b/t (plus a shift of variance 1/M that a softmax does not see).

    u = t^2 has the density u^{nu - 1} exp(-(|a|^2 u + |b|^2/u)/2), nu = 1/2 for softmax and 0 for linear outputs, whose
    moments are ratios of Bessel functions K.
    """
    layer, (a, b) = output.layer, np.swapaxes(output.points, 0, 1)
    n, m = a.shape
    softmax = layer.activation == "softmax"
    order = 0.5 if softmax else 0.0
    alpha, beta = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    z = alpha * beta
    up = beta / alpha * kve(order + 1, z) / kve(order, z)
    down = alpha / beta * kve(order - 1, z) / kve(order, z)
    out = np.zeros((n, 2, m, 2, m))
    out[:, 0, :, 0] = up[:, None, None] * a[:, :, None] * a[:, None, :]
    out[:, 1, :, 1] = down[:, None, None] * b[:, :, None] * b[:, None, :]
    if softmax:
        out[:, 1, :, 1] += 1 / m
    out[:, 0, :, 1] = a[:, :, None] * b[:, None, :]
    out[:, 1, :, 0] = np.swapaxes(out[:, 0, :, 1], 1, 2)
    return out.reshape(n, 2 * m, 2 * m)
