"""Each verb on good input: what it prints, its JSON object, its exit status."""

import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import __main__ as generator
from attnlimits.derive.emit import writer
from attnlimits.derive.proof import ProofError
from attnlimits.numerics.core import progress
from attnlimits.numerics.core.results import load
from attnlimits.numerics.model.kernels import load_package
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import link
from attnlimits.papers.troiani2025.figures import figure_3

VERBS = ("models", "derive", "explain", "verify", "threshold", "evolve", "figure")


def record(said):
    """Return the one JSON object of a run: a single line, and nothing else."""
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert isinstance(found, dict)
    return found


def number(found):
    """Check value, error and how of a record; return the value."""
    assert isinstance(found["value"], str)
    assert isinstance(found["error"], float)
    assert found["error"] >= 0
    assert found["how"] in ("rigorous", "estimated", "monte-carlo")
    return float(found["value"])


def test_help_lists_the_verbs(attnlimits):
    said = attnlimits("--help")
    assert said.status == 0
    assert "example:" in said.out
    for verb in VERBS:
        assert f"\n    {verb}" in said.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_shows_an_example(attnlimits, verb):
    said = attnlimits(f"{verb} --help")
    assert (said.status, said.err) == (0, "")
    assert f"example: attnlimits {verb}" in said.out
    assert "--json" in said.out


def test_models(attnlimits):
    said = attnlimits("models")
    assert said.status == 0
    names = [line.split(":")[0] for line in said.out.splitlines()]
    assert {"attention_tied_linear_m2", "attention_tied_softmax_m2", "aim_channels"} <= set(names)
    assert names == sorted(names)
    found = record(attnlimits("models --json"))
    assert found["activations"] == ["softmax", "linear"]
    assert [model["name"] for model in found["models"]] == names
    for model in found["models"]:
        assert model["tokens"] >= 2
        assert len(model["hash"]) == 64
        assert set(model["equations"]) & {"troiani2025": {5, 6}, "boncoraglio2025": {30}}[model["paper"]]


@pytest.mark.parametrize(
    ("flags", "exact"),
    [
        ("", "1/6"),
        ("--tokens 3 --rank 2", "1/6"),
        ("--rank 2", "2/5"),
        ("--rank 2 --activation linear", "1/3"),
        ("--untied", "sqrt(5) - 2"),
        ("--untied --tokens 3 --output sequence", "(sqrt(10) - 3)/2"),
        ("--output sequence --tokens 5", "1/30"),
        ("--heads 2", "1/12"),
        ("--heads 3 --untied --output sequence", "(sqrt(5) - 2)/3"),
    ],
)
def test_threshold_of_one_layer_is_exact(attnlimits, flags, exact):
    found = record(attnlimits(f"threshold --layers 1 {flags} --json"))
    assert sp.sympify(found["exact"]).equals(sp.sympify(exact))
    assert abs(float(sp.sympify(exact)) - number(found)) <= found["error"] + 1e-16
    assert found["error"] < 1e-12
    assert found["how"] == "rigorous"


def test_explain(attnlimits):
    said = attnlimits("explain --layers 2 --tokens 2 --untied --no-number")
    assert said.status == 0
    assert "S_1 = sigma(beta*k_1.T*q_1)" in said.out
    latex = attnlimits("explain --layers 2 --tokens 3 --heads 2 --latex --no-number")
    assert latex.out.count("{") == latex.out.count("}")
    found = record(attnlimits("explain --layers 1 --tokens 3 --json"))
    assert found["threshold"]["text"] == "1/12"
    assert found["P"] == 1


def test_derive_writes_any_architecture(attnlimits, tmp_path):
    flags = "--layers 2 --tokens 3 --untied --skip 1/2"
    found = record(attnlimits(f"derive {flags} --out {tmp_path} --json"))
    made = load_package(found["folder"], "numpy64")
    network = Network(layers=2, tokens=3, rank=1, tied=False, skip=0.5)
    h = np.random.default_rng(0).normal(size=(4, 3))
    # A few roundings of numbers of order one.
    np.testing.assert_allclose(np.reshape(made.link(*h.ravel(), 1.0), (3, 3)), link(h, network), rtol=0, atol=1e-13)


def test_threshold_of_two_layers(attnlimits):
    said = attnlimits("threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json")
    assert (said.status, said.err) == (0, "")
    found = record(said)
    # the value of an independent sum over tokens
    assert number(found) == pytest.approx(0.18547784060738, abs=1e-12)
    assert found["error"] < 1e-12
    assert found["converged"] is True
    assert found["layer"] == 2
    assert found["eigenvector"] == [[0.0, 0.0], [0.0, 1.0]]


def test_threshold_in_words(attnlimits):
    said = attnlimits("threshold --digits 6")
    assert said.status == 0
    assert "alpha(layer 2) = 0.185478\n" in said.out
    assert "(estimated)" in said.out


@pytest.mark.parametrize(("tokens", "exact"), [(2, "1/6"), (4, "1/20"), (7, "1/56")])
def test_threshold_of_one_tied_layer_is_exact(attnlimits, tokens, exact):
    found = record(attnlimits(f"threshold --layers 1 --tokens {tokens} --json"))
    assert found["exact"] == exact
    assert (found["how"], found["error"] < 1e-12) == ("rigorous", True)
    assert number(found) == pytest.approx(1 / (tokens * (tokens + 1)), rel=1e-11)
    assert f"= {exact} exactly" in attnlimits(f"threshold --layers 1 --tokens {tokens}").out


@pytest.mark.slow  # `evolve` below ends likewise; tests/numerics/thresholds has digits that are not reached
def test_digits_out_of_reach_exit_with_one(attnlimits):
    # four linear layers go by Monte Carlo, to a digit or two
    said = attnlimits("threshold --layers 4 --skip 2 --beta 0.1 --activation linear --digits 6 --json")
    found = record(said)
    assert said.status == 1
    assert found["converged"] is False
    assert found["how"] == "monte-carlo"
    assert len(said.lines_of_error) == 1
    assert "6 digits were not reached" in said.err


def test_threshold_of_the_first_layer(attnlimits):
    said = attnlimits("threshold --layer 1 --given self-consistent --digits 4 --workers 1 --json")
    assert said.status == 0
    found = record(said)
    # 0.7185 +- 0.0011 by sampling; four standard errors
    assert abs(number(found) - 0.7185) < 4 * 0.0011
    assert 0 < found["error"] < 1e-4
    assert (found["how"], found["layer"]) == ("estimated", 1)


def test_threshold_of_the_first_layer_given_the_second(attnlimits):
    found = record(attnlimits("threshold --layer 1 --given perfect --json"))
    assert (found["value"], found["exact"], found["how"]) == ("0.166667", "1/6", "rigorous")


def test_evolve_at_one_layer(attnlimits):
    said = attnlimits("evolve --layers 1 --tokens 3 --alpha 0.2 --json")
    assert (said.status, said.err) == (0, "")
    found = record(said)
    assert number(found) == pytest.approx(found["overlap"][0][0], abs=1e-6)
    assert found["how"] == "estimated"
    assert found["converged"] is True
    for name in ("prediction_error", "plugin_error", "estimation_error"):
        assert set(found[name]) == {"value", "error", "how"}
    # one layer at no overlap is stable below its threshold 1/12
    below = record(attnlimits("evolve --layers 1 --tokens 3 --alpha 0.08 --json"))
    assert below["overlap"] == [[0.0]]
    assert below["stability"][0] == pytest.approx(0.08 * 12, rel=1e-6)


def test_zeros_at_the_end_are_digits(attnlimits):
    said = attnlimits("threshold --skip 0.8 --digits 5 --json")
    assert (said.status, json.loads(said.out)["value"]) == (0, "0.19050")
    said = attnlimits("threshold --layers 1 --tokens 4 --digits 4")
    assert "alpha(layer 1) = 0.05000 = 1/20 exactly" in said.out


def test_evolve_at_two_layers_in_words(attnlimits):
    said = attnlimits("evolve --alpha 0.4 --samples 128 --replicas 4 --workers 1")
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "tied softmax attention, L=2, M=2, rank 1, c=1, beta=1"
    assert lines[1] == "alpha = 0.4"
    assert lines[2] == "q_11 = 0 +- 0"
    assert lines[3].startswith("q_22 = ")
    value, error = (float(part) for part in lines[3].removeprefix("q_22 = ").split(" +- "))
    # 0.4869 +- 0.0010 with many more points
    assert abs(value - 0.4869) < 5 * (error**2 + 0.001**2) ** 0.5
    assert "(posterior mean)" in lines[4]
    assert "(plug-in)" in lines[4]
    assert lines[5].startswith("converged after")


def test_evolve_that_does_not_converge_says_so(attnlimits):
    said = attnlimits("evolve --alpha 0.5 --max-iter 1 --samples 64 --replicas 4 --workers 1 --json")
    assert said.status == 1
    found = record(said)
    assert found["converged"] is False
    number(found)
    assert len(said.lines_of_error) == 1
    assert said.err.startswith("attnlimits: not converged")


def test_the_seed_fixes_the_numbers(attnlimits):
    command = "evolve --alpha 0.4 --samples 32 --replicas 4 --workers 1 --tol 1e-3 --json --seed"
    first, again, other = (record(attnlimits(f"{command} {seed}")) for seed in (3, 3, 4))
    assert first["overlap"] == again["overlap"]
    assert first["overlap"] != other["overlap"]
    assert (first["seed"], other["seed"]) == (3, 4)


def test_verify_one_equation(attnlimits):
    said = attnlimits("verify --id 5")
    assert said.status == 0
    assert "(5)" in said.out
    assert "1 checks, all passed" in said.out
    found = record(attnlimits("verify --id 5 --json"))
    assert (found["ok"], found["ran"], found["passed"], found["failed"]) == (True, 1, 1, [])


def test_verify_fails_if_a_check_does(attnlimits, monkeypatch):
    from attnlimits.derive import registry
    from attnlimits.derive.registry import running

    bad = registry.CheckOutcome(1.0, 1e-9, "numeric", "two things that differ")
    monkeypatch.setattr(running, "resolve", lambda path: lambda: bad)
    said = attnlimits("verify --id 5 --json")
    assert said.status == 1
    assert record(said)["failed"] == [5]
    assert said.lines_of_error == ["attnlimits: checks failed: (5); see the table"]


@pytest.mark.slow  # the site's examples run it, too, and so does `make derive-check`
def test_derive_check(attnlimits):
    # What it prints without --json is among the commands of the README.
    found = record(attnlimits("derive --check --json"))
    assert (found["check"], found["ok"]) == (True, True)


def test_derive_writes_elsewhere_and_sees_what_is_stale(attnlimits, tmp_path, repository, monkeypatch):
    # The example in the documentation derives all of them.
    linear = tuple(p for p in generator.PACKAGES if p.name == "attention_tied_linear_m2")
    monkeypatch.setattr(generator, "PACKAGES", linear)
    monkeypatch.setattr(generator, "derived", lambda: ())
    # So do the exact thresholds, which tests/derive compares.
    exact = (repository / "generated/exact.py").read_text(encoding="utf-8")
    monkeypatch.setattr(writer, "_exact_files", lambda: {"exact.py": exact})
    assert attnlimits(f"derive --out {tmp_path}").status == 0
    said = attnlimits(f"derive --check --out {tmp_path}")
    assert said.status == 0 and "generated files are fresh" in said.out
    assert said.out.splitlines()[-1] == "kernels fresh"
    for path in tmp_path.rglob("*.*"):
        where = repository / "generated" / path.relative_to(tmp_path)
        # A manifest of fewer packages is another one.
        same = path.read_text(encoding="utf-8") == where.read_text(encoding="utf-8")
        assert same == (path.name != "MANIFEST.toml")
    kernel = tmp_path / "attention_tied_linear_m2/numpy64.py"
    kernel.write_text(kernel.read_text(encoding="utf-8") + "# by hand\n", encoding="utf-8")
    said = attnlimits(f"derive --check --out {tmp_path} --json")
    assert said.status == 1
    assert record(said)["ok"] is False
    assert "attention_tied_linear_m2/numpy64.py" in said.err
    assert "stale" in said.lines_of_error[-1]


def test_a_failed_proof_is_a_failure_in_one_line(attnlimits, monkeypatch):
    def fail(options):
        raise ProofError("layer: entry 0 leaves 1")

    monkeypatch.setattr("attnlimits.derivations.derive_all", fail)
    said = attnlimits("derive --check")
    assert said.status == 1
    assert len(said.lines_of_error) == 1
    assert "layer: entry 0 leaves 1" in said.err


@pytest.mark.slow
def test_figure(attnlimits, tmp_path, monkeypatch):
    # As on a terminal, and without waiting for what may soon be done.
    monkeypatch.setattr("attnlimits.numerics.cli.figure.shown", lambda args: True)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    said = attnlimits(f"figure troiani2025-1 --points 4 --out {tmp_path / 'new'} --json")
    assert said.status == 0
    found = record(said)
    assert number(found) == pytest.approx(0.185477840607, abs=1e-12)
    files = {kind: Path(name) for kind, name in found["files"].items()}
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["pdf"].read_bytes().startswith(b"%PDF")
    saved = json.loads(files["json"].read_text(encoding="utf-8"))
    thresholds = [float(one["value"]) for one in saved["thresholds"]]
    assert {0.0, *thresholds, 1.0, 1.6} <= {point["alpha"] for point in saved["curve"]}
    assert all(point["converged"] for point in saved["curve"] if point["alpha"] not in thresholds)
    assert saved["curve"][0]["overlap"] == [[0.0, 0.0], [0.0, 0.0]]
    # the overlaps grow with alpha, to one
    last = [point["overlap"][1][1] for point in saved["curve"]]
    assert last == sorted(last)
    assert last[-1] > 0.999
    # the progress bar ends full
    assert "12/12" in said.err


@pytest.mark.slow
def test_figure_of_three_layers(attnlimits, tmp_path):
    said = attnlimits(f"figure troiani2025-3 --out {tmp_path} --json")
    found = record(said)
    assert said.status == 0 and found["how"] == "monte-carlo"
    assert number(found) == pytest.approx(float(load(figure_3.DATA)["threshold"]["value"]))
    assert (tmp_path / "troiani2025-3.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow_for("troiani2025-4")
@pytest.mark.parametrize("name", ["troiani2025-4", "troiani2025-5"])
def test_figure_from_stored_data(attnlimits, tmp_path, name):
    said = attnlimits(f"figure {name} --out {tmp_path} --json")
    assert said.status == 0
    found = record(said)
    assert 0 < number(found) < 1 and 0 < found["error"] < 0.05 and found["how"] == "estimated"
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["how"] == "estimated"
