"""Thresholds of layers."""

from functools import cache
from typing import Any

import numpy as np
from flint import arb, ctx
from harness import Answer, Route, Settings, calibration_tests
from mpmath.ctx_mp import MPContext

from attnlimits.numerics import exact
from attnlimits.numerics.thresholds import one_layer

EXACT = MPContext()
EXACT.dps = 60


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


@cache
def _bessel_rule(step: str) -> list[tuple[Any, Any, Any]]:
    """Trapezoidal rule in y, rho = exp(y - exp(-y)): rho, its weight times K_0(rho), and K_1/K_0."""
    h = EXACT.mpf(step)
    rule = []
    for k in range(-int(3.8 / h), int(5 / h)):
        y = k * h
        rho = EXACT.exp(y - EXACT.exp(-y))
        k0, k1 = (EXACT.mpf(arb(EXACT.nstr(rho, 60)).bessel_k(n).str(60, radius=False)) for n in (arb(0), arb(1)))
        rule.append((rho, (1 + EXACT.exp(-y)) * k0, k1 / k0))
    return rule


@cache
def _bessel_norm(tokens: int, step: str) -> Any:
    """E E[|q|^2 | p]^2 + M^2 - M for p = rho^2 = |q|^2 |k|^2, E[|q|^2 | p] = rho K_1/K_0."""
    terms = [(rho**tokens * weight, rho**2 * ratio**2) for rho, weight, ratio in _bessel_rule(step)]
    return sum(w * square for w, square in terms) / sum(w for w, _ in terms) + tokens**2 - tokens


def _by_trapezoid(s: Settings) -> tuple[Any, Any]:
    with ctx.workdps(200):
        fine, coarse = (_bessel_norm(s["tokens"], step) for step in ("0.04", "0.05"))
    return 1 / fine, abs(1 / fine - 1 / coarse)


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
        sample=1,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
