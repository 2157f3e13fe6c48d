"""Thresholds by the operator (15) sampled on charts, against those that other routes have to many digits."""

import math
from typing import Any

import numpy as np
from harness import Answer, Route, calibration_tests

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.charts import chart_threshold
from attnlimits.numerics.thresholds.last_layer import last_layer

Settings = dict[str, Any]


def _cases(rng: np.random.Generator) -> list[Settings]:
    """Two and three layers of rank 1, one untied layer, one layer of rank 2: few points, few nodes."""
    kinds: list[Settings] = [
        {"layers": 2, "tokens": 2},
        {"layers": 2, "tokens": 2, "activation": "linear"},
        {"layers": 3, "tokens": 2},
        {"layers": 1, "tokens": 2, "tied": False},
        {"layers": 1, "tokens": 3, "rank": 2},
    ]
    cases = []
    for number in range(110):
        skip, beta = (float(np.exp(rng.uniform(-width, width))) for width in (1.5, 0.7))
        effort = {"samples": int(2 ** rng.integers(4, 7)), "nodes": int(2 ** rng.integers(7, 10)), "rng": number}
        cases.append(kinds[number % len(kinds)] | {"skip": skip, "beta": beta} | effort)
    return cases


def _network(s: Settings) -> Network:
    return Network(**{name: value for name, value in s.items() if name not in ("samples", "nodes", "rng")})


def _sampled(s: Settings) -> Answer:
    found = chart_threshold(_network(s), samples=s["samples"], nodes=s["nodes"], rng=s["rng"], workers=1)
    return Answer(1 / found.operator_norm, found.error, found.how, not found.converged)


def _exact(s: Settings) -> tuple[float, float]:
    found = last_layer(_network(s), digits=8)
    assert math.isfinite(found.error)
    return float(found.value), found.error


ROUTES = (
    Route(
        "threshold, any network with a chart, sampled",
        "monte-carlo",
        _cases,
        _sampled,
        _exact,
        "closed forms and sums, 8 digits",
    ),
)

test_sample, test_whole = calibration_tests(ROUTES)
