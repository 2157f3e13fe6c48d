"""F of outputs entry by entry: its series along V, whose error is twice what is measured between a few nodes."""

import math

import numpy as np
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.aim import scalar
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.entry_series import information_series
from attnlimits.numerics.aim.entrywise import Entries

FUNCTIONS = ("tanh(z)", "tanh(3*z)", "tanh(z) + z", "sign(z)", "step(z)", "sign(z)*abs(z)", "abs(z)", "max(z, 0)")
EVEN = ("cos(z)", "exp(-z**2)")
# Of the widths of panels, for the truth.
_FINER = 0.5


def _settings(rng: np.random.Generator) -> list[Settings]:
    """Functions, noise and Q; V from far below the noise to next to Q, and there."""
    cases: list[Settings] = []
    for _ in range(102):
        Q = float(f"{1 + 10 ** rng.uniform(-2, 0.3):.13g}")
        V = [Q, *(Q * (1 - 10.0 ** rng.uniform(-3, 0, 2))), *(Q * 10.0 ** rng.uniform(-5, 0, 2))]
        noise, tokens = float(10 ** rng.uniform(-2.5, 0.5)), int(rng.integers(2, 4))
        text = str(rng.choice(FUNCTIONS + EVEN))
        cases.append({"text": text, "noise": noise, "Q": Q, "V": [float(v) for v in V], "tokens": tokens})
    return cases


def _output(s: Settings) -> Entries:
    output = channel(s["text"], tokens=s["tokens"], noise=s["noise"])
    assert isinstance(output, Entries)
    return output


def _by_series(s: Settings) -> Answer:
    series = information_series(_output(s).function, s["noise"], s["Q"], s["tokens"])
    found = [series.information(V) for V in s["V"]]
    return Answer([one.value for one in found], [one.error for one in found], "estimated")


def _by_finer_rules(s: Settings) -> tuple[list[float], list[float]]:
    function, noise, tokens, values = _output(s).function, s["noise"], s["tokens"], []
    for V in s["V"]:
        total = 0.0
        for kind, number in ((2.0, tokens), (1.0, tokens * (tokens - 1) // 2)):
            ends = math.sqrt(max(s["Q"] - V, 0.0) * kind), math.sqrt(V * kind)
            total += number * scalar.information(function, function.breaks, *ends, noise * kind, scale=_FINER)
        values.append(total)
    return values, [1e-13 * value for value in values]


ROUTES = (
    Route(
        "aim, information of outputs entry by entry, series along V",
        "estimated",
        _settings,
        _by_series,
        _by_finer_rules,
        "rules of half the widths at each V",
        # One with a jump; tests/numerics/aim/test_entry_series.py has others.
        sample=(34,),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
