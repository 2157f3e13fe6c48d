"""Two layers of linear attention over two tokens: averages by quadrature, and the threshold of the first layer."""

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths
from linear_averages import averages_of, by_finer_sums

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.first_layer import first_layer


def _cases(rng: np.random.Generator) -> list[Settings]:
    return [one["settings"] for one in load_truths("linear_averages")]


def _averages(s: Settings) -> Answer:
    return Answer(*averages_of(s, s["accuracy"]), "estimated")


def _stored(s: Settings) -> tuple[list[float], list[float]]:
    found = next(one for one in load_truths("linear_averages") if one["settings"] == s)
    return found["value"], found["error"]


def _by_accuracy(rng: np.random.Generator) -> list[Settings]:
    stored = [one["settings"] for one in load_truths("first_linear_layer")]
    return [{**s, "accuracy": float(f"{10 ** rng.uniform(-4, -2):.2g}")} for s in stored]


def _fixed_point(s: Settings) -> Answer:
    model = Network(activation="linear", skip=s["skip"], beta=s["beta"])
    found = evolve(model, s["alpha"], accuracy=s["accuracy"], workers=1)
    return Answer(found.overlap.diagonal(), found.overlap_error.diagonal(), found.how, not found.converged)


def _alone(s: Settings) -> tuple[list[float], list[float]]:
    asked = {key: s[key] for key in ("skip", "beta", "alpha")}
    found = next(one for one in load_truths("first_linear_layer") if one["settings"] == asked)
    return [found["value"], 0.0], [found["error"], 0.0]


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
        "evolve, first of two linear layers, quadrature",
        "estimated",
        _by_accuracy,
        _fixed_point,
        _alone,
        "alpha(q) to 1e-6, stored",
        sample=(2,),
    ),
    Route(
        "averages of two linear layers",
        "estimated",
        _cases,
        _averages,
        _stored,
        "sums of 20 times the accuracy, stored",
        sample=(0, 40, 71),
        again=by_finer_sums,
    ),
    Route(
        "threshold, first of two linear layers",
        "estimated",
        _models,
        _threshold,
        _more_digits,
        "2 digits more",
        sample=(41, 103),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
