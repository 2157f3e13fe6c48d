"""Strong skips: the committee of the hidden layers, and the last layer."""

from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.committee.gaussian import GaussianCommittee
from attnlimits.numerics.committee.thresholds import (
    _root,
    committee_threshold,
    last_layer_threshold,
    remainder_at_zero,
)
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer


def _depths(rng: np.random.Generator) -> list[Settings]:
    return [
        {"layers": int(2 + np.exp(rng.uniform(0, np.log(1e4))) - 1), "beta": float(10 ** rng.uniform(-0.7, 0.7))}
        for _ in range(100)
    ]


def _threshold(s: Settings) -> Answer:
    found = committee_threshold(s["layers"], beta=s["beta"])
    return Answer([found.alpha.value, found.remainder.value], [found.alpha.error, found.remainder.error], "estimated")


def _finer(s: Settings) -> tuple[list[float], list[float]]:
    """Both at rest by the next resolution."""
    start = committee_threshold(s["layers"], beta=s["beta"]).remainder.value
    averages, rho = _root(s["layers"] - 1, s["beta"], start, 2, lambda a, x: a.share(x) - a.growth(x))
    return [1 / averages.growth(rho), rho], [0.0, 0.0]


def _below(rng: np.random.Generator) -> list[Settings]:
    return [{**s, "share": float(rng.uniform(0.02, 0.98))} for s in _depths(rng)]


def _alpha(s: Settings) -> float:
    """A share of the way from 1/2 to the threshold."""
    return float(0.5 + (_gaussian_threshold(s["layers"], s["beta"]) - 0.5) * s["share"])


@cache
def _gaussian_threshold(layers: int, beta: float) -> float:
    """Threshold of Gaussian sums, which is close to that of the committee and above it."""
    return float(GaussianCommittee(layers, beta).threshold())


def _at_zero(s: Settings) -> Answer:
    found = remainder_at_zero(s["layers"], _alpha(s), beta=s["beta"])
    return Answer(found.value, found.error, found.how)


def _finer_at_zero(s: Settings) -> tuple[float, float]:
    alpha = _alpha(s)
    start = GaussianCommittee(s["layers"], s["beta"]).remainder(alpha)
    _, rho = _root(s["layers"] - 1, s["beta"], start, 2, lambda a, x: a.share(x) - 1 / alpha)
    return rho, 0.0


def _strong(rng: np.random.Generator) -> list[Settings]:
    return [{"skip": float(f"{10 ** rng.uniform(0.7, 4):.4g}")} for _ in range(100)]


def _expansion(s: Settings) -> Answer:
    found = last_layer_threshold(2, s["skip"])
    return Answer(found.value, found.error, found.how)


def _exactly(s: Settings) -> tuple[Any, Any]:
    found = last_layer(Network(layers=2, skip=s["skip"]), digits=13)
    return float(found.value), found.error


ROUTES = (
    Route("committee, thresholds", "estimated", _depths, _threshold, _finer, "the next resolution", sample=(1,)),
    Route(
        "committee, last layer below the threshold",
        "estimated",
        _below,
        _at_zero,
        _finer_at_zero,
        "the next resolution",
        sample=(59,),
    ),
    Route(
        "committee, threshold of the last layer", "estimated", _strong, _expansion, _exactly, "threshold to 13 digits"
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
