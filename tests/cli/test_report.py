"""The verb `report`: its page, its exit status, and what it says on the way."""

import json
from dataclasses import replace

from attnlimits.numerics.report.effort import EFFORTS, effort_named


def test_a_report_is_written_and_taken_up(attnlimits, tmp_path, monkeypatch):
    few = replace(effort_named("quick"), points=2, overlaps=3, dimension=40, seeds=2)
    monkeypatch.setitem(EFFORTS, "quick", few)
    said = attnlimits(f"report --link 'h[1]**2' --effort quick --out {tmp_path}/page")
    assert said.status == 0
    assert said.out.splitlines()[-1] == f"wrote {tmp_path}/page/index.html"
    assert "thresholds: weak recovery: done" in said.err
    again = attnlimits(f"report --link 'h[1]**2' --effort quick --out {tmp_path}/page --json")
    assert again.status == 0 and again.err == ""
    found = json.loads(again.out)
    assert found["complete"] and found["parts"][1]["outcomes"][0]["numbers"][0]["exact"] == "1/2"


def test_a_model_without_a_threshold_ends_in_one_and_has_its_page(attnlimits, tmp_path):
    said = attnlimits(f"report --layers 3 --tokens 3 --output sequence --effort quick --out {tmp_path}")
    assert said.status == 1
    assert "no last-layer threshold" in said.lines_of_error[-1] and len(said.lines_of_error) > 1
    quiet = attnlimits(f"report --layers 3 --tokens 3 --output sequence --effort quick --out {tmp_path} --quiet")
    assert quiet.lines_of_error == said.lines_of_error[-1:]
    assert (tmp_path / "index.html").exists()


def test_bad_arguments(attnlimits, tmp_path):
    (tmp_path / "file").write_text("")
    for flags, status, why in (
        ("--layers 1", 2, "--out"),
        (f"--layers 2 --heads 2 --readouts 1,2 --out {tmp_path}/x", 2, "(H, H)"),
        (f"--layers 1 --link h --out {tmp_path}/x", 2, "--layers describes a model"),
        (f"--layers 1 --effort huge --out {tmp_path}/x", 2, "--effort"),
        (f"--layers 1 --out {tmp_path}/file", 1, "needs a folder"),
    ):
        said = attnlimits(f"report {flags}")
        assert said.status == status and why in said.err and len(said.lines_of_error) == 1, flags
    assert not (tmp_path / "x").exists()
