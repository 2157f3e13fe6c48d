"""Two routes to the same number: some cases of `routes.py`, and the page that has all of them."""

import math
from pathlib import Path

import pytest

from .routes import CASES, SIGMAS, apart, table, topic_of

PAGE = Path(__file__).parents[3] / "docs" / "results" / "extensive_width.md"


def rows_of_the_page():
    """Cells of the first table, below its two lines of headings."""
    text = PAGE.read_text(encoding="utf-8").split("\n\n")
    (found,) = [part.splitlines() for part in text if part.startswith("| topic |")]
    return [line.strip("| ").split(" | ") for line in found[2:]]


@pytest.mark.slow_for("prediction: hardmax 3")
@pytest.mark.parametrize(
    "case",
    [
        "prediction: softmax 2",
        "prediction: hardmax 3",
        "prediction: tanh",
        "denoiser",
        "descent",
        *(
            pytest.param(case, marks=pytest.mark.slow)
            for case in ("message passing: softmax 2", "free energy", "last layer")
        ),
    ],
)
def test_both_routes_agree_and_stand_on_the_page(case):
    """The first number as it is printed; the second, which other processors round in another way, within its error."""
    for row in CASES[case]():
        (one, first), (other, second) = row["first"], row["second"]
        assert abs(other - one) < SIGMAS * math.hypot(first, second)
        (found,) = [cells for cells in rows_of_the_page() if cells[:2] == [topic_of(case), row["what"]]]
        assert found[2].startswith(f"{one:.6g} +- ")
        assert abs(float(found[3].partition(" ")[0]) - other) < second


def test_the_page_has_rows_of_every_topic():
    """In the order of the cases; which rows a case has is known once it has run."""
    assert list(dict.fromkeys(cells[0] for cells in rows_of_the_page())) == list(dict.fromkeys(map(topic_of, CASES)))


def test_what_has_no_error_is_stated_as_a_difference():
    rows = [
        {"case": "precision: a", "what": "", "first": (1.0, e), "second": (1.5, 0.0), "seconds": 1.0} for e in (0, 0.25)
    ]
    assert [apart(row) for row in rows] == ["differ by 5e-01", "+2.0"]
    assert list(table(rows))[2].startswith("| precision |  | 1 +- 0 | 1.5 +- 0 | differ by 5e-01 |")
