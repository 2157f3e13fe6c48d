"""What the inputs leave open, in words, by two routes; and null directions without a matrix."""

import warnings

import numpy as np
import pytest
from acceptance import run, summary_certificates

from attnlimits.numerics.multihead import certificates
from attnlimits.numerics.multihead.batch import Batch
from attnlimits.numerics.multihead.certificates import certify, refusal
from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.gram import column_norms
from attnlimits.numerics.multihead.layer import jacobian, multihead
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matrix_free import find_null
from attnlimits.numerics.multihead.teachers import make_teacher
from attnlimits.numerics.multihead.undetermined import open_directions


def inputs(n=200, k=2, d=4, seed=1):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (n, k, d))


def changed(kind):
    X = inputs()
    if kind == "constant":
        X[:, :, 2] = 1
    elif kind == "constant in examples":
        X[:, 1, 2] = X[:, 0, 2]
    elif kind == "zero":
        X[:, :, 2] = 0
    elif kind == "equal":
        X[:, :, 3] = X[:, :, 1]
    elif kind == "opposite":
        X[:, :, 3] = -X[:, :, 1]
    elif kind == "sum":
        X[:, :, 3] = X[:, :, 0] + X[:, :, 1]
    elif kind == "apart":
        X[:, :, 3] = X[:, :, 1] + 2
    return X


WORDS = {
    "constant": ("column 2 of Theta_0, Theta_1 is not determined", "coordinate 2 of X is constant", 12),
    "constant in examples": ("column 2 of Theta_0, Theta_1 is not", "coordinate 2 of X is constant", 12),
    "zero": ("row 2 and column 2 of Theta_0, Theta_1 and row 2 of W_0, W_1 are not", "coordinate 2 of X is zero", 22),
    "equal": ("rows 1, 3 and columns 1, 3", "coordinates 1 and 3 of X are equal", 22),
    "opposite": ("rows 1, 3 and columns 1, 3", "coordinates 1 and 3 of X are opposite", 22),
    "sum": ("rows 0, 1, 3 and columns 0, 1, 3", "a combination of coordinates 0, 1, 3 of X is zero", 22),
    "apart": ("columns 1, 3 of Theta_0, Theta_1 are determined together", "apart by a constant", 12),
}


@pytest.mark.parametrize("kind", WORDS)
def test_open_parameters_are_named_and_counted(kind):
    where, why, directions = WORDS[kind]
    X = changed(kind)
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    said = open_directions(X).sentences(2)
    assert len(said) == 1 and where in said[0] and said[0].endswith(why)
    # Beside them the layer is determined: they are all of the null space.
    J = jacobian(X, theta, w)
    assert J.shape[1] - np.linalg.matrix_rank(J, tol=1e-9 * np.linalg.norm(J, 2)) == directions
    told = certify(X, theta, w)
    assert not told.passed and told.null_directions[0] == said[0] and told.sensitivity < 1e-6
    assert f"in {directions} directions of Theta_0, Theta_1" in told.status
    assert [doubt.reason for doubt in told.doubts] == ["inputs", "singular"] and not told.counted_out
    assert refusal(told).remedy == "leave out such coordinates of X"


def test_what_varies_is_determined_in_any_units():
    """Coordinates of sizes over ten orders are no reason to doubt a layer."""
    rng = np.random.default_rng(2)
    size = 10.0 ** np.array([-5, 0, 2, 5])
    X = rng.standard_normal((400, 3, 4))
    theta, w = make_teacher("gauss", 2, 4, scale=1.0, rng=1)
    assert open_directions(X * size).sentences(2) == []
    told = certify(X * size, theta / np.outer(size, size), w / size[:, None])
    assert told.passed and told.sensitivity == pytest.approx(certify(X, theta, w).sensitivity, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_constant_coordinate_is_no_certificate(noise):
    """One head, a column of Theta that no output shows: the fit is exact, and the column is off by its size."""
    theta, w = make_teacher("gauss", 1, 5, rng=1)
    X = inputs(600, 2, 5)
    X[:, :, 3] = 1.0
    Y = multihead(X, theta, w)
    noise_std = noise * float(np.sqrt(np.mean(Y**2)))
    Y += noise_std * np.random.default_rng(3).standard_normal(Y.shape)
    with pytest.warns(LearnWarning, match="column 3 of Theta_0 is not determined: coordinate 3 of X is constant"):
        fit = learn_multihead(X, Y, 1, noise_std=noise_std, strict=False)
    assert np.linalg.norm(fit.theta[0] - theta[0]) > 0.2 * np.linalg.norm(theta[0])
    assert not fit.converged and fit.remedy == "leave out such coordinates of X"
    assert fit.certificates.heads is None and (noise == 0 or "singular" in fit.certificates.error_status)


def test_fewer_examples_than_unknowns_are_counted():
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    told = certify(inputs(7), theta, w)
    assert told.counted_out and "the outputs of 7 examples are 56 numbers, fewer than the unknowns, 64" in told.status
    assert told.doubts[0].reason == "few examples" and refusal(told).remedy == "take fewer heads, or more samples"
    fine = certify(inputs(200), theta, w)
    assert not fine.counted_out and fine.doubts == ()


def test_null_directions_without_a_matrix_beside_the_spectrum(monkeypatch):
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    for X, singular in ((inputs(), False), (changed("constant"), True)):
        J = jacobian(X, theta, w)
        norms = np.linalg.norm(J, axis=0)
        assert np.allclose(column_norms(X, theta, w), norms, atol=1e-12 * norms.max())
        scale = np.where(norms > 1e-9 * norms.max(), norms, 1.0)
        found = find_null(Batch(X), theta, w, scale, 1e-6)
        assert found.checked and (found.null is not None) is singular
        if singular:
            assert np.linalg.norm(J / scale @ found.null) < 1e-7 and np.linalg.norm(found.null) == pytest.approx(1.0)
        monkeypatch.setattr(certificates, "_MOST_UNKNOWNS", 10)
        told = certify(X, theta, w)
        assert told.sensitivity is None and told.checked and told.passed is not singular
        assert ("a direction of Theta_0, Theta_1" in told.status) is singular


def test_a_search_that_does_not_end_is_no_certificate(monkeypatch):
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    monkeypatch.setattr(certificates, "_MOST_UNKNOWNS", 10)
    monkeypatch.setattr("attnlimits.numerics.multihead.matrix_free._STEPS", 3)
    told = certify(inputs(), theta, w)
    # Nothing is accused, and nothing is certified.
    assert not told.checked and told.passed and "not checked" in told.status
    assert "no other parameters near by" not in told.status


def test_products_with_the_jacobian(rng):
    theta, w = make_teacher("gauss", 2, 3, rng=rng)
    X = rng.standard_normal((20, 3, 3))
    J, batch = jacobian(X, theta, w), Batch(X)
    weights = batch.attention(theta)
    v = rng.standard_normal((2, *theta.shape))
    assert np.allclose(batch.unpack(batch.along(weights, w, *v)).ravel(), J @ v.ravel(), atol=1e-12)
    u = rng.standard_normal(X.shape)
    slopes = np.concatenate([part.ravel() for part in batch.slopes(weights, w, Batch(X, u).y)])
    assert np.allclose(slopes, J.T @ u.ravel(), atol=1e-12)


def test_two_heads_of_one_theta_are_named():
    theta, w = make_teacher("gauss", 2, 4, rng=1)
    theta[1] = theta[0]
    X = inputs(1500)
    Y = multihead(X, theta, w)
    noise_std = 0.05 * float(np.sqrt(np.mean(Y**2)))
    Y += noise_std * np.random.default_rng(3).standard_normal(Y.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearnWarning)
        fit = learn_multihead(X, Y, 2, noise_std=noise_std, strict=False)
    assert not fit.converged and "one head less leaves as little of held-out examples" in fit.status
    assert fit.certificates.has("spare head") and not fit.certificates.has("inputs")


def test_a_sample_of_the_certificates():
    """One of the 200 of `acceptance.py`: each that is open is named, none that is not is accused."""
    found = summary_certificates(run("certificates", range(1)))
    assert found["named"] == found["instances"] == 1 == found["converged where fine"] and not found["accused"]


@pytest.mark.slow
def test_all_certificates():
    found = summary_certificates(run("certificates", range(100)))
    assert found["named"] == 100 and not found["accused"]
