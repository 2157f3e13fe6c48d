"""Law of the hidden layer of two-token softmax attention as nodes and weights, in balls.

In token modes B_1 = (1 + c) [[1, S], [0, T]] and y fixes v = h_2 B_1^T up to its sign. With v_+ = (1 + c) u and
v_- = (1 + c) v the last indices are
    h_+ = u - A v,    h_- = tau v,    A = s/t,    tau = (1 + c)/t,    t = c + eta,
so the hidden layer enters through (A, tau) alone. With h_1 = (x, z) in modes, rho = beta z^2 and w = beta x z,
    eta = sinh(rho)/(cosh(rho) + cosh(w)),    s = sinh(w)/(cosh(rho) + cosh(w)).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.plain import numerators

from ...arithmetic.balls import Ball, Balls

__all__ = ["LawNodes", "LineRule", "PlaneRule", "softmax_law"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LineRule:
    """Trapezoidal rule in Y >= 0 for an even integrand: nodes 0, step, .., (count - 1) step, the first one halved."""

    step: float
    count: int


@dataclass(frozen=True)
class PlaneRule:
    """Nested rule for h_1: z = z_scale sinh(Y), and for each z a line in w.

    Attributes
    ----------
    z_scale : float
    z : LineRule
    w : sequence of LineRule
        One for each node z > 0: w = sinh(Y) sqrt(pi^2 + rho^2/cosh(Y)^2). z = 0 needs none: there (A, tau) is constant.
    """

    z_scale: float
    z: LineRule
    w: Sequence[LineRule]


@dataclass(frozen=True)
class LawNodes:
    """Nodes of the law of (A, tau): weight, A^2 and tau of each; weights sum to one."""

    weight: Balls
    square: Balls
    tau: Balls

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.weight)


def softmax_law(skip: Ball, beta: Ball, rule: PlaneRule) -> LawNodes:
    """Nodes of the law of (A^2, tau) for one hidden layer.

    Parameters
    ----------
    skip, beta : arb
        c > 0 and beta > 0.
    rule : PlaneRule

    Returns
    -------
    LawNodes
        At the precision in force. The law of A is symmetric at fixed tau, so A^2 says all.

    Notes
    -----
    E f = (2/pi) int_0^oo dz exp(-z^2/2)/(beta z) int_0^oo dw exp(-w^2/(2 beta rho)) f, and f is even in both.
    In w the kernel has its poles at w = +-rho + i pi (odd); the map of `LineRule` widens both neighbourhoods and
    has them at cosh(Y)^2 = i rho/pi, at an imaginary distance of pi/4 or more from the real Y.
    """
    nodes = LawNodes([], [], [])
    scale = arb(rule.z_scale)
    step_z = arb(rule.z.step)
    # z = 0: eta = s = 0, and the integral over x is that of its density.
    nodes.weight.append((2 / arb.pi()).sqrt() * scale * step_z / 2)
    nodes.square.append(arb(0))
    nodes.tau.append((1 + skip) / skip)
    up, down = step_z.exp(), (-step_z).exp()
    rise, fall = up, down
    for line in rule.w:
        z = scale * (rise - fall) / 2
        dz = scale * (rise + fall) / 2 * step_z
        rise, fall = rise * up, fall * down
        rho = beta * z * z
        common = 2 / arb.pi() * (-z * z / 2).exp() / (beta * z) * dz
        _line(skip, rho, common, -1 / (2 * beta * rho), line, nodes)
    return nodes


def _line(skip: Ball, rho: Ball, common: Ball, rate: Ball, rule: LineRule, nodes: LawNodes) -> None:
    """Append the nodes w >= 0 at one rho."""
    cosh_rho, sinh_rho = rho.cosh(), rho.sinh()
    rise_rho, fall_rho = cosh_rho + sinh_rho, cosh_rho - sinh_rho
    centre = (cosh_rho + sinh_rho / skip).acosh()
    strip, centre = arb.pi() ** 2, centre * centre
    step = arb(rule.step)
    common = common * step
    up, down = step.exp(), (-step).exp()
    # 2 sinh(Y) and 2 cosh(Y) by recurrence.
    rise = fall = arb(1)
    one, top = arb(1), 1 + skip
    for k in range(rule.count):
        sinh, cosh = (rise - fall) / 2, (rise + fall) / 2
        rise, fall = rise * up, fall * down
        ratio = centre / (cosh * cosh)
        root = (strip + ratio).sqrt()
        w = sinh * root
        slope = (cosh * root * root - ratio * sinh * sinh / cosh) / root
        e = (-w).exp()
        upper, lower, total = numerators(rise_rho * e, fall_rho * e, one, e * e, skip)
        inverse = 1 / lower
        shift = upper * inverse
        mass = common * slope * (rate * w * w).exp()
        nodes.weight.append(mass / 2 if k == 0 else mass)
        nodes.square.append(shift * shift)
        nodes.tau.append(top * total * inverse)
