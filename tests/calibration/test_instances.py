"""Means over instances of a teacher at random: GAMP and gradient descent from data of finite dimension."""

import contextlib
import io
import json
from collections.abc import Callable
from functools import cache

import numpy as np
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.cli.main import main

# Instances that the mean of all is taken over, and the seed of the first.
_ALL, _FROM = 400, 10**6


def _run(words: str, seeds: int, seed: int) -> dict[str, float]:
    """What the command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main([*words.split(), "--seeds", str(seeds), "--seed", str(seed), "--json"])
    return dict(json.loads(out.getvalue()))


def _cases(commands: tuple[str, ...]) -> Callable[[np.random.Generator], list[Settings]]:
    def cases(rng: np.random.Generator) -> list[Settings]:
        return [
            {"command": commands[k % len(commands)], "seeds": int(rng.choice([4, 8, 16, 24])), "seed": 100 * k}
            for k in range(120)
        ]

    return cases


def _mean(s: Settings) -> Answer:
    found = _run(s["command"], s["seeds"], s["seed"])
    return Answer(float(found["value"]), found["error"], "monte-carlo", not found["converged"])


@cache
def _of_all(command: str) -> tuple[float, float]:
    found = _run(command, _ALL, _FROM)
    return float(found["value"]), found["error"]


GAMP = tuple(
    f"gamp --link {link} --alpha {alpha} --dimension {dimension}"
    for link, alpha, dimension in (
        ("sign(h[1])", 0.5, 30),
        ("sign(h[1])", 1.5, 60),
        ("tanh(2*h[1])", 0.5, 30),
        ("h[1]+h[2]", 0.7, 30),
        ("h[1]**3", 0.6, 40),
    )
)
# Where cosine similarities are not close to one: there they are far from normal, and few instances have no error.
DESCENT = tuple(
    f"descend --link {link} --alpha {alpha} --dimension 40 --method {method} --tol 0.01 --epochs 2000"
    for link, alpha, method in (
        ("tanh(h[1])", 0.6, "gd"),
        ("tanh(h[1])", 0.5, "adam"),
        ("tanh(h[1])", 0.7, "adam"),
        ("tanh(h[1])", 0.6, "sgd"),
    )
)

ROUTES = tuple(
    Route(
        f"{verb}, mean over instances",
        "monte-carlo",
        _cases(commands),
        _mean,
        lambda s: _of_all(s["command"]),
        f"{_ALL} instances",
        sample=0,
    )
    for verb, commands in (("gamp", GAMP), ("descend", DESCENT))
)
test_sample, test_whole = calibration_tests(ROUTES)
