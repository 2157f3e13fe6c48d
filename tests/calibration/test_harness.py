"""The harness passes true errors, finds false ones, and the page has a line for each route."""

import math
from dataclasses import replace

import numpy as np
import pytest
import table
from harness import Answer, Route, calibrate

from attnlimits.numerics.core.errors import ConvergenceError


def _normal(scale: float, how: str = "monte-carlo", **changes: object) -> Route:
    """Normal deviates around zero, of standard deviation `scale` times the stated error."""

    def cases(rng):
        return [{"x": float(x)} for x in rng.standard_normal(400)]

    honest = Route("normal", how, cases, lambda s: Answer(scale * s["x"], 1.0, how), lambda s: (0.0, 1e-9), "zero")
    return replace(honest, **changes)


def test_true_errors_pass():
    assert calibrate(_normal(1.0)).shortfalls(whole=True) == []
    assert calibrate(_normal(0.4, "estimated")).shortfalls(whole=True) == []
    assert calibrate(_normal(0.2, "rigorous")).shortfalls(whole=True) == []


@pytest.mark.parametrize(
    ("route", "part"),
    [
        (_normal(2.0), "within 3 errors"),
        (_normal(0.3), "rms"),
        (_normal(0.8, "estimated"), "inside the error"),
        (_normal(0.4, "rigorous"), "errors off"),
        (_normal(1.0, run=lambda s: Answer(0.0, 1.0, "estimated")), "the route is monte-carlo"),
        (_normal(1.0, run=lambda s: Answer(math.nan, 1.0, "monte-carlo")), "inf errors off"),
        (_normal(1.0, run=lambda s: Answer(1.0, math.nan, "monte-carlo")), "inf errors off"),
        (_normal(1.0, truth=lambda s: (0.0, 1.1)), "known no better"),
        (_normal(1.0, run=lambda s: Answer(s["x"], 1.0, "monte-carlo", s["x"] > -0.1)), "flagged or refused"),
        (_normal(1.0, cases=lambda rng: [{"x": 1.0}] * 99), "100 are needed"),
    ],
)
def test_false_errors_are_found(route, part):
    found = calibrate(route)
    assert any(part in sentence for sentence in found.shortfalls(whole=True) + found.shortfalls(whole=False)), found


def test_flagged_and_refused_cases_never_count():
    def run(s):
        if s["x"] > 1:
            raise ConvergenceError("refused")
        return Answer(s["x"] if s["x"] > 0 else 1e9, 1.0, "estimated", flagged=s["x"] <= 0)

    found = calibrate(_normal(1.0, "estimated", run=run))
    assert 0 < len(found.counted) < 400 and found.worst <= 1
    assert f"| {len(found.counted)} |" in found.row() and f"| {400 - len(found.counted)} |" in found.row()


def test_a_sample_in_which_nothing_counts_is_found():
    """A case that is flagged outside the ordinary range says nothing of the errors."""
    route = _normal(1.0, run=lambda s: Answer(0.0, 1.0, "monte-carlo", flagged=True), ordinary=lambda s: False)
    assert calibrate(route, most=2).shortfalls(whole=False) == ["no case of the sample counts: choose others"]


def test_digits_beyond_float64_count():
    table_of_sixty = table.importlib.import_module("test_thresholds").EXACT
    value = table_of_sixty.mpf(1) / 3
    off = value + table_of_sixty.mpf(10) ** -40
    route = _normal(1.0, "rigorous", run=lambda s: Answer(off, 1e-41, "rigorous"), truth=lambda s: (value, 0.0))
    assert calibrate(route, most=2).worst == pytest.approx(10)


def test_every_route_has_its_line_in_the_page():
    routes, rows = table.routes(), table.rows()
    assert len({route.name for route in routes}) == len(routes)
    assert list(rows) == [route.name for route in routes], "run python tests/calibration/table.py"
    for route in routes:
        cells = [cell.strip() for cell in rows[route.name].split("|")[1:-1]]
        assert len(cells) == 9 and cells[1] == route.how and cells[8] == route.against
        assert int(cells[2]) >= route.fewest, route.name
        inside, within, worst = (float(cell.removesuffix(" %")) for cell in cells[3:6])
        if route.how == "monte-carlo":
            assert within >= 99 and route.least_rms <= float(cells[6]) <= 1.3, route.name
        else:
            least, most = (100, 1) if route.how == "rigorous" else (95, 2)
            assert inside >= least and worst <= most, route.name
    # A sample of cases is the same ones each time.
    sampled = [route for route in routes if route.sample]
    assert [repr(r.all_cases()) == repr(r.all_cases()) for r in sampled] == [True] * len(sampled)


def test_a_sample_is_spread_over_the_cases():
    sample = calibrate(_normal(1.0), most=5).cases
    everything = _normal(1.0).all_cases()
    assert [case.settings for case in sample] == [everything[i] for i in np.linspace(0, 399, 5).round().astype(int)]


def test_a_sample_of_numbers_is_those_cases():
    everything = _normal(1.0).all_cases()
    assert [case.settings for case in calibrate(_normal(1.0), most=(7, 300)).cases] == [everything[7], everything[300]]
    with pytest.raises(IndexError):
        calibrate(_normal(1.0), most=(400,))
