"""Distance of each Theta_i and W_i from the true one due to noise, from the covariance to first order."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..core.shown import few_lines
from ..learning.blocks import Array

__all__ = ["HeadError", "expected_error", "head_errors"]


@few_lines
@dataclass(frozen=True)
class HeadError:
    """Uncertainty of a head due to noise.

    Attributes
    ----------
    theta_norm, w_norm : float
        |Theta_i| and |W_i|, Frobenius norms of what was learned.
    theta_deviation, w_deviation : float
        Root mean square of the distance from the true ones, to first order.
    theta_error, w_error : float
        Bound on the distance (98 per cent, to first order in the noise); the true norm is within norm +- error.
    maybe_zero : bool
        Whether the interval of either norm includes zero: the head may be absent, and its directions be noise.
    """

    theta_norm: float
    theta_deviation: float
    theta_error: float
    w_norm: float
    w_deviation: float
    w_error: float
    maybe_zero: bool

    @property
    def relative(self) -> float:
        """The larger of both errors over the least norm that the interval leaves; infinite where it includes zero."""
        if self.maybe_zero:
            return math.inf
        parts = ((self.theta_norm, self.theta_error), (self.w_norm, self.w_error))
        return max(error / (norm - error) for norm, error in parts)


def head_errors(gram: Array, theta: Array, w: Array, noise_std: float) -> tuple[HeadError, ...]:
    """Errors of every head.

    Parameters
    ----------
    gram : ndarray, shape (2 m d^2, 2 m d^2)
        J^T J of all examples, regular, in the order theta.ravel(), w.ravel().
    theta, w : ndarray, shape (m, d, d)
    noise_std : float
        Of every entry of the outputs.

    Notes
    -----
    The squared distance of a block of covariance P is a sum of squares of mean tr P and variance 2 tr P^2; its bound is
    three standard deviations above the mean, which is 2.29 deviations, 97.8 per cent, where one direction has it all.
    A bound of two of them, 95 per cent to first order, covered 94.6 per cent of 186 fits: papers/calibration.md.
    """
    scale = 1 / np.sqrt(np.diag(gram))
    inverse = cho_solve(cho_factor(gram * scale[:, None] * scale, lower=True), np.eye(len(gram)))
    covariance = noise_std**2 * inverse * scale[:, None] * scale
    heads, size = len(theta), theta[0].size

    def block(number: int, matrix: Array) -> tuple[float, float, float]:
        part = covariance[number * size : (number + 1) * size, number * size : (number + 1) * size]
        mean = float(np.trace(part))
        return (
            float(np.linalg.norm(matrix)),
            math.sqrt(mean),
            math.sqrt(mean + 3 * math.sqrt(2 * float((part**2).sum()))),
        )

    found = []
    for i in range(heads):
        first, second = block(i, theta[i]), block(heads + i, w[i])
        found.append(HeadError(*first, *second, first[2] >= first[0] or second[2] >= second[0]))
    return tuple(found)


def expected_error(heads: tuple[HeadError, ...]) -> float:
    """Largest relative deviation of any Theta_i or W_i; infinite where a head may be zero.

    A norm of what was learned is too large by the noise, which its square exceeds by deviation^2 on average; that is
    taken off.
    """
    worst = 0.0
    for head in heads:
        if head.maybe_zero:
            return math.inf
        for norm, deviation in ((head.theta_norm, head.theta_deviation), (head.w_norm, head.w_deviation)):
            worst = max(worst, deviation / math.sqrt(norm**2 - deviation**2))
    return worst
