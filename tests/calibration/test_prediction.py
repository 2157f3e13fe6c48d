"""Errors of predicting a new output, and the overlaps that GAMP is predicted to have."""

from collections.abc import Callable

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths
from signs import alpha_at

from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.learning.gamp.prediction import predicted_overlaps
from attnlimits.numerics.model.network import Network


def _seeds(rng: np.random.Generator) -> list[Settings]:
    return [{**one["settings"], "seed": k} for k in range(30) for one in load_truths("prediction")]


def _predict(which: int) -> Callable[[Settings], Answer]:
    def run(s: Settings) -> Answer:
        model = Network(layers=s["layers"], tokens=s["tokens"], activation=s["activation"])
        found = prediction_errors(model, np.diag(s["q"]), rng=s["seed"])[which]
        return Answer(found.value, found.error, found.how)

    return run


def _many_seeds(which: int) -> Callable[[Settings], tuple[float, float]]:
    def truth(s: Settings) -> tuple[float, float]:
        asked = {key: value for key, value in s.items() if key != "seed"}
        found = next(one for one in load_truths("prediction") if one["settings"] == asked)
        return found["value"][which], found["error"][which]

    return truth


def _iterations(rng: np.random.Generator) -> list[Settings]:
    return [
        {
            "tokens": int(rng.integers(2, 5)),
            "alpha": float(rng.uniform(0.05, 0.9)),
            "start": float(10 ** rng.uniform(-3, -0.1)),
            "n_iter": int(rng.integers(1, 6)),
            "seed": k,
        }
        for k in range(300)
    ]


def _predicted(s: Settings) -> Answer:
    # With an overlap of its own the start is that of a population.
    model, start = Network(layers=1, tokens=s["tokens"]), s["start"]
    found = predicted_overlaps(
        model, s["alpha"], n_iter=s["n_iter"], start=start, self_start=[[start]], rng=s["seed"], samples=256
    )
    assert found.how == "population"
    return Answer(found.overlap[-1, 0, 0], found.overlap_error[-1, 0, 0], "monte-carlo")


def _recursion(s: Settings) -> tuple[float, float]:
    """q -> alpha G/(1 + alpha G), with G = q/((1 - q) alpha(q))."""
    q = s["start"]
    for _ in range(s["n_iter"]):
        hat = s["alpha"] * q / ((1 - q) * alpha_at(q, s["tokens"]))
        q = hat / (1 + hat)
    return q, 1e-11


ROUTES = (
    Route("prediction error, posterior mean", "monte-carlo", _seeds, _predict(0), _many_seeds(0), "many seeds, stored"),
    Route("prediction error, plug-in", "monte-carlo", _seeds, _predict(1), _many_seeds(1), "many seeds, stored"),
    Route(
        "gamp, predicted overlaps of a population",
        "monte-carlo",
        _iterations,
        _predicted,
        _recursion,
        "recursion by the sum over the two signs",
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
