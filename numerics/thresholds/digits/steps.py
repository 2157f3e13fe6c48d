"""Steps of the nested rules for a wanted accuracy, from the distance of the singularities and the growth on the way.

The trapezoidal rule of an analytic function errs by at most 2 max|f(x + i d)|/(exp(2 pi d/h) - 1) per unit of length,
for any shift d short of the nearest singularity. For the lines of the hidden law the right-hand side is evaluated (in
float64, on logarithms) and the step is the largest that it allows; the other directions use the strips that
papers/troiani2025/precision.md derives.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.plain import numerators

from .law import LineRule, PlaneRule
from .output import OutputRule

__all__ = ["Rules", "choose"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rules:
    """Everything that a sum needs: hidden law, outputs, accuracy aimed at and precision.

    Attributes
    ----------
    plane : PlaneRule
    output : OutputRule
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    log_range : float
        Upper bound of log B, B = A^2 + tau^2.
    bits : int
        Precision of the result.
    """

    plane: PlaneRule
    output: OutputRule
    log_accuracy: float
    log_range: float
    bits: int

    @property
    def law_bits(self) -> int:
        """Precision of the nodes of the hidden law, whose recurrences and differences lose bits."""
        return self.bits + 48

    @property
    def sum_bits(self) -> int:
        """Precision of the sums over them, whose errors the quotient by the density raises."""
        return self.bits + 24


def choose(skip: float, beta: float, digits: float, fineness: float = 1.0) -> Rules:
    """Rules that reach so many digits.

    Parameters
    ----------
    skip, beta : float
        c > 0 and beta > 0.
    digits : float
        Accuracy aimed at.
    fineness : float, optional
        All steps are divided by it.

    Returns
    -------
    Rules
    """
    accuracy = digits * math.log(10.0)
    return Rules(
        plane=_plane(skip, beta, accuracy, fineness),
        output=_output(skip, beta, accuracy, fineness),
        log_accuracy=accuracy + 8.0,
        # tau <= (1 + c)/c and |A| <= 1/c.
        log_range=math.log(((1 + skip) ** 2 + 1) / skip**2) * (1 + 1e-9),
        # The sums over the outputs lose some powers of the largest tau.
        bits=math.ceil((digits + max(2.2, 1.2 + 6.5 * math.log10((1 + skip) / skip))) * math.log2(10.0)),
    )


def _output(skip: float, beta: float, accuracy: float, fineness: float) -> OutputRule:
    reach = math.sqrt(2 * accuracy)
    # Half-width of the strip of u.
    strip_u = 2.6
    # Half-width of the strip of Y of v.
    strip_v = 0.55
    # h_+ = u - A v and h_- = tau v, |A| <= tau/(1 + c): |u| <= |h| sqrt(1 + 1/(1 + c)^2), v <= h_-.
    # The zeros of Z come nearer as the attention sharpens.
    step_u = 2 * math.pi * strip_u * min(1.0, 3 / beta) ** 0.18 / accuracy / fineness
    count_u = math.ceil(reach * math.hypot(1.0, 1 / (1 + skip)) / step_u) + 1
    scale = skip / (1 + skip)
    # A weak attention leaves two far apart scales of tau, whose terms cancel at smaller angles of v.
    step_v = 2 * math.pi * strip_v * min(1.0, beta) ** 0.1 / accuracy / fineness
    count_v = math.ceil(math.asinh(reach / scale) / step_v) + 1
    return OutputRule(LineRule(step_u, count_u), LineRule(step_v, count_v), scale, math.exp(-accuracy - 14.0))


def _plane(skip: float, beta: float, accuracy: float, fineness: float) -> PlaneRule:
    reach = math.sqrt(2 * accuracy)
    # Scales of z: where tau has its pole at x = 0; where w = beta x z reaches i pi at the largest x; the Gaussian.
    scale = min(math.sqrt(2 * skip / beta), 2 * math.pi / (beta * reach), 2.0)
    # Half-width of the strip of Y of z.
    strip = 0.65
    step = 2 * math.pi * strip / accuracy / fineness
    count = math.ceil(math.asinh(reach / scale) / step)
    z = scale * np.sinh(step * np.arange(1, count))
    return PlaneRule(scale, LineRule(step, count), _lines(skip, beta, beta * z * z, accuracy, fineness))


def _centres(skip: float, rho: Array) -> Array:
    """Real part of the poles of tau in w: arccosh(cosh(rho) + sinh(rho)/c)."""
    small = np.minimum(rho, 20.0)
    less_one = 2 * np.sinh(small / 2) ** 2 + np.sinh(small) / skip
    # Beyond rho = 20 the smaller exponentials are below float64.
    return np.asarray(2 * np.arcsinh(np.sqrt(less_one / 2)) + rho - small)


def _lines(skip: float, beta: float, rho: Array, accuracy: float, fineness: float) -> list[LineRule]:
    """Largest steps that the contour bound allows, line by line."""
    centre = _centres(skip, rho)[:, None]
    # Poles at cosh(Y)^2 = i centre/pi.
    pole = 0.5 * np.arccosh(2j * centre / math.pi - 1).imag
    # Outputs v up to here must not grow on the way, where Re tau^2 < (Im A)^2: about 3 tau^(-1/2).
    weight = 4.0 * skip / (1 + skip)
    best = np.zeros(len(rho))
    # Shifts at which the growth of the lines in w is evaluated, as fractions of the distance of their singularity, and
    # Y.
    shifts = np.linspace(0.1, 0.95, 18)
    line = np.linspace(0.0, 7.0, 90)
    for share in shifts:
        shift = share * pole
        y = line[None, :] + 1j * shift
        cosh = np.cosh(y)
        root = np.sqrt(math.pi**2 + (centre / cosh) ** 2)
        w = np.sinh(y) * root
        slope = np.abs(cosh * root)
        size = -(w * w).real / (2 * beta * rho[:, None]) - rho[:, None] / (2 * beta) + np.log(slope)
        # eta and s with both exponentials divided by the larger one.
        top = np.maximum(rho[:, None], np.abs(w.real))
        up, down = np.exp(rho[:, None] - top), np.exp(-rho[:, None] - top)
        rise, fall = np.exp(w - top), np.exp(-w - top)
        upper, lower, total = numerators(up, down, rise, fall, skip)
        a, tau = upper / lower, (1 + skip) * total / lower
        growth = weight * np.maximum(0.0, a.imag**2 - (tau * tau).real)
        bound = (size + growth).max(axis=1)
        best = np.maximum(best, 2 * math.pi * shift[:, 0] / np.maximum(accuracy + bound, 0.1 * accuracy))
    step = best / fineness
    # End where exp(-w^2/(2 beta rho) - rho/(2 beta)) is negligible.
    reach = np.sqrt(np.maximum(2 * beta * rho * (accuracy - rho / (2 * beta)), 0.0))
    # w^2 = pi^2 S^2 + centre^2 S^2/(1 + S^2) with S = sinh(Y), solved for S^2.
    half = 0.5 * (math.pi**2 + centre[:, 0] ** 2 - reach**2)
    square = (np.sqrt(half**2 + (math.pi * reach) ** 2) - half) / math.pi**2
    count = np.ceil(np.arcsinh(np.sqrt(np.maximum(square, 0.0))) / step).astype(int) + 1
    return [LineRule(float(h), int(n)) for h, n in zip(step, count, strict=True)]
