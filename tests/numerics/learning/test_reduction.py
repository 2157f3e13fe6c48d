"""Sums in an order that depends on their number alone."""

import numpy as np
import pytest

from attnlimits.numerics.learning.reduction import FAN, Sums


def tree(terms):
    """The same sums level by level, as a cluster adds them."""
    while len(terms) > 1:
        groups = [terms[k : k + FAN] for k in range(0, len(terms), FAN)]
        terms = []
        for group in groups:
            total = group[0].copy()
            for term in group[1:]:
                total += term
            terms.append(total)
    return terms[0]


@pytest.mark.parametrize(
    "count", [1, 2, FAN - 1, FAN, FAN + 1, 3 * FAN, FAN**2 - 1, FAN**2, FAN**2 + 1, 7 * FAN**2 + 13]
)
def test_one_after_the_other_as_level_by_level(count, rng):
    """To the last bit, where another order gives another one; every array of its own."""
    first, second = rng.standard_normal((count, 50)), rng.standard_normal((count, 2, 2))
    sums = Sums()
    for a, b in zip(first.copy(), second.copy(), strict=True):
        sums.add(a, b)
    found = sums.total()
    assert (found[0] == tree(list(first))).all() and (found[1] == tree(list(second))).all()
    assert found[0] == pytest.approx(first.sum(axis=0), abs=1e-15 * count**2)
    if count > 2 * FAN:
        assert (found[0] != np.add.accumulate(first)[-1]).any()
