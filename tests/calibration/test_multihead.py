"""Multi-head layers: how far a Theta_i or W_i is from the truth, beside what is stated of that head."""

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import match_heads
from attnlimits.numerics.multihead.results import MultiheadFit
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

FAMILIES = ("gauss", "corr", "sameW", "alike", "weak W", "weak Theta", "weak both")


def _teacher(family: str, m: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Families of the package, heads with a common part at larger logits, and norms over a factor of 30."""
    if family == "alike":
        theta = rng.standard_normal((d, d)) + 0.2 * rng.standard_normal((m, d, d))
        theta *= 3 / math.sqrt(2) / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
        return theta, (rng.standard_normal((d, d)) + 0.3 * rng.standard_normal((m, d, d))) / math.sqrt(d)
    if family in FAMILIES[:3]:
        return make_teacher(family, m, d, rng=rng)
    theta, w = make_teacher("gauss", m, d, rng=rng)
    size = 30.0 ** -(np.arange(m) / (m - 1))[:, None, None]
    if family == "weak both":
        return theta * np.sqrt(size), w * np.sqrt(size)
    return (theta, w * size) if family == "weak W" else (theta * size, w)


def _fits(rng: np.random.Generator) -> list[Settings]:
    return [
        {
            "family": FAMILIES[k % len(FAMILIES)],
            "heads": int(rng.integers(2, 4)),
            "dim": int(rng.integers(4, 7)),
            "tokens": 2 + (k % 4 == 3),
            "samples": int(rng.choice([1000, 2000, 4000])),
            "noise": float(rng.choice([0.02, 0.05, 0.1, 0.2])),
            "head": int(rng.integers(0, 2)),
            "part": str(rng.choice(["theta", "w"])),
            "seed": 7000 + k,
        }
        for k in range(210)
    ]


@cache
def _fit(**s: Any) -> tuple[MultiheadFit, float]:
    """The fit, and the distance of one of its matrices from the truth."""
    theta, w = _teacher(s["family"], s["heads"], s["dim"], np.random.default_rng([s["seed"], 0]))
    rng = np.random.default_rng([s["seed"], 1])
    made = make_examples(theta, w, samples=s["samples"], tokens=s["tokens"], noise=s["noise"], rng=rng)
    with warnings.catch_warnings():
        # The status says the same, and counts as a flag.
        warnings.simplefilter("ignore", LearnWarning)
        found = learn_multihead(
            made.X, made.Y, s["heads"], "restarts", noise_std=made.noise_std, strict=False, rng=s["seed"]
        )
    order = match_heads(found.theta, found.w, theta, w)
    learned, true = (found.theta, theta) if s["part"] == "theta" else (found.w, w)
    # The head of the truth that this one stands for.
    which = int(np.argsort(order)[s["head"]])
    return found, float(np.linalg.norm(learned[s["head"]] - true[which]))


def _stated(s: Settings) -> Answer:
    found = _fit(**s)[0]
    heads = found.certificates.heads
    if heads is None or not found.converged:
        return Answer(0.0, math.nan, "estimated", True)
    return Answer(0.0, getattr(heads[s["head"]], f"{s['part']}_error"), "estimated")


ROUTES = (
    Route(
        "multihead, distance of a Theta or W",
        "estimated",
        _fits,
        _stated,
        lambda s: (_fit(**s)[1], 0.0),
        "the teacher",
        ordinary=lambda s: s["family"] != "alike",
        sample=(125, 181),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
