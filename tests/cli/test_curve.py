"""The verb `curve`: what it prints, its JSON object and file, its exit status, and what it refuses."""

import json

import pytest

from attnlimits.numerics.fixed_point.continuation import walk

ONE = "curve --layers 1 --tokens 3 --from 0 --to 0.12 --points 4"


def test_a_curve_in_words(attnlimits):
    said = attnlimits(ONE + " --start both")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "tied softmax attention, L=1, M=3, rank 1, c=1, beta=1"
    assert lines[1] == "uninformed start:"
    assert lines[2] == "alpha = 0: q_11 = 0 +- 0"
    assert lines[6] == "informed start:"
    assert lines[11].startswith("q_11 from alpha = 0.08333333333 +- ")
    assert lines[12].startswith("converged: 8 of 8 points, max |F(q) - q| = ")
    assert "no gap between the starts above" in lines[12]


def test_a_curve_as_json_and_in_a_file(attnlimits, tmp_path):
    path = tmp_path / "curve.json"
    said = attnlimits(f"{ONE} --json --out {path}")
    assert said.status == 0, said.err
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert (found["value"], found["error"], found["how"]) == ("4", 0.0, "estimated")
    points = found["points"]["uninformed"]
    assert [p["parameter"] for p in points] == pytest.approx([0, 0.04, 0.08, 0.12])
    assert all(p["converged"] for p in points)
    assert found["onsets"][0]["value"] == pytest.approx(1 / 12)
    assert found["gap"] is None
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["points"] == found["points"]


def test_a_curve_of_a_link_shows_its_jump(attnlimits):
    said = attnlimits('curve --link "h[1]**2" --from 0.4 --to 1.2 --points 3 --start both')
    assert said.status == 0, said.err
    assert "q_11 from alpha = 0.5000000000 " in said.out
    assert "jump up at alpha = 1.1284" in said.out
    assert "jump down at alpha = 1.000" in said.out
    assert "(recovered)" in said.out


def test_points_that_do_not_converge_end_with_status_one(attnlimits, monkeypatch):
    # no corrector: what is left is the error of the interpolant
    monkeypatch.setattr(walk, "_MOST", 0)
    said = attnlimits(ONE + " --tol 1e-12 --json")
    assert said.status == 1
    # after the bar, if the machine is slow enough for one
    assert said.lines_of_error[-1].startswith("attnlimits: not converged: ")
    assert " of 4 points are, " in said.err and "raise tol" in said.err
    assert json.loads(said.out)["converged"] is False


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--to 1", "--from"),
        ("--from 0 --to inf", "--to must be finite"),
        ("--from -1 --to 1", "--from must be finite and >= 0"),
        ("--from 1 --to 0", "needs --from < --to"),
        ("--from 0 --to 1 --points 1", "at least 2 points"),
        ("--from 0 --to 1 --tol 0", "--tol must be"),
        ("--from 0 --to 1 --accuracy 1", "--accuracy must be"),
        ("--from 0 --to 1 --alpha 1", "--alpha belongs to"),
        ("--from 0.5 --to 1 --along skip", "--along skip needs --alpha"),
        ("--from 0 --to 1 --along skip --alpha 1", "--from must be finite and >= 1e-12"),
        ("--from 0 --to 1 --noise x", "--noise must be a number"),
        ("--from 0 --to 1 --samples 0", "--samples must be"),
        ("--from 0 --to 1 --layers 3 --tokens 3 --output sequence", "not served by `curve`"),
        ('--from 0 --to 1 --link "h[1]" --layers 3', "--link stands instead"),
        ('--from 0.5 --to 1 --link "h[1]" --along skip --alpha 1', "--link stands instead"),
        ('--from 0 --to 1 --link "tanh(h[1])+2*tanh(h[2])"', "learned together"),
    ],
)
def test_bad_input_is_refused_in_one_line(attnlimits, flags, words):
    said = attnlimits("curve " + flags)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert words in said.err


def test_an_interrupted_curve_goes_on_from_its_file(attnlimits, tmp_path, monkeypatch):
    from attnlimits.numerics.cli import curve

    command = f"curve --accuracy 1e-2 --from 0.1 --to 0.4 --points 4 --out {tmp_path / 'curve.json'}"

    class Stops(curve.Bar):
        def to(self, done, total):
            if done == 3:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(curve, "Bar", Stops)
        said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (130, "", 1)
    assert "interrupted after 3 of 4 points" in said.err and "curve.json" in said.err
    kept = json.loads((tmp_path / "curve.json").read_text(encoding="utf-8"))
    assert len(kept["points"]["uninformed"]) == 3
    said = attnlimits(command)
    assert said.status == 0
    whole = json.loads((tmp_path / "curve.json").read_text(encoding="utf-8"))
    assert whole["points"]["uninformed"][:3] == kept["points"]["uninformed"] and "unfinished" not in whole
