"""Numbers by finer and finer rules, until two of them agree."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_finer_rules"]

Array = NDArray[np.float64]
Rule = TypeVar("Rule")

# The next rule is taken while two differ by more than this of the size of what they are of.
_AGREE = 1e-11


def by_finer_rules(
    by: Callable[[Rule], tuple[Array, float]], rules: Sequence[Rule], unresolved: float, wanted: float = 0.0
) -> tuple[Array, Array, float] | None:
    """Numbers by the last rule taken, their distance to those by the one before, and the size they are relative to.

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
    for rule in rules:
        with np.errstate(all="ignore"):
            found, size = by(rule)
            gap = np.abs(found - before)
        if (gap <= max(_AGREE, wanted) * size).all():
            break
        before = found
    if not (np.isfinite(found).all() and (gap <= unresolved * size).all()):
        return None
    return found, gap, size
