"""Certificates: the Jacobian's spectrum by two routes, degenerate layers, and the risk over all inputs."""

import itertools

import numpy as np
import pytest

from attnlimits.numerics.multihead.certificates import SENSITIVE, certify, refusal, sensitivity
from attnlimits.numerics.multihead.errors import NotIdentifiable
from attnlimits.numerics.multihead.layer import jacobian, multihead
from attnlimits.numerics.multihead.refine import levenberg_marquardt
from attnlimits.numerics.multihead.risk import exact_risk
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


def inputs(n, k, d, seed=1):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (n, k, d))


@pytest.mark.parametrize("family", ["gauss", "corr"])
def test_sensitivity_is_that_of_the_jacobian(family):
    theta, w = make_teacher(family, 3, 6, rng=1)
    # as many samples as `certify` looks at
    X = inputs(32 * 2 * theta.size // 12, 2, 6)
    J = jacobian(X, theta, w)
    values = np.linalg.svd(J / np.linalg.norm(J, axis=0), compute_uv=False)
    found = sensitivity(X, theta, w)
    # a ratio of eigenvalues of J^T J: rounding 1e-16 beside the square of 1e-3
    assert found == pytest.approx(values[-1] / values[0], rel=1e-8)
    assert 1e-4 < found < 0.2
    told = certify(X, theta, w)
    assert told.sensitivity == pytest.approx(found, rel=1e-6) and told.passed and refusal(told) is None


def equal(theta, w):
    theta[1] = theta[0]


def silent(theta, w):
    w[1] = 0


def flip(theta, w):
    w[1] = -w[0]


def invisible(theta, w):
    theta[1], w[1] = -theta[0], w[0]


@pytest.mark.parametrize(
    ("change", "tokens", "words", "singular"),
    [
        (equal, 3, "equal Theta: (0, 1)", True),
        (silent, 3, "W = 0: 1", True),
        (flip, 2, "sum of W = 0: (0, 1)", False),
        (invisible, 2, "opposite Theta: (0, 1)", True),
    ],
)
def test_degenerate_layers_are_refused(change, tokens, words, singular):
    theta, w = make_teacher("gauss", 3, 6, rng=2)
    change(theta, w)
    told = certify(inputs(400, tokens, 6), theta, w)
    assert not told.passed and words in told.status
    assert [doubt.reason for doubt in told.doubts] == (["heads", "singular"] if singular else ["heads"])
    assert (told.sensitivity <= SENSITIVE) is singular
    error = refusal(told)
    assert isinstance(error, NotIdentifiable) and words in str(error) and "is needed" in str(error)


def test_flips_are_no_matter_with_three_tokens():
    theta, w = make_teacher("gauss", 3, 6, rng=2)
    flip(theta, w)
    assert certify(inputs(400, 3, 6), theta, w).passed


def test_expected_error_is_that_of_fits():
    """Against the scatter of fits to the same inputs with fresh noise."""
    theta, w = make_teacher("gauss", 1, 4, scale=2.0, rng=1)
    X, noise_std = inputs(300, 2, 4), 0.05
    clean, rng = multihead(X, theta, w), np.random.default_rng(3)
    fits = [
        levenberg_marquardt(X, clean + noise_std * rng.standard_normal(X.shape), theta, tol=1e-8) for _ in range(60)
    ]
    scatter = max(
        np.sqrt(np.mean([np.sum((getattr(fit, name) - true) ** 2) for fit in fits])) / np.linalg.norm(true)
        for name, true in (("theta", theta), ("w", w))
    )
    told = certify(X, theta, w, noise_std=noise_std)
    # 60 fits of 16 parameters that are partly correlated: some 5 % of scatter
    assert told.expected_error == pytest.approx(scatter, rel=0.2)
    assert told.passed


def test_noise_that_leaves_a_head_open():
    theta, w = make_teacher("corr", 2, 4, rng=1)
    told = certify(inputs(60, 2, 4), theta, w, noise_std=3.0)
    assert told.expected_error > 0.5 and not told.passed and "the noise leaves a head open" in told.status
    assert [doubt.reason for doubt in told.doubts] == ["noise"]


def test_exact_risk_is_the_mean_over_all_inputs():
    (theta, w), (other, values) = make_teacher("gauss", 2, 3, rng=1), make_teacher("gauss", 1, 3, rng=2)
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=6))).reshape(-1, 2, 3)
    wanted, off = multihead(X, theta, w), multihead(X, other, values) - multihead(X, theta, w)
    risk = exact_risk(other, values, theta, w, 2)
    assert risk.inputs == 64
    assert risk.nmse == pytest.approx(np.sum(off**2) / np.sum(wanted**2), rel=1e-13)
    assert risk.largest == pytest.approx(np.abs(off).max(), rel=1e-13)
    same = exact_risk(theta, w, theta, w, 2)
    assert same.nmse == 0 and same.largest == 0


def test_blocks_of_inputs_add_up(monkeypatch):
    (theta, w), (other, values) = make_teacher("gauss", 2, 4, rng=1), make_teacher("gauss", 2, 4, rng=2)
    whole = exact_risk(other, values, theta, w, 2)
    monkeypatch.setattr("attnlimits.numerics.multihead.risk._BLOCK_BITS", 3)
    parts = exact_risk(other, values, theta, w, 2)
    assert parts.nmse == pytest.approx(whole.nmse, rel=1e-13) and parts.largest == pytest.approx(whole.largest)


def test_large_domains_are_refused():
    theta, w = make_teacher("gauss", 1, 11, rng=1)
    with pytest.raises(ValueError, match=r"tokens \* dim must be <= 20"):
        exact_risk(theta, w, theta, w, 2)


def test_all_examples_have_a_say_where_few_move():
    """Saturated heads: too few rows of the first samples have slopes, all of them do."""
    theta, w = make_teacher("gauss", 1, 6, scale=60.0, rng=1)
    made = make_examples(theta, w, samples=6000, tokens=2, rng=1)
    order = np.argsort(np.abs(np.einsum("np,pq,nq->n", made.X[:, 0], theta[0], made.X[:, 0] - made.X[:, 1])))[::-1]
    X = made.X[order]
    assert sensitivity(X[:200], theta, w) <= SENSITIVE
    assert certify(X, theta, w).sensitivity > SENSITIVE
