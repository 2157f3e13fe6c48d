"""What calibrated means: a route, its cases, and the line that it gets in the table.

A route is one way to a number: a verb and a method of numerics. Its stated errors are compared with a finer or
independent computation on at least a hundred seeded cases.
"""

import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import How

__all__ = ["Answer", "Outcome", "Route", "calibrate", "calibration_tests", "load_truths", "store_truths"]

Settings = dict[str, Any]
Number = Any  # a float, mpf or Fraction, or an array or list of them
FEWEST = 100
TRUTHS = Path(__file__).with_name("truths")


@dataclass(frozen=True)
class Answer:
    """What a route gives: one number or several, an error for each (or one for all), how, and whether it is flagged."""

    value: Number
    error: Number
    how: How
    flagged: bool = False  # the result itself says that it did not converge


@dataclass(frozen=True)
class Route:
    """One way to a number.

    `cases` gives all settings from a generator seeded by the name; `truth` gives (value, error of it) and `against`
    says how. A route that raises ValueError or ConvergenceError refuses its case. `ordinary` is true of the settings of
    which no more than half may be flagged or refused. `sample` cases run in `make test`: so many, spread over the list,
    or those of these numbers, where most take long. `fewest` must count, less than a hundred only where one takes
    seconds. `again`, where truths are stored, computes one again. `least_rms`, of difference over error of samples, is
    less only where a bound is part of the error.
    """

    name: str
    how: How
    cases: Callable[[np.random.Generator], Sequence[Settings]]
    run: Callable[[Settings], Answer]
    truth: Callable[[Settings], tuple[Number, Number]]
    against: str
    ordinary: Callable[[Settings], bool] = lambda settings: True
    sample: int | tuple[int, ...] = 3
    fewest: int = FEWEST
    again: Callable[[Settings], tuple[Number, Number]] | None = None
    least_rms: float = 0.7

    def all_cases(self) -> list[Settings]:
        """Every case, the same ones each time."""
        return list(self.cases(np.random.default_rng(zlib.crc32(self.name.encode()))))


@dataclass(frozen=True)
class Case:
    """One comparison: the largest ratio of difference to error, the ratios themselves, and whether it counts."""

    settings: Settings
    ratios: np.ndarray
    flagged: bool
    how: str
    blunt: bool  # the truth is known no better than the number that it judges

    @property
    def worst(self) -> float:
        return float(np.abs(self.ratios).max(initial=0.0))


@dataclass(frozen=True)
class Outcome:
    """All comparisons of a route."""

    route: Route
    cases: list[Case]

    @property
    def counted(self) -> list[Case]:
        return [case for case in self.cases if not case.flagged]

    def share(self, bound: float) -> float:
        """Share of the counted cases within so many errors."""
        return float(np.mean([case.worst <= bound for case in self.counted])) if self.counted else math.nan

    @property
    def worst(self) -> float:
        return max((case.worst for case in self.counted), default=math.nan)

    @property
    def rms(self) -> float:
        """Root mean square of difference over error, numbers that are exactly zero by symmetry aside."""
        ratios = np.concatenate([np.zeros(0), *(case.ratios for case in self.counted)])
        ratios = ratios[~np.isnan(ratios)]
        return float(np.sqrt(np.mean(ratios**2))) if ratios.size else math.nan

    def row(self) -> str:
        """Line of the table."""
        rms = f"{self.rms:.2f}" if self.route.how == "monte-carlo" else ""
        flagged = len(self.cases) - len(self.counted)
        shares = f"{100 * self.share(1):.1f} % | {100 * self.share(3):.1f} %"
        return (
            f"| {self.route.name} | {self.route.how} | {len(self.counted)} | {shares} | {self.worst:.2f} | {rms} | "
            f"{flagged} | {self.route.against} |"
        )

    def shortfalls(self, *, whole: bool) -> list[str]:
        """Bounds that are not met, as sentences; a sample is too small for shares."""
        found = []
        how, counted = self.route.how, self.counted
        if wrong := {case.how for case in counted} - {how}:
            found.append(f"the route is {how}, but some results are {', '.join(sorted(wrong))}")
        ordinary = [case for case in self.cases if self.route.ordinary(case.settings)]
        if 2 * sum(case.flagged for case in ordinary) > len(ordinary):
            found.append("most cases of the ordinary range are flagged or refused")
        limit = {"rigorous": 1.0, "estimated": 2.0, "monte-carlo": math.inf if whole else 4.0}[how]
        if self.worst > limit:
            case = max(counted, key=lambda one: one.worst)
            found.append(f"{self.worst:.3g} errors off at {case.settings}")
        if not whole:
            return found if counted else [*found, "no case of the sample counts: choose others"]
        if len(counted) < self.route.fewest:
            found.append(f"{len(counted)} cases count, {self.route.fewest} are needed")
        if sum(case.blunt for case in counted) > 0.1 * len(counted):
            found.append("more than a tenth of the truths are known no better than what they judge")
        if how == "estimated" and self.share(1) < 0.95:
            found.append(f"{100 * self.share(1):.1f} % are inside the error, expected 95 %")
        if how == "monte-carlo" and self.share(3) < 0.99:
            found.append(f"{100 * self.share(3):.1f} % are within 3 errors, expected 99 %")
        least = self.route.least_rms
        if how == "monte-carlo" and not least <= self.rms <= 1.3:
            found.append(f"the rms of difference over error is {self.rms:.2f}, expected {least:g} to 1.3")
        return found


def calibrate(route: Route, *, most: int | tuple[int, ...] | None = None) -> Outcome:
    """Run a route on its cases, on `most` of them spread over the list, or on those of these numbers."""
    cases = route.all_cases()
    if isinstance(most, tuple):
        cases = [cases[i] for i in most]
    elif most is not None and most < len(cases):
        cases = [cases[i] for i in np.unique(np.linspace(0, len(cases) - 1, most).round().astype(int))]
    return Outcome(route, [_compare(route, settings) for settings in cases])


def _compare(route: Route, settings: Settings) -> Case:
    try:
        answer = route.run(settings)
    except (ValueError, ConvergenceError):
        return Case(settings, np.zeros(0), True, route.how, False)
    if answer.flagged:
        return Case(settings, np.zeros(0), True, answer.how, False)
    value, off = route.truth(settings)
    # Objects: numbers of more digits than float64 has keep them in the difference.
    difference = np.ravel(np.asarray(np.asarray(answer.value, object) - np.asarray(value, object), float))
    error, off = (np.broadcast_to(np.ravel(np.asarray(x, float)), difference.shape) for x in (answer.error, off))
    both = np.hypot(error, off) if route.how == "monte-carlo" else error + off
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = difference / both
    # Neither error nor difference: right. A number that is no number: as wrong as can be.
    ratios = np.where((difference == 0) & (both == 0), np.nan if route.how == "monte-carlo" else 0.0, ratios)
    ratios[~np.isfinite(difference) | ~np.isfinite(both)] = np.inf
    # A truth of ten digits judges whatever is stated to more.
    size = np.abs(np.ravel(np.asarray(value, float)))
    blunt = bool((off > np.maximum(error, 1e-10 * size)).any())
    return Case(settings, ratios[~np.isnan(ratios)], False, answer.how, blunt)


def calibration_tests(routes: Sequence[Route]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Test of a sample of each route, and the slow test of the whole."""

    def over(chosen: Sequence[Route]) -> pytest.MarkDecorator:
        return pytest.mark.parametrize("route", chosen, ids=[route.name for route in chosen])

    @over([route for route in routes if route.sample])
    def test_sample(route: Route) -> None:
        assert calibrate(route, most=route.sample).shortfalls(whole=False) == []

    @pytest.mark.slow
    @over(routes)
    def test_whole(route: Route) -> None:
        outcome = calibrate(route)
        print(outcome.row())
        assert outcome.shortfalls(whole=True) == []
        if route.again is not None:
            for settings in route.all_cases()[:: max(1, len(outcome.cases) // 2)]:
                (value, error), (other, off) = route.truth(settings), route.again(settings)
                assert np.all(np.abs(np.subtract(value, other)) <= 3 * (np.asarray(error) + off)), settings

    return test_sample, test_whole


def load_truths(name: str) -> list[dict[str, Any]]:
    """Stored cases: settings, value, error."""
    record = json.loads((TRUTHS / f"{name}.json").read_text(encoding="utf-8"))
    return list(record["cases"])


def store_truths(
    name: str, how: str, cases: Sequence[Settings], compute: Callable[[Settings], tuple[Number, Number]]
) -> None:
    """Compute truths and write them; those already in the file for the same settings are kept."""
    path = TRUTHS / f"{name}.json"
    old = load_truths(name) if path.is_file() else []
    record: dict[str, Any] = {"how": how, "command": f"python tests/calibration/make_truths.py {name}", "cases": []}
    for settings in cases:
        known = next((one for one in old if one["settings"] == settings), None)
        if known is None:
            value, error = compute(settings)
            known = {"settings": settings, "value": value, "error": error}
        record["cases"].append(known)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
