"""Curves with their onsets and jumps, the free entropy and its transitions, where y fixes h up to a sign."""

from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from signs import alpha_at, fixed_point, fold

from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.fixed_point.continuation.curve import curve
from attnlimits.numerics.free_energy.entropy import FreeEntropy
from attnlimits.numerics.free_energy.psi_out import output_entropy
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

_MOST = 6


def _model(tokens: int) -> Any:
    """One layer; for one token the link h**2."""
    return Network(layers=1, tokens=tokens) if tokens > 1 else kernel_of("h**2")


def _alphas(tokens: int) -> list[float]:
    """Around the threshold and beyond, closely and widely."""
    rng = np.random.default_rng(tokens)
    critical = 1 / (tokens * (tokens + 1))
    near = critical * (1 + 10 ** rng.uniform(-4, -1, 12) * rng.choice([-1, 1], 12))
    return sorted(float(a) for a in [*near, *critical * rng.uniform(0.5, 5, 12)])


def _points(rng: np.random.Generator) -> list[Settings]:
    return [{"tokens": m, "alpha": alpha} for m in range(1, _MOST) for alpha in _alphas(m)]


def _channel(tokens: int) -> Any:
    model = _model(tokens)
    return LinkChannel(model, samples=64, replicas=2, rng=np.random.default_rng(0)) if tokens == 1 else model


@cache
def _curve(tokens: int) -> Any:
    return curve(_channel(tokens), _alphas(tokens), start="uninformed")


def _point(s: Settings) -> Answer:
    found = _curve(s["tokens"])
    point = found.points["uninformed"][_alphas(s["tokens"]).index(s["alpha"])]
    return Answer(point.overlap[0, 0], point.overlap_error[0, 0], found.how, not point.converged)


def _grid(tokens: int, seed: int) -> list[float]:
    """A few alphas on both sides of the threshold, and for h**2 of the jump, each time others."""
    rng = np.random.default_rng([tokens, seed])
    place = float(fold(1)[0]) if tokens == 1 else 1 / (tokens * (tokens + 1))
    low, high = np.sort(rng.uniform(0.3, 0.99, 2)), np.sort(rng.uniform(1.01, 1.5, 2))
    return [float(place * x) for x in (*low, *high)]


@cache
def _short_curve(tokens: int, seed: int) -> Any:
    return curve(_channel(tokens), _grid(tokens, seed), start="uninformed")


def _onset(s: Settings) -> Answer:
    if s["what"] in ("onset", "jump"):
        found = _short_curve(s["tokens"], s["grid"])
        (one, *others) = found.onsets if s["what"] == "onset" else found.jumps
        assert not others
        return Answer(one.value, one.error, found.how)
    found = _transitions(s["tokens"])
    place = {"weak": lambda: found.weak, "algorithmic": lambda: found.first_order[0].algorithmic}[s["what"]]()
    return Answer(place.value, place.error, place.how)


@cache
def _transitions(tokens: int) -> Any:
    return transitions(output_entropy(_model(tokens)))


def _place(s: Settings) -> tuple[float, float]:
    if s["what"] in ("jump", "algorithmic"):
        return fold(1)
    return 1 / (s["tokens"] * (s["tokens"] + 1)), 0.0


def _places(rng: np.random.Generator) -> list[Settings]:
    onsets = [{"tokens": m, "what": "onset", "grid": k} for m in range(2, 13) for k in range(5)]
    jumps = [{"tokens": 1, "what": "jump", "grid": k} for k in range(20)]
    weak = [{"tokens": m, "what": "weak"} for m in (*range(1, 21), 30, 45, 70, 100)]
    return [*onsets, *jumps, *weak, {"tokens": 1, "what": "algorithmic"}]


def _overlaps(rng: np.random.Generator) -> list[Settings]:
    return [
        {"tokens": 1 + k % 4, "alpha": float(rng.uniform(0.05, 2)), "q": float(rng.choice([x, 1 - 10 ** (-5 * x)]))}
        for k, x in enumerate(rng.uniform(0.001, 0.999, 100))
    ]


@cache
def _entropy(tokens: int) -> Any:
    return output_entropy(_model(tokens))


def _free_entropy(s: Settings) -> Answer:
    found = FreeEntropy(_entropy(s["tokens"]), s["alpha"])(np.diag([s["q"]]))
    return Answer(found.value, found.error, found.how)


def _integral(s: Settings) -> tuple[float, float]:
    """Half the integral of alpha G - q/(1 - q) = q/(1 - q) (alpha/alpha(q) - 1), in the root of -log(1 - q).

    At q = 0, an essential singularity of alpha(q), the root thins the nodes out to where it is small.
    """
    values = []
    for order in (40, 56):
        nodes, weights = np.polynomial.legendre.leggauss(order)
        top = -np.log1p(-s["q"])
        root = 0.5 * (nodes + 1)
        q = -np.expm1(-top * root**2)
        growth = np.array([s["alpha"] / alpha_at(float(x), s["tokens"]) - 1 for x in q])
        values.append(0.5 * top * float((weights * root) @ (q * growth)))
    return values[1], abs(values[1] - values[0]) + 1e-13


ROUTES = (
    Route(
        "curve, overlaps of one layer and of h**2",
        "estimated",
        _points,
        _point,
        lambda s: fixed_point(s["alpha"], s["tokens"]),
        "sum over the two signs, finer rule",
        # Of a curve of five tokens; that of one token is folded, as the transitions below.
        sample=(98, 118),
    ),
    Route(
        "curve and free-energy, onsets, jumps and transitions",
        "estimated",
        _places,
        _onset,
        _place,
        "1/(M (M + 1)), and folds of the sum over the two signs",
        sample=2,
    ),
    Route(
        "free-energy, free entropy at an overlap",
        "estimated",
        _overlaps,
        _free_entropy,
        _integral,
        "integral of its slope, sum over the two signs",
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
