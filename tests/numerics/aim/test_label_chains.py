"""Hardmax labels of more than two tokens: probabilities and slopes against draws, differences and the closed form."""

import itertools
import math

import numpy as np
import pytest

from attnlimits.numerics.aim.bivariate import log_phi2
from attnlimits.numerics.aim.channels import Hardmax, HardmaxMany, channel, pairs, variances
from attnlimits.numerics.aim.hardmax import information_between
from attnlimits.numerics.aim.hardmax_many import information, labels, summed, ties
from attnlimits.numerics.aim.label_chains import label_chains
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.aim.thresholds import hardmax_tail, weak_recovery
from attnlimits.numerics.core.errors import ConvergenceError, UnreachableOutputError
from attnlimits.numerics.quadrature.rules import normal_qmc


def label_of(h, tokens):
    rows, columns = pairs(tokens)
    full = np.zeros((len(h), tokens, tokens))
    full[:, rows, columns] = full[:, columns, rows] = h
    return full.argmax(axis=2)


def draws(tokens, n, c, rng):
    """omega ~ N(0, c (1 + delta)) and the label of h ~ N(omega, 1 + delta)."""
    root = np.sqrt(variances(tokens))
    omega = math.sqrt(c) * root * rng.standard_normal((n, len(root)))
    return omega, label_of(omega + root * rng.standard_normal(omega.shape), tokens), np.broadcast_to(root, omega.shape)


@pytest.mark.parametrize(("tokens", "number"), [(2, 4), (3, 25), (4, 218), (5, 2451)])
def test_labels_are_those_that_occur(tokens, number, rng):
    """A functional graph whose circles have at most two rows; the others need equal entries."""
    assert len(labels(tokens)) == number
    place = tokens ** np.arange(tokens)
    seen = label_of(np.sqrt(variances(tokens)) * rng.standard_normal((20000, len(variances(tokens)))), tokens) @ place
    assert set(seen) <= set(labels(tokens) @ place)
    if tokens < 4:
        assert len(set(seen)) == number


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_probabilities_sum_to_one(tokens, rng):
    every = labels(tokens)
    for c in (0.3, 4.0):
        omega, _, _ = draws(tokens, 1, c, rng)
        spread = 0.4 + rng.random(omega.shape)
        # Rounding and quadrature, 1e-10 for each of the likely labels.
        shape = (len(every), omega.shape[1])
        log_z, off, g = label_chains(every, np.broadcast_to(omega, shape), np.broadcast_to(spread, shape))
        assert abs(np.exp(log_z).sum() - 1) < 1e-8 and off.max() < 1e-3
        # And so their slopes cancel.
        assert np.abs(np.exp(log_z) @ g).max() < 1e-8


def test_probabilities_are_frequencies(rng):
    """400000 draws at a fixed omega and unequal spreads, to five standard errors."""
    omega, spread, n = np.array([0.3, -0.2, 0.5, 1.0, 0.1, -0.4]), np.array([1.4, 0.8, 1.1, 0.5, 1.0, 1.7]), 400_000
    place = 3 ** np.arange(3)
    found = np.bincount(label_of(omega + spread * rng.standard_normal((n, 6)), 3) @ place, minlength=27)
    every = labels(3)
    log_z, _, _ = label_chains(every, np.broadcast_to(omega, (25, 6)), np.broadcast_to(spread, (25, 6)))
    p = np.exp(log_z)
    assert (np.abs(found[every @ place] / n - p) < 5 * np.sqrt(p / n) + 1e-5).all()


def test_two_tokens_are_the_closed_form(rng):
    for c in (0.0, 2.0, 100.0):
        omega, label, spread = draws(2, 20, c, rng)
        log_z, _, g = label_chains(label, omega, spread)
        y = np.eye(2)[label]
        signs = Hardmax().prepare(y)
        k = signs * (omega[:, [0, 2]] - omega[:, 1:2]) / math.sqrt(3)
        assert np.allclose(log_z, log_phi2(k[:, 0], k[:, 1], signs.prod(axis=1) / 3), rtol=0, atol=1e-8)
        assert np.allclose(g, Hardmax().score(signs, omega, 1.0), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("tokens", [3, 4, 5])
def test_scores_are_slopes(tokens, rng):
    omega, label, spread = draws(tokens, 4, 3.0, rng)
    _, _, g = label_chains(label, omega, spread)
    for entry in range(omega.shape[1]):
        step = 1e-4 * np.eye(omega.shape[1])[entry]
        up, down = (label_chains(label, omega + s * step, spread)[0] for s in (1, -1))
        # Cut-off 1e-8 and the errors of log Z over the step.
        assert np.allclose((up - down) / 2e-4, g[:, entry], rtol=0, atol=2e-5)


def test_labels_that_omega_excludes(rng):
    """The posterior is near the h closest to omega; ten standard deviations off, and three hundred."""
    root = np.sqrt(variances(3))
    for far, tolerance in ((10.0, 0.3), (300.0, 0.05)):
        omega = far * root * rng.standard_normal((200, 6))
        label = label_of(root * rng.standard_normal((200, 6)), 3)
        log_z, off, g = label_chains(label, omega, np.broadcast_to(root, omega.shape))
        assert np.isfinite(g).all() and np.isfinite(log_z).all() and off.max() < 0.02
        mean = omega + variances(3) * g
        top = np.zeros((200, 3, 3))
        top[:, *pairs(3)] = mean
        top = np.maximum(top, top.swapaxes(1, 2)) + np.minimum(top, top.swapaxes(1, 2))
        top[:, np.arange(3), np.arange(3)] /= 2
        # A mean of h that has the label has it too: the set is convex.
        gap = top.max(axis=2) - np.take_along_axis(top, label[:, :, None], 2)[:, :, 0]
        assert gap.max() < tolerance * (0.01 if far == 10.0 else 1.0)


def test_permutations_are_used_and_change_nothing():
    omega = np.zeros(6)
    omega[0] = 0.7
    every = labels(3)
    shape = (len(every), 6)
    log_z, _, g = label_chains(every, np.broadcast_to(omega, shape), np.broadcast_to(np.sqrt(variances(3)), shape))
    assert summed(omega, 3)[0] == pytest.approx(float(np.exp(log_z) @ (g * g @ variances(3))), rel=1e-12)


@pytest.mark.slow_for("4")
@pytest.mark.parametrize("tokens", [3, 4])
def test_information_without_knowledge_is_that_of_class_means(tokens, rng):
    """At c = 0 g is the mean of h over all h of the label: F(0) from 600000 draws, whose noise is subtracted."""
    n, place = 600_000, tokens ** np.arange(tokens)
    root = np.sqrt(variances(tokens))
    z = rng.standard_normal((n, len(root)))
    code = label_of(root * z, tokens) @ place
    sizes = np.bincount(code, minlength=tokens**tokens)
    live = sizes > 1
    sums = np.stack([np.bincount(code, column, minlength=tokens**tokens) for column in z.T], axis=1)[live]
    squares = np.stack([np.bincount(code, column**2, minlength=tokens**tokens) for column in z.T], axis=1)[live]
    count = sizes[live][:, None]
    unbiased = (sums**2 - squares) / (count - 1)
    value = float(unbiased.sum()) / n
    F = information(0.0, tokens)
    # The standard error, from the spread of 2 z.mean, is below 0.004.
    assert value == pytest.approx(F.value, abs=0.016)
    assert F.error < 1e-9
    assert float(weak_recovery(channel("hardmax", tokens)).value) == pytest.approx(1 / (2 * value), rel=0.006)


@pytest.mark.slow_for("4-3.0")
@pytest.mark.parametrize(("tokens", "c"), [(3, 0.5), (3, 30.0), (4, 3.0)])
def test_information_is_the_mean_square_of_the_score(tokens, c, rng):
    """To four standard errors of 3000 draws, or of 400 with more tokens: 2 to 10 per cent."""
    omega, label, spread = draws(tokens, 3000 if tokens == 3 else 400, c, rng)
    terms = label_chains(label, omega, spread)[2] ** 2 @ variances(tokens)
    F = information(c, tokens)
    assert 0 < F.error < 4e-3 * F.value
    assert abs(terms.mean() - F.value) < 4 * terms.std() / math.sqrt(len(terms))


@pytest.mark.parametrize("tokens", [2, 3, 4, 5])
def test_ties_count_the_boundaries_of_labels(tokens, rng):
    """Against draws: N = sum over rows and pairs of P[both above the others | they are equal]."""
    n, total = 200_000, 0.0
    for v, w, number in ((2, 1, tokens - 1), (1, 1, math.comb(tokens - 1, 2))):
        own = [1] * (tokens - 2) if v == 2 else [2] + [1] * (tokens - 3)
        value = math.sqrt(v * w / (v + w)) * rng.standard_normal(n)
        others = np.sqrt(own) * rng.standard_normal((n, len(own))) if own else np.full((n, 1), -np.inf)
        total += number * float((others.max(axis=1) < value).mean()) if number else 0.0
    # Standard errors 0.0011 times at most T (T + 1) terms.
    assert ties(tokens) == pytest.approx(tokens * total, abs=0.005 * tokens * (tokens + 1) / 2)


def test_tail_of_three_tokens():
    constant = 1.8063946 / math.sqrt(2 * math.pi)
    assert math.sqrt(1e9) * information(1e9, 3).value == pytest.approx(ties(3) * constant, rel=1e-4)
    tail = float(hardmax_tail("1/2", tokens=3))
    assert tail == pytest.approx(float(hardmax_tail("1/2")) * (2 / 4.5) ** 2, rel=1e-12)
    # Corrections to it are of the order of 1/alpha, of which two values leave the square.
    at = [alpha**2 * evolve(alpha, 0.5, channel("hardmax", 3)).mmse.value for alpha in (500.0, 1000.0)]
    assert 2 * at[1] - at[0] == pytest.approx(tail, rel=2e-3)


def test_more_tokens_tell_more_and_evolution_says_how_well_it_is_known():
    two, three = (evolve(0.1, 0.5, channel("hardmax", tokens)) for tokens in (2, 3))
    assert three.mmse.value < two.mmse.value
    assert 0 < three.mmse.error < 2e-3 and three.converged
    small = evolve(0.18, 0.0, channel("hardmax", 3))
    assert small.mmse.value < 1 == evolve(0.175, 0.0, channel("hardmax", 3)).mmse.value


@pytest.mark.parametrize("start", [1, 2])
def test_circles_are_refused(start):
    y = np.eye(3)[(np.arange(3) + start) % 3][None]
    with pytest.raises(UnreachableOutputError, match="circle of three tokens"):
        HardmaxMany(3).check(y)


def test_scores_that_are_not_known_are_refused():
    """Beyond the range of float64 nothing is left to compare."""
    output = HardmaxMany(3)
    omega = np.array([[np.nan, 0.0, 0.0, 0.0, 0.0, 0.0]])
    with pytest.raises(ConvergenceError, match="raise the damping"):
        output.score(np.zeros((1, 3)), omega, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.5, 3.0])
def test_information_of_three_tokens_to_some_thousandths(c):
    """All 25 labels at each of 16 x 128 randomised points of omega: three standard errors, of 2e-3 at most."""
    every, root = labels(3), np.sqrt(variances(3))
    means = []
    for seed in range(16):
        omega = math.sqrt(c) * root * normal_qmc(6, 7, np.random.default_rng(seed))
        pairs_ = list(itertools.product(range(len(every)), range(len(omega))))
        which, where = np.array(pairs_).T
        log_z, _, g = label_chains(every[which], omega[where], np.broadcast_to(root, (len(which), 6)))
        means.append(float(np.exp(log_z) @ (g * g @ variances(3))) / len(omega))
    F = information(c, 3)
    spread = np.std(means, ddof=1) / 4
    assert spread < 3e-3 * F.value
    assert abs(np.mean(means) - F.value) < 3 * spread + F.error
    # It is a correction of the form with two tokens by some per cent.
    assert F.value / information_between(c).value == pytest.approx(2.27, abs=0.03)
