"""The verb `aim`: what its verbs print, their JSON objects, their exit status, and what they refuse."""

import json

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.aim.channels import Softmax, channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.spectrum import mmse


def test_evolve(attnlimits):
    said = attnlimits("aim evolve --rho 0.5 --alpha 0.1 0.15")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "attention-indexed model, softmax, T=2, rho=0.5"
    assert lines[1].startswith("alpha = 0.1: MMSE = 0.392196")
    assert lines[3].startswith("converged")
    found = json.loads(attnlimits("aim evolve --activation linear --tokens 3 --rho 1 --alpha 0.03 --json").out)
    assert float(found["value"]) == pytest.approx(found["mmse"]["value"], rel=1e-9)
    assert found["converged"] is True and found["how"] == "estimated" and 0 < found["error"] < 1e-12
    several = json.loads(attnlimits("aim evolve --rho 0.5 --alpha 0.1 0.2 --json").out)
    assert [p["alpha"] for p in several["points"]] == [0.1, 0.2]
    assert "; prediction error 0.1208525" in lines[1] and lines[1].endswith("(plug-in)")
    first, last = (p["prediction_error"] for p in several["points"])
    assert first["value"] == pytest.approx(0.12085256, abs=1e-8) and 0 < first["error"] < 1e-8
    assert last["value"] == several["plugin_error"]["value"] == 0
    cold = json.loads(attnlimits("aim evolve --rho 0.5 --alpha 0.1 --beta 3 --json").out)
    assert cold["model"].endswith("rho=0.5, beta=3") and cold["mmse"] == several["points"][0]["mmse"]
    assert cold["prediction_error"]["value"] > 2 * first["value"]
    published = attnlimits("aim evolve --activation hardmax_published --rho 0.5 --alpha 0.1 --json")
    assert json.loads(published.out)["prediction_error"] is None
    assert json.loads(attnlimits("aim --json evolve --rho 0.5 --alpha 0.1").out)["alpha"] == 0.1
    small = attnlimits("aim evolve --rho 0 --alpha 1 --activation hardmax")
    assert "alpha/rho = 1: MMSE = 0.42958" in small.out


def test_hardmax_of_three_tokens(attnlimits):
    found = json.loads(attnlimits("aim evolve --activation hardmax --tokens 3 --rho 0.5 --alpha 0.3 --json").out)
    assert float(found["value"]) == pytest.approx(0.1421, abs=5e-4)
    assert 1e-5 < found["error"] < 1e-3 and found["how"] == "estimated"
    said = attnlimits("aim threshold --activation hardmax --tokens 3")
    assert "alpha/rho of weak recovery, rho -> 0: 0.1753925354\nerror" in said.out
    found = json.loads(attnlimits("aim threshold --activation hardmax --tokens 3 --json").out)
    assert found["exact"] is None and found["how"] == "estimated" and 0 < found["error"] < 1e-9
    # (2/4.5)^2 times that of two tokens.
    assert "0.0200578046187514/alpha^2" in attnlimits("aim threshold --activation hardmax --tokens 3 --rho 1/2").out


def test_noise(attnlimits):
    said = attnlimits("aim evolve --activation linear --noise 0.1 --rho 0.5 --alpha 0.1")
    lines = said.out.splitlines()
    assert lines[0].endswith("rho=0.5, noise=0.1") and lines[1].startswith("alpha = 0.1: MMSE = 0.311078")
    assert "exactly 11/60" in attnlimits("aim threshold --activation linear --noise 0.1").out
    command = "aim amp --activation linear --noise 0.1 --rho 0.5 --alpha 0.1 --dimension 30 --seeds 2 --tol 1e-3 --json"
    found = json.loads(attnlimits(command).out)
    assert found["state_evolution"]["value"] == pytest.approx(0.311079, abs=1e-6)
    assert found["mmse"] == pytest.approx(0.311, abs=0.12)


@pytest.mark.parametrize(("flags", "without"), [("--tokens 2", 0.3922), ("--activation hardmax", 0.7451)])
def test_noise_on_the_scores(attnlimits, flags, without):
    found = json.loads(attnlimits(f"aim evolve {flags} --noise 0.3 --rho 0.5 --alpha 0.1 --json").out)
    assert float(found["value"]) > 1.05 * without
    command = f"aim amp {flags} --noise 0.3 --rho 0.5 --alpha 0.1 --dimension 30 --seeds 2 --tol 1e-3 --json"
    made = json.loads(attnlimits(command).out)
    assert made["state_evolution"]["value"] == pytest.approx(float(found["value"]), rel=1e-9)
    assert made["mmse"] == pytest.approx(float(found["value"]), rel=0.3)
    assert made["model"].endswith("noise=0.3")
    energy = json.loads(attnlimits(f"aim free-energy {flags} --noise 0.3 --rho 0.5 --alpha 0.1 --json").out)
    assert energy["mmse"]["value"] == pytest.approx(float(found["value"]), rel=1e-9)


def test_functions_of_one_score(attnlimits):
    clean, linear = (
        json.loads(attnlimits(f"aim evolve --activation {name} --rho 0.5 --alpha 0.1 --json").out)
        for name in ("tanh(z)", "linear")
    )
    assert clean["value"] == linear["value"] and clean["prediction_error"] != linear["prediction_error"]
    flags = "--activation tanh(z) --noise 0.3 --rho 0.5"
    found = json.loads(attnlimits(f"aim evolve {flags} --alpha 0.1 --json").out)
    assert float(found["value"]) > float(clean["value"]) and found["error"] < 1e-4
    made = json.loads(attnlimits(f"aim amp {flags} --alpha 0.1 --dimension 30 --seeds 2 --tol 1e-3 --json").out)
    assert made["mmse"] == pytest.approx(float(found["value"]), rel=0.25)
    assert made["model"] == "attention-indexed model, tanh(z), T=2, rho=0.5, noise=0.3"
    assert "perfect recovery: inf" in attnlimits("aim threshold --activation tanh(z) --noise 0.3 --rho 1/2").out
    assert "exactly 1/8" in attnlimits("aim threshold --activation tanh(z) --rho 1/2").out


def test_thresholds_with_noise(attnlimits):
    assert "exactly 13/40" in attnlimits("aim threshold --noise 0.3").out
    assert "exactly 13/10 * 3*pi" in attnlimits("aim threshold --noise 0.3 --activation hardmax").out
    lines = attnlimits("aim threshold --noise 0.3 --rho 1/2").out
    # D Delta_n/(2 K) = 0.75 0.3/4.
    assert "perfect recovery: inf" in lines and "alpha MMSE at large alpha: 0.05625" in lines


def test_threshold(attnlimits):
    said = attnlimits("aim threshold --activation hardmax --digits 20")
    assert said.status == 0 and "0.40341062903759930452" in said.out
    found = json.loads(attnlimits("aim threshold --rho 1/2 --json").out)
    assert found["exact"] == "3/16" and float(found["value"]) == 0.1875
    assert found["how"] == "rigorous" and found["converged"] is True and found["mmse"] == 0
    never = attnlimits("aim threshold --rho 1/2 --activation hardmax")
    assert "perfect recovery: inf" in never.out and "0.101542635882429/alpha^2" in never.out
    record = json.loads(attnlimits("aim threshold --rho 1/2 --activation hardmax --json").out)
    assert (record["value"], record["exact"]) == (None, "oo")
    assert record["status"].startswith("infinite: samples fix no linear function")
    even = json.loads(attnlimits('aim threshold --activation "abs(z)" --noise 0.1 --json').out)
    assert (even["value"], even["exact"], even["how"]) == (None, "oo", "rigorous")
    assert even["status"].startswith("infinite: F(0) = 0")


def test_denoise(attnlimits, tmp_path, rng):
    said = attnlimits("aim denoise --rho 0.5 --delta 0.1 --digits 30")
    assert "MMSE = 0.0665414932026084111746391227940" in said.out
    S = teacher(60, 0.5, rng)
    noise = rng.standard_normal((60, 60))
    np.save(tmp_path / "y.npy", S + np.sqrt(0.1 / 120) * (noise + noise.T))
    command = f"aim denoise --rho 0.5 --delta 0.1 --y {tmp_path / 'y.npy'}"
    found = json.loads(attnlimits(command + " --json").out)
    assert float(found["value"]) == mmse(0.5, 0.1).value == pytest.approx(found["mmse"])
    assert found["divergence"] == pytest.approx(found["mmse"], rel=0.1)
    error = ((np.array(found["estimate"]) - S) ** 2).sum() / 60
    assert error == pytest.approx(found["mmse"], rel=0.2)
    assert attnlimits(command + f" --out {tmp_path / 's.npy'}").status == 0
    assert np.allclose(np.load(tmp_path / "s.npy"), found["estimate"])


def test_amp_of_instances(attnlimits):
    said = attnlimits("aim amp --rho 0.5 --alpha 0.1 --dimension 30 --seeds 2")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[1] == "alpha = 0.1, d = 30, 2 instances"
    assert lines[2].startswith("error: ") and lines[2].endswith("(state evolution: 0.3922)")
    assert lines[3].startswith("on fresh samples: prediction error ") and lines[3].endswith("0.1209, 0.1251")
    found = json.loads(attnlimits("aim amp --rho 0.5 --alpha 0.1 --dimension 30 --seeds 2 --json").out)
    assert found["how"] == "monte-carlo" and len(found["errors"]) == 2
    # As many digits as the error of two instances leaves.
    assert found["mmse"] == pytest.approx(np.mean(found["errors"]), rel=1e-12)
    assert float(found["value"]) == pytest.approx(found["mmse"], abs=1e-2 * found["error"])
    stopped = attnlimits("aim amp --rho 0.5 --alpha 0.1 --dimension 20 --seeds 1 --max-iter 2 --json")
    assert stopped.status == 1 and json.loads(stopped.out)["error"] is None
    assert stopped.lines_of_error[-1].startswith("attnlimits: not converged: 1 of 1 instances")


def test_instances_that_did_not_converge_are_counted(attnlimits):
    """They take 19 and 12 iterations."""
    found = attnlimits("aim amp --rho 0.5 --alpha 0.18 --dimension 20 --seeds 2 --tol 1e-3 --max-iter 15 --json")
    record = json.loads(found.out)
    assert record["n_iter"] == [15, 12] and found.status == 1
    assert record["status"].startswith("not converged: 1 of 2 instances; raise --max-iter")
    # What is stated of the one that converged is not stated of the other.
    assert [e is None for e in record["predicted_error"]] == [True, False]


def test_large_beta_underflows_neither_instances_nor_logarithms(attnlimits, tmp_path):
    flags = "--rho 0.5 --alpha 0.15 --dimension 20 --max-iter 5"
    cold = json.loads(attnlimits(f"aim amp {flags} --beta 1000 --seeds 1 --json").out)
    warm = json.loads(attnlimits(f"aim amp {flags} --seeds 1 --json").out)
    # Outputs of any temperature fix the same functionals.
    assert cold["mmse"] == pytest.approx(warm["mmse"], rel=1e-6)
    x, y = make_data(teacher(20, 0.5, 0), 0.15, Softmax(2, 1000.0, logarithms=True), 1)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "log.npy", y.astype(np.float32))
    np.save(tmp_path / "y.npy", np.exp(y))
    own = f"aim amp --rho 0.5 --beta 1000 --max-iter 5 --x {tmp_path / 'x.npy'} --y {tmp_path}"
    assert json.loads(attnlimits(f"{own}/log.npy --log-outputs --json").out)["n_iter"] == 5
    refused = attnlimits(f"{own}/y.npy")
    assert refused.status == 2 and "--log-outputs" in refused.err
    assert attnlimits(f"aim amp {flags} --log-outputs").status == 2


def test_outputs_in_single_precision(attnlimits, files):
    _, folder = files
    rows = np.load(folder / "y.npy")
    np.save(folder / "y32.npy", rows.astype(np.float32))
    flags = f"aim amp --rho 0.5 --max-iter 4 --x {folder / 'x.npy'} --json --y {folder}"
    single, double = (json.loads(attnlimits(f"{flags}/{name}.npy").out) for name in ("y32", "y"))
    # Entries are rounded by 6e-8 of themselves, logarithms by that; small y weigh more.
    assert np.allclose(single["estimate"], double["estimate"], atol=1e-4)
    np.save(folder / "y32.npy", (rows * (1 + 1e-5)).astype(np.float32))
    assert "sum to 1" in attnlimits(f"{flags}/y32.npy").err


def test_single_precision(attnlimits, files):
    _, folder = files
    flags = f"aim amp --rho 0.5 --x {folder / 'x.npy'} --y {folder / 'y.npy'} --tol 1e-3 --json"
    double, single = (json.loads(attnlimits(f"{flags} {more}").out) for more in ("", "--float32"))
    # Tokens are rounded by 6e-8 of themselves, which some iterations let grow.
    assert 0 < np.abs(np.array(single["estimate"]) - np.array(double["estimate"])).max() < 1e-3
    np.save(folder / "x32.npy", np.load(folder / "x.npy").astype(np.float32))
    mapped = json.loads(attnlimits(f"{flags.replace('x.npy', 'x32.npy')}").out)
    assert np.allclose(mapped["estimate"], single["estimate"], atol=1e-12)
    instances = "aim amp --rho 0.5 --alpha 0.15 --dimension 20 --seeds 2 --tol 1e-3 --json"
    drawn = [json.loads(attnlimits(f"{instances} {more}").out)["errors"] for more in ("", "--float32")]
    # Other numbers are drawn.
    assert drawn[0] != drawn[1] and np.allclose(drawn[0], drawn[1], rtol=0.6)


def test_folders_of_blocks(attnlimits, files):
    """Three blocks of rows, as message passing of other models takes them: the same estimates as from one file."""
    _, folder = files
    for name in "xy":
        (folder / name).mkdir()
        for number, part in enumerate(np.array_split(np.load(folder / f"{name}.npy"), 3)):
            np.save(folder / name / f"{number}.npy", part)
    for verb in ("amp --tol 1e-3", "descend --steps 40 --students 1"):
        flags = f"aim {verb} --rho 0.5 --json --x {folder}"
        whole = json.loads(attnlimits(f"{flags}/x.npy --y {folder}/y.npy").out)
        blocks = json.loads(attnlimits(f"{flags}/x --y {folder}/y").out)
        assert blocks["alpha"] == whole["alpha"] and np.allclose(blocks["estimate"], whole["estimate"], atol=1e-9)
    mixed = attnlimits(f"aim amp --rho 0.5 --x {folder / 'x'} --y {folder / 'y.npy'}")
    assert mixed.status == 2 and "so --y must be one, too" in mixed.err
    single = attnlimits(f"aim amp --rho 0.5 --x {folder / 'x'} --y {folder / 'y'} --float32")
    assert single.status == 2 and "--float32 is for one file of tokens" in single.err


def test_width_from_data(attnlimits, once, tmp_path):
    save(tmp_path, 20)
    once(al.aim, "estimate_rho")
    command = f"aim amp --rho estimate --x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'} --tol 1e-3"
    assert "width rho, from the data: 0." in attnlimits(command).out
    record = json.loads(attnlimits(f"{command} --json").out)
    width = record["width"]
    assert abs(width["rho"] - 0.5) < width["error"] and record["rho"] == width["rho"]
    refused = attnlimits("aim amp --rho estimate --alpha 0.1 --dimension 20")
    assert refused.status == 2 and "--rho estimate is for data" in refused.err
    assert 'expected a number or "estimate"' in attnlimits("aim amp --rho guess --alpha 0.1 --dimension 20").err


def test_a_small_error_has_its_digits(attnlimits):
    lines = attnlimits("aim evolve --activation linear --noise 1e-7 --rho 0.5 --alpha 1").out.splitlines()
    # At low noise MMSE = (2 rho - rho^2) Delta with 2 alpha K Delta/(Delta_n + MMSE) = 1.
    assert lines[1].startswith("alpha = 1: MMSE = 1.428571") and "e-08 +- " in lines[1]


def save(folder, dimension):
    S = teacher(dimension, 0.5, 0)
    x, y = make_data(S, 0.15, channel("softmax"), 1)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    return S


@pytest.fixture
def files(tmp_path):
    return save(tmp_path, 30), tmp_path


def test_amp_of_data_of_ones_own(attnlimits, files):
    S, folder = files
    flags = f"aim amp --rho 0.5 --x {folder / 'x.npy'} --y {folder / 'y.npy'} --out {folder / 's.npy'} --json"
    said = attnlimits(flags)
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert "estimate" not in found and found["alpha"] == 0.15
    error = ((np.load(folder / "s.npy") - S) ** 2).sum() / 30
    assert abs(float(found["value"]) - error) < found["error"] < 2 * error
    assert error < 0.6 * ((S - np.sqrt(0.5) * np.eye(30)) ** 2).sum() / 30


def test_bad_files(attnlimits, files):
    _, folder = files
    x, y = folder / "x.npy", folder / "y.npy"
    np.save(folder / "bad.npy", 0.9 * np.load(y))
    assert "sum to 1" in attnlimits(f"aim amp --rho 0.5 --x {x} --y {folder / 'bad.npy'}").err
    np.save(folder / "nan.npy", np.where(np.arange(30) == 3, np.nan, np.load(x)))
    assert "x must be finite" in attnlimits(f"aim amp --rho 0.5 --x {folder / 'nan.npy'} --y {y}").err
    np.save(folder / "skew.npy", np.triu(np.ones((3, 3))))
    skew = attnlimits(f"aim denoise --rho 1 --delta 1 --y {folder / 'skew.npy'}")
    assert skew.status == 2 and "Y must be symmetric" in skew.err and len(skew.lines_of_error) == 1
    (folder / "text.npy").write_text("no array")
    assert "no .npy file of numbers" in attnlimits(f"aim denoise --rho 1 --delta 1 --y {folder / 'text.npy'}").err
    assert attnlimits(f"aim denoise --rho 1 --delta 1 --y {folder / 'none.npy'}").status == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "VERB"),
        ("evolve --rho 0.5", "--alpha"),
        ("evolve --rho -1 --alpha 1", "rho must be"),
        ("evolve --rho nan --alpha 1", "rho must be"),
        ("evolve --rho 1 --alpha -1", "alpha must be finite and >= 0"),
        ("evolve --rho 1 --alpha nan", "alpha must be finite"),
        ("evolve --rho 1 --alpha 1 --tokens 1", "tokens must be an integer >= 2"),
        ("evolve --rho 1 --alpha 1 --beta 0", "beta must be finite and > 0"),
        ("evolve --rho 1 --alpha 1 --activation hardmax --beta -1", "beta must be"),
        ("evolve --rho 1 --alpha 1 --activation relu", "activation must be one of"),
        ("evolve --rho 1 --alpha 1 --activation hardmax --tokens 11", "T = 11"),
        ("evolve --rho 1 --alpha 1 --noise 0.1 --activation hardmax_published", "the published formula has no noise"),
        ("evolve --rho 1 --alpha 1 --activation linear --noise -1", "noise must be finite and >= 0"),
        ("evolve --rho 1 --alpha 1 --activation z**2", "not provably strictly monotone"),
        ("evolve --rho 1 --alpha 1 --activation z+foo(z)", "foo"),
        ("threshold --activation hardmax --tokens 3 --digits 11", "digits must be <= 10"),
        ("threshold --rho 0", "rho must be"),
        ("threshold --rho half", "rho must be a positive number"),
        ("threshold --digits 0", "digits must be"),
        ("denoise --rho 0 --delta 1", "rho must be"),
        ("denoise --rho 1 --delta -1", "Delta must be"),
        ("denoise --rho 1 --delta nan", "Delta must be"),
        ("denoise --rho 1 --delta 1 --digits 999", "digits must be <= 200"),
        ("denoise --rho 1 --delta 1 --out s.npy", "--out is for"),
        ("amp --rho 0.5", "give --alpha and --dimension"),
        ("amp --rho 0.5 --alpha 0 --dimension 10", "--alpha must be finite and > 0"),
        ("amp --rho 0.5 --alpha 1 --dimension 1", "--dimension must be >= 2"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --seeds 0", "--seeds must be >= 1"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --damping 1", "damping must be"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --damping x", "argument --damping"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --max-iter 0", "max_iter must be"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --tol 0", "tol must be"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --out s.npy", "--out is for"),
        ("amp --rho 0.5 --x x.npy", "--y is missing"),
        ("amp --rho 0.5 --x x.npy --y y.npy --alpha 1", "--alpha describes instances"),
        ("amp --rho 0.5 --alpha 1 --dimension 9 --activation hardmax_published", "no score of a model"),
    ],
)
def test_bad_flags(attnlimits, flags, words):
    said = attnlimits(f"aim {flags}")
    assert said.status == 2 and not said.out, said.err
    assert len(said.lines_of_error) == 1 and words in said.err
