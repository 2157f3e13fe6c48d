"""What tests of averages over fibres share: groups of links, a comparison, and radii in closed form."""

import math

import numpy as np
from scipy.special import ive

import attnlimits as al
from attnlimits.numerics.channel.link.fibres import FibreGroup

Array = np.ndarray


def group_of(text: str, noise: float = 0.0) -> FibreGroup:
    kernel = al.Link(text).kernel
    (part,) = kernel.parts
    return FibreGroup(kernel, part, noise)


def check(found, exact: Array, least: float) -> None:
    """Off by no more than is stated, and stated to be small."""
    assert (np.abs(found.value - exact) <= found.error).all()
    assert found.error.max() <= least * np.abs(exact).max()


def radial(dimension: int, v: float) -> float:
    """E g_1^2 of y = |h|^2 in two or three dimensions where V is v times the identity, over |omega| and |h|."""
    q, n = 1 - v, 400
    x, w = np.polynomial.legendre.leggauss(n)
    omega, of_omega = 4.5 * math.sqrt(q) * (x + 1), 4.5 * math.sqrt(q) * w
    # |h| about |omega|, as wide as V.
    low = np.maximum(omega - 9 * math.sqrt(v), 0)
    half = 0.5 * (omega + 9 * math.sqrt(v) - low)[:, None]
    r, of_r = low[:, None] + half * (x + 1), half * w
    k = r * omega[:, None] / v
    gap = np.exp(-0.5 * (r - omega[:, None]) ** 2 / v)
    if dimension == 2:
        density, mean = r / v * gap * ive(0, k), ive(1, k) / ive(0, k)
        of_omega = of_omega * omega / q * np.exp(-0.5 * omega**2 / q)
    else:
        with np.errstate(all="ignore"):
            sinh = np.where(k > 1e-8, -np.expm1(-2 * k) / (2 * k), 1.0)
            mean = np.where(k > 1e-4, 1 / np.tanh(k) - 1 / k, k / 3)
        density = math.sqrt(2 / math.pi) * r**2 / v**1.5 * gap * sinh
        of_omega = of_omega * math.sqrt(2 / math.pi) * omega**2 / q**1.5 * np.exp(-0.5 * omega**2 / q)
    square = ((r * mean - omega[:, None]) / v) ** 2
    return float(of_omega @ (density * square * of_r).sum(axis=1)) / dimension
