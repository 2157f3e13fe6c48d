"""Last-layer thresholds of two tokens by sums over the law of the mixing matrix, against one level more."""

from typing import Any

import numpy as np
from harness import Answer, Route, calibration_tests

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer
from attnlimits.numerics.thresholds.last_layer_sums import softmax
from attnlimits.numerics.thresholds.untied.operator import last_operator

Settings = dict[str, Any]


def _cases(rng: np.random.Generator) -> list[Settings]:
    """Ranks up to three, skip strengths on both sides of one, few and many digits; the last cases are corners."""
    corners = [(0.02, 0.2), (0.02, 5.0), (50.0, 0.2), (50.0, 5.0), (1.0, 2.0), (0.999, 1.0)]
    cases = []
    for number in range(110):
        drawn = np.exp(rng.uniform(-1, 1, 2) * (2.0, 1.0))
        skip, beta = drawn if number < 104 else corners[number - 104]
        ranks = tuple(int(rank) for rank in rng.integers(1, 4, 2))
        cases.append(
            {
                "rank": ranks,
                "skip": float(f"{skip:.3g}"),
                "beta": float(f"{beta:.3g}"),
                "digits": int(rng.integers(3, 10)),
            }
        )
    return cases


def _route(tied: bool) -> Route:
    def network(s: Settings) -> Network:
        return Network(2, 2, s["rank"] if not tied or set(s["rank"]) != {1} else 2, s["skip"], s["beta"], tied=tied)

    def found(s: Settings) -> Answer:
        result = last_layer(network(s), digits=s["digits"])
        return Answer(float(result.value), result.error, result.how, not result.converged)

    def finer(s: Settings) -> tuple[float, float]:
        """One level above the last one of the route, and how far that one is off."""
        level = last_layer(network(s), digits=s["digits"]).n_iter
        values = [
            1 / (softmax(network(s), n) if tied else float(np.linalg.eigvalsh(last_operator(network(s), n))[-1]))
            for n in (level - 1, level)
        ]
        return values[1], abs(values[1] - values[0])

    name = "threshold, two tokens of any rank, " + ("tied" if tied else "keys and queries")
    return Route(name, "estimated", _cases, found, finer, "one level of the sums more", sample=int(tied))


# Keys and queries take half a minute a case where c < 1: their 110 cases (_route(False)) have not been run.
ROUTES = (_route(True),)

test_sample, test_whole = calibration_tests(ROUTES)
