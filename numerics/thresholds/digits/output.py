"""A grid of outputs, over which the operator norm 1/alpha of the last layer is a sum."""

from dataclasses import dataclass

from flint import arb

from ...arithmetic.balls import Balls
from .law import LineRule

__all__ = ["OutputRule", "output_nodes"]


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
