"""Links of the user's own: staircases."""

from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from products import ellipse, of_product, power_link

from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.thresholds.link.staircase import staircase


def _stairs(rng: np.random.Generator) -> list[Settings]:
    """The larger square first, or the first factor whose square says more; then the other one, whose square is left."""
    cases: list[Settings] = []
    for k in range(114):
        digits = int(rng.integers(0, 9)) or None
        if k % 2:
            a = float(f"{1 + 10 ** rng.uniform(-1.5, 1.5):.4g}")
            swap = bool(rng.integers(2))
            cases.append({"link": _squares(a, swap), "kind": "ellipse", "of": (a,), "digits": digits})
        else:
            powers = tuple(rng.integers(1, 4, 2).tolist())
            cases.append(
                {"link": power_link(powers, False), "kind": "product", "of": (powers, False), "digits": digits}
            )
    return cases


def _squares(a: float, swap: bool) -> str:
    return f"h[1]**2 + {a:g}*h[2]**2" if swap else f"{a:g}*h[1]**2 + h[2]**2"


def _staircase(s: Settings) -> Answer:
    found = staircase(kernel_of(s["link"]), digits=s["digits"])
    steps = found.steps
    if not found.converged or any(step.value is None or step.error is None for step in steps):
        return Answer(0, 0, "estimated", flagged=True)
    # Of all steps, the one that is known least says how the staircase is known.
    how = "estimated" if any(step.how == "estimated" for step in steps) else steps[0].how
    return Answer([float(step.value or 0) for step in steps], [step.error for step in steps], how)


def _both_steps(s: Settings) -> tuple[Any, Any]:
    norm, error = {"ellipse": ellipse, "product": of_product}[s["kind"]](*s["of"])
    first = 1 / norm, error / norm**2
    if s["kind"] == "product" and len(set(s["of"][0])) == 1:  # alike: both in one step
        return [first[0]], [first[1]]
    return [first[0], 0.5], [first[1], 0.0]


ROUTES = (
    Route(
        "threshold --staircase, links of two indices",
        "estimated",
        _stairs,
        _staircase,
        _both_steps,
        "Bessel functions, convolutions, 1/2",
        sample=(2,),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
