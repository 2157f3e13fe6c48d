"""Paired comparison of fits: its size where there is nothing, its power where the errors alone show nothing."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from attnlimits.numerics.multihead.batch import Batch
from attnlimits.numerics.multihead.layer import multihead
from attnlimits.numerics.multihead.paired import paired
from attnlimits.numerics.multihead.teachers import make_teacher


def test_squared_errors_are_those_of_each_example(rng):
    theta, w = make_teacher("gauss", 2, 4, rng=rng)
    X, Y = rng.standard_normal((2, 30, 3, 4))
    expected = ((multihead(X, theta, w) - Y) ** 2).sum(axis=(1, 2))
    assert np.allclose(Batch(X, Y).squares(theta, w), expected, rtol=1e-12)


def test_probabilities_are_uniform_where_neither_is_better():
    rng = np.random.default_rng(1)
    common = rng.standard_normal((400, 300)) ** 2
    found = [paired(one + a, one + b).p for one, (a, b) in zip(common, rng.standard_normal((400, 2, 300)), strict=True)]
    # 400 draws: a larger distance from uniform has probability 0.1 %.
    assert kstest(found, "uniform").pvalue > 1e-3


def test_what_is_common_drops_out():
    """A gain of a tenth of the standard error of either error is ten of its own."""
    rng = np.random.default_rng(2)
    common = 10 * rng.standard_normal(1000) ** 2
    first, second = common + 0.1 + 0.3 * rng.standard_normal(1000), common
    found = paired(first, second)
    assert found.gain < 0.3 * common.std() / math.sqrt(1000)
    assert found.gain == pytest.approx(0.1, abs=4 * 0.3 / math.sqrt(1000)) and found.p < 1e-9
    assert paired(second, first).p == pytest.approx(1 - found.p)


def test_few_examples():
    assert paired(np.ones(1), np.zeros(1)) == (1.0, math.inf, 0.5)
    assert paired(np.ones(3), np.ones(3)).p == 0.5 and paired(np.ones(3), np.zeros(3)).p == 0.0
