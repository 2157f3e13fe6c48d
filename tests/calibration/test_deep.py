"""More than one layer: thresholds at three layers or tokens, and overlaps of layers that know of each other."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from harness import Answer, Route, Settings, calibrate, calibration_tests, load_truths
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.core.results import Estimate, How
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

EXACT = MPContext()
EXACT.dps = 40


def _digits(rng: np.random.Generator) -> list[Settings]:
    """Few digits, which take seconds, of each stored threshold."""
    return [{**one["settings"], "digits": n} for one in load_truths("deep_thresholds") for n in range(1, 13)]


def _threshold(s: Settings) -> Answer:
    found = last_layer(Network(**{key: value for key, value in s.items() if key != "digits"}), digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


def _stored_threshold(s: Settings) -> tuple[Any, Any]:
    asked = {key: value for key, value in s.items() if key != "digits"}
    found = next(one for one in load_truths("deep_thresholds") if one["settings"] == asked)
    return EXACT.mpf(found["value"]), found["error"]


def _accuracies(name: str, count: int, least: float, most: float) -> Callable[[np.random.Generator], list[Settings]]:
    def cases(rng: np.random.Generator) -> list[Settings]:
        stored = [one["settings"] for one in load_truths(name)]
        drawn = 10 ** rng.uniform(np.log10(least), np.log10(most), count)
        # Each has random nodes of its own, where there are any.
        return [{**stored[k % len(stored)], "accuracy": float(f"{x:.3g}"), "seed": k} for k, x in enumerate(drawn)]

    return cases


def _seeds(count: int, *, sampled: bool) -> Callable[[np.random.Generator], list[Settings]]:
    """Seeds at the default accuracy, where outputs are sampled or where lattices suffice."""

    def cases(rng: np.random.Generator) -> list[Settings]:
        stored = [one["settings"] for one in load_truths("hidden_layers")]
        kept = [one for one in stored if (one["alpha"] > 1.15) == sampled]
        return [{**one, "accuracy": 1e-2, "seed": k} for k in range(count) for one in kept]

    return cases


def _evolve(s: Settings) -> Answer:
    found = evolve(Network(**s["model"]), s["alpha"], accuracy=s["accuracy"], rng=s["seed"], workers=1)
    return Answer(
        found.overlap.diagonal(), found.overlap_error.diagonal(), found.estimation_error.how, not found.converged
    )


def _stored(name: str) -> Callable[[Settings], tuple[Any, Any]]:
    def truth(s: Settings) -> tuple[Any, Any]:
        asked = {"model": s["model"], "alpha": s["alpha"]}
        found = next(one for one in load_truths(name) if one["settings"] == asked)
        return np.array(found["value"]), np.array(found["error"])

    return truth


def _linear(rng: np.random.Generator) -> list[Settings]:
    """Where the samples reach a digit: beyond, tails are too heavy, and the digit is said to be missed."""
    betas = (0.02, 0.04, 0.08, 0.15, 0.25)
    return [{"layers": 4 + k % 2, "beta": betas[k % 5], "seed": k} for k in range(120)]


def _sampled(s: Settings) -> Answer:
    found = last_layer(_of_linear(s), digits=4, rng=s["seed"])
    # Before it is rounded.
    alpha = 1 / found.operator_norm
    return Answer(alpha, found.error - abs(float(found.value) - alpha), found.how)


def _of_linear(s: Settings) -> Network:
    return Network(layers=s["layers"], beta=s["beta"], activation="linear")


@cache
def _many_seeds(layers: int, beta: float) -> tuple[float, float]:
    model = Network(layers=layers, beta=beta, activation="linear")
    norms = [last_layer(model, digits=1, rng=10**6 + k).operator_norm for k in range(10)]
    return float(1 / np.mean(norms)), float(standard_error(norms) / np.mean(norms) ** 2)


def _quadrature(
    what: str, store: str, count: int, accuracies: tuple[float, float], against: str, sample: int | tuple[int, ...]
) -> Route:
    """Overlaps at so many accuracies between these, beside stored ones."""
    name, cases = f"evolve, {what}, quadrature", _accuracies(store, count, *accuracies)
    return Route(name, "estimated", cases, _evolve, _stored(store), against, sample=sample)


def _hidden_layers(
    what: str, how: How, cases: Callable[[np.random.Generator], list[Settings]], against: str, **bounds: float
) -> Route:
    """Overlaps of three layers with hidden ones learned, ten seconds to half a minute each, beside stored ones."""
    name, truth = f"evolve, three layers, {what}", _stored("hidden_layers")
    return Route(name, how, cases, _evolve, truth, against, sample=0, fewest=30, **bounds)


ROUTES = (
    Route(
        "threshold, four and five linear layers, sampled",
        "monte-carlo",
        _linear,
        _sampled,
        lambda s: _many_seeds(s["layers"], s["beta"]),
        "many seeds",
        # Ten seconds each; test_linear_depth_four_states_an_honest_error is one of them.
        sample=0,
    ),
    Route(
        "threshold, three layers, or two layers of three tokens",
        "estimated",
        _digits,
        _threshold,
        _stored_threshold,
        "15 digits, stored",
        sample=(17,),
    ),
    _quadrature("two layers that are both learned", "both_layers", 102, (1e-3, 1e-2), "accuracy 1e-4, stored", (101,)),
    _hidden_layers("the first one learned", "estimated", _seeds(15, sampled=False), "accuracy 1e-3, stored"),
    _hidden_layers(
        "all learned, sampled",
        "monte-carlo",
        _seeds(9, sampled=True),
        "accuracies of 1e-3 and 3e-3, stored",
        # To the noise comes what the last step may miss, which is a bound.
        least_rms=0.5,
    ),
    # The threshold takes most of a case: test_a_sample_of_three_layers is told it.
    _quadrature("three layers", "three_layers", 140, (1e-3, 1e-2), "finer sums, stored", 0),
)
test_sample, test_whole = calibration_tests(ROUTES)


def test_a_sample_of_three_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 0.2071772247 test_three_layers_to_many_digits is the test."""
    monkeypatch.setattr(
        "attnlimits.numerics.fixed_point.growth.last_layer_norm",
        lambda model: Estimate(1 / 0.2071772247, 1e-9, "estimated"),
    )
    assert calibrate(ROUTES[-1], most=(18,)).shortfalls(whole=False) == []
