"""Overlap of the first layer while that of the second is held."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..channel.averages import SAFETY
from ..channel.two_layers.choice import quadrature
from ..core.results import Estimate
from ..core.validation import within
from ..model.network import Network

__all__ = ["first_layer_given"]

Array = NDArray[np.float64]


def first_layer_given(
    model: Network, alpha: float, q22: float, *, accuracy: float = 1e-3, workers: int | None = None
) -> Estimate:
    """Stable q_11 = F_1(alpha G(q)) at a given q_22, without q_22 = F_2.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, rank 1.
    alpha : float
        Samples per dimension, > 0.
    q22 : float
        Held overlap of the second layer, in [0, 1 - 3e-5].
    accuracy : float, optional
        Of the averages, relative.
    workers : int, optional
        Threads.

    Returns
    -------
    Estimate
        `value` 0 where no overlap of the first layer grows. `error`: the distance of two rules, carried through the
        equation.

    Raises
    ------
    ValueError
        An argument is outside its range.
    ConvergenceError
        The rules do not resolve the posterior.

    References
    ----------
    troiani2025, (14), figure 5.
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be finite and > 0 (alpha = N/D), got {alpha!r}")
    within("alpha", alpha)
    averages = quadrature(model, accuracy, workers)
    start = averages.refinements(np.diag([0.0, q22]))
    if alpha * start[0, 2] <= 1:
        off = SAFETY * abs(start[0, 2] - start[1, 2]) * alpha
        # Within the error it might be unstable: then the overlap is of the order of what alpha is beyond.
        return Estimate(0.0, float(off) if alpha * start[0, 2] + off > 1 else 0.0, "estimated")
    known: dict[float, Array] = {}

    def rest(t: float) -> Array:
        """Log(alpha G_11) - t by both rules."""
        if t not in known:
            q11 = 1 / (1 + math.exp(-t))
            known[t] = np.log(alpha * averages.refinements(np.diag([q11, q22]))[:, 0]) - t
        return known[t]

    # Largest overlap looked for, and the logit below which the first layer counts as not learned.
    closest, least = 1e-4, -9.0
    low, high = least, math.log1p(-closest) - math.log(closest)
    if rest(low)[0] <= 0:  # learned, and less than this
        return Estimate(0.0, 1 / (1 + math.exp(-low)), "estimated")
    # Upwards, so that the lowest stable one is found.
    step, at = 2.0, low
    while at < high:
        after = min(at + step, high)
        if rest(after)[0] <= 0:
            break
        at = after
    else:
        return Estimate(1 - closest, closest, "estimated")
    root = float(brentq(lambda t: float(rest(t)[0]), at, after, xtol=0.1 * accuracy))
    inside = min(0.05, 0.5 * (root - low))
    slope = (rest(root)[0] - rest(root - inside)[0]) / inside
    here = rest(root)
    q11 = 1 / (1 + math.exp(-root))
    error = q11 * (1 - q11) * (SAFETY * abs(here[0] - here[1]) + abs(here[0])) / max(-slope, 1e-6)
    return Estimate(q11, float(min(error, 1.0)), "estimated")
