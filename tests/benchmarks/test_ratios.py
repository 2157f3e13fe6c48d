"""The comparison of ratios with those that were committed."""

import json

import pytest

from .ratios import COMMITTED, PAGE, Ratios, machine, page

LESS, MORE = {"value": 2.0, "better": "less"}, {"value": 6.0, "better": "more"}


@pytest.fixture
def committed(tmp_path):
    """Return a function that writes records of machines."""

    def write(**machines):
        path = tmp_path / "ratios.json"
        records = [{"machine": name, "ratios": ratios} for name, ratios in machines.items()]
        path.write_text(json.dumps({"records": records}), encoding="utf-8")
        return path

    return write


def test_a_ratio_much_worse_fails_and_a_better_one_does_not(committed, tmp_path):
    ratios = Ratios(committed(**{machine(): {"less": LESS, "more": MORE}}))
    ratios("less", 2.9, better="less")
    ratios("more", 4.1, better="more")
    ratios("less", 0.1, better="less")
    ratios("new", 7.0, better="less")
    with pytest.raises(AssertionError, match=r"less: 3\.1, 1\.55 times worse than the 2"):
        ratios("less", 3.1, better="less")
    with pytest.raises(AssertionError, match=r"more: 3\.9, 1\.54 times worse"):
        ratios("more", 3.9, better="more")
    lines = ratios.lines()
    assert [line.split()[0] for line in lines if line.endswith("WORSE")] == ["less", "more"]
    ratios.write(tmp_path / "new" / "ratios.json")
    (written,) = json.loads((tmp_path / "new" / "ratios.json").read_text(encoding="utf-8"))["records"]
    assert written["machine"] == machine()
    assert written["ratios"]["new"] == {"value": 7.0, "better": "less"}


def test_a_machine_without_a_record_is_held_to_the_most_lenient(committed, tmp_path):
    faster = {"less": {"value": 1.0, "better": "less"}, "more": {"value": 9.0, "better": "more"}}
    ratios = Ratios(committed(one=faster, other={"less": LESS, "more": MORE}))
    ratios("less", 2.9, better="less")
    with pytest.raises(AssertionError, match=r"more: 3, 2\.00 times worse than the 6"):
        ratios("more", 3.0, better="more")
    ratios.write(tmp_path / "new.json")
    records = json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))["records"]
    assert {one["machine"] for one in records} == {"one", "other", machine()}
    # What others measured is not said of this one.
    (own,) = [one for one in records if one["machine"] == machine()]
    assert own["ratios"]["less"] == {"value": 2.9, "better": "less"} and own["ratios"]["more"]["value"] == 3.0


def test_a_machine_with_a_record_is_held_to_its_own(committed):
    ratios = Ratios(committed(**{machine(): {"less": {"value": 1.0, "better": "less"}}, "other": {"less": LESS}}))
    with pytest.raises(AssertionError, match=r"less: 1\.9, 1\.90 times worse than the 1"):
        ratios("less", 1.9, better="less")


def test_the_committed_ratios_name_their_machines():
    records = json.loads(COMMITTED.read_text(encoding="utf-8"))["records"]
    assert records and all(one["machine"] and len(one["ratios"]) >= 9 for one in records)
    assert all(
        ratio["value"] > 0 and ratio["better"] in ("more", "less")
        for one in records
        for ratio in one["ratios"].values()
    )


def test_the_page_has_the_committed_ratios():
    """All of them are of `make bench-short`, as the page states."""
    assert all(name.startswith("short: ") for name in Ratios().kept)
    assert PAGE.read_text(encoding="utf-8") == page()
