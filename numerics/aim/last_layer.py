r"""The last of several layers, where those before it are known: a case of several layers that closes at any width.

y = softmax(beta B h B^T) with B = B_{L-1}, the network matrix of the layers before. For B of full rank y fixes h up to
multiples of v v^T, v = B^{-1} 1, as without B it fixes h up to multiples of 1 1^T. What a sample fixes is thus
K = T (T + 1)/2 - 1 functionals of h whatever B is, so that F = K, and state evolution, thresholds and message passing
of the last layer are those of one layer of softmax: at any width, depth, skip and temperature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.generated.aim_channels import numpy64 as scores

from ..core.errors import KernelNotFoundError
from ..core.validation import numbers
from ..learning.blocks import Array
from .channel_laws import Fixed, Softmax, covariance_of
from .checks import CITE, count
from .entries import pairs, variances
from .results import PredictionErrors

__all__ = ["LastLayer", "unmixed"]


class LastLayer(Fixed):
    """Scores h of the last layer up to multiples of v v^T, as `unmixed` has them of y and B.

    Parameters
    ----------
    tokens : int
        T >= 2.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = count("tokens", tokens, 2, "T")
        self.name = "last layer"
        self.functionals = self.observed = self.tokens * (self.tokens + 1) // 2 - 1

    def observe(self, h: Array) -> Array:
        """Refuse: outputs are those of `layers.deep_outputs`."""
        raise KernelNotFoundError(
            f"outputs of the last layer depend on the layers before ({CITE}, L layers), and so do predictions of them; "
            "deep_outputs has them from the scores of all layers"
        )

    def check(self, y: ArrayLike) -> Array:
        """Refuse what `unmixed` does not give."""
        array = numbers("y", y)
        shape = (self.tokens + 1, self.tokens)
        if array.ndim != 3 or array.shape[1:] != shape or not np.isfinite(array).all():
            raise ValueError(
                f"y must be finite, of shape (n, {shape[0]}, {shape[1]}), as unmixed(y, B) gives it ({CITE}, L "
                f"layers), got {array.shape}"
            )
        return array

    def prepare(self, y: Array) -> Array:
        """Entries a <= b of h and of v v^T, shape (n, 2, P)."""
        v = y[:, -1]
        both = np.stack([y[:, :-1], v[:, :, None] * v[:, None]], axis=1)
        return np.asarray(both[:, :, *pairs(self.tokens)])

    def score(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """[a - u (w.a)/(w.u)]/V with a = Sigma^{-1}(h - omega), u = Sigma^{-1} w, w = v v^T: w is taken out."""
        off, free = seen[:, 0] - omega, seen[:, 1]
        if sigma is None:
            a, u = off / variances(self.tokens), free / variances(self.tokens)
        else:
            both = np.asarray(np.linalg.solve(sigma, np.stack([off, free], axis=2)), np.float64)
            a, u = both[..., 0], both[..., 1]
        sums = ((free * array).sum(axis=1, keepdims=True) for array in (a, u))
        return np.asarray(scores.projected_score(a, u, *sums, V)[0])

    def log_evidence(self, seen: Array, omega: Array, V: float, sigma: Array | None = None) -> Array:
        """Integral of a Gaussian density over the multiples of v v^T, up to a constant."""
        covariance = covariance_of(omega, V, sigma)
        free = seen[:, 1]
        of_free = (free * np.linalg.solve(covariance, free[..., None])[..., 0]).sum(axis=1)
        size = np.linalg.slogdet(covariance)[1] + np.log(of_free)
        off = seen[:, 0] - omega
        return np.asarray(-0.5 * ((off * self.score(seen, omega, V, sigma)).sum(axis=1) + size))

    def predict(self, omega: Array, V: float) -> Array:
        """Refuse, as `observe`."""
        return self.observe(omega)

    def prediction_errors(self, V: float, Q: float) -> PredictionErrors:
        """Refuse: they depend on the law of B."""
        raise KernelNotFoundError(
            f"errors of prediction of the last layer depend on the law of the layers before ({CITE}, L layers); those "
            "of estimation do not"
        )


def unmixed(y: ArrayLike, mixing: ArrayLike, beta: float = 1.0, *, logarithms: bool = False) -> Array:
    """Scores of the last layer from its outputs and the layers before.

    Parameters
    ----------
    y : array_like, shape (n, T, T)
        softmax(beta B h B^T), or its logarithm.
    mixing : array_like, shape (n, T, T)
        B of every sample, of full rank: `layers.network_matrix` of the layers before.
    beta : float
    logarithms : bool, keyword-only
        Whether y holds log y.

    Returns
    -------
    ndarray, shape (n, T + 1, T)
        h + s v v^T with an s of each sample that is not known, and v = B^{-1} 1 in the last row: what `LastLayer`
        takes for outputs.

    Raises
    ------
    ValueError
        Shapes that do not fit; B that is singular to rounding.

    References
    ----------
    boncoraglio2025, L layers.
    """
    matrices = numbers("mixing", mixing)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or not np.isfinite(matrices).all():
        raise ValueError(f"mixing must be finite, of shape (n, T, T) ({CITE}, L layers), got {matrices.shape}")
    tokens = matrices.shape[1]
    output = Softmax(tokens, beta, logarithms=logarithms)
    labels = output.check(y)
    if len(labels) != len(matrices):
        raise ValueError(
            f"y and mixing must have as many samples, got {len(labels)} and {len(matrices)} ({CITE}, L layers)"
        )
    worst = float(np.linalg.cond(matrices).max())
    # Condition number of B up to which rounding of y is not what h is known by.
    singular = 1e8
    if not worst < singular:
        raise ValueError(
            f"mixing must be of full rank ({CITE}, L layers), its condition number is {worst:.1e} in the worst sample; "
            "leave such samples out, of x too"
        )
    rows, columns = pairs(tokens)
    found = np.empty(matrices.shape)
    found[:, rows, columns] = found[:, columns, rows] = output.prepare(labels)
    inverse = np.linalg.inv(matrices)
    scores_of = inverse @ found @ inverse.swapaxes(1, 2)
    free = inverse.sum(axis=2)
    return np.concatenate([0.5 * (scores_of + scores_of.swapaxes(1, 2)), free[:, None]], axis=1)
