"""--spectrum of the verbs that have a prior of the weights."""

import json

import numpy as np
import pytest


def value(said):
    assert said.status == 0, said.err
    return json.loads(said.out)


def test_threshold(attnlimits):
    found = value(attnlimits('threshold --link "h[1]**2" --spectrum mp:1 --json'))
    assert (found["value"], found["exact"], found["how"], found["error"]) == ("0.25", "1/4", "rigorous", 0.0)
    assert "over E lambda^2 = 2" in found["status"]
    two = value(attnlimits("threshold --spectrum mp:1 --digits 16 --json"))
    assert abs(float(two["value"]) - 0.18547784060737646 / 2) < 1e-16
    stairs = value(attnlimits('threshold --link "h[1]*h[2]" --staircase --given perfect --spectrum mp:1 --json'))
    assert stairs["steps"][0]["value"].startswith("0.29687554")


def test_evolve_curve_and_free_energy(attnlimits):
    flags = '--link "h[1]**2" --spectrum mp:1 --json'
    found = value(attnlimits(f"evolve --alpha 0.6 {flags}"))["overlap"][0][0]
    curve = value(attnlimits(f"curve --from 0.6 --to 0.6 --points 1 {flags}"))
    assert curve["points"]["uninformed"][0]["overlap"][0][0] == pytest.approx(found, abs=1e-8)
    free = value(attnlimits(f"free-energy --alpha 0.6 {flags}"))
    assert free["stationary"][0]["overlap"][0][0] == pytest.approx(found, abs=1e-8)
    assert free["prior"] == "Marchenko-Pastur spectrum of aspect 1"
    assert free["origin"]["settings"]["spectrum"] == "mp:1"


def test_landscape(attnlimits, tmp_path):
    said = attnlimits(f'landscape --link "h[1]**2" --alpha 0.6 --spectrum mp:1 --out {tmp_path / "a.png"} --json')
    assert value(said)["stationary"][0]["overlap"][0][0] == pytest.approx(0.51053442, abs=1e-7)


def test_gamp_make_data_and_descend(attnlimits, tmp_path):
    found = value(attnlimits("gamp --layers 1 --alpha 0.4 --dimension 400 --seeds 2 --spectrum mp:1 --json"))
    assert found["state_evolution"]["overlap"][0][0] == pytest.approx(0.9506620242, abs=1e-9)
    assert found["overlap"][0][0] > 0.5 and found["origin"]["settings"]["prior"].startswith("Marchenko")
    out = tmp_path / "made"
    made = value(attnlimits(f"make-data --layers 1 --alpha 1 --dimension 200 --spectrum mp:1 --out {out} --json"))
    assert made["prior"] == "Marchenko-Pastur spectrum of aspect 1"
    own = value(attnlimits(f"gamp --layers 1 --x {out / 'X'} --y {out / 'Y'} --spectrum mp:1 --json"))
    weights, teacher = np.array(own["weights"]), np.load(out / "teacher.npy")
    assert abs(np.corrcoef(weights[0], teacher[0])[0, 1]) > 0.8
    slow = value(attnlimits("descend --layers 1 --alpha 4 --dimension 50 --seeds 2 --spectrum points:0.5,1.5 --json"))
    assert slow["spectrum"].startswith("spectrum of 2 eigenvalues") and slow["converged"]


def test_files(attnlimits, tmp_path):
    np.savetxt(tmp_path / "two.txt", [1.0, 3.0])
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((500, 20)))
    found = value(attnlimits(f"threshold --layers 1 --spectrum {tmp_path / 'two.txt'} --json"))
    assert float(found["value"]) == pytest.approx(1 / 6 / 1.25, rel=1e-12) and found["how"] == "estimated"
    own = value(attnlimits(f"threshold --layers 1 --spectrum data:{tmp_path / 'x.npy'} --json"))
    assert 0.9 < 6 * float(own["value"]) * (1 + 20 / 500) < 1.1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("evolve --layers 1 --alpha 1 --spectrum mp:1 --prior binary", "--spectrum is served with Gaussian weights"),
        ("evolve --layers 1 --alpha 1 --spectrum mp:-1", "must be in (0, 1e6]"),
        ("evolve --layers 1 --alpha 1 --spectrum mp:nan", "needs a number"),
        ("evolve --layers 1 --alpha 1 --spectrum {zeros}", "mean 0"),
        ("evolve --layers 1 --alpha 1 --spectrum {negative}", "eigenvalues >= 0"),
        ("evolve --layers 1 --alpha 1 --spectrum {nan}", "NaN"),
        ("evolve --layers 1 --alpha 1 --spectrum {square}", "shape (D,)"),
        ("evolve --layers 1 --alpha 1 --spectrum data:{nan}", "shape (n, D)"),
        ("evolve --layers 1 --alpha 1 --spectrum data:{unknown}", "must be finite"),
        ("evolve --layers 1 --alpha 1 --spectrum something", "spectrum must be mp:GAMMA"),
        ("gamp --layers 1 --alpha 1 --dimension 10 --spectrum {square2}", "data have D = 10"),
        ("gamp --layers 1 --alpha 1 --dimension 10 --spectrum mp:1 --start spectral", "--start spectral is of white"),
        ("threshold --spectrum mp:1 --rigorous", "--rigorous is of white inputs"),
        ("threshold --layers 1 --heads 2 --spectrum mp:1", "served for one head"),
        ("descend --layers 1 --x a.npy --y b.npy --spectrum mp:1", "data of your own have theirs"),
    ],
)
def test_refusals(attnlimits, tmp_path, flags, message):
    files = {
        "zeros": np.zeros(3),
        "negative": np.array([1.0, -1.0]),
        "nan": np.array([1.0, np.nan]),
        "square": np.ones((2, 2)),
        "square2": np.ones(4),
        "unknown": np.full((3, 2), np.nan),
    }
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
    said = attnlimits(flags.format(**{name: tmp_path / f"{name}.npy" for name in files}))
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1) and message in said.err
