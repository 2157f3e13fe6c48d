"""Cases of the averages of two linear layers, and their truth by finer sums."""

from typing import Any

import numpy as np

from attnlimits.numerics.channel.two_linear.channel import TwoLinearQuadrature
from attnlimits.numerics.model.network import Network

__all__ = ["averages_of", "by_finer_sums", "first_alone", "linear_cases"]

Settings = dict[str, Any]

# Times finer than the accuracy of a case; accuracy of alpha where the first layer alone is learned.
_FINER, _FINE = 20.0, 1e-6


def linear_cases() -> list[Settings]:
    """Skip strengths from 0.1 to 10, overlaps from zero to 0.97, among them small and very different ones."""
    rng = np.random.default_rng(14)
    corners = [
        (c, q) for c in (0.1, 0.42, 10.0) for q in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.95), (0.9, 0.01), (0.9, 0.9))
    ]
    cases = []
    for number in range(120):
        skip, q = float(f"{np.exp(rng.uniform(-2.3, 2.3)):.3g}"), [_overlap(rng), _overlap(rng)]
        if number < len(corners):
            skip, q = corners[number][0], list(corners[number][1])
        beta = 1.0 if number % 3 else float(f"{np.exp(rng.uniform(-1, 1)):.3g}")
        cases.append({"skip": skip, "beta": beta, "q": q, "accuracy": float(f"{10 ** rng.uniform(-3.5, -2):.2g}")})
    return cases


def _overlap(rng: np.random.Generator) -> float:
    """Zero, small, anywhere or close to one."""
    kind = rng.integers(8)
    value = 0.0 if kind == 0 else 10 ** rng.uniform(-4, -1) if kind == 1 else rng.uniform(0.05, 0.9)
    return float(f"{1 - 10 ** rng.uniform(-1.5, -1) if kind == 7 else value:.3g}")


def averages_of(s: Settings, accuracy: float) -> tuple[list[float], list[float]]:
    """What is known of both layers, G_ll or growth rates, and what is stated of it."""
    rule = TwoLinearQuadrature(Network(activation="linear", skip=s["skip"], beta=s["beta"]), accuracy, 1)
    found = rule(np.diag(s["q"]))
    ends = np.where(np.array(s["q"]) > 0, np.diagonal(found.g, axis1=1, axis2=2), found.growth)
    return ends.mean(axis=0).tolist(), (np.abs(np.ptp(ends, axis=0)) / 2).tolist()


def by_finer_sums(s: Settings) -> tuple[list[float], list[float]]:
    """The same by sums of many times the accuracy."""
    return averages_of(s, s["accuracy"] / _FINER)


def first_alone() -> list[dict[str, Any]]:
    """Fixed points at which the first layer alone is learned, chosen by their overlap: alpha is explicit there.

    The error of the overlap is that of alpha over its slope.
    """
    rng = np.random.default_rng(15)
    cases: list[dict[str, Any]] = []
    while len(cases) < 104:
        skip, beta = float(f"{np.exp(rng.uniform(-2.3, 0)):.3g}"), float(f"{np.exp(rng.uniform(-0.5, 0.5)):.3g}")
        q11 = float(10 ** rng.uniform(-3, -1) if rng.integers(2) else rng.uniform(0.1, 0.7))
        rule = TwoLinearQuadrature(Network(activation="linear", skip=skip, beta=beta), _FINE, 1)
        at, beside = (rule.refinements(np.diag([q, 0.0])) for q in (q11, 1.01 * q11))
        alphas = q11 / ((1 - q11) * at[:, 0])
        slope = (1.01 * q11 / ((1 - 1.01 * q11) * beside[0, 0]) - alphas[0]) / (0.01 * q11)
        # A second layer that joins, or a fold, would lead elsewhere.
        if alphas[0] * at[0, 3] < 0.98 and slope > 0:
            settings = {"skip": skip, "beta": beta, "alpha": float(alphas[0])}
            off = 2 * (2 * abs(alphas[1] - alphas[0]) + 1e-15) / slope
            cases.append({"settings": settings, "value": q11, "error": float(off)})
    return cases
