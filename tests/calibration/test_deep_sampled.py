"""State evolution of two layers by sampled posteriors: linear layers, and three tokens."""

from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network

REPLICAS = (8, 16)


def _cases(store: str, samples: tuple[int, ...], count: int) -> list[Settings]:
    """So many seeds, over the stored alphas and the numbers of points."""
    stored = [one["settings"] for one in load_truths(store)]
    return [
        {**stored[k % len(stored)], "samples": samples[k % len(samples)], "replicas": REPLICAS[k % 2], "seed": k}
        for k in range(count)
    ]


def _evolve(s: Settings) -> Answer:
    found = evolve(
        Network(**s["model"]), s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"], workers=1
    )
    q, error = found.overlap.diagonal(), found.overlap_error.diagonal()
    return Answer(q, error, found.estimation_error.how, not found.converged)


@cache
def _known(store: str) -> dict[str, tuple[Any, Any]]:
    return {
        repr((one["settings"]["model"], one["settings"]["alpha"])): (np.array(one["value"]), np.array(one["error"]))
        for one in load_truths(store)
    }


def _route(what: str, store: str, samples: tuple[int, ...], count: int, sample: tuple[int, ...]) -> Route:
    return Route(
        f"evolve, {what}, sampled",
        "monte-carlo",
        lambda rng: _cases(store, samples, count),
        _evolve,
        lambda s: _known(store)[repr((s["model"], s["alpha"]))],
        "8192 points, stored",
        sample=sample,
    )


# tests/numerics/fixed_point holds one of either against another route: test_two_linear.py and test_accurate.py.
ROUTES = (
    _route("two linear layers", "two_linear_layers", (96, 128, 192), 150, ()),
    _route("two layers of three tokens", "three_tokens", (64, 96), 120, ()),
)
test_sample, test_whole = calibration_tests(ROUTES)
