"""Last layer of two layers of softmax attention with two tokens: the whole sum for given rules."""

from collections.abc import Callable

from .balls import Ball
from .law import softmax_law
from .output import norm_sum, output_nodes
from .steps import Rules
from .table import compress, compression, tables

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
    law = softmax_law(skip, beta, rules.plane)
    size = compression(law, rules.log_accuracy, rules.bits, rules.log_range)
    # The sums over the hidden law take most of the time.
    moments = compress(law, size, lambda share: tick(0.8 * share))
    u, u_weight, v, v_weight = output_nodes(rules.output)
    table = tables(moments, u, v)
    tick(0.95)
    return norm_sum(table, u, u_weight, v, v_weight, rules.output.floor)
