"""Algorithm 1 as message passing on flattened inputs with non-separable functions: (68)-(72)."""

import numpy as np
from numpy.typing import NDArray

from attnlimits.derive.registry import CheckOutcome

from .tools import numeric

Array = NDArray[np.float64]

_INDICES, _TOKENS, _DIMENSION, _SAMPLES = 2, 3, 7, 9


def _denoiser(omega: Array, labels: Array, variance: Array) -> tuple[Array, Array]:
    """Evaluate a smooth stand-in for g_out (P, M) that couples tokens and indices, and its derivative (P, M, P, M)."""
    mixed = np.linalg.solve(np.eye(_INDICES) + variance, omega)
    total = mixed.sum()
    g = 0.3 * np.tanh(labels - mixed) + 0.1 * np.cos(total)
    precision = np.linalg.inv(np.eye(_INDICES) + variance)
    slope = -0.3 / np.cosh(labels - mixed) ** 2
    derivative = np.einsum("pm,pq,mk->pmqk", slope, precision, np.eye(_TOKENS))
    derivative += -0.1 * np.sin(total) * precision.sum(axis=0)[None, None, :, None]
    return g, derivative


def _algorithm(inputs: Array, labels: Array, start: Array) -> list[Array]:
    """Estimates (P, D) of Algorithm 1, in the paper's own terms."""
    scale = 1.0 / np.sqrt(_DIMENSION)
    estimate, spread = start, np.eye(_INDICES)
    g = np.zeros((_SAMPLES, _INDICES, _TOKENS))
    history = []
    steps = 5
    for _ in range(steps):
        omega = scale * np.einsum("pi,nim->npm", estimate, inputs) - np.einsum("pq,nqm->npm", spread, g)
        found = [_denoiser(omega[n], labels[n], spread) for n in range(_SAMPLES)]
        g = np.stack([value for value, _ in found])
        coupling = -sum(np.einsum("pmqm->pq", d) for _, d in found) / _DIMENSION
        field = scale * np.einsum("npm,nim->pi", g, inputs) + coupling @ estimate
        spread = np.linalg.inv(np.eye(_INDICES) + coupling)
        estimate = spread @ field
        history.append(estimate)
    return history


def _vec(value: Array) -> Array:
    return value.T.reshape(-1)


def _diagonal_blocks(field: Array) -> Array:
    """Sum over tokens m of the block (m, m) of a field of shape (M D, M P): the average of (72), shape (D, P)."""
    blocks = field.reshape(_TOKENS, _DIMENSION, _TOKENS, _INDICES)
    return np.asarray(np.einsum("mimp->ip", blocks))


def _weights(field: Array, coupling: Array) -> Array:
    """Weight function (71): one estimate copied on the diagonal blocks, shape (M D, M P)."""
    estimate = _diagonal_blocks(field) @ np.linalg.inv(np.eye(_INDICES) + coupling).T
    return np.asarray(np.kron(np.eye(_TOKENS), estimate), dtype=np.float64)


def _onsager(field: Array, coupling: Array) -> Array:
    """Divergence of the weight function (68), row by row of b; it is linear, so unit steps differentiate it exactly."""
    base = _weights(field, coupling)
    total = np.zeros((_TOKENS * _INDICES, _TOKENS * _INDICES))
    for row in range(_TOKENS * _DIMENSION):
        for column in range(_TOKENS * _INDICES):
            moved = field.copy()
            moved[row, column] += 1.0
            total[:, column] += (_weights(moved, coupling) - base)[row]
    return total / _DIMENSION


def check_68() -> CheckOutcome:
    """Run both forms from one start: the flattened iteration copies the estimates of Algorithm 1 at every step."""
    rng = np.random.default_rng(68)
    inputs = rng.standard_normal((_SAMPLES, _DIMENSION, _TOKENS))
    labels = rng.standard_normal((_SAMPLES, _INDICES, _TOKENS))
    start = rng.standard_normal((_INDICES, _DIMENSION))
    flat = np.stack([x.T.reshape(-1) for x in inputs])  # rows: flattened inputs
    scale = 1.0 / np.sqrt(_DIMENSION)
    # The first step has C = I and the estimate given: A = 0 and a field with that average.
    coupling = np.zeros((_INDICES, _INDICES))
    field = np.kron(np.eye(_TOKENS), start.T) / _TOKENS
    g = np.zeros((_SAMPLES, _TOKENS * _INDICES))
    residuals = []
    for expected in _algorithm(inputs, labels, start):
        copied = _weights(field, coupling)
        onsager = _onsager(field, coupling)
        omega = scale * flat @ copied - g @ onsager.T  # (68)
        variance = onsager[:_INDICES, :_INDICES]
        found = [_denoiser(row.reshape(_TOKENS, _INDICES).T, labels[n], variance) for n, row in enumerate(omega)]
        g = np.stack([_vec(value) for value, _ in found])  # (70)
        slope = sum(d.transpose(1, 0, 3, 2).reshape(_TOKENS * _INDICES, -1) for _, d in found)
        tilde = -np.asarray(slope) / _DIMENSION
        field = scale * flat.T @ g + copied @ tilde.T  # (69)
        coupling = np.einsum("mpmq->pq", tilde.reshape(_TOKENS, _INDICES, _TOKENS, _INDICES))  # (72)
        estimate = _weights(field, coupling)
        residuals.append(np.abs(estimate - np.kron(np.eye(_TOKENS), expected.T)).max())
        # The divergence is the covariance C = (I + A)^{-1} on every token.
        spread = np.linalg.inv(np.eye(_INDICES) + coupling)
        residuals.append(np.abs(_onsager(field, coupling) - np.kron(np.eye(_TOKENS), spread)).max())
    # Five iterations of a few hundred operations each, on numbers of order one.
    return numeric(residuals, 1e-11, "flattened iteration against Algorithm 1, five steps, P = 2, M = 3")
