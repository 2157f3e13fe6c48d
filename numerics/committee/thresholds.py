"""Thresholds of a deep network with strong skips: of its last layer, and of the committee of the layers before it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from scipy.optimize import brentq

from ..core.errors import ConvergenceError
from ..core.results import Estimate, Result, versions
from ..core.validation import positive, whole
from .features import stability
from .gaussian import GaussianCommittee
from .noise import NoisySum

__all__ = ["CommitteeThreshold", "committee_threshold", "last_layer_threshold", "remainder_at_zero"]

# Of log rho that is searched upwards.
_RANGE = 20.0
# Weight of amplitudes b_L beyond the last one that is averaged over, as a share of the result.
_CUT_OFF = 1e-6


@dataclass(frozen=True, repr=False)
class CommitteeThreshold(Result):
    """Where the hidden layers of strongly skipped attention become learnable.

    Attributes
    ----------
    alpha : Estimate
        The limit c -> infinity at this depth; alpha = N/D.
    remainder : Estimate
        rho there: the last layer has q_L = 1 - rho/c^2.
    gaussian : float
        alpha if the sum over the hidden layers were Gaussian.
    layers, beta, versions
        The model and the versions of the libraries.
    """

    alpha: Estimate
    remainder: Estimate
    gaussian: float
    layers: int
    beta: float
    versions: dict[str, str] = field(default_factory=versions)


@lru_cache(maxsize=64)
def committee_threshold(layers: int, *, beta: float = 1.0) -> CommitteeThreshold:
    """Threshold of the hidden layers, self-consistent with the last one, in the limit c -> infinity at fixed depth.

    Solves alpha E[eta^2 J] = 1 (the last layer stationary) and alpha lambda = 1 (a hidden layer turns unstable). The
    first average rises with rho and the second falls, so that there is one solution.

    Parameters
    ----------
    layers : int
        Depth L >= 2 of softmax attention with two tokens, rank 1.
    beta : float, optional
        Inverse temperature > 0 of the hidden layers, each layer rescaled as in (46).

    Returns
    -------
    CommitteeThreshold
        The errors are differences of two resolutions.

    Raises
    ------
    ValueError
        An argument is outside its range.
    ConvergenceError
        No rho was found at which both equations hold.

    Notes
    -----
    At zero overlap the hidden layers are exchangeable given the output, so that E[h_l h_l^T | y] is the same for all:
    the operator (15) multiplies every entry of their block of q alike, off the diagonal, too: they are found together.
    The cost does not grow with the depth.

    References
    ----------
    troiani2025, (15)-(18), (46)-(54).
    """
    large = GaussianCommittee(layers, beta)
    guess = large.threshold()
    rho = large.remainder(guess)
    found = [_root(large.hidden, beta, rho, level, lambda a, x: a.share(x) - a.growth(x)) for level in (0, 1)]
    (coarse, rough), (fine, remainder) = ((1 / averages.growth(x), x) for averages, x in found)
    return CommitteeThreshold(
        alpha=Estimate(fine, abs(fine - coarse) + _CUT_OFF * fine, "estimated"),
        remainder=Estimate(remainder, abs(remainder - rough) + 4 * _CUT_OFF * remainder, "estimated"),
        gaussian=guess,
        layers=layers,
        beta=float(beta),
    )


def remainder_at_zero(layers: int, alpha: float, *, beta: float = 1.0) -> Estimate:
    """Return rho of the last layer where nothing of the hidden layers is known: alpha E[eta^2 J] = 1.

    Parameters
    ----------
    layers : int
        Depth L >= 2.
    alpha : float
        N/D > 1/2.
    beta : float, optional

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        An argument is outside its range.
    ConvergenceError
        No such rho was found.
    """
    large = GaussianCommittee(layers, beta)
    rho = large.remainder(alpha)
    rough, fine = (
        _root(large.hidden, beta, rho, level, lambda averages, x: averages.share(x) - 1 / alpha)[1] for level in (0, 1)
    )
    return Estimate(fine, abs(fine - rough) + 4 * _CUT_OFF * fine, "estimated")


def _root(
    hidden: int, beta: float, rho: float, level: int, ahead: Callable[[NoisySum, float], float]
) -> tuple[NoisySum, float]:
    """Return the rho where a function that rises with it vanishes, and the averages there."""
    # Least rho of a first attempt, in units of that of Gaussian sums, and the factor to a next one.
    begin, lower, attempts = 0.8, 0.3, 4
    least = begin * rho
    close = 1e-12
    for _ in range(attempts):
        averages = NoisySum(hidden, beta, least, level)
        low = math.log(least) + close
        if ahead(averages, math.exp(low)) < 0:
            high = low + 1.0
            while ahead(averages, math.exp(high)) < 0 and high < low + _RANGE:
                high += 1.0
            if ahead(averages, math.exp(high)) >= 0:
                found = brentq(lambda x, a=averages: ahead(a, math.exp(x)), low, high, xtol=close)
                return averages, math.exp(found)
        least *= lower
    raise ConvergenceError(
        f"no rho >= {least:.3g} is a fixed point of the last layer (14) with {hidden} hidden layers; alpha or beta is "
        "too far from one"
    )


def last_layer_threshold(layers: int, skip: float, *, beta: float = 1.0) -> Estimate:
    """Threshold of the last layer at strong skips: 1/6 + n (10 S_s + 14 S_t)/(36 c^2), n = L - 1.

    Parameters
    ----------
    layers : int
        Depth L >= 1.
    skip : float
        Strength c >> L of the skip connection.
    beta : float, optional
        Inverse temperature of the hidden layers, each rescaled as in (46).

    Returns
    -------
    Estimate
        What (52) leaves out is of relative order n/c in the distance from 1/6; the error is of that size.

    Raises
    ------
    ValueError
        An argument is outside its range, or c <= L - 1, where (52) does not apply.

    Notes
    -----
    The output fixes v = B h_L, where the committee in B has the mean n E sigma, which is known and undone, and
    fluctuations of standard deviations sqrt(n S_i)/c. Given v they spread h_L by |b_L| times them, and
    |E[h h^T - I | v]|^2 loses the variance of h h^T: in the mean 10 and 14 times theirs.
    """
    hidden = whole("layers", layers, 1, "(2)") - 1
    skip = positive("skip", skip, "(46)")
    if skip <= hidden:
        raise ValueError(f"skip must be > L - 1 = {hidden} for the expansion in 1/c (48), got {skip:g}: use threshold")
    features = stability(beta)
    # Fluctuations in units of the means, 1 + n/c and 1 + n E t/c.
    scale = skip + hidden, skip + hidden * features.mean
    shift = sum(k * hidden * s / (36 * m * m) for k, s, m in zip((10, 14), features.rest(0.0), scale, strict=True))
    return Estimate(1 / 6 + float(shift), float(shift) * hidden / skip, "estimated")
