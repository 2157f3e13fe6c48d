"""State evolution of layers."""

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths
from signs import alpha_at, fixed_point, from_above

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

# How far below recovery the informed start of layers and of links is.
_BELOW = (1e-3, 1e-4)


def _single(rng: np.random.Generator) -> list[Settings]:
    """Tokens and alpha: from far below the threshold to recovery, and both sides of the threshold closely."""
    cases = [{"tokens": m, "alpha": a} for m, a in [(2, 0.0), (2, 0.1667), (2, 0.499), (2, 0.5), (5, 1e3), (8, 1e-3)]]
    for k in range(114):
        m = int(rng.integers(2, 7))
        critical = 1 / (m * (m + 1))
        near = 10 ** rng.uniform(-4, -1) * rng.choice([-1, 1])
        factor = 1 + near if k % 2 else 10 ** rng.uniform(-0.3, 1.3)
        cases.append({"tokens": m, "alpha": float(critical * factor)})
    return cases


def _one_layer(s: Settings) -> Answer:
    found = evolve(Network(layers=1, tokens=s["tokens"]), s["alpha"])
    return Answer(found.overlap[0, 0], found.overlap_error[0, 0], found.estimation_error.how, not found.converged)


def _by_signs(s: Settings) -> tuple[float, float]:
    return fixed_point(s["alpha"], s["tokens"])


def _recovered(rng: np.random.Generator) -> list[Settings]:
    """From below where recovery is stable to far above it, and both sides of that point closely; h**2 is M = 1."""
    cases = []
    for k in range(110):
        m = int(rng.integers(1, 6))
        near = 10 ** rng.uniform(-4, -1) * rng.choice([-1, 1])
        stable = alpha_at(1 - _BELOW[m == 1], m)
        factor = 1 + near if k % 2 else 10 ** rng.uniform(-0.5, 0.7)
        cases.append({"tokens": m, "alpha": float(stable * factor)})
    return cases


def _informed(s: Settings) -> Answer:
    if s["tokens"] == 1:
        found = evolve_link(kernel_of("h**2"), s["alpha"], start="informed")
    else:
        found = evolve(Network(layers=1, tokens=s["tokens"]), s["alpha"], start="informed")
    return Answer(found.overlap[0, 0], found.overlap_error[0, 0], found.estimation_error.how, not found.converged)


def _by_rule(rng: np.random.Generator) -> list[Settings]:
    return [{**one["settings"], "accuracy": float(10 ** rng.uniform(-5, -2))} for one in load_truths("second_layer")]


def _by_points(rng: np.random.Generator) -> list[Settings]:
    def drawn(one: Settings, fewest: int) -> Settings:
        samples, replicas = int(2 ** rng.integers(fewest, 10)), int(rng.choice([4, 8, 16]))
        return {**one["settings"], "samples": samples, "replicas": replicas, "rng": int(rng.integers(2**31))}

    stored = load_truths("second_layer")
    return [drawn(one, 7) for one in stored * 2 if not _close(one)] + [drawn(one, 6) for one in stored if _close(one)]


def _close(one: Settings) -> bool:
    """So close above the threshold that few points mostly leave no interval."""
    return bool(0 < one["value"] <= 0.05)


def _two_layers(s: Settings) -> Answer:
    effort = {key: s[key] for key in ("accuracy", "samples", "replicas", "rng") if key in s}
    model = Network(layers=2, tokens=2, skip=s["skip"], beta=s["beta"])
    found = evolve(model, s["alpha"], workers=1, **effort)
    flagged = not found.converged
    return Answer(found.overlap[1, 1], found.overlap_error[1, 1], found.estimation_error.how, flagged)


def _stored(name: str, s: Settings) -> Settings:
    asked = {key: value for key, value in s.items() if key not in ("seed", "accuracy", "samples", "replicas", "rng")}
    return next(one for one in load_truths(name) if one["settings"] == asked)


def _of_store(name: str, s: Settings) -> tuple[list[float], list[float]]:
    found = _stored(name, s)
    return found["value"], found["error"]


ROUTES = (
    Route(
        "evolve, one layer", "estimated", _single, _one_layer, _by_signs, "sum over the two signs, finer rule", sample=3
    ),
    Route(
        "evolve, one layer and h**2, informed start",
        "estimated",
        _recovered,
        _informed,
        lambda s: from_above(s["alpha"], s["tokens"], 1 - _BELOW[s["tokens"] == 1]),
        "sum over the two signs, finer rule",
        sample=(29, 94, 109),
    ),
    Route(
        "evolve, two layers, quadrature",
        "estimated",
        _by_rule,
        _two_layers,
        lambda s: _of_store("second_layer", s),
        "alpha(q) to 1e-8, stored",
    ),
    Route(
        "evolve, two layers, sampled",
        "monte-carlo",
        _by_points,
        _two_layers,
        lambda s: _of_store("second_layer", s),
        "alpha(q) to 1e-8, stored",
        ordinary=lambda s: not _close(_stored("second_layer", s)),
        sample=1,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
