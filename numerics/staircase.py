"""Threshold of the first layer of two, once the last one is partly learned: the second step of (17)-(18)."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from .channel_averages import Averages, channel
from .errors import ConvergenceError, KernelNotFoundError
from .models import Attention
from .results import ThresholdResult

__all__ = ["first_layer"]

Array = NDArray[np.float64]


def first_layer(
    model: Attention,
    *,
    samples: int = 4096,
    replicas: int = 8,
    rng: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> ThresholdResult:
    """Smallest alpha at which the first layer's overlap grows, given the fixed point of the second layer there.

    Along q = diag(0, q_22) the state evolution gives alpha = q_22 / ((1 - q_22) G_22(q_22)); the first layer turns
    unstable where alpha lambda_1(q_22) = 1, lambda_1 = E || E[h_1^T h_1 | y, omega_2] - I ||_F^2. If lambda_1 at q = 0
    exceeds lambda_2 there (linear attention), the first layer is learned first, at 1/lambda_1(0).

    Parameters
    ----------
    model : Attention
        Depth 2, two tokens, rank 1.
    samples, replicas : int, optional
        Points per randomisation, and independent randomisations, which give the error (one standard error).
    rng : int, optional
        Seed.
    workers : int, optional
        Threads.
    progress : callable, optional
        Called with each q_22 tried.

    Returns
    -------
    ThresholdResult

    Raises
    ------
    KernelNotFoundError
        Another architecture.
    ConvergenceError
        The first layer stays stable for every q_22 < 0.9999.

    References
    ----------
    troiani2025, (17)-(18), (186)-(187); self-consistent in q_22.
    """
    if model.layers != 2 or model.tokens != 2 or set(model.ranks) != {1}:
        raise KernelNotFoundError(
            f"the first-layer threshold needs two layers, two tokens and rank 1, got {model.describe()}"
        )
    averages = channel(model, samples=samples, replicas=replicas, rng=np.random.default_rng(rng), workers=workers)
    tried: dict[float, Averages] = {}

    def at(q22: float) -> Averages:
        if q22 not in tried:
            tried[q22] = averages(np.diag([0.0, q22]))
            if progress is not None:
                progress(q22)
        return tried[q22]

    def alpha(g22: Array | float, q22: float) -> Array | float:
        return q22 / ((1 - q22) * g22)

    zero = at(0.0).growth
    if zero[:, 0].mean() > zero[:, 1].mean():
        values = 1 / zero[:, 0]
        return _result(model, values, 1, "the first layer is learned before the second, from q = 0")

    def excess(q22: float) -> float:
        now = at(q22)
        return float(alpha(now.g[:, 1, 1].mean(), q22) * now.growth[:, 0].mean()) - 1

    low, high = 0.5, 0.9
    while excess(high) < 0:
        low, high = high, 1 - 0.5 * (1 - high)
        if high > 0.9999:
            raise ConvergenceError(
                f"the first layer of {model.describe()} stays stable up to q_22 = {low:.5f}: no threshold found (187)"
            )
    while excess(low) > 0 and low > 1e-3:
        low, high = 0.5 * low, low
    q22 = float(brentq(excess, low, high, xtol=1e-7, rtol=1e-10))
    now = at(q22)
    # First order: each randomisation moves the curve alpha(q) and the root.
    step = 1e-3 * (1 - q22)
    beside = at(q22 + step)
    g, rate = now.g[:, 1, 1], now.growth[:, 0]
    here = float(alpha(g.mean(), q22))
    slope_alpha = (float(alpha(beside.g[:, 1, 1].mean(), q22 + step)) - here) / step
    slope_excess = (excess(q22 + step) - excess(q22)) / step
    values = alpha(g, q22) - slope_alpha * (alpha(g, q22) * rate - 1) / slope_excess
    return _result(model, np.asarray(values), len(tried), f"at q_22 = {q22:.6f}")


def _result(model: Attention, values: Array, evaluations: int, where: str) -> ThresholdResult:
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    # One digit past the error.
    decimals = max(1, 1 - math.floor(math.log10(error)))
    return ThresholdResult(
        value=f"{mean:.{decimals}f}",
        error=error,
        how="monte-carlo",
        exact=None,
        subspace="layer 1",
        eigenvector=np.diag([1.0, 0.0]),
        operator_norm=1 / mean,
        converged=True,
        status=f"converged, {where}",
        n_iter=evaluations,
        kernel_hash=model.kernel_hash,
    )
