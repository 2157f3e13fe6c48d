"""Thresholds of layers."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx
from harness import Answer, Route, Settings, calibration_tests
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds import exact
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer, one_layer, proved_last_layer

EXACT = MPContext()
EXACT.dps = 60
PAPER = Path(__file__).resolve().parents[2] / "papers" / "troiani2025"


def _layers(rng: np.random.Generator) -> list[Settings]:
    """Tokens, rank, activation, tied or not, digits: the range and its corners."""
    corners = [(2, 1, 1), (2, 1, 40), (10**6, 1, 12), (2, 1000, 40), (1000, 999, 3), (7, 7, 20), (7, 6, 20)]
    cases = [{"tokens": m, "rank": r, "activation": "softmax", "tied": True, "digits": n} for m, r, n in corners]
    for _ in range(120):
        tied = bool(rng.integers(4))
        cases.append(
            {
                "tokens": int(2 + np.exp(rng.uniform(0, np.log(50 if tied else 1e5)))),
                "rank": int(np.exp(rng.uniform(0, np.log(30)))) if tied else 1,
                "activation": "linear" if tied and rng.integers(3) == 0 else "softmax",
                "tied": tied,
                "digits": int(rng.integers(1, 41)),
            }
        )
    return cases


def _untied_linear(rng: np.random.Generator) -> list[Settings]:
    few = [{"tokens": m, "digits": n} for m, n in [(2, 1), (2, 40), (32, 12), (32, 3)]]
    return few + [{"tokens": int(rng.integers(2, 33)), "digits": int(rng.integers(1, 13))} for _ in range(100)]


def _one_layer(s: Settings) -> Answer:
    found = one_layer(s["tokens"], s["rank"], s["activation"], tied=s["tied"], digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


def _integral(s: Settings) -> Answer:
    found = exact.single_layer(s["tokens"], 1, "linear", False, digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, "rigorous" if found.closed else "estimated")


def _from_variances(s: Settings) -> tuple[Any, Any]:
    """Inverse norm of the operator (15)-(16), from the variances of what y tells of the Gram matrix of the tokens."""
    m, r = EXACT.mpf(s["tokens"]), EXACT.mpf(s["rank"])
    if s["tied"]:
        # E sum (G_mn/r - d_mn)^2: G is Wishart with r degrees of freedom.
        norm = m * (2 * r) + m * (m - 1) * r
        if s["activation"] == "softmax" and r >= m:
            # y does not fix the square of the mean token across the others, chi-squared with r - M + 1.
            norm -= 2 * (r - m + 1)
        norm /= r * r
    else:
        # |q|^2 |k|^2 = p is known of chi-squared variables with M and M - 1: E[|q|^2 | p] = sqrt(p) + 1 and
        # E[|k|^2 | p] = sqrt(p), with E p = M (M - 1) and E sqrt(p) = M - 1.
        product, root = m * (m - 1), m - 1
        queries, keys = product + 2 * root + 1 - m, product - (m - 1)
        norm = max(EXACT.eigsy(EXACT.matrix([[queries, product], [product, keys]]), eigvals_only=True))
    return 1 / norm, EXACT.mpf(10) ** -50 / norm


def _bessel_k(order: int, x: Any) -> Any:
    """K of that order, with as many digits more in between as 60 of it take."""
    for digits in (70, 100, 140, 200):
        with ctx.workdps(digits):
            found = arb(EXACT.nstr(x, 60)).bessel_k(arb(order))
            if found.rel_accuracy_bits() >= 203:
                return EXACT.mpf(found.str(60, radius=False))
    raise ValueError(f"K_{order} at {x} takes more than 200 digits")


@cache
def _bessel_rule(step: str) -> list[tuple[Any, Any, Any]]:
    """Trapezoidal rule in y, rho = exp(y - exp(-y)): rho, its weight times K_0(rho), and K_1/K_0."""
    h = EXACT.mpf(step)
    rule = []
    for k in range(-int(3.8 / h), int(5 / h)):
        y = k * h
        rho = EXACT.exp(y - EXACT.exp(-y))
        k0, k1 = (_bessel_k(order, rho) for order in (0, 1))
        rule.append((rho, (1 + EXACT.exp(-y)) * k0, k1 / k0))
    return rule


@cache
def _bessel_norm(tokens: int, step: str) -> Any:
    """E E[|q|^2 | p]^2 + M^2 - M for p = rho^2 = |q|^2 |k|^2, E[|q|^2 | p] = rho K_1/K_0."""
    terms = [(rho**tokens * weight, rho**2 * ratio**2) for rho, weight, ratio in _bessel_rule(step)]
    return sum(w * square for w, square in terms) / sum(w for w, _ in terms) + tokens**2 - tokens


def _by_trapezoid(s: Settings) -> tuple[Any, Any]:
    fine, coarse = (_bessel_norm(s["tokens"], step) for step in ("0.04", "0.05"))
    return 1 / fine, abs(1 / fine - 1 / coarse)


def _pairs(rng: np.random.Generator, count: int, most: float, digits: tuple[int, int], linear: float) -> list[Settings]:
    """Skip and beta, within a factor `most` of one and in the corners, and digits."""
    corners = [(a, b) for a in (1 / most, most) for b in (1 / most, most)]
    cases: list[Settings] = []
    for k in range(count):
        skip, beta = corners[k] if k < 4 else np.exp(rng.uniform(-1, 1, 2) * np.log(most))
        activation = "linear" if 4 <= k and rng.random() < linear else "softmax"
        n = int(rng.integers(digits[0], digits[1] + 1))
        cases.append(
            {"skip": float(f"{skip:.3g}"), "beta": float(f"{beta:.3g}"), "activation": activation, "digits": n}
        )
    return cases


def _two(s: Settings) -> Network:
    return Network(layers=2, tokens=2, skip=s["skip"], beta=s["beta"], activation=s["activation"])


def _last_layer(s: Settings) -> Answer:
    found = last_layer(_two(s), digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


def _in_balls(s: Settings) -> tuple[Any, Any]:
    """More digits; for up to 13 of them another sum, of other variables, in other arithmetic."""
    found = precise_threshold(_two(s), max(s["digits"] + 3, 15))
    return EXACT.mpf(found.value), found.error


def _proved(s: Settings) -> Answer:
    found, _ = proved_last_layer(_two(s), digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


def _perfect(s: Settings) -> Answer:
    found = first_layer(_two(s), given="perfect", digits=s["digits"])
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


def _first_layer(s: Settings) -> Answer:
    found = first_layer(_two(s), digits=s["digits"], workers=1)
    return Answer(float(found.value), found.error, found.how, not found.converged)


def _first_layer_sampled(s: Settings) -> Answer:
    found = first_layer(_two(s), samples=s["samples"], replicas=s["replicas"], rng=s["seed"], workers=1)
    return Answer(float(found.value), found.error, found.how, not found.converged)


def _of_diagram(s: Settings) -> tuple[float, float]:
    """Stored to five digits, or two digits more."""
    grid = _diagram()
    if s["beta"] not in grid["beta"] or s["skip"] not in grid["skip"]:
        found = first_layer(_two(s), digits=s["digits"] + 2, workers=1)
        return float(found.value), found.error
    row, column = grid["beta"].index(s["beta"]), grid["skip"].index(s["skip"])
    return grid["value"][0][row][column], grid["error"][0][row][column]


@cache
def _diagram() -> dict[str, Any]:
    """First-layer thresholds by quadrature to five digits, stored with the phase diagram."""
    return dict(json.loads((PAPER / "figures" / "phase_diagram.json").read_text(encoding="utf-8")))


def _models(rng: np.random.Generator) -> list[Settings]:
    grid = _diagram()
    return [{"skip": c, "beta": b, "activation": "softmax"} for c in grid["skip"][4::2] for b in grid["beta"]]


def _few_digits(rng: np.random.Generator) -> list[Settings]:
    stored = [{**s, "digits": n} for s in _models(rng) for n in (1, 2, 3)]
    return stored + [{**s, "activation": "softmax"} for s in _pairs(rng, 60, 3.0, (1, 2), 0.0)]


def _seeds(rng: np.random.Generator) -> list[Settings]:
    efforts = [(32, 8), (64, 4), (64, 8), (32, 16)]
    return [
        {**s, "samples": efforts[k % 4][0], "replicas": efforts[k % 4][1], "seed": k}
        for k in range(9)
        for s in _models(rng)
    ]


@cache
def _constants() -> list[dict[str, Any]]:
    """Stored thresholds of two layers with two tokens to fifty digits."""
    found = tomllib.loads((PAPER / "constants.toml").read_text(encoding="utf-8"))["constant"]
    return [one for one in found if one["layers"] == one["tokens"] == 2 and one["digits"] == 50]


def _stored(rng: np.random.Generator, count: int, least: int, most: int) -> list[Settings]:
    chosen = [_constants()[k % len(_constants())] for k in range(count)]
    return [
        {
            "skip": float(one["skip"]),
            "beta": float(one["beta"]),
            "activation": one["activation"],
            "digits": int(rng.integers(least, most + 1)),
        }
        for one in chosen
    ]


def _for_proof(rng: np.random.Generator) -> list[Settings]:
    """The stored ones and others; a proof takes a second from a skip strength of 0.7 on, and minutes below 0.3."""
    stored = [s for s in _stored(rng, 40, 1, 5) if s["activation"] == "softmax" and 0.3 <= s["skip"] <= 10]
    others = _pairs(rng, 110, 3.0, (1, 5), 0.0)[4:]
    return stored + [s for s in others if s["skip"] > 0.5]


def _fifty_digits(s: Settings) -> tuple[Any, Any]:
    for one in _constants():
        if (float(one["skip"]), float(one["beta"]), one["activation"]) == (s["skip"], s["beta"], s["activation"]):
            return EXACT.mpf(one["value"]), one["error"]
    return _in_balls(s)


ROUTES = (
    Route(
        "threshold, one layer, closed form", "rigorous", _layers, _one_layer, _from_variances, "variances, to 60 digits"
    ),
    Route(
        "threshold, one untied linear layer (one integral)",
        "estimated",
        _untied_linear,
        _integral,
        _by_trapezoid,
        "trapezoid in log rho, 60 digits",
        # test_the_integral_of_an_untied_linear_layer has 38 digits of one.
        sample=0,
    ),
    Route(
        "threshold, two layers, 1 to 13 digits",
        "estimated",
        lambda rng: _pairs(rng, 30, 30.0, (1, 13), 0.0) + _stored(rng, 80, 1, 13),
        _last_layer,
        _fifty_digits,
        "balls, other variables, 15 or 50 digits",
        sample=(5, 31),
    ),
    Route(
        "threshold, two softmax layers, 14 to 30 digits",
        "estimated",
        lambda rng: [s for s in _stored(rng, 170, 14, 30) if s["activation"] == "softmax"],
        _last_layer,
        _fifty_digits,
        "50 digits, stored",
        sample=(1, 4),
    ),
    Route(
        "threshold, two layers, `--rigorous`",
        "rigorous",
        _for_proof,
        _proved,
        _fifty_digits,
        "balls without a proof, 15 or 50 digits",
        # test_proved_digits_are_those_of_the_estimate is one of them.
        sample=0,
    ),
    Route(
        "threshold, first layer, perfect knowledge",
        "rigorous",
        lambda rng: [{**s, "digits": int(rng.integers(1, 9))} for s in _pairs(rng, 100, 1e3, (1, 8), 0.5)],
        _perfect,
        lambda s: (EXACT.mpf(1) / 6, 0),
        "1/6",
    ),
    Route(
        "threshold, first layer, quadrature",
        "estimated",
        _few_digits,
        _first_layer,
        _of_diagram,
        "5 digits, stored, or 2 digits more",
        sample=1,
    ),
    Route(
        "threshold, first layer, sampled",
        "monte-carlo",
        _seeds,
        _first_layer_sampled,
        _of_diagram,
        "quadrature, 5 digits, stored",
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
