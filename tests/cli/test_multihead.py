"""The verbs of `attnlimits multihead`: what they print and write, and what they refuse."""

import json

import numpy as np
import pytest

from attnlimits.numerics.core import progress
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


def test_demo(attnlimits, monkeypatch):
    # A bar would be drawn at once.
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    said = attnlimits("multihead demo --heads 2 --seq 2 --dim 6 --samples 800 --seed 3 --json")
    assert (said.status, said.err) == (0, "")
    found = json.loads(said.out)
    assert found["converged"] and found["method"] == "restarts" and found["heads"] == 2
    assert float(found["value"]) == pytest.approx(found["test_error"], rel=1e-4)
    assert found["test_error"] < 1e-24 and found["parameter_error"] < 1e-10 and found["test_inputs"] == 4096
    assert found["how"] == "estimated" and 0 < found["error"] < 1e-24
    assert found["certificates"]["sensitivity"] > 1e-3


def test_demo_with_many_inputs_is_judged_on_a_sample(attnlimits):
    said = attnlimits("multihead demo --heads 1 --seq 3 --dim 8 --samples 600 --noise 0.1 --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["how"] == "monte-carlo" and found["test_inputs"] == 5000
    assert 0 < found["error"] < found["test_error"] < 1e-3
    assert found["parameter_error"] < 3 * found["certificates"]["expected_error"]


def test_demo_blind(attnlimits):
    said = attnlimits("multihead demo --heads 2 --dim 4 --samples 600 --noise 0.05 --starts 2 --blind")
    assert said.status == 0, said.err
    assert "2 heads" in said.out and "the rest is taken for noise" in said.out
    assert "2 heads: error " in said.out and "less than that of 1 by " in said.out


def test_demo_that_fails_still_prints(attnlimits):
    said = attnlimits("multihead demo --family parity --heads 5 --starts 1 --samples 500 --json")
    (line,) = said.lines_of_error
    assert said.status == 1 and "DegenerateSum" in line
    found = json.loads(said.out)
    assert not found["converged"] and found["test_error"] > 0.01 and "DegenerateSum" in found["status"]


@pytest.mark.parametrize("packed", [True, False], ids=["npz", "npy"])
def test_fit(attnlimits, tmp_path, packed):
    theta, w = make_teacher("gauss", 2, 5, rng=1)
    made = make_examples(theta, w, samples=600, tokens=2, rng=1)
    if packed:
        np.savez(tmp_path / "data.npz", X=made.X, Y=made.Y)
        files = f"--x {tmp_path}/data.npz"
    else:
        np.save(tmp_path / "x.npy", made.X)
        np.save(tmp_path / "y.npy", made.Y)
        files = f"--x {tmp_path}/x.npy --y {tmp_path}/y.npy"
    said = attnlimits(f"multihead fit {files} --out {tmp_path}/layer --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["heads"] == 2 and found["noise_std"] == 0.0 and float(found["value"]) < 1e-20
    assert found["how"] == "monte-carlo" and 0 < found["error"] < 1e-20 and found["converged"]
    with np.load(tmp_path / "layer.npz") as layer:
        assert parameter_error(layer["theta"], layer["w"], theta, w) < 1e-8
        assert nmse(made.Y, multihead(made.X, layer["theta"], layer["w"])) < 1e-20
    said = attnlimits(f"multihead fit {files} --heads 2 --noise-std 0 --json")
    assert np.array(json.loads(said.out)["theta"]).shape == (2, 5, 5)


def test_hardness(attnlimits):
    said = attnlimits("multihead hardness --bits 1 --methods lm --dim 6 --samples 1000 --starts 2 --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert float(found["value"]) < 0.01 and found["how"] == "monte-carlo"
    assert found["correlations"][0]["pairwise"] == 0
    assert found["converged"] and found["method"] == "lm" and found["test_error"] == found["points"][-1]["error"]
    said = attnlimits("multihead hardness --bits 1 --methods lm --dim 6 --samples 1000 --starts 2")
    assert "n = 1, 1 head, lm: 0.00" in said.out and "correlations 0" in said.out


def test_figure_of_the_steps(attnlimits, tmp_path):
    said = attnlimits(f"multihead figure steps --heads 2 --dim 6 --samples 1500 --out {tmp_path} --json")
    assert said.status == 0, said.err
    assert (tmp_path / "multihead-steps.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((tmp_path / "multihead-steps.json").read_text())
    assert len(stored["singular_values"]) == 36 and float(stored["value"]) < 1e-10
    assert stored["parameter_error"] < 1e-6 and stored["method"] == "sculpt" and stored["converged"]


@pytest.mark.slow_for("scaling")
@pytest.mark.parametrize("name", ["hardness", "scaling"])
def test_figures_of_stored_studies(attnlimits, tmp_path, name):
    said = attnlimits(f"multihead figure {name} --out {tmp_path} --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert (tmp_path / f"multihead-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert found["how"] == "monte-carlo" and found["converged"]
    low, high = {"hardness": (0.9, 1.1), "scaling": (1.0, 3.0)}[name]
    assert low < float(found["value"]) < high and 0 < found["error"] < 0.3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("demo --heads 0", "--heads must be an integer >= 1"),
        ("demo --seq 0", "--seq must be an integer >= 1"),
        ("demo --dim -1", "--dim must be an integer >= 1"),
        ("demo --samples 0", "--samples must be an integer >= 1"),
        ("demo --noise nan", "--noise must be finite and >= 0"),
        ("demo --seed -1", "--seed must be >= 0"),
        ("demo --starts 0", "starts must be an integer >= 1"),
        ("demo --scale -2", "scale must be finite and >= 0"),
        ("demo --family linear", "argument --family"),
        ("demo --family parity --heads 2", "odd number of heads"),
        ("demo --method adam", "argument --method"),
        ("demo --blind --method sculpt", "--blind selects the number of heads"),
        ("fit", "required: --x"),
        ("fit --x x.npy", "--y is missing"),
        ("fit --x x.npy --y y.npy --heads two", 'expected an integer or "auto"'),
        ("hardness --bits 0", "n must be"),
        ("hardness --methods sgd", "methods must be one of"),
        ("hardness --seed -1", "--seed must be >= 0"),
        ("figure steps --heads 1", "--heads must be >= 2"),
        ("figure nothing", "argument name"),
        ("", "required: VERB"),
    ],
)
def test_bad_flags(attnlimits, flags, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = attnlimits(f"multihead {flags}")
    assert said.status == 2 and not said.out
    assert len(said.lines_of_error) == 1 and words in said.err


def test_bad_files(attnlimits, tmp_path):
    good, x = tmp_path / "good.npy", tmp_path / "x.npy"
    np.save(good, np.ones((4, 2, 3)))
    x.write_text("no numbers")
    said = attnlimits(f"multihead fit --x {x} --y {good}")
    assert said.status == 2 and "is no .npy or .npz file" in said.err
    said = attnlimits(f"multihead fit --x {tmp_path}/none.npy --y {good}")
    assert said.status == 2 and "No such file" in said.err
    np.savez(tmp_path / "half.npz", X=np.ones((4, 2, 3)))
    said = attnlimits(f"multihead fit --x {tmp_path}/half.npz")
    assert said.status == 2 and "must hold Y, got X" in said.err
    said = attnlimits(f"multihead fit --x {good} --y {good} --noise-std -1")
    assert said.status == 2 and "--noise-std must be finite" in said.err
    np.save(x, np.ones((4, 2, 2)))
    said = attnlimits(f"multihead fit --x {x} --y {good}")
    assert said.status == 2 and "must have the same shape" in said.err


def test_failures_of_the_computation(attnlimits):
    said = attnlimits("multihead demo --seq 1")
    assert said.status == 1 and len(said.lines_of_error) == 1 and "NotIdentifiable" in said.err
    said = attnlimits("multihead demo --method sculpt --samples 45")
    assert said.status == 1 and "InsufficientCertifiedRows" in said.err


def test_refusals_carry_their_remedy(attnlimits):
    said = attnlimits("multihead demo --heads 2 --seq 2 --dim 6 --samples 300 --noise 3 --starts 2 --json")
    assert said.status == 1 and said.lines_of_error[-1].endswith("; take fewer heads, or more samples")
    assert json.loads(said.out)["remedy"] == "take fewer heads, or more samples"
    few = attnlimits("multihead demo --heads 1 --seq 2 --dim 5 --samples 400 --family gauss --noise 0.02")
    assert few.status == 0 and "head 0: |Theta| = " in few.out and "may be zero" not in few.out
