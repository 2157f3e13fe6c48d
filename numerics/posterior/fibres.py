"""Posterior of the indices of one attention layer, by the integral over the fibre of its output.

The output y of one layer fixes its indices up to a fibre: rotations O(r) if tied, the scale of keys against queries if
untied, and a common shift of all tokens where a softmax does not see it.  The shift is Gaussian and integrated in
closed form; rotations and scales by rules that converge exponentially, refined until two agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import ConvergenceError
from ..core.validation import numbers, positive
from ..model.network import Network
from ..model.routes import require
from .fibre_nodes import Nodes, Prior, completed, in_range, tied_rule, untied_rule

__all__ = ["FibreMoments", "fibre_moments"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FibreMoments:
    """Posterior of the indices given the output of one layer, h_m ~ N(omega_m, V) before.

    Attributes
    ----------
    log_z : ndarray, shape (...)
        log Z_out(y; omega, V). Softmax with two tokens: density of (y_12, y_21), as in (182). Softmax with more: of the
        log-ratios log(y_ab/y_aM) that `derive.fibres.fibre` names `coordinates`. Linear: of the entries named there.
    mean : ndarray, shape (..., P, M)
        E[h | y].
    second : ndarray, shape (..., P, M, P, M)
        E[h h^T | y].
    error : ndarray, shape (...)
        Difference of the last two refinements, the largest of: log_z; mean and second moment relative to
        max(1, |E[h h^T | y]|). The refinements converge exponentially, so that it bounds the error.
    """

    log_z: Array
    mean: Array
    second: Array
    error: Array


def fibre_moments(
    layer: Network, y: ArrayLike, omega: ArrayLike | None = None, V: ArrayLike | None = None, *, tol: float = 1e-10
) -> FibreMoments:
    """Return log Z_out and the posterior moments of a layer's indices given its output.

    Parameters
    ----------
    layer : Network
        One layer: tied of rank 1, 2, 3, or untied of rank 1.
    y : array_like, shape (..., M, M)
        Outputs.
    omega : array_like, shape (P, M), optional
        Mean of the indices; default 0.
    V : array_like, shape (P, P), optional
        Their covariance, positive definite; default the identity.
    tol : float
        `FibreMoments.error` to reach, in [1e-13, 1e-2].

    Raises
    ------
    ValueError
        Shapes that do not fit, V that is not positive definite.
    UnreachableOutputError
        An output outside the range of the link, or on its edge.
    KernelNotFoundError
        Another architecture, or a rank for which the fibre is known (`derive.fibres`) but has no rule.
    ConvergenceError
        The largest rule does not reach `tol`: the posterior is too concentrated on the fibre.

    References
    ----------
    troiani2025, (9), (12), (163)-(170); derived in `derive.fibres`.
    """
    require("fibre", layer)
    array = numbers("y", y)
    m, p = layer.tokens, layer.indices
    if array.ndim < 2 or array.shape[-2:] != (m, m):
        raise ValueError(f"y must have shape (..., M, M) = (..., {m}, {m}), got {array.shape}")
    mean = np.zeros((p, m)) if omega is None else numbers("omega", omega)
    covariance = np.eye(p) if V is None else numbers("V", V)
    for name, value, letters, shape in (("omega", mean, "(P, M)", (p, m)), ("V", covariance, "(P, P)", (p, p))):
        if value.shape != shape:
            raise ValueError(f"{name} must have shape {letters} = {shape} (troiani2025 (9)), got shape {value.shape}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite (troiani2025 (9)), got NaN or infinity")
    if not np.allclose(covariance, covariance.T, rtol=1e-12, atol=1e-14):
        off = float(np.abs(covariance - covariance.T).max())
        raise ValueError(f"V must be symmetric (troiani2025 (9)), got |V - V^T| up to {off:.3g}")
    if not (np.linalg.eigvalsh(covariance) > 0).all():
        raise ValueError("V must be positive definite (troiani2025 (9))")
    tol = positive("tol", tol, "(163)-(170)")
    if not 1e-13 <= tol <= 1e-2:
        raise ValueError(f"tol must be in [1e-13, 1e-2], got {tol!r}")
    shape = array.shape[:-2]
    flat = in_range(layer, array.reshape(math.prod(shape), m, m))
    prepare = tied_rule if layer.tied else untied_rule
    prior = Prior(
        mean,
        np.asarray(np.linalg.inv(covariance), dtype=np.float64),
        float(np.linalg.slogdet(covariance)[1]),
    )
    parts = []
    for single in flat:
        rule, log_factor = prepare(layer, single, prior)
        log_z, first, second, error = _refined(rule, prior, tol)
        parts.append((log_z + log_factor, first, second, error))
    return FibreMoments(
        np.array([part[0] for part in parts]).reshape(shape),
        np.array([part[1] for part in parts]).reshape(*shape, p, m),
        np.array([part[2] for part in parts]).reshape(*shape, p, m, p, m),
        np.array([part[3] for part in parts]).reshape(shape),
    )


def _gaussian_sum(nodes: Nodes, prior: Prior) -> tuple[float, Array, Array]:
    """Sum N(h; omega, V) over nodes, the shift n in h = base + shift n 1^T integrated exactly; its two moments."""
    p, m = prior.omega.shape
    exponent, centre, spread = completed(nodes, prior)
    top = exponent.max()
    weight = np.exp(exponent - top)
    total = weight.sum()
    weight /= total
    stacked = centre.reshape(len(weight), p * m)
    second = ((stacked * weight[:, None]).T @ stacked).reshape(p, m, p, m)
    if nodes.shift.shape[-1]:
        second = second + np.einsum("k,kpq->pq", weight, spread)[:, None, :, None]
    return float(top + np.log(total)), np.tensordot(weight, centre, axes=1), second


def _refined(rule: Callable[[int], Nodes | None], prior: Prior, tol: float) -> tuple[float, Array, Array, float]:
    """Evaluate finer and finer rules until two agree to `tol`; a rule that is None ends the attempt."""
    nodes = rule(0)
    assert nodes is not None
    previous = _gaussian_sum(nodes, prior)
    level, error = 0, np.inf
    while True:
        level += 1
        nodes = rule(level)
        if nodes is None:
            raise ConvergenceError(
                f"the integral over the fibre has reached a relative accuracy of {error:.1e} with the largest rule, "
                f"not {tol:.1e} (troiani2025 (163)-(170)); raise tol, or V"
            )
        value = _gaussian_sum(nodes, prior)
        scale = max(1.0, float(np.abs(value[2]).max()))
        error = max(
            abs(value[0] - previous[0]),
            float(np.abs(value[1] - previous[1]).max()) / scale,
            float(np.abs(value[2] - previous[2]).max()) / scale,
        )
        if error <= tol:
            return *value, error
        previous = value
