"""What can be said about a link without numbers: vanishing moments by parity, and exact thresholds.

At omega = 0 and V = I the entries of h are independent standard normal. The operator (15) needs
G(y) = E[h h^T | y] - I; E[h | y] must vanish, or the threshold is zero. Outputs that share no entry of h have
independent posteriors, and as E G = 0 their operators add.
"""

from .boxes import discrete_operator
from .information import linear_information, monotone
from .operators import Pair, direction_pair, fixed_pair, group_pair, pair_operator, radial_pair
from .symmetries import flips, radial, second_moment_fixed, single_direction, symmetry_maps
from .thresholds import operator_threshold

__all__ = [
    "Pair",
    "direction_pair",
    "discrete_operator",
    "fixed_pair",
    "flips",
    "group_pair",
    "linear_information",
    "monotone",
    "operator_threshold",
    "pair_operator",
    "radial",
    "radial_pair",
    "second_moment_fixed",
    "single_direction",
    "symmetry_maps",
]
