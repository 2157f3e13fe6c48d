"""Thresholds of links of the user's own by samples, where an output couples more entries than a quadrature serves."""

from functools import cache

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from products import of_product, power_link

from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.thresholds.link import thresholds as link_thresholds

# Products that a quadrature serves.
_BY_QUADRATURE = ({"powers": (1.0, 1.0, 2.0), "signed": True}, {"powers": (2.0, 2.0, 2.0), "signed": False})


def _products(rng: np.random.Generator) -> list[Settings]:
    """Products of powers of three or four entries, with a sign or without."""
    cases: list[Settings] = []
    while len(cases) < 105:
        signed = bool(rng.integers(2))
        powers = [
            float(rng.choice([1, 3])) if signed and i < 2 else float(rng.choice([0.5, 1, 2, 3])) for i in range(4)
        ]
        case = {"powers": tuple(powers[: int(rng.integers(3, 5))]), "signed": signed}
        if case not in cases and case not in _BY_QUADRATURE:
            cases.append(case)
    return cases


def _sampled(s: Settings) -> Answer:
    found = link_thresholds.threshold(kernel_of(power_link(s["powers"], s["signed"])))
    if found.value is None or found.error is None:
        return Answer(0, 0, found.how, flagged=True)
    return Answer(float(found.value), found.error, found.how, not found.converged)


@cache
def _norm(powers: tuple[float, ...], signed: bool) -> tuple[float, float]:
    norm, error = of_product(powers, signed)
    return 1 / norm, error / norm**2


ROUTES = (
    Route(
        "threshold, links of three and four entries, sampled",
        "monte-carlo",
        _products,
        _sampled,
        lambda s: _norm(s["powers"], s["signed"]),
        "convolutions",
        # Two indices whose eigenvalues are 3 % apart.
        # Those of test_link_thresholds.py are held against closed forms, too.
        sample=0,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
