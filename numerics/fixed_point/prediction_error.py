"""Errors of predicting a new output at overlap q: Bayes-optimal (11) and plug-in."""

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import matrix_root
from ..core.results import Estimate
from ..core.standard_error import standard_error
from ..posterior.protocol import Model
from ..quadrature.rules import normal_qmc

__all__ = ["prediction_errors"]

Array = NDArray[np.float64]

_REPLICAS = 16
_LOG2_N = 12


def prediction_errors(
    model: Model,
    q: Array,
    q_error: Array | None = None,
    *,
    rng: np.random.Generator | int | None = 0,
    both_ends: bool = False,
) -> tuple[Estimate, Estimate]:
    """Mean squared error of the posterior mean and of the plug-in prediction.

    Bayes-optimal: E || g(h) - E[g(h) | omega] ||^2 = E || g(h) - g(h') ||^2 / 2 with h, h' independent given omega.
    Plug-in: E || g(h) - g(omega) ||^2. Here omega = q^{1/2} xi, h = omega + (I - q)^{1/2} z.

    Parameters
    ----------
    model : Network or LinkKernel
    q : ndarray, shape (P, P)
        Overlap, 0 <= q <= I.
    q_error : ndarray, shape (P, P), optional
        Its standard error; carried to the results through the change of the errors over q +- q_error.
    rng : Generator, int or None, optional
    both_ends : bool, optional
        Whether the change is that to the further end; the lower one is as good where the error is small.

    Returns
    -------
    posterior_mean, plugin : Estimate

    References
    ----------
    troiani2025, (11); the published code evaluates the plug-in error.
    """
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    p, m = model.indices, model.tokens
    points = [normal_qmc(3 * p * m, _LOG2_N, s).reshape(-1, 3, p, m) for s in generator.spawn(_REPLICAS)]
    values = np.array([_errors(model, q, x) for x in points])
    mean, sigma = values.mean(axis=0), standard_error(values)
    if q_error is not None and q_error.any():
        shifts = []
        for sign in (-1, 1) if both_ends else (-1,):
            end = np.clip(q.diagonal() + sign * q_error.diagonal(), 0, 1)
            moved = q + np.diag(end - q.diagonal())
            shifts.append(np.abs(_errors(model, moved, points[0]) - values[0]))
        shift = np.max(shifts, axis=0)
        sigma = np.hypot(sigma, shift)
    return (
        Estimate(float(mean[0]), float(sigma[0]), "monte-carlo"),
        Estimate(float(mean[1]), float(sigma[1]), "monte-carlo"),
    )


def _errors(model: Model, q: Array, normals: Array) -> Array:
    omega = _times(matrix_root(q), normals[:, 0])
    spread = matrix_root(np.eye(len(q)) - q)
    first = model.link(omega + _times(spread, normals[:, 1]))
    second = model.link(omega + _times(spread, normals[:, 2]))
    plug = model.link(omega)
    entries = tuple(range(1, plug.ndim))
    squares = [
        0.5 * ((first - second) ** 2).sum(axis=entries),
        0.5 * (((first - plug) ** 2).sum(axis=entries) + ((second - plug) ** 2).sum(axis=entries)),
    ]
    return np.array([s.mean() for s in squares])


def _times(matrix: Array, vectors: Array) -> Array:
    """Product with each of many vectors; a diagonal matrix only scales them."""
    scales = matrix.diagonal()
    if np.array_equal(matrix, np.diag(scales)):
        return np.asarray(scales[:, None] * vectors)
    return np.asarray(matrix @ vectors)
