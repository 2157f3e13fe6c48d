"""Expansion of deep attention in the inverse strength of the skip connection.

Rescaling every layer by 1/c turns (5) into ``B_l = [I + (1/c) sigma(B_{l-1} h_l^T h_l B_{l-1}^T)] B_{l-1}``; the
factor c^{2(l-1)} goes into the argument of the activation.  The same for keys and queries, and for H heads, where
B_l is a matrix of H x H blocks and ``X^(a) <- X^(a) + (1/c) sum_b o_ab S^b X^b``.  Everything below is the power
series of this recursion in epsilon = 1/c, to any order.
"""

from .expansion import DepthExpansion, expand, first_order_output, order_defect, permuted
from .recursion import committee, rescaled_link, rescaled_mixing

__all__ = [
    "DepthExpansion",
    "committee",
    "expand",
    "first_order_output",
    "order_defect",
    "permuted",
    "rescaled_link",
    "rescaled_mixing",
]
