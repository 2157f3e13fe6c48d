"""The verbs `free-energy` and `landscape`: what they print and write, and what they refuse."""

import json
from fractions import Fraction

import pytest

import attnlimits as al

PHASE = 'free-energy --link "h[1]**2"'


def test_stationary_points_in_words(attnlimits):
    said = attnlimits(PHASE + " --alpha 1.05")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "y = h_1_1**2, P=1, M=1; Gaussian prior"
    assert lines[1] == "alpha = 1.05"
    assert lines[2].endswith("; recovered, stable, Phi = inf; the global maximum")
    assert "maximum, stable, Phi = 0.01730167841 +- " in lines[3]
    assert "; minimum, unstable, Phi = " in lines[4]
    assert lines[-1].startswith("converged: 4 stationary points, max |F(q) - q| = ")


def test_stationary_points_as_json(attnlimits):
    said = attnlimits(PHASE + " --alpha 0.8 --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert float(found["value"]) == pytest.approx(0.00158581817, abs=1e-10)
    assert found["how"] == "estimated" and found["error"] < 1e-10
    assert found["overlap"][0][0] == pytest.approx(0.21622749, abs=1e-7)
    assert found["converged"] is True and found["route"] == "direct"
    assert [p["kind"] for p in found["stationary"]] == ["maximum", "minimum"]
    assert found["optimal"]["estimation_error"]["value"] == pytest.approx(1 - 0.21622749, abs=1e-7)
    assert found["optimal"]["information"] is None


def test_a_divergent_value_is_null(attnlimits):
    found = json.loads(attnlimits(PHASE + " --alpha 1.3 --json").out)
    assert found["value"] is None
    assert found["stationary"][0]["kind"] == "recovered"


def test_transitions(attnlimits, once):
    once(al.free_energy, "transitions")
    said = attnlimits(PHASE + " --transitions")
    assert said.status == 0, said.err
    assert "weak recovery: alpha = 0.500000" in said.out
    assert "information-theoretic: alpha = 1.000000000 +- 0" in said.out
    assert "algorithmic: alpha = 1.12847" in said.out
    found = json.loads(attnlimits(PHASE + " --transitions --json").out)
    assert found["value"] == "1.0"
    assert found["first_order"][0]["algorithmic"]["value"] == pytest.approx(1.1284714, abs=1e-6)


def test_one_layer_has_none(attnlimits):
    said = attnlimits("free-energy --layers 1 --tokens 3 --transitions")
    assert said.status == 0, said.err
    assert "weak recovery: alpha = 0.0833333333" in said.out
    assert "no first-order transition: no hard phase" in said.out


def test_other_priors(attnlimits):
    said = attnlimits('free-energy --link "sign(h[1])" --prior binary --alpha 1.3')
    assert said.status == 0, said.err
    assert "; binary prior" in said.out
    # (alpha - 1) log 2, and log 2 over alpha
    assert "recovered, stable, Phi = 0.2079" in said.out
    assert "information in a sample: 0.53319" in said.out
    said = attnlimits('free-energy --link "h[1]" --prior sparse --density 0.3 --transitions')
    assert "information-theoretic: alpha = 0.3000000000" in said.out


@pytest.mark.slow  # some ten seconds
def test_two_layers_with_one_of_them_learned(attnlimits):
    said = attnlimits("free-energy --alpha 0.3 --starts 0 --workers 1 --json")
    assert said.status == 0, said.err
    best = json.loads(said.out)["stationary"][0]
    assert best["kind"] == "maximum" and best["stable"]
    assert best["overlap"][0][0] == 0
    # published curve of the state evolution, good to 0.01
    assert best["overlap"][1][1] == pytest.approx(0.218, abs=0.01 + best["overlap_error"][1][1])


def test_a_landscape_with_its_values(attnlimits, tmp_path):
    path = tmp_path / "phase.png"
    said = attnlimits(f'landscape --link "h[1]**2" --alpha 1.05 --points 12 --out {path}')
    assert said.status == 0, said.err
    assert path.read_bytes().startswith(b"\x89PNG")
    stored = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert len(stored["phi"]) == len(stored["overlaps"][0])
    at = min(range(len(stored["phi"])), key=lambda k: abs(stored["overlaps"][0][k] - 0.568449))
    assert stored["phi"][at] == pytest.approx(0.0173, abs=stored["error"] + 1e-3)
    assert [p["kind"] for p in stored["stationary"]] == ["recovered", "maximum", "minimum", "minimum"]
    assert f"wrote {path}" in said.out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (PHASE, "--alpha is needed"),
        (PHASE + " --alpha 0", "--alpha must be finite and > 0"),
        (PHASE + " --alpha nan", "--alpha must be finite and > 0"),
        (PHASE + " --alpha 1 --transitions", "leave out --alpha"),
        (PHASE + " --alpha 1 --density 0.3", "--density belongs to --prior sparse"),
        (PHASE + " --alpha 1 --prior sparse", "--density belongs to --prior sparse"),
        (PHASE + " --alpha 1 --prior sparse --density 2", "density must be a number in (0, 1)"),
        (PHASE + " --alpha 1 --layers 3", "--link stands instead"),
        (PHASE + " --alpha 1 --starts -1", "--starts must be >= 0"),
        (PHASE + " --alpha 1 --accuracy 1", "--accuracy must be in"),
        ("free-energy --alpha 1 --noise x", "--noise must be a number"),
        ("free-energy --alpha 1 --layers 3 --tokens 3 --output sequence", "not served by `free-energy`"),
        ("free-energy --alpha 1 --samples 0", "--samples must be"),
        ("free-energy --transitions", "one group of indices"),
        ('landscape --link "h[1]**2" --alpha 1 --out x.txt', "--out must end in"),
        ('landscape --link "h[1]**2" --alpha 1 --points 2 --out x.png', "points must be"),
    ],
)
def test_what_is_refused(attnlimits, command, words):
    said = attnlimits(command)
    assert said.status == 2
    assert words in said.err
    assert len(said.lines_of_error) == 1


@pytest.mark.slow_for("--alpha 0.02 --density 0.001 --noise 0.001")
@pytest.mark.parametrize(
    ("flags", "overlap", "value"),
    [
        # h seen with noise, by both equations of the state evolution with integrals of mpmath, 30 digits.
        ("--alpha 0.5 --density 0.05 --noise 0.001", "0.99986782421021489649", "1.30978323931557663"),
        ("--alpha 0.02 --density 0.001 --noise 0.001", "0.99993474650089460101", "0.0564952030820000481"),
        ("--alpha 0.02 --density 0.01 --noise 0.01", "0.19440610642947399788", "0.000580100898337436712"),
    ],
)
def test_sparse_weights_are_within_errors_of_rounding(attnlimits, flags, overlap, value):
    said = attnlimits(f'free-energy --link "h[1]" --prior sparse {flags} --json')
    assert said.status == 0, said.err
    found = json.loads(said.out)
    for text, error, truth in (
        (found["value"], found["error"], value),
        (repr(found["overlap"][0][0]), found["overlap_error"][0][0], overlap),
    ):
        assert abs(Fraction(text) - Fraction(truth)) <= error <= 1e-12
