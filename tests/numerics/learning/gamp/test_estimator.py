"""The estimator: scikit-learn's conventions, and predictions as good as theory says."""

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.learning.gamp import GAMP, gamp, make_data, teacher
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

MODEL = Network(1, 2)


@pytest.fixture(scope="module")
def fitted():
    weights = teacher(MODEL, 1000, 1)
    x, y = make_data(MODEL, weights, 0.4, 1)
    return weights, GAMP(MODEL).fit(x, y, teacher=weights), (x, y)


def test_fit_is_gamp(fitted):
    _, estimator, (x, y) = fitted
    found = gamp(x, y, MODEL)
    assert (estimator.weights_ == found.weights).all() and (estimator.covariance_ == found.covariance).all()
    assert (estimator.n_iter_, estimator.converged_) == (found.n_iter, found.converged)
    assert estimator.n_features_in_ == 1000


def test_errors_of_predictions_are_those_of_theory(fitted):
    """At the overlap reached, (11) and the plug-in error, on 2000 new samples."""
    weights, estimator, _ = fitted
    x, y = make_data(MODEL, weights, 2.0, 99)
    q = estimator.result_.overlap
    for method, theory in zip(("mean", "plugin"), prediction_errors(MODEL, q), strict=True):
        errors = ((estimator.predict(x, method=method) - y) ** 2).sum(axis=(1, 2))
        sigma = errors.std() / np.sqrt(len(errors))
        # The overlap with the teacher is not quite that with itself at D = 1000: 5 % of the error.
        assert abs(errors.mean() - theory.value) < 3 * sigma + 0.05 * theory.value


def test_score_is_that_of_the_predictions(fitted):
    weights, estimator, _ = fitted
    x, y = make_data(MODEL, weights, 0.2, 99)
    off, spread = estimator.predict(x) - y, y - y.mean(axis=0)
    expected = 1 - (off**2).sum() / (spread**2).sum()
    assert 0 < expected < 1 and estimator.score(x, y) == pytest.approx(expected, rel=1e-12)


def test_parameters_in_and_out():
    estimator = GAMP(MODEL, damping=0.1)
    params = estimator.get_params()
    assert params["damping"] == 0.1 and params["model"] is MODEL
    assert type(estimator)(**params).get_params() == params
    assert estimator.set_params(damping="adaptive", max_iter=7) is estimator
    assert estimator.damping == "adaptive" and estimator.max_iter == 7
    assert repr(estimator).startswith("GAMP(model=Network(")
    with pytest.raises(ValueError, match="no parameter 'alpha'"):
        estimator.set_params(alpha=1)


def test_predictions_of_a_link_have_its_shape():
    kernel = kernel_of("h[1]**2; sign(h[2])")
    weights = teacher(kernel, 60, 0)
    x, y = make_data(kernel, weights, 3.0, 0)
    estimator = GAMP(kernel, max_iter=5).fit(x, y)
    assert estimator.predict(x[:7]).shape == (7, 2) == estimator.predict(x[:7], method="plugin").shape


def test_misuse_is_refused_in_a_sentence(fitted):
    _, estimator, (x, y) = fitted
    with pytest.raises(ValueError, match="not fitted yet"):
        GAMP(MODEL).predict(x)
    with pytest.raises(ValueError, match="D = 1000 as in fit"):
        estimator.predict(x[:, :, :50])
    with pytest.raises(ValueError, match="method must be"):
        estimator.predict(x, method="best")
    with pytest.raises(ValueError, match=r"Y must have shape \(3, 2, 2\)"):
        estimator.score(x[:3], y[:4])
    with pytest.raises(ValueError, match="Y must be finite"):
        estimator.score(x[:3], np.where(y[:3] > 0.5, np.nan, y[:3]))
