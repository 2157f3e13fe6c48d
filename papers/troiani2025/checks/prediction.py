"""Prediction error at a given overlap: (11), against closed forms and plain product rules."""

import numpy as np
from numpy.typing import NDArray

from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.model.network import Network

from .forward import reference_link
from .tools import numeric

Array = NDArray[np.float64]


def _linear_errors(q: float) -> tuple[float, float]:
    """Errors of one linear layer at two tokens, y = h^T h, by Gaussian moments.

    Given omega, h_m h_k has variance omega_m^2 V + omega_k^2 V + V^2 for m != k and 4 omega_m^2 V + 2 V^2 for
    m = k, and E omega_m^2 = q. The plug-in misses the mean of h_m^2 by V besides.
    """
    v = 1.0 - q
    posterior = 2.0 * (4.0 * q * v + 2.0 * v * v) + 2.0 * (2.0 * q * v + v * v)
    return posterior, posterior + 2.0 * v * v


def _hermite(nodes: int) -> tuple[Array, Array]:
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    return x, w / w.sum()


def _one_layer_errors(q: float, nodes: int = 40) -> tuple[float, float]:
    """Errors of one softmax layer at two tokens: the posterior mean by a plane rule for every omega."""
    x, w = _hermite(nodes)
    weight = np.outer(w, w).reshape(-1)
    plane = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    omega, spread = np.sqrt(q) * plane, np.sqrt(1.0 - q) * plane
    posterior = plugin = 0.0
    for centre, mass in zip(omega, weight, strict=True):
        y = _pairs(centre + spread)
        mean = weight @ y
        posterior += mass * float(weight @ np.sum((y - mean) ** 2, axis=1))
        plugin += mass * float(weight @ np.sum((y - _pairs(centre[None])) ** 2, axis=1))
    return posterior, plugin


def _pairs(h: Array) -> Array:
    """Rows of softmax(h^T h) for h of shape (n, 2), flattened to (n, 4)."""
    p11 = 1.0 / (1.0 + np.exp(-h[:, 0] * (h[:, 0] - h[:, 1])))
    p22 = 1.0 / (1.0 + np.exp(-h[:, 1] * (h[:, 1] - h[:, 0])))
    return np.stack([p11, 1.0 - p11, 1.0 - p22, p22], axis=1)


def two_layer_errors_at_zero(step: float = 0.5) -> tuple[float, float]:
    """Errors of two softmax layers at q = 0, c = 1: variance of the label, and its distance from g(0)."""
    axis = np.arange(-int(6.0 / step), int(6.0 / step) + 1) * step
    gauss = np.exp(-axis * axis / 2.0) * step / np.sqrt(2.0 * np.pi)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    rows = np.stack([first.reshape(-1), second.reshape(-1)], axis=1)
    weight = np.outer(gauss, gauss).reshape(-1)
    keep = weight > 1e-10
    rows, weight = rows[keep], weight[keep]
    mean, square = np.zeros(4), 0.0
    for h1, mass in zip(rows, weight, strict=True):
        scores = np.outer(h1, h1)
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        layer = np.eye(2) + shifted / shifted.sum(axis=1, keepdims=True)
        y = _pairs(rows @ layer.T)
        mean += mass * (weight @ y)
        square += mass * float(weight @ np.sum(y * y, axis=1))
    at_zero = reference_link([np.zeros((1, 2)), np.zeros((1, 2))], 1.0, 1.0).reshape(-1)
    posterior = square - float(mean @ mean)
    return posterior, posterior + float(np.sum((mean - at_zero) ** 2))


def _in_errors(estimates: tuple[Estimate, Estimate], expected: tuple[float, float]) -> list[float]:
    """Deviations in units of the stated errors."""
    return [abs(e.value - x) / e.error for e, x in zip(estimates, expected, strict=True)]


def check_11() -> CheckOutcome:
    """Compare the posterior-mean and the plug-in error with plain values, in units of their errors."""
    residuals = []
    linear = Network(layers=1, tokens=2, activation="linear")
    for q in (0.0, 0.35):
        residuals += _in_errors(prediction_errors(linear, np.array([[q]]), rng=11), _linear_errors(q))
    one = Network(layers=1, tokens=2)
    residuals += _in_errors(prediction_errors(one, np.array([[0.5]]), rng=11), _one_layer_errors(0.5))
    two = Network(layers=2, tokens=2)
    plain = two_layer_errors_at_zero()
    residuals += _in_errors(prediction_errors(two, np.zeros((2, 2)), rng=11), plain)
    # Eight comparisons; the stated error comes from eight randomisations (Student, 7 degrees of freedom).
    return numeric(residuals, 5.0, "prediction errors against moments and product rules, in standard errors")
