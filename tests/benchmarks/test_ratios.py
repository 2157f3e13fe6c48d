"""The comparison of ratios with those that were committed."""

import json

import pytest

from .ratios import PAGE, Ratios, page


def test_a_ratio_much_worse_fails_and_a_better_one_does_not(tmp_path):
    committed = tmp_path / "ratios.json"
    kept = {"less": {"value": 2.0, "better": "less"}, "more": {"value": 6.0, "better": "more"}}
    committed.write_text(json.dumps({"machine": "a machine", "ratios": kept}), encoding="utf-8")
    ratios = Ratios(committed)
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
    written = json.loads((tmp_path / "new" / "ratios.json").read_text(encoding="utf-8"))
    assert written["ratios"]["new"] == {"value": 7.0, "better": "less"} and written["machine"] != "a machine"


def test_the_committed_ratios_name_their_machine():
    ratios = Ratios()
    assert ratios.machine != "no machine" and len(ratios.kept) >= 9
    assert all(ratio["value"] > 0 and ratio["better"] in ("more", "less") for ratio in ratios.kept.values())


def test_the_page_has_the_committed_ratios():
    """All of them are of `make bench-short`, as the page states."""
    assert all(name.startswith("short: ") for name in Ratios().kept)
    assert PAGE.read_text(encoding="utf-8") == page()
