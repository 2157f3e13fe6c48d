"""The operator norm 1/alpha of the last layer as a sum over a grid of outputs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from ...arithmetic.balls import Ball, Balls
from .law import LineRule

if TYPE_CHECKING:
    from .table import Tables

__all__ = ["OutputRule", "norm_sum", "output_nodes"]


@dataclass(frozen=True)
class OutputRule:
    """Grid of outputs: u = k step; v = v_scale sinh(Y); negligible below `floor`.

    Attributes
    ----------
    u, v : LineRule
        Trapezoidal rules in u >= 0 and in Y >= 0.
    v_scale : float
    floor : float
        Points whose density is below are left out.
    """

    u: LineRule
    v: LineRule
    v_scale: float
    floor: float


def output_nodes(rule: OutputRule) -> tuple[Balls, Balls, Balls, Balls]:
    """Nodes and weights of u and of v."""
    step = arb(rule.u.step)
    u = [k * step for k in range(rule.u.count)]
    u_weight = [step / 2, *[step] * (rule.u.count - 1)]
    step = arb(rule.v.step)
    scale = arb(rule.v_scale)
    v = [scale * (k * step).sinh() for k in range(rule.v.count)]
    v_weight = [scale * (k * step).cosh() * step for k in range(rule.v.count)]
    v_weight[0] = v_weight[0] / 2
    return u, u_weight, v, v_weight


def norm_sum(table: "Tables", u_weight: Balls, v_weight: Balls, floor: float) -> Ball:
    """Sum of (N_++^2 + 2 N_+-^2 + N_--^2)/Z over the plane.

    Z = E[1 ..] is the density of (u, v), M_ab = E[h_a h_b ..] its second moments and N = M - Z I.

    Parameters
    ----------
    table : Tables
    u_weight, v_weight : list of arb
    floor : float
        Points whose density is below it or below its error are left out.

    References
    ----------
    troiani2025, (184)-(185).
    """
    # Its compiled loops take a while to load.
    from ...arithmetic.fixed_digits import Fixed, dot, from_balls
    from .quotient import squares_over

    kept = table.z.value > np.maximum(floor, 2 * table.z.error)
    found = squares_over(*(part[kept] for part in (table.z, table.pp, table.pm, table.mm)))
    scale = found.scale
    ratio = Fixed(np.zeros(table.z.digits.shape), np.zeros(kept.shape))
    ratio.digits[:, kept], ratio.error[kept] = found.digits, found.error
    line = dot(from_balls(v_weight, scale)[None], ratio)
    (total,) = dot(line, from_balls(u_weight, scale)[None])[0].balls()
    return total * 2 / arb.pi()
