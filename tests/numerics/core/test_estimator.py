"""Estimators in the hands of scikit-learn, and the score that they share."""

import warnings

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.core.estimator import determination
from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.layer import multihead
from attnlimits.numerics.multihead.teachers import make_teacher

NET = al.Network(layers=1, tokens=2)


def layer():
    """A multi-head layer without noise, which is learned exactly with two heads and not with one."""
    theta, w = make_teacher("gauss", 2, 4, scale=1.0, rng=1)
    X = np.random.default_rng(1).standard_normal((500, 3, 4))
    return al.multihead.MultiheadLearner(2, rng=5), X, multihead(X, theta, w), {"heads": [1, 2]}, 1 - 1e-9


def attention():
    """Attention whose weights are known well at this alpha, and not after one iteration."""
    X, Y = al.make_data(NET, al.teacher(NET, 200, rng=1), alpha=2.0, rng=1)
    return al.learning.GAMP(NET, rng=5), X, Y, {"max_iter": [1, 200]}, 0.999


@pytest.mark.parametrize("made", [layer, attention])
def test_cross_validation_by_scikit_learn(made):
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'attnlimits[test]'")
    from sklearn.base import clone, is_regressor
    from sklearn.model_selection import GridSearchCV, cross_val_score

    learner, X, Y, grid, least = made()
    again = clone(learner.fit(X, Y))
    assert again.get_params() == learner.get_params() and not hasattr(again, "converged_") and is_regressor(again)
    scores = cross_val_score(again, X, Y, cv=2)
    assert ((least < scores) & (scores <= 1)).all(), scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearnWarning)
        found = GridSearchCV(again, grid, cv=2).fit(X, Y)
    assert found.best_params_ == {name: values[-1] for name, values in grid.items()}
    assert found.best_estimator_.converged_


def test_score_of_predictions(rng):
    """By its definition, with the mean of each output; of the mean itself it is zero."""
    outputs = rng.standard_normal((50, 3, 2)) + rng.standard_normal((3, 2))
    predicted = outputs + 0.3 * rng.standard_normal(outputs.shape)
    off, spread = ((outputs - other) ** 2 for other in (predicted, outputs.mean(axis=0)))
    assert determination(predicted, outputs) == pytest.approx(1 - off.sum() / spread.sum(), rel=1e-12)
    assert determination(outputs, outputs) == 1.0
    assert determination(np.broadcast_to(outputs.mean(axis=0), outputs.shape), outputs) == pytest.approx(0, abs=1e-12)
    tokens = outputs.reshape(-1, 2)
    assert determination(np.broadcast_to(tokens.mean(axis=0), outputs.shape), outputs, (0, 1)) == pytest.approx(0)
    with pytest.raises(ValueError, match="must vary"):
        determination(predicted[:1], outputs[:1])
