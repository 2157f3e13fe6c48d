"""Free entropy per d^2: extr over (q, qhat) of alpha Psi_out(q) + Q qhat/4 - I(qhat) - q qhat/4.

I = I(S; Y)/d^2 is the mutual information of the matrix denoiser at Delta = 1/qhat. Its logarithmic energy is one
integral: the potential of Y has the closed form Re[g x - log g + rho log(1 - g/s) - Delta g^2/2] - 1, of which the
parameter e of `spectrum` leaves real functions.
"""

import math

import numpy as np
from scipy.optimize import brentq

from ..core.results import Estimate
from ..learning.blocks import Array
from .channels import Channel, Linear
from .checks import CITE, above_zero
from .hardmax import label_entropy
from .spectrum import Points, Spectrum, mmse

__all__ = ["free_entropy", "mutual_information", "psi_out", "psi_out_slope"]

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
        labels given omega for hardmax of two tokens.

    References
    ----------
    boncoraglio2025, free entropy.
    """
    V = _inside(V, rho)
    if output.functionals is not None:
        return Estimate(-0.5 * output.functionals * math.log(V), 4 * _EPS, "rigorous")
    if isinstance(output, Linear):
        return Estimate(-0.5 * output.entries * math.log(V + output.noise), 4 * _EPS, "rigorous")
    _refuse(output)
    found = label_entropy((1 + rho - V) / V)
    return Estimate(-found.value, found.error, found.how)


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
    # MMSE < Delta, and it rises with Delta to one.
    low, high = math.log(V), math.log(V) + 1
    while mmse(rho, math.exp(high)).value < V:
        high += 1
    delta = math.exp(float(brentq(lambda t: mmse(rho, math.exp(t)).value - V, low, high, xtol=1e-14)))
    out, info = psi_out(V, rho, output), mutual_information(rho, delta)
    value = alpha * out.value + V / (4 * delta) - info.value
    return Estimate(value, alpha * out.error + info.error + 1e-13 * V / delta, "estimated")


def _inside(V: float, rho: float) -> float:
    V, rho = above_zero("V", V, "V = Q - q"), above_zero("rho", rho, "rho = r/d")
    if V > 1 + rho:
        raise ValueError(f"V must be in (0, Q], Q = 1 + rho = {1 + rho:g} ({CITE}, free entropy), got {V!r}")
    return V


def _refuse(output: Channel) -> None:
    if output.name == "hardmax_published":
        raise ValueError(f"hardmax_published is no model, and has no free entropy ({CITE}); use hardmax")
    if output.tokens > 2:
        raise ValueError(
            f"the entropy of hardmax labels is served for T = 2 ({CITE}, free entropy), got T = {output.tokens}; the "
            "fixed point itself is that of state_evolution.evolve"
        )
