"""Weak-recovery thresholds that are known exactly, each derived from its link by SymPy.

`level_sets` turns the level sets of a link into its threshold; there is one module for each family of links, and
`table` names them all.
"""

from .attention import pair_rank
from .level_sets import (
    Branch,
    Output,
    Threshold,
    linear_information,
    operator_matrix,
    threshold_of_link,
    top_eigenpair,
)
from .table import TABLE, ClosedForm, find

__all__ = [
    "TABLE",
    "Branch",
    "ClosedForm",
    "Output",
    "Threshold",
    "find",
    "linear_information",
    "operator_matrix",
    "pair_rank",
    "threshold_of_link",
    "top_eigenpair",
]
