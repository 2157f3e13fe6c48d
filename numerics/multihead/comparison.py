"""A learned layer beside the true one: the error of its outputs and of its weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.results import Estimate
from ..core.shown import few_lines
from ..learning.blocks import Array
from .holdout import sampled_error
from .layer import multihead
from .matching import parameter_error
from .risk import exact_risk

__all__ = ["Comparison", "compared"]


@few_lines
class Comparison(NamedTuple):
    """Error E |F' - F|^2 / E |F|^2 of a learned layer F', over how many inputs, and the error of its weights.

    `parameter_error` is None where the numbers of heads differ.
    """

    error: Estimate
    inputs: int
    parameter_error: float | None


def compared(
    learned_theta: Array, learned_w: Array, theta: Array, w: Array, *, tokens: int, seed: int = 0
) -> Comparison:
    """Compare two layers over all inputs, or over a sample with its standard error.

    Parameters
    ----------
    learned_theta, learned_w, theta, w : ndarray
        Weights of the learned layer and of the true one, each of shape (m, d, d).
    tokens : int
        k.
    seed : int, optional
        Of the sample.
    """
    dimension = theta.shape[-1]
    # Inputs of a test sample, where there are too many to take all; k d up to which all are taken.
    sample, most_taken = 5000, 20
    if tokens * dimension <= most_taken:
        risk = exact_risk(learned_theta, learned_w, theta, w, tokens)
        # Rounding of the outputs of both layers.
        eps = float(np.finfo(float).eps)
        rounding = 2 * eps * math.sqrt(risk.nmse) + eps**2
        error, inputs = Estimate(risk.nmse, rounding, "estimated"), risk.inputs
    else:
        generator = np.random.default_rng([seed, 2])
        X = np.asarray(2.0 * generator.integers(0, 2, (sample, tokens, dimension)) - 1.0, dtype=np.float64)
        error = Estimate(*sampled_error(X, multihead(X, theta, w), learned_theta, learned_w), "monte-carlo")
        inputs = sample
    same = learned_theta.shape == theta.shape
    return Comparison(error, inputs, parameter_error(learned_theta, learned_w, theta, w) if same else None)
