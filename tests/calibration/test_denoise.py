"""The denoiser: in float64 against arbitrary precision, and arbitrary precision against more digits."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from denoise_cases import CTX, Case, cases, exactly, moments_scale
from harness import Answer, Route, Settings, calibration_tests
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp

# Evaluations that an exact value may cost: a few seconds.
_MOST = 600_000


def _inputs(layers: int, count: int, rng: np.random.Generator) -> list[Settings]:
    """Half of each activation, and digits to ask for."""
    found = []
    for activation in ("softmax", "linear"):
        for case in cases(layers, activation, count // 2, int(rng.integers(2**31))):
            found.append({"case": case, "digits": int(rng.integers(5, 18 if layers == 2 else 121))})
    return found


def _flat(log_z: Any, g: np.ndarray, dg: np.ndarray) -> np.ndarray:
    return np.concatenate([np.array([log_z], dtype=object), g.ravel(), dg.ravel()])


def _float64(s: Settings) -> Answer:
    """log Z, g_out and d g_out, each with the error that `DenoiserResult` promises."""
    case: Case = s["case"]
    made = denoise(case.model, case.y, case.omega, case.V, tol=case.tol, workers=1)
    g, dg = exactly(made.g_out), exactly(made.dg_out)
    unit = moments_scale(case, g, dg)
    error = _flat(made.log_z_error, made.error * unit, made.error * np.multiply.outer(unit, unit))
    return Answer(_flat(exactly(made.log_z)[()], g, dg), error, "estimated")


def _exact(case: Case, digits: int) -> PreciseDenoiserResult:
    return denoise_mp(case.model, case.y, case.omega, case.V, digits=digits, max_nodes=_MOST)


def _units(case: Case, log_z: Any, g: np.ndarray, dg: np.ndarray) -> np.ndarray:
    """Units of `PreciseDenoiserResult.error`."""
    trace = CTX.mpf(float(np.trace(case.V)))
    sizes = max(1, abs(log_z)), max(abs(g).max(), 1 / CTX.sqrt(trace)), max(abs(dg).max(), 1 / trace)
    return _flat(sizes[0], np.full(g.shape, sizes[1]), np.full(dg.shape, sizes[2]))


def _with_error(found: PreciseDenoiserResult, case: Case) -> tuple[np.ndarray, np.ndarray]:
    ctx = MPContext()
    ctx.dps = 200
    parts = (ctx.convert(found.log_z), np.array(found.g_out), np.array(found.dg_out))
    return _flat(*parts), found.error * _units(case, *parts)


def _digits(s: Settings) -> Answer:
    found = _exact(s["case"], s["digits"])
    return Answer(*_with_error(found, s["case"]), found.how)


def _more_digits(s: Settings, *, more: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact values with more digits than those of the route; refused where they cost too much."""
    return _with_error(_exact(s["case"], max(least, s["digits"] + more)), s["case"])


def _affordable(run: Callable[[Settings], Answer], truth: Callable[[Settings], Any]) -> Callable[[Settings], Answer]:
    """Count a case as refused where its exact value is: it is beyond the search of arbitrary precision."""

    def both(s: Settings) -> Answer:
        answer = run(s)
        if "truth" not in s:
            s["truth"] = truth(s)
        return answer

    return both


Sample = int | tuple[int, ...]


def _route(name: str, how: Any, layers: int, count: int, run: Any, more: int, least: int, sample: Sample) -> Route:
    truth = partial(_more_digits, more=more, least=least)
    return Route(
        name,
        how,
        partial(_inputs, layers, count),
        _affordable(run, truth),
        lambda s: s["truth"] if "truth" in s else truth(s),
        "arbitrary precision" if run is _float64 else f"{more} digits more",
        sample=sample,
    )


ROUTES = (
    _route("denoise, one layer, float64", "estimated", 1, 320, _float64, 0, 25, 60),
    _route("denoise, two layers, float64", "estimated", 2, 160, _float64, 0, 18, (15, 80, 159)),
    _route("denoise --digits, one layer", "rigorous", 1, 220, _digits, 15, 0, 40),
    _route("denoise --digits, two layers", "estimated", 2, 150, _digits, 5, 0, 1),
)
test_sample, test_whole = calibration_tests(ROUTES)
