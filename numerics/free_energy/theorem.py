"""Theorem 2.1: the best errors, and the information in the data, from the global maximum of the free entropy."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.results import Estimate, Result
from ..fixed_point.prediction_error import prediction_errors
from .entropy import FreeEntropy
from .points import StationaryPoint

__all__ = ["BayesOptimal", "bayes_optimal", "information"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class BayesOptimal(Result):
    """What is best in the Bayesian sense, at one alpha.

    Attributes
    ----------
    overlap, overlap_error : ndarray, shape (P, P)
    estimation_error : Estimate
        Tr(I - q)/P, the mean squared error of a weight.
    prediction_error : Estimate
        (11): of the posterior mean.
    plugin_error : Estimate
        Of the link at the estimated indices.
    information : Estimate or None
        Mutual information of W and one sample y given its x, in nats: I(W; Y | X)/N. None where an output of real
        numbers without noise tells infinitely much, as long as W is not recovered.
    """

    overlap: Array
    overlap_error: Array
    estimation_error: Estimate
    prediction_error: Estimate
    plugin_error: Estimate
    information: Estimate | None


def bayes_optimal(free: FreeEntropy, point: StationaryPoint, *, rng: np.random.Generator | int = 0) -> BayesOptimal:
    """Errors and information at a stationary point, by Theorem 2.1 the global maximum.

    Parameters
    ----------
    free : FreeEntropy
    point : StationaryPoint
        `stationary_points(free)[0]`.
    rng : Generator or int, optional
        Of the prediction errors, which are averages over random indices.

    References
    ----------
    troiani2025, (10), (11).
    """
    size = free.output.size
    q = np.minimum(point.overlap, 1.0)
    error = point.overlap_error if point.kind != "recovered" else np.zeros_like(q)
    mean, plugin = prediction_errors(free.output.predicted, q, error, how=point.free_entropy.how, rng=rng)
    off = float(np.linalg.norm(point.overlap_error.diagonal())) / size
    estimation = Estimate(float(1 - np.trace(q) / size), off, point.free_entropy.how)
    return BayesOptimal(point.overlap, point.overlap_error, estimation, mean, plugin, information(free, point))


def information(free: FreeEntropy, point: StationaryPoint) -> Estimate | None:
    """I(W; Y | X)/N = Psi_out(I) - Psi_out(0) - (Phi(q) - Phi(0))/alpha in nats; None where it is infinite.

    Parameters
    ----------
    free : FreeEntropy
        alpha > 0.
    point : StationaryPoint
        The global maximum.

    Raises
    ------
    ValueError
        alpha = 0.

    Notes
    -----
    Psi_out(I) is minus the entropy of y given h: finite for discrete or noisy outputs. By the envelope theorem
    d I(W; Y | X)/d N = Psi_out(I) - Psi_out(q).
    """
    if not free.alpha > 0:
        raise ValueError(f"alpha must be > 0 for the information in a sample, got {free.alpha:g}")
    if free.output.solved > 0:
        return None
    if not math.isfinite(point.free_entropy.value):
        return None
    told = free.output.limit(free.output.value)
    error = told.error + point.free_entropy.error / free.alpha
    return Estimate(told.value - point.free_entropy.value / free.alpha, error, point.free_entropy.how)
