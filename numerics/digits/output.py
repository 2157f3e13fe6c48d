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


def norm_sum(table: Tables, u: Balls, u_weight: Balls, v: Balls, v_weight: Balls, floor: float) -> Ball:
    """Sum of (N_++^2 + 2 N_+-^2 + N_--^2)/Z over the plane.

    Z = E[1 ..] is the density of (u, v), M_ab = E[h_a h_b ..] its second moments and N = M - Z I.

    References
    ----------
    troiani2025, (184)-(185).
    """
    total = arb(0)
    for k, (x, wx) in enumerate(zip(u, u_weight, strict=True)):
        x2 = x * x
        row = arb(0)
        for y, wy, z, a, a2, b, tau, tau_a in zip(
            v, v_weight, table.z[k], table.a[k], table.a2[k], table.b[k], table.tau[k], table.tau_a[k], strict=True
        ):
            if not z > floor:
                continue
            y2 = y * y
            shift = y2 * a2
            pp = x2 * z - 2 * x * y * a + shift - z
            pm = x * y * tau - y2 * tau_a
            mm = y2 * b - shift - z
            row += wy * (pp * pp + 2 * pm * pm + mm * mm) / z
        total += wx * row
    return total * 2 / arb.pi()
