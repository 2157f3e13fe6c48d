"""`--accuracy` of the verbs: met, or status 1 and what it would take."""

import json

import pytest

import attnlimits as al
from attnlimits.numerics.core import accuracy as core


def test_a_curve_says_what_it_would_take(monkeypatch, attnlimits):
    monkeypatch.setattr(core, "_MOST", 64)
    flags = '--link "h[1]+h[2]*h[3]*h[4]" --from 0.5 --to 0.5 --points 1 --samples 64 --replicas 4'
    said = attnlimits(f"curve {flags} --accuracy 1e-6 --json")
    assert said.status == 1 and len(said.lines_of_error) == 1
    record = json.loads(said.out)
    assert record["converged"] and not record["reached"]
    assert "64 points leave" in record["status"] and "would reach it (samples)" in record["status"]


def test_a_free_energy_says_what_its_averages_leave(attnlimits):
    said = attnlimits('free-energy --link "h[1]**2" --alpha 1.05 --accuracy 1e-10 --json')
    record = json.loads(said.out)
    assert said.status == 1 and len(said.lines_of_error) == 1
    assert record["converged"] and not record["reached"] and "the finest averages leave" in record["status"]


def test_a_landscape_takes_as_many_points_as_it_needs(attnlimits, tmp_path):
    flags = f'landscape --link "h[1]**2" --alpha 1.05 --points 5 --out {tmp_path / "one.png"} --json'
    rough, fine = (json.loads(attnlimits(flags + more).out) for more in ("", " --accuracy 1e-6"))
    assert fine["grid_error"] <= 1.1e-6 < rough["grid_error"] and fine["reached"]
    record = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    free = al.free_entropy(al.Link("h[1]**2"), 1.05)
    for k in (10, 50, 90):
        q, phi = record["overlaps"][0][k], record["phi"][k]
        assert abs(free([[q]]).value - phi) <= record["error"] + free([[q]]).error
    said = attnlimits(flags + " --accuracy 1e-9")
    assert (said.status == 1 and "along an axis leave" in said.err) or "the finest averages leave" in said.err


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ("free-energy --layers 1 --tokens 2 --alpha 0.3", 0),
        ("free-energy --link 'h[1]**2' --transitions", 0),
        ("curve --layers 1 --tokens 2 --from 0.3 --to 0.4 --points 2", 0),
        ("threshold --link 'sign(h[1])*abs(h[2])' --staircase", 0),
        ("evolve --link 'h[1]**2' --alpha 0.8", 0),
    ],
)
def test_met(attnlimits, flags, status):
    said = attnlimits(f"{flags} --accuracy 1e-6 --json")
    assert (said.status, said.err) == (status, "")
    assert json.loads(said.out).get("reached", True)


def test_a_staircase_says_what_its_averages_leave(attnlimits):
    flags = "threshold --link 'h[1]*abs(h[2])' --staircase --json"
    said = attnlimits(f"{flags} --accuracy 1e-12")
    record = json.loads(said.out)
    assert said.status == 1 and record["converged"] and not record["reached"]
    assert record["status"].endswith(f"the finest averages leave {record['steps'][1]['error']:.1g}")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("threshold --link 'h[1]**2' --accuracy 1e-6", "--accuracy is for --staircase"),
        ("threshold --link 'h[1]**2' --staircase --digits 5 --accuracy 1e-6", "--digits are an accuracy"),
        ("threshold --link 'h[1]**2' --staircase --accuracy 2", "--accuracy must be in"),
        ("landscape --alpha 1 --accuracy 0 --out x.png", "--accuracy must be in"),
    ],
)
def test_refusals(attnlimits, flags, words):
    said = attnlimits(flags)
    assert (said.status, len(said.lines_of_error)) == (2, 1) and words in said.err
