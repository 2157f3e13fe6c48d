"""Last layer of two layers of softmax attention with two tokens: the whole sum for given rules."""

from collections.abc import Callable

import numpy as np
from flint import arb

from ...arithmetic.ball import working_bits
from ...arithmetic.balls import Ball, Balls
from ...arithmetic.fixed_digits import Fixed, dot, from_balls
from ...core.blas import one_blas_thread
from .law import softmax_law
from .moments import compress, compression
from .output import output_nodes
from .quotient import squares_over
from .steps import Rules
from .table import Tables, tables

__all__ = ["softmax_norm"]


def softmax_norm(skip: Ball, beta: Ball, rules: Rules, tick: Callable[[float], None]) -> Ball:
    """Operator norm 1/alpha, at the precision in force.

    Parameters
    ----------
    skip, beta : arb
    rules : Rules
        Their steps and cuts decide the accuracy; the radius of the result holds the rounding alone.
    tick : callable
        Called with the share that is done.

    Returns
    -------
    arb

    References
    ----------
    troiani2025, (15)-(16), (184)-(185).
    """
    with working_bits(rules.law_bits):
        law = softmax_law(skip, beta, rules.plane)
    size = compression(law, rules.log_accuracy, rules.log_range)
    # The products are small: threads would only wait for each other.
    with working_bits(rules.sum_bits), one_blas_thread():
        u, u_weight, v, v_weight = output_nodes(rules.output)
        moments = compress(law, size, lambda share: tick(0.7 * share))
        table = tables(moments, u, v)
        tick(0.95)
        return _norm_sum(table, u_weight, v_weight, rules.output.floor)


def _norm_sum(table: Tables, u_weight: Balls, v_weight: Balls, floor: float) -> Ball:
    """Sum of (N_++^2 + 2 N_+-^2 + N_--^2)/Z over the plane, N = M - Z I.

    Z = E[1 ..] is the density of (u, v), M_ab = E[h_a h_b ..] its second moments; points below `floor` are left out.
    """
    kept = table.z.value > np.maximum(floor, 2 * table.z.error)
    found = squares_over(*(part[kept] for part in (table.z, table.pp, table.pm, table.mm)))
    scale = found.scale
    ratio = Fixed(np.zeros(table.z.digits.shape), np.zeros(kept.shape))
    ratio.digits[:, kept], ratio.error[kept] = found.digits, found.error
    line = dot(from_balls(v_weight, scale)[None], ratio)
    (total,) = dot(line, from_balls(u_weight, scale)[None])[0].balls()
    return total * 2 / arb.pi()
