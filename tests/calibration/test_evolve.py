"""State evolution of layers."""

from functools import cache

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from scipy.optimize import brentq
from scipy.stats import chi

from attnlimits.numerics.models import Attention
from attnlimits.numerics.state_evolution import evolve


def _single(rng: np.random.Generator) -> list[Settings]:
    """Tokens and alpha: from far below the threshold to recovery, and both sides of the threshold closely."""
    cases = [{"tokens": m, "alpha": a} for m, a in [(2, 0.0), (2, 0.1667), (2, 0.499), (2, 0.5), (5, 1e3), (8, 1e-3)]]
    for k in range(114):
        m = int(rng.integers(2, 7))
        critical = 1 / (m * (m + 1))
        near = 10 ** rng.uniform(-4, -1) * rng.choice([-1, 1])
        factor = 1 + near if k % 2 else 10 ** rng.uniform(-0.3, 1.3)
        cases.append({"tokens": m, "alpha": float(critical * factor)})
    return cases


def _evolve(s: Settings) -> Answer:
    found = evolve(Attention(layers=1, tokens=s["tokens"]), s["alpha"])
    return Answer(found.overlap[0, 0], found.overlap_error[0, 0], found.estimation_error.how, not found.converged)


@cache
def _rule(tokens: int, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Trapezoid in y, r = |h| = exp(y - exp(-y)), and in z."""
    y = np.arange(-4.5, 2.9, step)
    r = np.exp(y - np.exp(-y))
    z = np.arange(-11.0, 11.0, step)
    weights = step * chi.pdf(r, tokens) * r * (1 + np.exp(-y))
    return r, weights, z, step * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def _growth(q: float, tokens: int, step: float) -> float:
    """alpha at which q is a fixed point: h = +-h given y, and tanh of half the log-odds of the signs is its mean."""
    r, weights, z, gaussian = _rule(tokens, step)
    x = q / (1 - q) * (r * r)[:, None]
    # E[E[h|y]^2] = E |h|^2 tanh(x + sqrt(x) z); of 1 - tanh where that is the smaller one.
    mean = np.tanh(x + np.sqrt(x) * z)
    if q < 0.5:
        excess = float((weights * r * r) @ (mean @ gaussian)) / tokens - q
    else:
        excess = (1 - q) - float((weights * r * r) @ ((1 - mean) @ gaussian)) / tokens
    g = excess / (1 - q) ** 2 * tokens
    return q / ((1 - q) * g)


def _fixed_point(s: Settings, step: float) -> float:
    m, alpha = s["tokens"], s["alpha"]
    if alpha <= 1 / (m * (m + 1)):
        return 0.0

    def excess(logit: float) -> float:
        return float(np.log(_growth(1 / (1 + np.exp(-logit)), m, step) / alpha))

    # The smallest overlap: where alpha(q), which starts at the threshold, first exceeds alpha.
    low = -12.0
    for high in np.arange(-11.5, 14.0, 0.5):
        if excess(high) > 0:
            logit = brentq(excess, low, high, xtol=1e-13, rtol=1e-14) if excess(low) < 0 else low
            return float(1 / (1 + np.exp(-logit)))
        low = high
    return 1.0


def _by_signs(s: Settings) -> tuple[float, float]:
    fine, coarse = (_fixed_point(s, step) for step in (0.04, 0.055))
    return fine, abs(fine - coarse) + 1e-12 * fine


ROUTES = (
    Route(
        "evolve, one layer",
        "estimated",
        _single,
        _evolve,
        _by_signs,
        "sum over the two signs, finer rule",
        sample=5,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
