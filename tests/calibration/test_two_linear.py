"""Two layers of linear attention over two tokens: averages by quadrature, and the threshold of the first layer."""

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths
from linear_averages import averages_of, by_finer_sums

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.first_layer import first_layer


def _cases(rng: np.random.Generator) -> list[Settings]:
    return [one["settings"] for one in load_truths("linear_averages")]


def _averages(s: Settings) -> Answer:
    return Answer(*averages_of(s, s["accuracy"]), "estimated")


def _stored(s: Settings) -> tuple[list[float], list[float]]:
    found = next(one for one in load_truths("linear_averages") if one["settings"] == s)
    return found["value"], found["error"]


def _models(rng: np.random.Generator) -> list[Settings]:
    """Both orders of learning, which change at c = 1.05 beta, and close to that; one to five digits."""
    near = [1.04, 1.05, 1.06, 1.1]
    return [
        {
            "skip": near[k] if k < len(near) else float(f"{np.exp(rng.uniform(-3, 3)):.3g}"),
            "beta": 1.0 if k < len(near) else float(f"{np.exp(rng.uniform(-1, 1)):.3g}"),
            "digits": int(rng.integers(1, 6)),
        }
        for k in range(104)
    ]


def _threshold(s: Settings, more: int = 0) -> Answer:
    model = Network(activation="linear", skip=s["skip"], beta=s["beta"])
    found = first_layer(model, digits=s["digits"] + more, workers=1)
    return Answer(float(found.value), found.error, found.how, not found.converged)


def _more_digits(s: Settings) -> tuple[float, float]:
    found = _threshold(s, 2)
    return found.value, found.error


ROUTES = (
    Route(
        "averages of two linear layers",
        "estimated",
        _cases,
        _averages,
        _stored,
        "sums of 20 times the accuracy, stored",
        sample=3,
        again=by_finer_sums,
    ),
    Route(
        "threshold, first of two linear layers",
        "estimated",
        _models,
        _threshold,
        _more_digits,
        "2 digits more",
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
