"""Steps of trapezoidal rules over side information, where the density of the outputs has zeros off the real axis."""

import math

from numba import njit

__all__ = ["MODEST", "widest_step"]

#: Overlaps below this one ask for more digits of the caller.
MODEST = 0.3


@njit(error_model="numpy", nogil=True, cache=True)
def widest_step(overlap: float, log_accuracy: float, mode: tuple[float, float, float]) -> float:
    """Step of d or of omega_- at which a trapezoidal rule misses exp(-log_accuracy).

    A path of integration that is moved by y off the real axis gains 2 pi y/step and loses y^2/2 times the inverse
    variance of the Gaussians: without singularities the best y leaves exp(-(2 pi width/step)^2/2). Zeros of Z lie
    y = pi V/a off the axis in d, where both signs of the last indices have a density of exp(-a^2/(2 V)), and half as
    far in omega_-. What they leave is the residue there, which has grown with the prior by exp(y^2 prior/(2 q)). It is
    of size a^2/V, while the sums have the size of q, so that they miss 1/q times as much, relatively.

    Parameters
    ----------
    overlap : float
        q_22.
    log_accuracy : float
    mode : three floats
        Share of the inverse variance 1/q of the prior, that of 1/V in what grows at the zeros, and distance of these.
    """
    prior, own, distance = mode
    variance = 1 - overlap
    width2 = 1 / (prior / overlap + 1 / variance)
    reach = math.sqrt(2 * log_accuracy)
    step = 2 * math.pi * math.sqrt(width2) / reach
    asked = log_accuracy - math.log(max(overlap, MODEST))
    # Values of a^2/V of the zeros that a step is chosen by: the first, and the factor between neighbours. The step is
    # least near 2/3 of the log-accuracy, and flat there.
    first_zero, next_zero = 1.0, 1.15
    ratio = first_zero
    while ratio < 2 * asked:
        y = distance * math.pi * math.sqrt(variance / ratio)
        # Zeros farther off than the best path leave less than the Gaussians.
        if y < reach * math.sqrt(width2):
            grown = 0.5 * y * y * (prior / overlap + own / variance)
            step = min(step, 2 * math.pi * y / (asked + grown - 0.5 * ratio))
        ratio *= next_zero
    return step
