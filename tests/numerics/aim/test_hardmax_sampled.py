"""Hardmax of more than five tokens: against sums over labels where these exist, and against sampling."""

import math
from functools import partial

import numpy as np
import pytest
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.aim import hardmax_many, hardmax_sampled, thresholds
from attnlimits.numerics.aim.channels import channel, pairs, variances
from attnlimits.numerics.aim.free_energy import psi_out_slope
from attnlimits.numerics.aim.hardmax_entropy import label_entropy
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.core.results import Estimate

SIXTHS = [0.0, 0.1, 0.5, 2.0, 10.0, 100.0, 1e4]


@pytest.mark.parametrize("tokens", [3, *(pytest.param(tokens, marks=pytest.mark.slow) for tokens in (4, 5))])
def test_the_interpolation_holds_where_labels_are_summed(tokens):
    """With F(0) and the entropy as they are known there, at all c."""
    start = hardmax_many.information(0.0, tokens)
    entropy = label_entropy(0.0, partial(hardmax_many.information, tokens=tokens))
    found = hardmax_sampled.ratio_from(
        Estimate(start.value, 0.0, "rigorous"), Estimate(entropy.value, 0.0, "rigorous"), tokens
    )
    two = [hardmax_many.hardmax.information_between(c).value for c in SIXTHS]
    for c, base in zip(SIXTHS, two, strict=True):
        value, error = found.at((1 + c) ** -0.5)
        known = hardmax_many.information(c, tokens)
        assert abs(value * base - known.value) <= error * base + known.error
        # Which is some per cent at most.
        assert error < 0.02 * value


def draws(tokens, c, count, rng):
    """omega and labels at V = 1."""
    spread = np.sqrt(variances(tokens))
    omega = math.sqrt(c) * spread * rng.standard_normal((count, len(spread)))
    h = np.empty((count, tokens, tokens))
    rows, columns = pairs(tokens)
    h[:, rows, columns] = h[:, columns, rows] = omega + spread * rng.standard_normal(omega.shape)
    return omega, h


@pytest.mark.slow_for("0.0", "3.0")
@pytest.mark.parametrize("c", [0.0, 0.5, 3.0])
def test_information_of_six_tokens_is_the_average_of_the_score(c, rng):
    """Of 250 draws; and Nishimori's identity, on the same."""
    output = channel("hardmax", 6)
    omega, h = draws(6, c, 250, rng)
    g = output.score(output.prepare(output.check(output.observe(h))), omega, 1.0)
    F = output.information(c)
    assert F.how == "monte-carlo" and F.error < 0.05 * F.value
    rows, columns = pairs(6)
    for terms in ((variances(6) * g**2).sum(axis=1), ((h[:, rows, columns] - omega) * g).sum(axis=1)):
        assert abs(terms.mean() - F.value) < 4 * terms.std() / math.sqrt(250) + F.error


def test_entropy_of_labels_falls_by_the_information():
    """dPsi/dV = -F/(2 V), by a difference of the evidence."""
    output, V = channel("hardmax", 6), 0.6
    low, high = (output.evidence(V * s, 1.5).value for s in (0.999, 1.001))
    assert (low - high) / (0.002 * V) == pytest.approx(psi_out_slope(V, 0.5, output).value, rel=1e-5)


@pytest.mark.parametrize("tokens", [3, 4, 5])
def test_ties_by_quadrature_are_the_arcsine_laws(tokens):
    ctx = MPContext()
    ctx.dps = 25
    assert abs(thresholds._integrated_ties(ctx, tokens) - thresholds._ties(ctx, tokens)) < 1e-22
    assert float(thresholds._integrated_ties(ctx, 7)) == pytest.approx(hardmax_many.ties(7), rel=1e-13)


def test_tail_of_six_tokens():
    """The error falls as 1/alpha^2, at a rate that sums over ties give."""
    output = channel("hardmax", 6)
    found = evolve(300.0, 0.5, output).mmse
    tail = float(thresholds.hardmax_tail(0.5, tokens=6))
    assert abs(300.0**2 * found.value / tail - 1) < 3e-3 + found.error / found.value


def test_weak_recovery_of_six_tokens():
    found = thresholds.weak_recovery(channel("hardmax", 6))
    assert found.how == "monte-carlo" and found.error < 0.02 * float(found.value)
    assert float(found.value) == pytest.approx(1 / (2 * channel("hardmax", 6).information(0.0).value), rel=1e-3)
    with pytest.raises(ValueError, match="digits must be <= 4"):
        thresholds.weak_recovery(channel("hardmax", 6), digits=5)


def test_labels_with_circles_have_no_probability():
    labels = np.array([[1, 2, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    assert hardmax_many.possible(labels).tolist() == [False, True, True, False]


@pytest.mark.slow
def test_message_passing_at_200_dimensions():
    """Four instances of 1600 samples: within three standard errors of the state evolution and its error."""
    output = channel("hardmax", 6)
    found = amp_instances(0.04, 0.5, 200, output, count=4, tol=1e-4, max_iter=60)
    expected = evolve(0.04, 0.5, output).mmse
    assert abs(found.error - expected.value) < 3 * found.error_of_error + expected.error
