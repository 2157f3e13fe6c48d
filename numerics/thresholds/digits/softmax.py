"""Last layer of two layers of softmax attention with two tokens: the whole sum for given rules."""

from collections.abc import Callable

from threadpoolctl import threadpool_limits

from ...arithmetic.ball import working_bits
from ...arithmetic.balls import Ball
from .law import softmax_law
from .output import norm_sum, output_nodes
from .steps import Rules

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
    # Compiled loops take a while to load.
    from .moments import compress, compression
    from .table import tables

    with working_bits(rules.law_bits):
        law = softmax_law(skip, beta, rules.plane)
    size = compression(law, rules.log_accuracy, rules.log_range)
    # The products are small: threads would only wait for each other.
    with working_bits(rules.sum_bits), threadpool_limits(1, "blas"):
        u, u_weight, v, v_weight = output_nodes(rules.output)
        moments = compress(law, size, lambda share: tick(0.7 * share))
        table = tables(moments, u, v)
        tick(0.95)
        return norm_sum(table, u_weight, v_weight, rules.output.floor)
