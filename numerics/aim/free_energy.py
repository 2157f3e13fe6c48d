"""Free entropy per d^2: extr over (q, qhat) of alpha Psi_out(q) + Q qhat/4 - I(qhat) - q qhat/4.

I = I(S; Y)/d^2 is the mutual information of the matrix denoiser at Delta = 1/qhat. Its logarithmic energy is one
integral: the potential of Y has the closed form Re[g x - log g + rho log(1 - g/s) - Delta g^2/2] - 1, of which the
parameter e of `spectrum` leaves real functions.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from ..core.errors import ConvergenceError
from ..core.results import Estimate, Result, versions
from ..learning.blocks import Array
from .channels import Channel
from .checks import CITE, above_zero
from .spectrum import Points, Spectrum, mmse
from .state_evolution import evolve

__all__ = [
    "FreeEntropyPoint",
    "free_entropy",
    "free_entropy_at",
    "mutual_information",
    "psi_out",
    "psi_out_slope",
]

_EPS = float(np.finfo(float).eps)


def mutual_information(rho: float, delta: float) -> Estimate:
    """I(S; Y)/d^2 = (1/2) int int log|x - y| - (1/4) log Delta + 1/8, both under the law of Y.

    Parameters
    ----------
    rho, delta : float
        Width and noise variance.

    Returns
    -------
    Estimate
        Its derivative in qhat = 1/Delta is MMSE/4.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    spectrum = Spectrum(rho, delta)
    s, delta = spectrum.s, spectrum.delta

    def energy(e: Array, p: Points) -> Array:
        # |g|^2 = s/(Delta (s + e)) and |1 - g/s|^2 = s/(Delta e).
        potential = (
            p.u * p.x
            - 0.5 * np.log(s / (delta * (s + e)))
            + 0.5 * rho * np.log(s / (delta * e))
            - 0.5 * delta * (p.u * p.u - p.w * p.w)
            - 1
        )
        return np.asarray(potential * p.w / math.pi)

    found = spectrum.integrate(energy)
    value = 0.5 * found.value - 0.25 * math.log(delta) + 0.125
    return Estimate(value, found.error + 8 * _EPS * (1 + abs(math.log(delta))), "estimated")


def psi_out(V: float, rho: float, output: Channel) -> Estimate:
    """E sum over y of Z_out log Z_out at V = Q - q, up to a constant for channels without noise.

    Parameters
    ----------
    V : float
        In (0, 1 + rho].
    rho : float
    output : Channel
        -(K/2) log V where an output fixes K functionals, with noise -(K/2) log(V + Delta_n); minus the entropy of the
        labels given omega for hardmax.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    return output.evidence(_inside(V, rho), 1 + rho)


def psi_out_slope(V: float, rho: float, output: Channel) -> Estimate:
    """D Psi_out/dq = (1/2) sum (1 + delta_ab) E g_ab^2 = F(q/V)/(2 V)."""
    V = _inside(V, rho)
    found = output.information((1 + rho - V) / V, V)
    return Estimate(found.value / (2 * V), found.error / (2 * V), found.how)


def free_entropy(alpha: float, V: float, rho: float, output: Channel) -> Estimate:
    """Free entropy at V = Q - q, with qhat at its extremum: 4 dI/dqhat = MMSE(1/qhat) = V.

    Its derivative in q is alpha F(q/V)/(2 V) - qhat/4, which vanishes at the fixed points of the state evolution.

    Parameters
    ----------
    alpha : float
        n/d^2.
    V : float
        In (0, 1).
    rho : float
    output : Channel

    Raises
    ------
    ValueError
        V outside (0, 1), where no qhat > 0 belongs to it.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    if not 0 < V < 1:
        raise ValueError(f"V must be in (0, 1), the range of the MMSE ({CITE}, free entropy), got {V!r}")
    rho = above_zero("rho", rho, "rho = r/d")
    # MMSE < Delta, by less than rounding for small Delta at rho >= 1, and it rises with Delta to one.
    low, high = math.log(V) - 1, math.log(V) + 1
    while mmse(rho, math.exp(high)).value < V:
        high += 1
    delta = math.exp(float(brentq(lambda t: mmse(rho, math.exp(t)).value - V, low, high, xtol=1e-14)))
    return _total(alpha, psi_out(V, rho, output), mutual_information(rho, delta), V, delta)


def _total(alpha: float, out: Estimate, info: Estimate, V: float, delta: float) -> Estimate:
    value = alpha * out.value + V / (4 * delta) - info.value
    return Estimate(value, alpha * out.error + info.error + 1e-13 * V / delta, "estimated")


@dataclass(frozen=True, repr=False)
class FreeEntropyPoint(Result):
    """Free entropy per d^2 at the fixed point of the state evolution, and its parts.

    Attributes
    ----------
    alpha, rho : float
    free_entropy : Estimate
        alpha Psi_out + Q qhat/4 - I - q qhat/4, lim (1/d^2) E log P(y | x) but for a constant times alpha where outputs
        have a density.
    psi_out, information : Estimate
        Psi_out at q, and the mutual information I of the matrix denoiser at 1/qhat.
    mmse : Estimate
        V.
    q_hat : float
    residual : float
        Derivative in q, alpha F/(2 V) - qhat/4, over qhat/4.
    status, versions
        Provenance.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    alpha: float
    rho: float
    free_entropy: Estimate
    psi_out: Estimate
    information: Estimate
    mmse: Estimate
    q_hat: float
    residual: float
    status: str
    versions: dict[str, str] = field(default_factory=versions)


def free_entropy_at(alpha: float, rho: float, output: Channel) -> FreeEntropyPoint:
    """Free entropy at the fixed point of the state evolution, where it is stationary.

    Parameters
    ----------
    alpha : float
        n/d^2 >= 0.
    rho : float
        Width r/d > 0.
    output : Channel

    Returns
    -------
    FreeEntropyPoint
        An error of V changes the free entropy to second order only.

    Raises
    ------
    ConvergenceError
        S is recovered: the free entropy of outputs with a density is infinite there.
    KernelNotFoundError
        The published formula for hardmax, which is no model.

    References
    ----------
    boncoraglio2025, (45)-(48).
    """
    rho = above_zero("rho", rho, "rho = r/d")
    point = evolve(alpha, rho, output)
    V = point.mmse
    if not V.value:
        raise ConvergenceError(
            f"S is recovered at alpha = {alpha:g}, and the free entropy of outputs that fix functionals of it is "
            f"infinite there ({CITE}, free entropy); take alpha below perfect recovery (aim threshold)"
        )
    out = psi_out(V.value, rho, output)
    if not point.q_hat:
        none = Estimate(0.0, 0.0, "rigorous")
        start = Estimate(alpha * out.value, alpha * out.error, out.how)
        return FreeEntropyPoint(alpha, rho, start, out, none, V, 0.0, 0.0, point.status)
    info = mutual_information(rho, 1 / point.q_hat)
    found = _total(alpha, out, info, V.value, 1 / point.q_hat)
    residual = 4 * alpha * psi_out_slope(V.value, rho, output).value / point.q_hat - 1
    # What is off in V counts by the slope that is left, which the ends of the bracket bound.
    left = V.error * point.q_hat / 4 * (abs(residual) + 2 * V.error / V.value)
    found = Estimate(found.value, found.error + left, found.how)
    return FreeEntropyPoint(alpha, rho, found, out, info, V, point.q_hat, residual, point.status)


def _inside(V: float, rho: float) -> float:
    V, rho = above_zero("V", V, "V = Q - q"), above_zero("rho", rho, "rho = r/d")
    if V > 1 + rho:
        raise ValueError(f"V must be in (0, Q], Q = 1 + rho = {1 + rho:g} ({CITE}, free entropy), got {V!r}")
    return V
