"""The table of learning: what is stored beside what was published, its page, and the rows that are run again."""

from importlib import resources

import pytest

from attnlimits.numerics.core.results import load
from attnlimits.papers.chen2024.figures import table
from attnlimits.papers.chen2024.figures.table import ROWS, Cell, Row

AGAIN = [row for row in ROWS if row.name in {
    "gauss 2,2,8,4, N = 30000",
    "gauss 3,2,8,4, N = 60000",
    "corr 3,2,8,1, N = 60000",
    "gauss 2,2,8,4, noise 0.1, N = 30000",
}]  # fmt: skip


@pytest.fixture(scope="module")
def stored():
    return load(table.DATA)["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_stored_rows_are_no_worse_than_published(stored, row):
    assert set(stored) == {r.name for r in ROWS}
    found, auto = stored[row.name]["sculpt"], stored[row.name]["auto"]
    for cell, published in ((found, row.sculpt), (auto, row.restarts or row.sculpt)):
        assert (cell["successes"], cell["runs"]) == (row.sculpt.runs, row.sculpt.runs)
        assert cell["seconds"] < 2 * published.seconds
        # Without noise all that is left is rounding, of a size that neither side chooses.
        assert cell["error"] < (1.2 * row.sculpt.error if row.noise else 1e-20)
    if row.family == "gauss" and row.heads in (2, 3) and row.samples >= 20_000 and not row.noise:
        assert found["worst_sum"] < (0.03 if row.heads == 2 else 0.05) < found["crude"]


def test_the_page_has_the_table(stored):
    page = resources.files("attnlimits.papers").joinpath("chen2024", "README.md").read_text(encoding="utf-8")
    made = table.markdown({"rows": stored})
    assert made in page
    assert len(made.splitlines()) == len(ROWS) + 2 and len({line.count("|") for line in made.splitlines()}) == 1


def test_only_missing_rows_are_run(monkeypatch, tmp_path, stored):
    monkeypatch.setattr(table, "DATA", tmp_path / "table.json")
    monkeypatch.setattr(table, "ROWS", ROWS[:1])
    seen = []
    table.compute(lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    first = load(table.DATA)["rows"]
    for method in table.METHODS:
        again, before = (cells[ROWS[0].name][method] for cells in (first, stored))
        assert again["successes"] == again["runs"] == 5 and set(again) == set(before)
    # One head is certified everywhere: its sum is found at once, and so is all else.
    assert first[ROWS[0].name]["sculpt"]["worst_sum"] < 1e-4 < first[ROWS[0].name]["sculpt"]["crude"]
    monkeypatch.setattr(table, "run", lambda *_: pytest.fail("was there already"))
    table.compute()
    assert load(table.DATA)["rows"] == first


def test_what_is_not_learned_counts_as_a_failure():
    row = Row("gauss", 2, 2, 8, 4.0, 0.0, 30, Cell(5, 5, None, None), None)
    told = table.run(row, "sculpt", 0)
    assert not told["success"] and set(told) == {"success", "seconds"}


@pytest.mark.slow
@pytest.mark.parametrize("row", AGAIN, ids=lambda row: row.name)
def test_rows_run_again(row):
    runs = [table.run(row, "sculpt", seed) for seed in range(1000, 1005)]
    assert all(one["success"] for one in runs)
    assert max(one["error"] for one in runs) < (5e-4 if row.noise else 1e-8)
    if not row.noise:
        assert max(one["sum"] for one in runs) <= (0.03 if row.heads == 2 else 0.05)
