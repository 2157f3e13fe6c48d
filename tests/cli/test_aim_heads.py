"""`aim .. --heads`: heads whose scores are added, beside one layer of the width of all."""

import json
import math

import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.data import make_data
from attnlimits.numerics.aim.gd import descend
from attnlimits.numerics.aim.heads import evolve_heads, heads_channel, heads_teacher, sum_of_heads
from attnlimits.numerics.aim.instances import descent_instances
from attnlimits.numerics.aim.width import estimate_rho


def record(attnlimits, command):
    return json.loads(attnlimits(f"{command} --json").out)


@pytest.mark.slow_for("--activation tanh(z) --noise 0.3")
@pytest.mark.parametrize("flags", ["", "--activation hardmax", "--activation tanh(z) --noise 0.3"])
def test_evolve_is_that_of_the_sum_and_of_each_head(attnlimits, flags):
    found = record(attnlimits, f"aim evolve --rho 0.25 --heads 2 --alpha 0.05 0.1 {flags}")
    name, noise = ("softmax", 0.0) if not flags else (flags.split()[1], 0.3 if "noise" in flags else 0.0)
    expected = evolve_heads(0.1, 0.25, name, 2, noise=noise)
    assert (found["heads"], found["rho"]) == (2, 0.25)
    assert found["mmse"]["value"] == pytest.approx(expected.sum.mmse.value, rel=1e-5)
    assert found["head"]["value"] == pytest.approx(expected.head.value, rel=1e-5)
    assert len(found["points"]) == 2 and found["points"][0]["head"]["value"] > found["head"]["value"]
    said = attnlimits(f"aim evolve --rho 0.25 --heads 2 --alpha 0.1 {flags}").out
    assert "heads=2, rho=0.25" in said and "(sum of the heads)" in said and "(each head)" in said


def test_free_energy_and_thresholds_are_those_of_the_width_of_all(attnlimits):
    one = record(attnlimits, "aim free-energy --rho 0.5 --alpha 0.1")
    assert record(attnlimits, "aim free-energy --rho 0.25 --heads 2 --alpha 0.1")["value"] == one["value"]
    assert attnlimits("aim threshold --rho 1/4 --heads 2").out.splitlines()[1:] == [
        "alpha = n/d^2 of perfect recovery, of the sum of the heads: 0.187500000000000",
        "exactly 3/16",
    ]
    tail = record(attnlimits, "aim threshold --rho 1/4 --heads 2 --activation hardmax")["tail"]
    assert tail == record(attnlimits, "aim threshold --rho 1/2 --activation hardmax")["tail"]


def test_small_width_of_heads(attnlimits):
    """Of each head the others are noise of variance L - 1 on its scores, where nothing is learned yet."""
    heads = record(attnlimits, "aim threshold --heads 3 --noise 0.3")
    others = record(attnlimits, "aim threshold --noise 2.3")
    assert heads["quantity"].startswith("alpha/(3 rho)") and heads["exact"] is None
    assert abs(3 * float(heads["value"]) - float(others["value"])) <= 3 * heads["error"] + others["error"]
    said = attnlimits("aim evolve --rho 0 --heads 3 --alpha 0.2").out
    assert "alpha/(3 rho) = 0.2: MMSE = 1" in said
    assert attnlimits("aim threshold --heads 3 --noise 0.3 --digits 20").status == 2


def test_instances_of_heads(attnlimits):
    command = "aim amp --rho 0.25 --heads 2 --alpha 0.1 --dimension 16 --seeds 2"
    found = record(attnlimits, command)
    limit = evolve_heads(26 / 16**2, 0.25, "softmax", 2)  # 25.6 samples were asked
    assert found["heads"] == 2 and found["head_by_state_evolution"]["value"] == pytest.approx(limit.head.value)
    # sum_l |S_l - Shat'/L^(1/2)|^2 = sum_l |S_l - mean|^2 + |S' - Shat'|^2: what heads do not share, of the teachers.
    apart = []
    for seed in (0, 1):
        each = heads_teacher(16, 0.25, 2, seed)
        apart.append(float(((each - each.mean(axis=0)) ** 2).sum()) / 32)
    assert found["head"]["value"] == pytest.approx(np.mean(apart) + found["mmse"] / 2, rel=1e-9)
    assert "error of each head: " in attnlimits(command + " --max-iter 3").out


@pytest.fixture
def files(tmp_path):
    """Flags for data of two heads at d = 16, and the S of their sum."""
    S = sum_of_heads(heads_teacher(16, 0.25, 2, 1))
    x, y = make_data(S, 0.2, heads_channel("softmax", 2), 1)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return f"--heads 2 --x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'} --out {tmp_path / 's.npy'}", S, (x, y)


def test_heads_on_files(attnlimits, files, tmp_path):
    flags, S, (x, y) = files
    found = record(attnlimits, f"aim amp --rho 0.25 --max-iter 400 {flags}")
    expected = amp(x, y, heads_channel("softmax", 2), 0.5, max_iter=400, teacher=S)
    assert np.allclose(np.load(tmp_path / "s.npy"), expected.estimate, atol=1e-12)
    assert (found["rho"], found["heads"], found["converged"]) == (0.25, 2, True)
    assert found["predicted"] == pytest.approx(expected.predicted) and found["predicted_error"] > 0
    assert found["head"]["value"] == pytest.approx(0.5 + found["predicted"] / 2, rel=1e-12)
    assert found["head"]["error"] == pytest.approx(found["predicted_error"] / 2, rel=1e-12)


def test_descent_on_instances_of_heads(attnlimits):
    """Students of the width of all: of each head they know what it shares with the others."""
    command = "aim descend --rho 0.25 --heads 2 --alpha 0.2 --dimension 12 --seeds 2 --students 2 --steps 300"
    found = record(attnlimits, command)
    limit = evolve_heads(0.2, 0.25, "softmax", 2)
    assert found["heads"] == 2 and found["state_evolution"]["value"] == pytest.approx(limit.sum.mmse.value)
    assert found["head_by_state_evolution"]["value"] == pytest.approx(limit.head.value)
    apart, errors = [], []
    for seed in (0, 1):
        each = heads_teacher(12, 0.25, 2, seed)
        S = each.sum(axis=0) / math.sqrt(2)
        output = heads_channel("softmax", 2, logarithms=True)
        x, y = make_data(S, 0.2, output, seed)
        errors.append(descend(x, y, output, 0.5, students=2, steps=300, teacher=S, rng=seed).mmse)
        apart.append(float(((each - each.mean(axis=0)) ** 2).sum()) / 24)
    assert found["errors"] == pytest.approx(errors, rel=1e-9)
    assert found["head"]["value"] == pytest.approx(np.mean(apart) + found["mmse"] / 2, rel=1e-9)
    said = attnlimits(command.replace("300", "3")).out
    assert "error of one student, of the sum of the heads: " in said and "error of each head: " in said


def test_students_of_heads_have_their_columns(attnlimits, tmp_path):
    """Three columns of each head, not round(2 x 0.2 x 13) = 5 of both."""
    x, y = make_data(sum_of_heads(heads_teacher(13, 0.2, 2, 0)), 0.2, heads_channel("softmax", 2), 0)
    found = descent_instances(0.2, 0.2, 13, heads_channel("softmax", 2), count=1, heads=2, students=1, steps=30)
    assert np.linalg.matrix_rank(found.results[0].estimate) == 2 * round(0.2 * 13) != round(0.4 * 13)
    by_hand = descend(x, y, heads_channel("softmax", 2), 6 / 13, steps=30)
    assert np.array_equal(found.results[0].estimate, by_hand.estimate)
    for name, array in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    files = f"--x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'} --out {tmp_path / 's.npy'}"
    attnlimits(f"aim descend --heads 2 --rho 0.2 --students 1 --steps 30 {files}")
    assert np.allclose(np.load(tmp_path / "s.npy"), by_hand.estimate, atol=1e-12)


def test_descent_on_files_of_heads(attnlimits, files, tmp_path):
    flags, _, (x, y) = files
    found = record(attnlimits, f"aim descend --rho 0.25 --steps 60 --students 2 {flags}")
    expected = descend(x, y, heads_channel("softmax", 2), 0.5, steps=60, students=2)
    assert np.allclose(np.load(tmp_path / "s.npy"), expected.estimate, atol=1e-12)
    assert (found["heads"], found["rho"]) == (2, 0.25) and "heads=2, rho=0.25" in found["model"]


def test_spectrum_of_the_sum(attnlimits):
    """That of one layer of the width of all, in the noise of the fixed point of the sum."""
    found = record(attnlimits, "aim spectrum --rho 0.25 --heads 2 --alpha 0.1 --at 0 1")
    one = record(attnlimits, "aim spectrum --rho 0.5 --alpha 0.1 --at 0 1")
    assert found["value"] == one["value"] and found["density"] == one["density"]
    limit = evolve_heads(0.1, 0.25, "softmax", 2)
    assert found["mmse"]["value"] == pytest.approx(limit.sum.mmse.value, rel=1e-9)
    assert found["head"]["value"] == pytest.approx(limit.head.value, rel=1e-9) and found["heads"] == 2
    said = attnlimits("aim spectrum --rho 0.25 --heads 2 --delta 0.1").out
    assert "heads=2, rho=0.25, Delta=0.1" in said and "MMSE of each head: 0.5332707" in said


@pytest.mark.slow
def test_width_of_heads_from_data(attnlimits, files):
    """That of their sum, and a share of it each."""
    flags, _, data = files
    found = record(attnlimits, f"aim amp --rho estimate --max-iter 20 --covariance scalar {flags}")
    expected = estimate_rho(*data, heads_channel("softmax", 2), covariance="scalar")
    assert found["width"]["rho"] == pytest.approx(expected.rho, rel=1e-12)
    assert found["rho"] == pytest.approx(expected.rho / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--heads 0", "heads must be an integer >= 1"),
        ("--heads 2 --activation linear", 'the sum of the scores itself is "z"'),
        ("--heads two", "invalid int value"),
    ],
)
def test_refusals(attnlimits, flags, words):
    for verb in ("evolve --alpha 0.1", "spectrum --delta 0.1"):
        said = attnlimits(f"aim {verb} --rho 0.5 {flags}")
        assert said.status == 2 and words in said.err


@pytest.mark.parametrize("activation", ["linear", "z", "hardmax", "tanh(z)"])
def test_descent_refuses_outputs_of_heads_that_it_cannot_descend(attnlimits, activation):
    said = attnlimits(f"aim descend --rho 0.5 --alpha 0.1 --dimension 9 --heads 2 --activation {activation}")
    assert said.status == 2 and len(said.lines_of_error) == 1 and "times L^(1/2)" in said.err
