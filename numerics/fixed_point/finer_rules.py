"""Numbers by finer and finer rules, until two of them agree."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Refined", "by_finer_rules"]

Array = NDArray[np.float64]
Rule = TypeVar("Rule")


class Refined(NamedTuple):
    """Numbers by the last rule, their distance to those by the one before, and the size of what they are of.

    `coarse` are those by the first rule.
    """

    value: Array
    gap: Array
    size: float
    coarse: Array


def by_finer_rules(
    by: Callable[[Rule], tuple[Array, float]], rules: Sequence[Rule], unresolved: float, wanted: float = 0.0
) -> Refined | None:
    """Numbers by the last rule taken.

    Parameters
    ----------
    by : callable
        From a rule to numbers and the size of what they are of.
    rules : sequence
        Coarse to fine.
    unresolved : float
        Relative distance of the last two from which on they have not converged: None then.
    wanted : float, optional
        Relative distance of two rules that is small enough.
    """
    before, gap, found, size = np.full(1, np.inf), np.full(1, np.inf), np.full(1, np.nan), 1.0
    coarse: Array | None = None
    # The next rule is taken while two differ by more than this of the size of what they are of.
    agree = 1e-11
    for rule in rules:
        with np.errstate(all="ignore"):
            found, size = by(rule)
            gap = np.abs(found - before)
        if (gap <= max(agree, wanted) * size).all():
            break
        before = found
        coarse = found if coarse is None else coarse
    if not (np.isfinite(found).all() and (gap <= unresolved * size).all()):
        return None
    return Refined(found, gap, size, found if coarse is None else coarse)
