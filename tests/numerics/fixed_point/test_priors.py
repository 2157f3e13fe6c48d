"""State evolution with other priors: against plain integrals and iterations, and known transitions."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import attnlimits as al
from attnlimits.numerics.priors import Binary, GaussBernoulli, Gaussian

from ...benchmarks.competent.signs import averages

STEP = 0.01
X = STEP * np.arange(-900, 901)
NORMAL = np.exp(-0.5 * X * X) * STEP / math.sqrt(2 * math.pi)
SUM = "sign(h[1])+sign(h[2])"


def of_a_sign(q):
    """G of y = sign(h)."""
    v = 1 - q
    x = math.sqrt(q / v) * X
    return NORMAL @ (np.exp(-x * x) / (2 * math.pi * v) * (1 / ndtr(x) + 1 / ndtr(-x)))


def of_an_entry(qhat):
    """F of +-1."""
    return NORMAL @ np.tanh(qhat + math.sqrt(qhat) * X)


def of_a_pair(qhat):
    """F of w_+- = (w_1 +- w_2)/sqrt(2), w_i = +-1, by a sum over the four rows; qhat of the two axes."""
    rows = math.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    root = np.sqrt(qhat)
    x, w = X[::10], NORMAL[::10] * 10
    z = np.array(np.meshgrid(x, x, indexing="ij"))
    found = np.zeros(2)
    for row in rows:
        y = z + (root * row)[:, None, None]
        log = np.tensordot(rows * root, y, 1) - 0.5 * (rows**2 @ qhat)[:, None, None]
        weight = np.exp(log - log.max(axis=0))
        mean = np.tensordot(rows.T, weight / weight.sum(axis=0), 1)
        found += 0.25 * np.einsum("i,j,aij->a", w, w, mean**2)
    return found


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.4])
def test_binary_perceptron(alpha):
    """Teacher and student of gyorgyi1990: by plain iteration."""
    q, before = 0.5, 0.0
    while abs(q - before) > 1e-14:
        before, q = q, of_an_entry(alpha * of_a_sign(q))
    found = al.evolve(al.Link("sign(h[1])"), alpha, prior=Binary())
    assert abs(found.overlap[0, 0] - q) <= found.overlap_error[0, 0] + 1e-13
    assert found.overlap_error[0, 0] < 1e-12 and found.reached
    assert "binary prior" in found.status and found.origin.settings["prior"] == "binary prior"


def test_where_the_binary_perceptron_is_recovered():
    """The spinodal of gyorgyi1990, 1.49: where the derivative of alpha along the branch vanishes."""
    found = al.curve(al.Link("sign(h[1])"), [1.0, 1.4, 1.6], prior=Binary())
    (jump,) = found.jumps
    low, high = 0.85, 0.93

    def alpha(q):
        a, b = 1e-3, 50.0
        while b - a > 1e-13 * b:
            middle = 0.5 * (a + b)
            a, b = (middle, b) if of_an_entry(middle) < q else (a, middle)
        return a / of_a_sign(q)

    for _ in range(40):
        thirds = low + (high - low) / 3, high - (high - low) / 3
        low, high = (thirds[0], high) if alpha(thirds[0]) < alpha(thirds[1]) else (low, thirds[1])
    assert abs(jump.value - alpha(0.5 * (low + high))) <= jump.error + 1e-9
    assert found.points["uninformed"][-1].overlap[0, 0] == pytest.approx(1, abs=1e-5)
    for point in found.points["uninformed"][:2]:
        single = al.evolve(al.Link("sign(h[1])"), point.parameter, prior=Binary())
        assert np.abs(single.overlap - point.overlap).max() <= 1e-12


@pytest.mark.parametrize("alpha", [1.0, 1.75])
def test_two_coupled_entries_of_a_row(alpha):
    """The sum of two signs, before its units specialise and after: the prior couples what the link does."""
    q, before = np.array([0.4, 0.1 if alpha > 1.6 else 0.0]), np.zeros(2)
    while np.abs(q - before).max() > 1e-11:
        before, q = q, of_a_pair(alpha * averages(q, 60))
    found = al.evolve(al.Link(SUM), alpha, prior=Binary())
    assert abs(found.overlap[0].sum() - q[0]) <= 2 * found.overlap_error.max() + 1e-9
    assert abs(found.overlap[0, 0] - found.overlap[0, 1] - q[1]) <= 2 * found.overlap_error.max() + 1e-9
    assert found.reached and found.overlap_error.max() < 1e-6


def test_what_is_learned_says_of_directions_without_overlap():
    """Given the sum of two entries +-1 their difference is 0 or +-2: it grows faster than without."""
    stairs = al.staircase(al.Link(SUM), prior=Binary())
    onset = stairs.steps[1]
    alpha = float(onset.value)
    q, before = np.array([0.6, 0.0]), np.zeros(2)
    while np.abs(q - before).max() > 1e-12:
        before, q = q, of_a_pair(alpha * averages(q, 60))
    small = 1e-5
    grown = of_a_pair(alpha * averages(np.array([q[0], small]), 60))[1]
    assert abs(grown / small - 1) < 1e-3
    assert onset.error < 1e-6 and onset.transition == "continuous"
    gaussian = al.staircase(al.Link(SUM), prior=Gaussian())
    assert gaussian.steps[1].value == al.staircase(al.Link(SUM)).steps[1].value
    assert alpha < float(gaussian.steps[1].value) - 0.4


def test_the_first_step_is_the_same_for_all_priors():
    for prior in (Binary(), GaussBernoulli(0.2)):
        assert al.staircase(al.Link("h[1]**2"), prior=prior).steps[0].value == al.threshold(al.Link("h[1]**2")).value
    with pytest.raises(ValueError, match="of the steps at fixed points"):
        al.staircase(al.Link(SUM), given="perfect", prior=Binary())


def test_a_direction_that_the_prior_does_not_keep():
    """Of 2 h_1 + h_2 a Gaussian row tells one number; what a binary one tells of its entries is another direction."""
    gaussian = al.evolve(al.Link("sign(2*h[1]+h[2])"), 1.0)
    assert np.linalg.matrix_rank(gaussian.overlap, tol=1e-9) == 1
    binary = al.evolve(al.Link("sign(2*h[1]+h[2])"), 1.0, prior=Binary())
    assert np.linalg.matrix_rank(binary.overlap, tol=1e-6) == 2
    assert binary.reached


def test_networks():
    found = al.evolve(al.Network(layers=2, tokens=2), 0.25, prior=GaussBernoulli(0.3))
    usual = al.evolve(al.Network(layers=2, tokens=2), 0.25, samples=4096)
    assert found.reached
    # Sparse weights are learned from fewer samples once they are learned at all.
    assert found.overlap[1, 1] > usual.overlap[1, 1] + 4 * (found.overlap_error + usual.overlap_error)[1, 1]
    quadrature = al.curve(al.Network(layers=2, tokens=2), [0.25], prior=GaussBernoulli(0.3))
    point = quadrature.points["uninformed"][0]
    assert np.abs(point.overlap - found.overlap).max() <= 4 * found.overlap_error.max() + point.overlap_error.max()


@pytest.mark.parametrize("prior", [Binary(), GaussBernoulli(0.3)], ids=lambda prior: prior.describe())
def test_message_passing_ends_where_state_evolution_says(prior):
    link = al.Link("sign(h[1])")
    overlaps = []
    for seed in range(6):
        weights = al.teacher(link, 800, rng=seed, prior=prior)
        X, Y = al.make_data(link, weights, 1.0, rng=seed)
        run = al.gamp(link, X, Y, teacher=weights, prior=prior, rng=seed)
        assert run.converged and run.origin.settings["prior"] == prior.describe()
        overlaps.append(run.overlap[0, 0])
    error = np.std(overlaps, ddof=1) / math.sqrt(len(overlaps))
    expected = al.evolve(link, 1.0, prior=prior).overlap[0, 0]
    assert abs(np.mean(overlaps) - expected) < 4 * error + 1 / 800
