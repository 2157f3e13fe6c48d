"""Posterior of the indices of one attention layer, by the integral over the fibre of its output.

The output y of one layer fixes its indices up to a fibre: rotations O(r) if tied, the scale of keys against queries if
untied, and a common shift of all tokens where a softmax does not see it.  The shift is Gaussian and integrated in
closed form; rotations and scales by rules that converge exponentially, refined until two agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray

from ..core.errors import ConvergenceError, UnreachableOutputError
from ..core.results import Estimate
from ..core.standard_error import standard_error
from ..core.validation import numbers, positive, softmax_rows, whole
from ..model.network import Network
from ..model.routes import require
from ..quadrature.rules import normal_qmc

__all__ = [
    "FibreMoments",
    "conditional_second_moment",
    "fibre_moments",
    "weak_recovery_operator",
    "weak_recovery_threshold",
]

Array = NDArray[np.float64]
# Nodes of an integral: indices (nodes, P, M), direction of the shift (nodes, P, f), log-weights (nodes).
Nodes = tuple[Array, Array, Array]
# omega, the inverse of V, log det V.
Prior = tuple[Array, Array, float]

# y is accepted if the link at the recovered indices reproduces it to this (relative to its scale).
_CONSISTENT = 1e-6
# Most nodes of one rule: about 100 MB of moments.
_MOST_NODES = 300_000


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
    flat = _in_range(layer, array.reshape(math.prod(shape), m, m))
    prepare = _tied if layer.tied else _untied
    prior: Prior = (
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


def conditional_second_moment(
    layer: Network, y: ArrayLike, omega: ArrayLike | None = None, V: ArrayLike | None = None, *, tol: float = 1e-10
) -> Array:
    """Return E[h h^T | y], shape (..., P, M, P, M); arguments and errors are those of `fibre_moments`."""
    return fibre_moments(layer, y, omega, V, tol=tol).second


def _gaussian_sum(nodes: Nodes, prior: Prior) -> tuple[float, Array, Array]:
    """Sum N(h; omega, V) over nodes, the shift n in h = base + shift n 1^T integrated exactly; its two moments."""
    base, shift, log_weight = nodes
    omega, precision, log_det = prior
    p, m = omega.shape
    deviation = base - omega
    pulled = precision @ deviation
    exponent = log_weight - 0.5 * (deviation * pulled).sum(axis=(1, 2)) - 0.5 * m * (log_det + p * np.log(2 * np.pi))
    free = shift.shape[-1]
    centre, spread = base, np.zeros((1, p, p))
    if free:
        # Exponent -n^T A n/2 - g^T n, A = M S^T V^{-1} S.
        curvature = m * (np.swapaxes(shift, 1, 2) @ precision @ shift)
        slope = (np.swapaxes(shift, 1, 2) @ pulled.sum(axis=2)[:, :, None])[:, :, 0]
        inverse = np.linalg.inv(curvature)
        best = -(inverse @ slope[:, :, None])[:, :, 0]
        exponent = exponent - 0.5 * (slope * best).sum(axis=1) - 0.5 * np.linalg.slogdet(curvature)[1]
        exponent = exponent + 0.5 * free * np.log(2 * np.pi)
        centre = base + (shift @ best[:, :, None])
        spread = shift @ inverse @ np.swapaxes(shift, 1, 2)
    top = exponent.max()
    weight = np.exp(exponent - top)
    total = weight.sum()
    weight /= total
    stacked = centre.reshape(len(weight), p * m)
    second = ((stacked * weight[:, None]).T @ stacked).reshape(p, m, p, m)
    if free:
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


def _in_range(layer: Network, y: Array) -> Array:
    if not np.isfinite(y).all():
        raise UnreachableOutputError("y must be finite, got NaN or infinity; see troiani2025 (6)")
    return softmax_rows(y) if layer.activation == "softmax" else y


def _check_link(layer: Network, h: Array, y: Array) -> None:
    off = float(np.abs(layer.link(h) - y).max() / np.abs(y).max())
    if not off <= _CONSISTENT:
        raise UnreachableOutputError(
            f"no indices of rank {layer.rank} give this y: y = sigma(beta k^T q) is violated by {off:.3g} "
            "(troiani2025 (6), (177)); check the activation, beta, the rank and whether the layer is tied"
        )


def _edge(layer: Network) -> UnreachableOutputError:
    return UnreachableOutputError(
        f"y lies on the edge of the link's range: its indices span fewer than the {layer.rank} dimension(s) of a rank-"
        f"{layer.rank} layer with {layer.tokens} tokens, or no indices give it (troiani2025 (177)); such outputs have "
        "probability zero"
    )


def _tied(layer: Network, y: Array, _: Prior) -> tuple[Callable[[int], Nodes | None], float]:
    """One point v of the fibre, and the rule that rotates it."""
    r, m, softmax = layer.indices, layer.tokens, layer.activation == "softmax"
    size = min(r, m - 1 if softmax else m)
    scores = (np.log(y) if softmax else y) / layer.beta
    centred = scores - scores.mean(axis=1, keepdims=True) if softmax else scores
    gram = centred - centred.mean(axis=0) if softmax else centred
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    values, vectors = values[::-1][:size], vectors[:, ::-1][:, :size]
    # Rounding of the logarithms: below this an eigenvalue is noise.
    if values[-1] <= 8 * np.finfo(float).eps * np.abs(scores).max():
        raise _edge(layer)
    point = np.zeros((r, m))
    point[:size] = np.sqrt(values)[:, None] * vectors.T
    free = r - size if softmax else 0
    if softmax:
        # The mean token inside the span of the differences: its products with them are the means of the columns.
        point[:size] += (vectors.T @ centred.mean(axis=0) / np.sqrt(values))[:, None]
    _check_link(layer, point, y)
    pivots = point[:size, :size] - (point[:size, -1:] if softmax else 0.0)
    count = size * (size + 1) // 2 + size * (m - size)
    log_factor = -size * np.log(2) + (r - m - 1) * np.linalg.slogdet(pivots)[1] - count * np.log(layer.beta)
    if softmax and m == 2:
        log_factor -= np.log(y).sum()

    def rule(level: int) -> Nodes | None:
        frames = _frames(r, size, 8 << level)
        if frames is None:
            return None
        turns, log_weight = frames
        return turns @ point, turns[:, :, size : size + free], log_weight

    return rule, float(log_factor)


def _sphere(dimension: int, n: int) -> tuple[Array, Array]:
    """Rotations whose first column runs over the sphere, and weights that sum to its area."""
    if dimension == 1:
        return np.array([[[1.0]], [[-1.0]]]), np.ones(2)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(n, 2, 2)
    if dimension == 2:
        return circle, np.full(n, 2 * np.pi / n)
    height, weight = leggauss(n // 2)
    side = np.sqrt(1 - height**2)
    tilt = np.zeros((n // 2, 3, 3))
    tilt[:, 0, 0], tilt[:, 0, 1], tilt[:, 1, 0], tilt[:, 1, 1], tilt[:, 2, 2] = height, -side, side, height, 1.0
    around = np.zeros((n, 3, 3))
    around[:, 0, 0] = 1.0
    around[:, 1:, 1:] = circle
    both = around[:, None] @ tilt[None]
    return both.reshape(-1, 3, 3), np.tile(weight * 2 * np.pi / n, n)


def _frames(rank: int, columns: int, n: int) -> tuple[Array, Array] | None:
    """Rule on `columns` orthonormal vectors of R^rank, n nodes around each circle; None where it is too large."""
    count = 1
    for column in range(columns):
        count *= {1: 2, 2: n, 3: n * n // 2}[rank - column]
    if count > _MOST_NODES:
        return None
    turns, weights = np.eye(rank)[None], np.ones(1)
    for column in range(columns):
        inner, more = _sphere(rank - column, n)
        block = np.tile(np.eye(rank), (len(inner), 1, 1))
        block[:, column:, column:] = inner
        turns = (turns[:, None] @ block[None]).reshape(-1, rank, rank)
        weights = (weights[:, None] * more).ravel()
    return turns, np.log(weights)


def _untied(layer: Network, y: Array, prior: Prior) -> tuple[Callable[[int], Nodes | None], float]:
    """Keys t a and queries s b/t (plus a shift for softmax): the rule in log|t| and the sign of t."""
    m, softmax = layer.tokens, layer.activation == "softmax"
    scores = (np.log(y) if softmax else y) / layer.beta
    centred = scores - scores.mean(axis=1, keepdims=True) if softmax else scores
    left, values, right = np.linalg.svd(centred)
    strength, a, b = float(values[0]), left[:, 0], right[0]
    if strength <= 8 * np.finfo(float).eps * np.abs(scores).max():
        raise _edge(layer)
    _check_link(layer, np.stack([a, strength * b]), y)
    corner = strength * a[0] * (b[0] - b[-1] if softmax else b[0])
    if corner == 0.0:
        raise _edge(layer)
    # dk_1 = |a_1| dt for softmax and dk_1/|k_1| = dt/|t| for linear outputs.
    log_factor = (np.log(abs(a[0])) if softmax else 0.0) - (m - 1) * np.log(abs(corner))
    log_factor -= (2 * m - 2 if softmax else 2 * m - 1) * np.log(layer.beta)
    if softmax and m == 2:
        log_factor -= np.log(y).sum()

    def nodes(x: Array, step: float) -> Nodes:
        scale = np.exp(x)
        t = np.concatenate([scale, -scale])[:, None]
        base = np.stack([t * a, strength * b / t], axis=1)
        shift = np.zeros((len(t), 2, 1 if softmax else 0))
        shift[:, 1] = 1.0
        return base, shift, np.tile((x if softmax else 0.0 * x) + np.log(step), 2)

    # Outside, exp(-t^2/2) or exp(-(strength/t)^2/2), doubly exponential in x, or for small strengths the measure
    # itself, leaves less than 1e-17.
    wide = np.arange(-60.0, 20.0 + np.log1p(strength), 0.1)
    exponent = _exponents(nodes(wide, 1.0), prior).reshape(2, -1).max(axis=0)
    inside = wide[exponent > exponent.max() - 45]
    lower, upper = inside[0] - 0.2, inside[-1] + 0.2

    def rule(level: int) -> Nodes | None:
        count = 40 << level
        if 2 * count > _MOST_NODES:
            return None
        step = (upper - lower) / count
        return nodes(lower + step * (np.arange(count) + 0.5), step)

    return rule, float(log_factor)


def _exponents(nodes: Nodes, prior: Prior) -> Array:
    """Log of the integrand at every node, up to a constant."""
    base, shift, log_weight = nodes
    omega, precision, _ = prior
    deviation = base - omega
    pulled = precision @ deviation
    exponent = log_weight - 0.5 * (deviation * pulled).sum(axis=(1, 2))
    if shift.shape[-1]:
        slope = (shift[:, :, 0] * pulled.sum(axis=2)).sum(axis=1)
        curvature = omega.shape[1] * np.einsum("kp,pq,kq->k", shift[:, :, 0], precision, shift[:, :, 0])
        exponent = exponent + 0.5 * slope**2 / curvature
    return np.asarray(exponent)


def weak_recovery_operator(
    layer: Network,
    *,
    log2_samples: int = 9,
    replicates: int = 8,
    rng: np.random.Generator | int | None = None,
    tol: float = 1e-8,
) -> Array:
    """Return independent estimates of the operator (15) of one layer, as matrices on P x P matrices.

    ``F(X) = E_y sum_{mm'} G_{mm'} X G_{mm'}^T``, G = E[h h^T | y] - I: the inner moment by the fibre integral, the mean
    over y = g(h), h ~ N(0, I), by randomised quasi-Monte Carlo.

    Parameters
    ----------
    layer : Network
    log2_samples : int
        2**log2_samples outputs per estimate.
    replicates : int
        Number of independent estimates, >= 2.
    rng : numpy.random.Generator, int or None
        Randomises them.
    tol : float
        Accuracy of the inner moments.

    Returns
    -------
    ndarray, shape (replicates, P, P, P, P)
        [k, p, q, p', q']: F(X)_pq = sum F_pqp'q' X_p'q'. Their mean estimates the operator, their scatter its error.

    References
    ----------
    troiani2025, (15).
    """
    whole("log2_samples", log2_samples, 0, "(15)")
    require("fibre", layer)
    # One replicate has no error.
    whole("replicates", replicates, 2, "(15)")
    generator = np.random.default_rng(rng)
    p, m = layer.indices, layer.tokens
    identity = np.einsum("pq,mn->pmqn", np.eye(p), np.eye(m))
    out = []
    for _ in range(replicates):
        h = normal_qmc(p * m, log2_samples, generator).reshape(-1, p, m)
        g = conditional_second_moment(layer, layer.link(h), tol=tol) - identity
        out.append(np.einsum("ypmrn,yqmsn->pqrs", g, g, optimize=True) / len(h))
    return np.array(out)


def weak_recovery_threshold(
    layer: Network,
    *,
    log2_samples: int = 9,
    replicates: int = 8,
    rng: np.random.Generator | int | None = None,
    tol: float = 1e-8,
) -> Estimate:
    """Return alpha_c = 1/(largest eigenvalue of the operator (15)), (16); the error is one standard error.

    Parameters are those of `weak_recovery_operator`.

    Raises
    ------
    ConvergenceError
        The operator is zero within its error.

    References
    ----------
    troiani2025, (15)-(16).
    """
    samples = weak_recovery_operator(layer, log2_samples=log2_samples, replicates=replicates, rng=rng, tol=tol)
    size = layer.indices**2
    norms = np.array([_top_eigenvalue(sample, size) for sample in samples])
    norm = _top_eigenvalue(samples.mean(axis=0), size)
    error = float(standard_error(norms))
    if norm <= 3 * error:
        raise ConvergenceError(f"the operator (15) is {norm:.2g} +- {error:.2g}: no threshold; raise log2_samples")
    return Estimate(1 / norm, error / norm**2, "monte-carlo")


def _top_eigenvalue(operator: Array, size: int) -> float:
    matrix = operator.reshape(size, size)
    # G_{mm'} summed over both tokens makes it symmetric, up to rounding.
    return float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[-1])
