"""What a hidden layer takes from the eigenvalue of the last one at strong skip connections."""

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.linearization import strong_skip_loss


def deviation(tokens: int) -> sp.Matrix:
    return sp.Matrix(tokens, tokens, lambda i, j: sp.Symbol(f"D_{i}{j}", real=True))


def test_the_loss_at_rank_one():
    d = deviation(2)
    expected = 2 * (5 * (d * d.T).trace() + d.trace() ** 2 + (d * d).trace())
    assert sp.expand(strong_skip_loss(d) - expected) == 0


@pytest.mark.slow
def test_the_loss_at_rank_two_is_a_mean_over_samples():
    rng = np.random.default_rng(0)
    d = sp.Matrix(rng.integers(-2, 3, (3, 3)))
    h = rng.standard_normal((400_000, 2, 3))
    moved = np.array(d, dtype=float) @ (np.swapaxes(h, 1, 2) @ h)
    values = ((moved + np.swapaxes(moved, 1, 2)) ** 2).sum(axis=(1, 2)) / 4
    assert abs(float(strong_skip_loss(d, 2)) - values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_an_output_that_does_not_fix_all_products_is_refused():
    with pytest.raises(ValueError, match="below M = 2, got 2"):
        strong_skip_loss(deviation(2), 2)
