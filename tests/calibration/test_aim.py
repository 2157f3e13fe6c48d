"""The attention-indexed model: the matrix denoiser, its state evolution, thresholds, and what AMP states of itself."""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.aim import hardmax
from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import Channel, channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.precise import mmse_digits
from attnlimits.numerics.aim.results import AMPResult, EvolutionPoint
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import alpha_at, evolve
from attnlimits.numerics.aim.thresholds import perfect_recovery, weak_recovery

EXACT = MPContext()
EXACT.dps = 30


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def _recovery(rho: float, functionals: int) -> Fraction:
    """Degrees of freedom of S over d^2, per functional of an output."""
    width = Fraction(rho)
    return (width - width**2 / 2 if width < 1 else Fraction(1, 2)) / functionals


# The matrix denoiser.


def _denoised(rng: np.random.Generator) -> list[Settings]:
    corners = [(r, d) for r in (1e-12, 1.0, 1e12) for d in (1e-12, 1.0, 1e12)]
    # A gap opens where rho^(1/3) + (rho Delta)^(1/3) = 1, and S is almost of rank zero or almost Wigner.
    gaps = [(r, (r ** (-1 / 3) - 1) ** 3 * (1 + e)) for r in (0.01, 0.3, 0.9) for e in (-1e-3, -1e-9, 1e-9, 1e-3)]
    drawn = [(_log(rng, -4, 4), _log(rng, -8, 6)) for _ in range(90)]
    return [{"rho": r, "delta": d} for r, d in corners + gaps + drawn]


def _mmse(s: Settings) -> Answer:
    found = mmse(s["rho"], s["delta"])
    return Answer(found.value, found.error, found.how)


def _more_digits(s: Settings) -> tuple[Any, Any]:
    found = mmse_digits(s["rho"], s["delta"], digits=25)
    return EXACT.mpf(found.value), found.error


# State evolution.


def _recovering(rng: np.random.Generator) -> list[Settings]:
    """Linear and softmax outputs, with noise or without: the range, both sides of recovery, and corners."""
    cases = []
    for k in range(120):
        noisy = k % 3 == 2
        name, tokens = ("linear" if noisy or rng.integers(2) else "softmax"), int(rng.integers(2, 6))
        functionals = tokens * (tokens + 1) // 2 - (name == "softmax")
        rho = (_log(rng, -3, 3), _log(rng, -9, 9), float(rng.choice([0.1, 0.2, 0.5, 1.0, 2.0])))[k // 3 % 3]
        near = 1 + float(rng.choice([-1, 1])) * _log(rng, -12, -1)
        share = (_log(rng, -6, 1), rng.uniform(0.05, 1.5), near, 1.0)[k % 4]
        alpha = float(share * _recovery(rho, functionals))
        beta = _log(rng, -3, 3) if name == "softmax" else 1.0
        noise = _log(rng, -6, 3) if noisy else 0.0
        cases.append({"name": name, "tokens": tokens, "beta": beta, "noise": noise, "rho": rho, "alpha": alpha})
    return cases


def _hard(rng: np.random.Generator) -> list[Settings]:
    few = [(0.5, 1e-4), (0.5, 100.0), (1e-6, 1e-6), (1e6, 1.0), (1.0, 1e-3), (1.0, 1e3)]
    drawn = [(_log(rng, -3, 3), _log(rng, -3, 2)) for _ in range(100)]
    return [{"name": "hardmax", "tokens": 2, "rho": r, "alpha": a * min(r, 1)} for r, a in few + drawn]


def _channel(s: Settings) -> Channel:
    return channel(s["name"], s["tokens"], s.get("beta", 1.0), s.get("noise", 0.0))


@cache
def _point(**settings: Any) -> EvolutionPoint:
    return evolve(settings["alpha"], settings["rho"], _channel(settings))


def _evolved(s: Settings) -> Answer:
    found = _point(**s)
    return Answer(found.mmse.value, found.mmse.error, "estimated", not found.converged)


def _information(s: Settings, c: Any, V: Any) -> tuple[Any, float]:
    """F(c) and its relative error."""
    if s["name"] == "hardmax":
        c, step = float(c), 0.1
        # Twice the nodes of the route, in each direction, and no interpolation; at small c it is flat to c.
        if c < 1e-6:
            return hardmax.information(c).value, 3 * c + 1e-13
        return hardmax._average(c, step, False), 1e-13
    entries = s["tokens"] * (s["tokens"] + 1) // 2
    if s["name"] == "softmax":
        return entries - 1, 0.0
    return entries * V / (V + s["noise"]), 0.0


def _alpha(s: Settings, log_delta: Any) -> tuple[Any, Any, float]:
    """alpha(Delta) and V, to 25 digits of the denoiser, and the relative error of the former."""
    delta = EXACT.exp(log_delta)
    text = EXACT.nstr(delta, 40)
    V = EXACT.mpf(mmse_digits(Fraction(s["rho"]), text, digits=25).value)
    F, error = _information(s, (1 + EXACT.mpf(s["rho"]) - V) / V, V)
    return V / (2 * delta * F), V, error


def _root(s: Settings) -> tuple[Any, Any]:
    """MMSE where alpha(Delta) = alpha, by Newton steps in log Delta; zero above recovery.

    alpha(Delta) has 25 digits, its slope and that of V those of differences in float64, which one small step needs.
    """
    output = _channel(s)
    if output.functionals is not None and Fraction(s["alpha"]) >= _recovery(s["rho"], output.functionals):
        return 0, 0
    q_hat = _point(**s).q_hat
    if not 0 < q_hat < 1e14:
        # Below recovery, but by less than rounding of alpha: the root has Delta < 1e-13, and V is below that.
        return 0, 1e-13
    x, h, move = -EXACT.log(q_hat), 0.05, EXACT.mpf(0)
    for _ in range(6):
        x += move
        off, V, error = _alpha(s, x)
        up, down = (float(EXACT.exp(x + e)) for e in (h, -h))
        slope = (alpha_at(up, s["rho"], output).value - alpha_at(down, s["rho"], output).value) / (2 * h)
        move = (s["alpha"] - off) / slope
        if abs(move) < 1e-8:
            break
    growth = (mmse(s["rho"], up).value - mmse(s["rho"], down).value) / (2 * h)
    # The slopes are good to some per cent where alpha(Delta) is all but flat.
    return V + growth * move, abs(growth) * (0.1 * abs(move) + error * s["alpha"] / abs(slope)) + V * move**2


# Thresholds.


def _thresholds(rng: np.random.Generator) -> list[Settings]:
    """Perfect recovery at decimal and rational widths, and weak recovery: closed forms."""
    widths = ["1", "1/3", "0.1", "1e-40", "1e40", "0.999999999999999999999", "1.5"]
    widths += [f"{_log(rng, -3, 2):.{rng.integers(1, 20)}g}" for _ in range(70)]
    cases = [
        {
            "name": str(rng.choice(["linear", "softmax"])),
            "tokens": int(rng.integers(2, 50)),
            "rho": width,
            "digits": int(rng.integers(1, 60)),
        }
        for width in widths
    ]
    for k in range(60):
        name = ("linear", "softmax", "hardmax")[k % 3]
        noise = _log(rng, -3, 3) if name == "linear" and k % 2 else 0.0
        tokens = 2 if name == "hardmax" else int(rng.integers(2, 50))
        cases.append({"name": name, "tokens": tokens, "noise": noise, "rho": None, "digits": int(rng.integers(1, 60))})
    return cases


LONG = MPContext()
LONG.dps = 80


def _threshold(s: Settings) -> Answer:
    output = _channel(s)
    settings = {"digits": s["digits"]}
    found = weak_recovery(output, **settings) if s["rho"] is None else perfect_recovery(s["rho"], output, **settings)
    return Answer(LONG.mpf(found.value), found.error, found.how)


@cache
def _hardmax_at_zero() -> Any:
    """F(0) of two tokens: orthants by their arctangents, and slopes phi(0)/2 of their probabilities, to 80 digits."""
    total = LONG.mpf(0)
    for sign in (1, -1):
        r = LONG.mpf(sign) / 3
        # P[both > 0] = 1/2 - atan(((1 - r)/(1 + r))^{1/2})/pi, its slope in either mean phi(0)/2.
        orthant = LONG.mpf(1) / 2 - LONG.atan(LONG.sqrt((1 - r) / (1 + r))) / LONG.pi
        slope = 1 / (2 * LONG.sqrt(2 * LONG.pi))
        # Two labels of each sign; sum of (1 + delta_ab) g_ab^2 = (2/3) (P1^2 + P2^2 + 2 r P1 P2 ...)/Z^2.
        total += 2 * (2 * slope**2 * (1 + r)) / orthant
    return total


def _closed(s: Settings) -> tuple[Any, Any]:
    entries = s["tokens"] * (s["tokens"] + 1) // 2
    functionals = entries - (s["name"] == "softmax")
    if s["rho"] is not None:
        rho = Fraction(s["rho"])
        # r (d - r) + r (r + 1)/2 parameters of a matrix of rank r, over d^2.
        freedom = rho * (1 - rho) + rho * rho / 2 if rho < 1 else Fraction(1, 2)
        value = freedom / functionals
        return LONG.mpf(value.numerator) / value.denominator, 0
    if s["name"] == "hardmax":
        return 1 / (2 * _hardmax_at_zero()), LONG.mpf(10) ** -75
    # Noise as its decimal text says.
    return (1 + LONG.mpf(repr(s["noise"]))) / (2 * functionals), 0


# What AMP states of itself.


def _instances(rng: np.random.Generator) -> list[Settings]:
    """Instances of d = 30 to 80, on both sides of recovery; few of the smallest widths, which seldom converge."""
    cases = []
    for k in range(160):
        name = ("softmax", "linear", "hardmax", "linear")[k % 4]
        tokens = 3 if name != "hardmax" and k % 5 == 0 else 2
        noise = float(rng.choice([1e-3, 0.01, 0.1, 1.0])) if k % 8 == 3 else 0.0
        rho = float(rng.choice([0.1, 0.2, 0.5, 0.8, 1.0, 1.5, 3.0]))
        functionals = tokens * (tokens + 1) // 2 - (name == "softmax")
        share = float(rng.choice([0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.15, 1.3, 1.6, 2.0, 3.0]))
        if name == "hardmax":
            share = _log(rng, 0, 1.6)
        cases.append(
            {
                "name": name,
                "tokens": tokens,
                "noise": noise,
                "rho": rho,
                "alpha": share * float(_recovery(rho, functionals)),
                "dimension": int(rng.choice([30, 40, 50, 80])),
                "seed": 5000 + k,
            }
        )
    return cases


@cache
def _found(**s: Any) -> AMPResult:
    S, output = teacher(s["dimension"], s["rho"], s["seed"]), _channel(s)
    return amp(*make_data(S, s["alpha"], output, s["seed"]), output, s["rho"], teacher=S)


def _stated(s: Settings) -> Answer:
    found = _found(**s)
    flagged = not found.converged or found.predicted_error is None
    return Answer(found.predicted, math.nan if flagged else found.predicted_error, "estimated", flagged)


ROUTES = (
    Route("aim denoise, error of the matrix denoiser", "estimated", _denoised, _mmse, _more_digits, "25 digits"),
    Route(
        "aim evolve, softmax and linear outputs",
        "estimated",
        _recovering,
        _evolved,
        _root,
        "Newton steps on 25 digits of the denoiser",
        sample=1,
    ),
    Route(
        "aim evolve, hardmax of two tokens",
        "estimated",
        _hard,
        _evolved,
        _root,
        "the same, F by twice the nodes without interpolation",
        sample=2,
    ),
    Route(
        "aim threshold, closed forms", "rigorous", _thresholds, _threshold, _closed, "counting and orthants, 80 digits"
    ),
    Route(
        "aim amp, error of its own",
        "estimated",
        _instances,
        _stated,
        lambda s: (_found(**s).mmse, 0.0),
        "the teacher",
        ordinary=lambda s: s["rho"] > 0.4 and s["alpha"] > 0.05,
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
