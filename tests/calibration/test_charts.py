"""Thresholds, fixed points and free entropies by posteriors sampled on charts, against what other routes have."""

import math
from typing import Any

import numpy as np
from harness import Answer, Route, calibration_tests, load_truths

from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.fixed_point.growth import grown
from attnlimits.numerics.fixed_point.iteration import Iteration
from attnlimits.numerics.fixed_point.state import Problem, State, Tolerance
from attnlimits.numerics.free_energy.psi_out import OutputEntropy
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc
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
    for number in range(220):
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


def _effort(number: int, rng: np.random.Generator, fewest: int) -> Settings:
    samples, nodes = int(2 ** rng.integers(fewest, fewest + 2)), int(2 ** rng.integers(7, 10))
    return {"samples": samples, "nodes": nodes, "rng": number}


def _chart(model: Settings, s: Settings) -> ChartChannel:
    """Averages on the chart of a model, which has another route, too."""
    network, rng = Network(**model), np.random.default_rng(s["rng"])
    size, log2 = 2 * network.indices * network.tokens, int(math.log2(s["samples"]))
    points = [normal_qmc(size, log2, stream) for stream in rng.spawn(8)]
    return ChartChannel(network, points, nodes=s["nodes"], rng=rng, workers=1)


def _described(stored: Settings) -> Settings:
    """Arguments of the network of stored settings."""
    shape = {"layers": 2, **stored.get("model", stored)}
    if shape.pop("untied", False):
        shape |= {"tied": False, "layers": 1}
    return {name: value for name, value in shape.items() if name not in ("alpha", "q")}


def _fixed_points(rng: np.random.Generator) -> list[Settings]:
    """One untied layer, one layer of rank 3, the last of two layers: above the neighbourhood of their thresholds."""
    known = [one for one in load_truths("wide_and_untied") if one["settings"]["alpha"] in (0.25, 0.4, 0.6)]
    known += [one for one in load_truths("second_layer") if 0.2 < one["value"] < 0.9][::4]
    stored = [known[k % len(known)] for k in range(130)]
    return [{"stored": one, **_effort(number, rng, 6)} for number, one in enumerate(stored)]


def _evolved(s: Settings) -> Answer:
    settings = s["stored"]["settings"]
    problem = Problem(_chart(_described(settings), s), settings["alpha"], Tolerance(1e-5), 200)
    strategy, begin = Iteration(problem), State.start(problem)
    found = strategy.postprocess(grown(strategy, begin, begin.q))
    # Overlaps that a symmetry makes equal count once; of two layers the last is learned.
    last = slice(None) if not problem.averages.model.tied else slice(-1, None)
    flagged = bool(found.doubt) or not found.converged
    return Answer(found.q.diagonal()[last], found.error.diagonal()[last], found.how, flagged)


def _fixed_point(s: Settings) -> tuple[np.ndarray, np.ndarray]:
    value, error = np.atleast_1d(s["stored"]["value"]), np.atleast_1d(s["stored"]["error"])
    last = slice(None) if "untied" in s["stored"]["settings"] else slice(-1, None)
    return value[last], error[last]


def _overlaps(rng: np.random.Generator) -> list[Settings]:
    """One layer of rank 2, one untied, two linear ones, from small overlaps to large ones."""
    known = [one for one in load_truths("output_entropies") if "link" not in one["settings"]["model"]]
    return [{"stored": known[k % len(known)], **_effort(k, rng, 4)} for k in range(120)]


def _entropy(s: Settings) -> Answer:
    settings = s["stored"]["settings"]
    found = OutputEntropy(_chart(_described(settings), s)).value(np.diag(settings["q"]))
    return Answer(found.value, found.error, found.how)


# Its 130 cases take longer than ten minutes on a busy core and have not been run to their end.
FIXED_POINTS = Route(
    "evolve, any network with a chart, sampled",
    "monte-carlo",
    _fixed_points,
    _evolved,
    _fixed_point,
    "16384 points, or quadrature, stored",
    sample=0,
)
ROUTES = (
    Route(
        "threshold, any network with a chart, sampled",
        "monte-carlo",
        _cases,
        _sampled,
        _exact,
        "closed forms and sums, 8 digits",
        sample=(29, 65, 73),
    ),
    Route(
        "free-energy, any network with a chart, sampled",
        "monte-carlo",
        _overlaps,
        _entropy,
        lambda s: (s["stored"]["value"], s["stored"]["error"]),
        "32768 points, stored",
    ),
)

test_sample, test_whole = calibration_tests(ROUTES)
