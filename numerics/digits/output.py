"""The operator norm 1/alpha of the last layer as a sum over a grid of outputs."""

from flint import arb

from .balls import Ball, Balls
from .law import LineRule
from .table import Tables

__all__ = ["OutputRule", "norm_sum", "output_nodes"]

from dataclasses import dataclass


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


def norm_sum(table: Tables, u_weight: Balls, v_weight: Balls, floor: float) -> Ball:
    """Sum of (N_++^2 + 2 N_+-^2 + N_--^2)/Z over the plane.

    Z = E[1 ..] is the density of (u, v), M_ab = E[h_a h_b ..] its second moments and N = M - Z I.

    References
    ----------
    troiani2025, (184)-(185).
    """
    total = arb(0)
    for x, *rows in zip(u_weight, table.z, table.pp, table.pm, table.mm, strict=True):
        line = arb(0)
        for y, z, pp, pm, mm in zip(v_weight, *rows, strict=True):
            if z > floor:
                line += y * (pp * pp + 2 * (pm * pm) + mm * mm) / z
        total += x * line
    return total * 2 / arb.pi()
