"""The verb `descend`, and `gamp --start spectral`: in words, as JSON, on files, and what is refused."""

import json

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import make_data, teacher
from attnlimits.numerics.model.network import Network

ONE = "descend --layers 1 --tokens 2 --alpha 2.5 --dimension 100"


def test_instances_in_words(attnlimits):
    said = attnlimits(ONE + " --seeds 2")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "tied softmax attention, L=1, M=2, rank 1, c=1, beta=1"
    assert lines[1] == "alpha = 2.5, D = 100, 2 instances"
    assert lines[2].startswith("cosine similarity of layer 1: 0.99") and " +- " in lines[2]
    assert lines[3].startswith("loss: ") and "(best constant: " in lines[3]
    assert lines[4] == "converged: 2 of 2 instances"


@pytest.mark.parametrize("method", ["sgd --batch 50 --reuse 2 --rate 0.1", "gd --rate 1", "adam"])
def test_instances_as_json(attnlimits, method):
    said = attnlimits(f"{ONE} --seeds 3 --json --method {method}")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["quantity"] == "cosine similarity of layer 1 with the teacher"
    assert float(found["value"]) == pytest.approx(found["cosine"][0], abs=1e-6)
    assert float(found["value"]) > 0.98 and 0 <= found["error"] < 0.02
    assert (found["how"], found["seeds"], found["converged"]) == ("monte-carlo", 3, True)
    assert len(found["n_iter"]) == 3 and all(n < 200 for n in found["n_iter"])
    assert found["method"] == method.split()[0] and found["rate"] > 0


@pytest.mark.parametrize("start", ["spectral", "teacher"])
def test_starts(attnlimits, start):
    first = json.loads(attnlimits(f"{ONE} --seeds 1 --epochs 1 --rate 1e-6 --tol 1e-4 --start {start} --json").out)
    assert first["start"] == start
    assert float(first["value"]) > (0.9 if start == "spectral" else 1 - 1e-6)
    assert first["error"] is None


def test_spectral_start_of_gamp(attnlimits):
    flags = "gamp --layers 1 --alpha 0.8 --dimension 300 --seeds 2 --json --start "
    plain, spectral = (json.loads(attnlimits(flags + start).out) for start in ("random", "spectral"))
    assert spectral["converged"] and plain["converged"]
    assert float(spectral["value"]) == pytest.approx(float(plain["value"]), abs=0.05)
    assert sum(spectral["n_iter"]) < sum(plain["n_iter"])


def test_a_noisy_link(attnlimits):
    said = attnlimits('descend --link "h[1]**2" --noise 0.01 --alpha 6 --dimension 60 --seeds 1 --rate 0.02 --json')
    found = json.loads(said.out)
    assert found["model"] == "y = h_1_1**2 + noise of variance 0.01, P=1, M=1"
    assert found["quantity"] == "cosine similarity of index 1 with the teacher"
    # The noise is 0.005 of the loss of the best constant.
    assert float(found["value"]) > 0.98 and found["loss"] < 0.02


def test_what_does_not_converge_ends_with_status_one(attnlimits):
    said = attnlimits(ONE + " --seeds 2 --epochs 2 --json")
    assert said.status == 1 and json.loads(said.out)["converged"] is False
    assert said.lines_of_error[-1].startswith("attnlimits: not converged: 2 of 2 instances")


@pytest.fixture
def files(tmp_path):
    model = Network(1, 2)
    weights = teacher(model, 100, 0)
    x, y = make_data(model, weights, 2.5, 0)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return weights, tmp_path


def test_data_of_ones_own(attnlimits, files):
    weights, folder = files
    flags = f"descend --layers 1 --x {folder / 'x.npy'} --y {folder / 'y.npy'} --start spectral"
    said = attnlimits(f"{flags} --out {folder / 'w.npy'} --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    estimate = np.load(folder / "w.npy")
    assert found["out"] == str(folder / "w.npy") and "weights" not in found
    assert found["alpha"] == 2.5 and found["quantity"].startswith("loss")
    assert float(found["value"]) == pytest.approx(found["loss"], rel=1e-5)
    # Up to the sign that the link does not see.
    assert abs((estimate @ weights.T).item()) / np.linalg.norm(estimate) / np.linalg.norm(weights) > 0.99
    words = attnlimits(flags)
    assert words.out.splitlines()[2].startswith("Q_11 = ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "give --alpha and --dimension"),
        ("--alpha 1 --dimension 10 --rate 0", "--rate must be finite and > 0"),
        ("--alpha 1 --dimension 10 --weight-decay -1", "--weight-decay must be finite and >= 0"),
        ("--alpha 1 --dimension 10 --batch 0", "--batch must be >= 1"),
        ("--alpha 1 --dimension 10 --reuse 0", "--reuse must be >= 1"),
        ("--alpha 1 --dimension 10 --epochs 0", "--epochs must be >= 1"),
        ("--alpha 1 --dimension 10 --method gd --batch 5", "--batch and --reuse belong to"),
        ("--alpha 1 --dimension 10 --method newton", "argument --method"),
        ("--alpha 1 --dimension 10 --start informed", "argument --start"),
        ("--alpha 1 --dimension 10 --heads 2 --start spectral", "the spectral start takes one head"),
        ("--alpha 1 --dimension 9 --heads 2", "dimension must be"),
        ('--alpha 1 --dimension 10 --link "sign(h[1]*h[2])"', "its outputs are discrete"),
        ("--x x.npy --y y.npy --start teacher", "--start teacher is for instances"),
        ("--x x.npy --y y.npy --alpha 1", "--alpha describes instances"),
    ],
)
def test_bad_flags(attnlimits, flags, words):
    said = attnlimits(f"descend {flags}")
    assert said.status == 2 and not said.out
    assert len(said.lines_of_error) == 1 and words in said.err


def test_steps_that_leave_float64_are_told_in_one_line(attnlimits):
    # The suite turns a warning of NumPy into an error.
    said = attnlimits(
        'descend --link "exp(h[1])" --noise 0.1 --alpha 2 --dimension 8 --seeds 1 --batch 1 --epochs 10 '
        "--start teacher --tol 0.01 --seed 5 --workers 1"
    )
    assert (said.status, len(said.lines_of_error)) == (1, 1)
    assert "a weight has grown to nan; restored epoch 0; lower rate" in said.err


def test_figure_of_learning_in_time(attnlimits, tmp_path):
    said = attnlimits(f"figure troiani2025-2 --format png --out {tmp_path} --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert 0.95 < float(found["value"]) < 1 and 0 < found["error"] < 0.01 and found["how"] == "monte-carlo"
    assert (tmp_path / "troiani2025-2.png").read_bytes().startswith(b"\x89PNG")
    words = found["summary"]
    assert words[1].startswith(
        "GAMP, alpha = 1.2: layer 2 passes 1/2 at iteration 2, layer 1 passes 1/2 at iteration 1"
    )
    assert words[3].startswith("sgd, alpha = 10: layer 2 passes 1/2 at epoch 1, layer 1 passes 1/2 at epoch ")
    assert "layer 1 ends at 0." in words[5]
