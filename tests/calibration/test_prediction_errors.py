"""Prediction errors of links at a given overlap, by quadrature, against closed forms."""

from typing import Any

import numpy as np
from closed_kernels import CTX, KERNELS, Function, of_sum, of_vector
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.model.link_kernels import kernel_of

# Sums of functions of steps, of one entry each.
SUMS: dict[str, list[Function]] = {
    "sign(h[1])+sign(h[2])": [[(1, 0)], [(1, 0)]],
    "sign(h[1]-1)+2*sign(h[2])-sign(h[3])": [[(1, 1)], [(2, 0)], [(-1, 0)]],
}
_EVERY = 9


def _cases(rng: np.random.Generator) -> list[Settings]:
    """Overlaps close to zero and to one, and between; of sums, with entries off the diagonal."""
    cases: list[Settings] = []
    for k in range(_EVERY):
        for text in (*KERNELS, *SUMS):
            kind = int(rng.integers(4))
            near = float(10 ** rng.uniform(-7, -2))
            q = {0: near, 1: 1 - near}.get(kind, float(rng.uniform(0.02, 0.98)))
            settings: Settings = {"link": text, "q": q}
            if text in SUMS:
                size = len(SUMS[text])
                shares = rng.uniform(0.2, 1.0, size) * rng.choice([-1, 1], size)
                # Between the diagonal and one common direction.
                way = k / _EVERY
                settings["q"] = (q * ((1 - way) * np.diag(shares**2) + way * np.outer(shares, shares))).tolist()
            cases.append(settings)
    return cases


def _errors(s: Settings) -> Answer:
    kernel = kernel_of(s["link"], noise=KERNELS[s["link"]][0] if s["link"] in KERNELS else "0")
    found = prediction_errors(kernel, np.atleast_2d(s["q"]))
    values, errors = ([getattr(one, name) for one in found] for name in ("value", "error"))
    assert max(errors) < 1e-9 * max(1.0, *values)
    return Answer([CTX.mpf(x) for x in values], errors, found[0].how)


def _closed(s: Settings) -> tuple[Any, Any]:
    if s["link"] in SUMS:
        return of_sum(SUMS[s["link"]], np.array(s["q"])), 1e-20
    return of_vector(KERNELS[s["link"]][1], s["q"]), 1e-20


ROUTES = (
    Route(
        "evolve, prediction errors of links",
        "estimated",
        _cases,
        _errors,
        _closed,
        "closed forms, 30 digits",
        # Links whose kernels other tests derive, too.
        sample=(0, 3, 7, 12, 40),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
