"""Two routes to the same number: some cases of `routes.py`, and the page that has all of them."""

import math
from pathlib import Path

import pytest

from .routes import CASES, SIGMAS, apart, table

PAGE = Path(__file__).parents[3] / "docs" / "results" / "extensive_width.md"


@pytest.mark.parametrize(
    "case",
    [
        "9 softmax 2",
        "9 hardmax 3",
        "9 tanh",
        "10 denoiser",
        "10 descent",
        *(
            pytest.param(case, marks=pytest.mark.slow)
            for case in ("9 amp softmax 2", "10 free energy", "12 last layer")
        ),
    ],
)
def test_both_routes_agree_and_stand_on_the_page(case):
    rows, page = [{"case": case, "seconds": 0.0, **row} for row in CASES[case]()], PAGE.read_text(encoding="utf-8")
    for row in rows:
        (one, first), (other, second) = row["first"], row["second"]
        assert abs(other - one) < SIGMAS * math.hypot(first, second)
        (found,) = [text for text in page.splitlines() if f"| {row['what']} |" in text]
        assert f"| {one:.6g} +- " in found


def test_what_has_no_error_is_stated_as_a_difference():
    rows = [
        {"case": "13 precision", "what": "", "first": (1.0, e), "second": (1.5, 0.0), "seconds": 1.0} for e in (0, 0.25)
    ]
    assert [apart(row) for row in rows] == ["differ by 5e-01", "+2.0"]
    assert list(table(rows))[2].startswith("| 13 |  | 1 +- 0 | 1.5 +- 0 | differ by 5e-01 |")
