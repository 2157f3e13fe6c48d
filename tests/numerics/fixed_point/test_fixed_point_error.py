"""Stated errors of fixed points against laws whose fixed points are known, with thousands of randomisations."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import Averages
from attnlimits.numerics.core.results import How
from attnlimits.numerics.fixed_point.error import FixedPointError, blocked, fixed_point_error

Array = NDArray[np.float64]


@dataclass
class Law:
    """Log alpha = told(x) + noise, of one overlap x or several; one row of noise per randomisation."""

    told: Callable[[Array], Array]
    log_alpha: float
    noise: Array
    sampled: bool = True
    evaluations: int = 0
    smooth: bool = True
    tolerance: float = 0.0

    def averages(self, x: Array) -> Averages:
        self.evaluations += 1
        g = x / (1 - x) * np.exp(-self.told(x) - self.noise * (1 + 0.5 * x))
        how: How = "monte-carlo" if self.sampled else "estimated"
        return Averages.unbiased(np.array([np.diag(row) for row in g]), np.full(g.shape, np.nan), how)

    def rest(self, x: Array, g: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return self.log_alpha + np.log(g.diagonal()) - np.log(x / (1 - x))

    def slopes(self, x: Array, g: Array) -> Array | None:
        return None

    def room(self, x: Array) -> Array:
        return np.minimum(x, 1 - x)

    def step(self, x: Array, k: int) -> float:
        return -0.02 * min(x[k], 1 - x[k])

    def inside(self, x: Array, moved: Array) -> Array:
        return np.clip(moved, 0.2 * x, 1 - 0.2 * (1 - x))

    def pull(self, x: Array) -> Array:
        return np.diag(x * (1 - x))

    def rounding(self, x: Array, g: Array) -> Array:
        return np.full(len(x), 4e-15)


def solved(law: Law, start: float, size: int = 1) -> FixedPointError:
    """From where Newton's steps end if they start there, as an iteration would leave it."""
    x = np.full(size, start)
    return fixed_point_error(law, x, law.averages(x))


def continuous(x: Array) -> Array:
    """A threshold at alpha = 1, from where x grows as (alpha - 1)/0.7."""
    return 0.7 * x + 0.2 * x**2


def fold(x: Array) -> Array:
    """Stable below x = 0.3, where alpha = 1: beyond it x jumps."""
    return -3 * (x - 0.3) ** 2


def pulls(told: Callable[[Array], Array], exact: float, sigma: float, replicas: int, cases: int) -> Array:
    """(value - truth)/error, NaN where the interval does not close."""
    rng = np.random.default_rng([int(1e6 * exact), replicas])
    log_alpha = float(told(np.array([exact]))[0])
    out = np.full(cases, math.nan)
    for case in range(cases):
        law = Law(told, log_alpha, sigma * math.sqrt(replicas) * rng.standard_normal((replicas, 1)))
        found = solved(law, 0.95 * exact)
        if not found.doubt:
            out[case] = (found.x[0] - exact) / found.error[0]
    return out


# Overlaps at which log alpha is so many of its errors from the threshold's, or the jump's.
WHERE = {
    "threshold": (continuous, lambda excess: excess * 1e-3 / 0.7),
    "jump": (fold, lambda excess: 0.3 - math.sqrt(excess * 1e-3 / 3)),
}


@pytest.mark.parametrize("cases", [pytest.param(12, id="some"), pytest.param(1000, id="many", marks=pytest.mark.slow)])
@pytest.mark.parametrize("where", ["threshold", "jump"])
def test_errors_near_a_threshold_are_those_of_the_value(where: str, cases: int) -> None:
    told, at = WHERE[where]
    found = {
        (excess, replicas): pulls(told, at(excess), 1e-3, replicas, cases)
        for excess in (100.0, 30.0, 10.0, 4.0, 1.0)
        for replicas in (4, 8, 16)
    }
    z = np.concatenate(list(found.values()))
    # Three errors hold in 99.73 %, four standard errors of this share aside; what does not is marked.
    assert (np.abs(z) > 3).mean() < 0.0027 + 4 * math.sqrt(0.0027 / len(z))
    assert 0.7 < math.sqrt(np.nanmean(z**2)) < 1.3
    # Far from a threshold all intervals close, near it hardly any do.
    assert all(np.isfinite(found[100.0, replicas]).all() for replicas in (4, 8, 16))
    assert all(np.isnan(found[1.0, replicas]).mean() > 0.8 for replicas in (4, 8, 16))


def test_two_randomisations_leave_errors_of_one_degree_of_freedom() -> None:
    z = pulls(continuous, 0.3, 1e-6, 2, 300)
    assert np.isfinite(z).all() and (np.abs(z) > 3).mean() < 0.01


def test_far_from_a_threshold_the_error_costs_no_more_than_the_slope() -> None:
    law = Law(continuous, 0.7 * 0.5 + 0.2 * 0.25, 1e-4 * np.array([[1.0], [-1.0], [0.5], [-0.5]]))
    found = solved(law, 0.5)
    assert law.evaluations == 2 and not found.visited


def coupled(x: Array) -> Array:
    """Two overlaps that help each other."""
    return np.array([1.5 * x[0] - 0.8 * x[1], 0.9 * x[1] - 0.4 * x[0]]) - 0.2


def test_errors_of_several_overlaps() -> None:
    exact = np.linalg.solve([[1.5, -0.8], [-0.4, 0.9]], [0.3, 0.3])
    rng, z = np.random.default_rng(2), []
    for _ in range(200):
        law = Law(coupled, 0.1, 0.02 * rng.standard_normal((8, 2)))
        start = 0.95 * exact
        found = fixed_point_error(law, start, law.averages(start))
        assert not found.doubt
        z.append((found.x - exact) / found.error)
    assert (np.abs(z) <= 3).mean() > 0.99 and 0.7 < np.sqrt(np.mean(np.square(z))) < 1.1


@pytest.mark.parametrize("start", [0.01, 0.03, 0.29])
def test_exact_averages_are_solved_to_rounding(start: float) -> None:
    """From either side, and from where |F - x| is small and x is not near."""
    exact = 0.1
    law = Law(continuous, 0.7 * exact + 0.2 * exact**2, np.zeros((2, 1)), sampled=False)
    found = solved(law, start)
    assert abs(found.x[0] - exact) <= found.error[0] < 1e-12


def test_a_point_that_was_passed_too_closely_is_noticed() -> None:
    """Log alpha falls short of the bottleneck at 0.3 by less than the averages decide."""

    def bottleneck(x: Array) -> Array:
        return np.where(x < 0.5, -3 * (x - 0.3) ** 2, -0.12 + 2 * (x - 0.5))

    for noise, missed in ((1e-2, True), (1e-4, False)):
        law = Law(bottleneck, 4e-3, noise * np.array([[1.0], [-1.0], [0.5], [-0.5]]))
        path = [(np.array([x]), law.averages(np.array([x]))) for x in (0.1, 0.2, 0.31, 0.5)]
        found = solved(law, 0.56)
        assert not found.doubt and bool(blocked(law, path, found)) is missed
