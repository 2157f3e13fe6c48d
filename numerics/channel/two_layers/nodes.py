"""Nodes of the hidden layer: h_1 ~ N(omega_1, V_11 I) as weights on the two scalars through which the output sees it.

In token modes h_1 = (x, z) and B_1 = (1 + c) [[1, S], [0, T]]; the last indices are h_+ = u - A v, h_- = tau v with
A = S/T, tau = 1/T. A and tau are analytic in (x, z) up to beta x z = +-centre + i pi and z = +-i sqrt(2 c/beta).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_softmax_m2.numpy64 import layer

from ...thresholds.digits.steps import choose
from .around import nodes_around

__all__ = ["Hidden", "around", "centred"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hidden:
    """Nodes of h_1.

    Attributes
    ----------
    weight, x, z, a, tau : ndarray, shape (n,)
        Probability, the token modes of h_1, and A and tau there.
    """

    weight: Array
    x: Array
    z: Array
    a: Array
    tau: Array

    def spacing(self, reach: float) -> float:
        """Largest distance of neighbours in (A, tau) v, for |h_-| = tau v up to `reach` less what weights cost."""
        return _spacing(self, reach)


def centred(skip: float, beta: float, log_accuracy: float, fineness: float) -> Hidden:
    """Nodes of h_1 ~ N(0, I), mirrored in x -> -x (A -> -A); one of h_1 and -h_1 stands for both.

    Parameters
    ----------
    skip, beta : float
        c > 0 and beta > 0.
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    fineness : float
        All steps are divided by it.

    Notes
    -----
    The rule of `digits.law`: z = scale sinh(Y), and w = beta x z on a line for each z.
    """
    plane = choose(skip, beta, log_accuracy / math.log(10.0), fineness).plane
    step = plane.z.step
    weight = [np.array([math.sqrt(2 / math.pi) * plane.z_scale * step / 2])]
    x, z = [np.zeros(1)], [np.zeros(1)]
    # Nodes below this share of the accuracy are left out.
    light = 1e-2
    for number, line in enumerate(plane.w, 1):
        height = plane.z_scale * math.sinh(number * step)
        rho = beta * height * height
        y = line.step * np.arange(line.count)
        sinh, cosh = np.sinh(y), np.cosh(y)
        ratio = (_centre(skip, rho) / cosh) ** 2
        root = np.sqrt(math.pi**2 + ratio)
        w = sinh * root
        slope = (cosh * root**2 - ratio * sinh**2 / cosh) / root
        common = 2 / math.pi / (beta * height) * plane.z_scale * math.cosh(number * step) * step * line.step
        mass = common * slope * np.exp(-0.5 * height**2 - w * w / (2 * beta * rho))
        mass[0] /= 2
        # Without gaps: where the attention turns, nodes are close and so lighter than those further out.
        count = int(np.flatnonzero(mass > light * math.exp(-log_accuracy)).max(initial=-1)) + 1
        weight.append(mass[:count])
        x.append(w[:count] / (beta * height))
        z.append(np.full(count, height))
    right = _hidden(skip, beta, np.concatenate(weight) / 2, np.concatenate(x), np.concatenate(z))
    pairs = ((right.weight, 1), (right.x, -1), (right.z, 1), (right.a, -1), (right.tau, 1))
    return Hidden(*(np.concatenate([values, sign * values]) for values, sign in pairs))


def around(
    skip: float,
    beta: float,
    centre: Array,
    variance: float,
    log_accuracy: float,
    resolved: tuple[float, float] = (math.inf, 0.0),
) -> Hidden:
    """Nodes of h_1 ~ N(centre, variance I), see `nodes_around`."""
    where = (float(centre[0]), float(centre[1]))
    return Hidden(*nodes_around((skip, beta), where, variance, log_accuracy, resolved))


def _centre(skip: float, rho: float) -> float:
    """Real part of the poles of tau in w: arccosh(cosh(rho) + sinh(rho)/c)."""
    small = min(rho, 20.0)
    less_one = 2 * math.sinh(small / 2) ** 2 + math.sinh(small) / skip
    return 2 * math.asinh(math.sqrt(less_one / 2)) + rho - small


def _hidden(skip: float, beta: float, weight: Array, x: Array, z: Array) -> Hidden:
    """Attach A = s/t and tau = (1 + c)/t, t = c + eta."""
    _, s, _, t = layer(x, z, skip, beta)
    return Hidden(weight, x, z, s / t, (1 + skip) / t)


def _spacing(nodes: Hidden, reach: float) -> float:
    """See `Hidden.spacing`: neighbours along x, and along z where x is least."""
    left = np.sqrt(np.maximum(reach**2 + 2 * np.log(np.maximum(nodes.weight / nodes.weight.max(), 1e-300)), 0.0))
    v = left / nodes.tau
    largest = 0.0
    start = np.flatnonzero(np.diff(nodes.z) != 0) + 1
    for line in np.split(np.arange(len(nodes.z)), start):
        if len(line) > 1:
            near = np.minimum(v[line[1:]], v[line[:-1]])
            steps = np.hypot(np.diff(nodes.a[line]), np.diff(nodes.tau[line])) * near
            largest = max(largest, float(steps.max()))
    middle = np.array([line[np.argmin(np.abs(nodes.x[line]))] for line in np.split(np.arange(len(nodes.z)), start)])
    if len(middle) > 1:
        near = np.minimum(v[middle[1:]], v[middle[:-1]])
        steps = np.hypot(np.diff(nodes.a[middle]), np.diff(nodes.tau[middle])) * near
        largest = max(largest, float(steps[np.abs(np.diff(nodes.z[middle])) < 2].max(initial=0.0)))
    return largest
