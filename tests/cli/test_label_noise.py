"""--label-noise of the verbs that take a link."""

import json
import math

import numpy as np
import pytest

SIGN = '--link "sign(h[1])" --label-noise 1/10'


def test_evolve_and_curve(attnlimits):
    found = json.loads(attnlimits(f"evolve {SIGN} --alpha 10 --json").out)
    assert abs(found["overlap"][0][0] - 0.9299601254) < 1e-9
    assert found["label_noise"] == 0.1 and found["origin"]["model"]["label_noise"] == 0.1
    curve = json.loads(attnlimits(f"curve {SIGN} --from 10 --to 10 --points 1 --json").out)
    assert abs(curve["points"]["uninformed"][0]["overlap"][0][0] - found["overlap"][0][0]) < 1e-9


def test_threshold(attnlimits):
    said = attnlimits('threshold --link "sign(h[1]*h[2])" --label-noise 0.1 --staircase --json')
    assert said.status == 0
    assert abs(float(json.loads(said.out)["value"]) - math.pi**2 / 4 / 0.64) < 1e-9


def test_free_energy(attnlimits):
    found = json.loads(attnlimits(f"free-energy {SIGN} --alpha 1 --json").out)
    assert abs(found["overlap"][0][0] - 0.3216246091) < 1e-9


def test_gamp(attnlimits):
    said = attnlimits(f"gamp {SIGN} --alpha 8 --dimension 100 --seeds 2 --json")
    found = json.loads(said.out)
    assert said.status == 0
    assert abs(found["state_evolution"]["overlap"][0][0] - found["overlap"][0][0]) < 0.2


def test_make_data(attnlimits, tmp_path):
    said = attnlimits(f"make-data {SIGN} --alpha 40 --dimension 50 --dtype float64 --out {tmp_path / 'made'}")
    assert said.status == 0, said.err
    x, y = (
        np.concatenate([np.load(file) for file in sorted((tmp_path / "made" / name).glob("*.npy"))])
        for name in ("X", "Y")
    )
    weights = np.load(tmp_path / "made" / "teacher.npy")
    flipped = np.mean(np.sign(x[:, 0] @ weights[0]) != y[:, 0])
    assert abs(flipped - 0.1) < 4 * math.sqrt(0.09 / len(y))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ('evolve --link "h[1]**2" --label-noise .1 --alpha 1', "label noise is of discrete outputs"),
        ('evolve --link "max(h[1], 0)" --label-noise .1 --alpha 1', "h_1_1) are mixed"),
        (f"evolve {SIGN} --noise 0.1 --alpha 1", "have Gaussian noise"),
        ('evolve --link "sign(h[1])" --label-noise .5 --alpha 1', "less than 1 - 1/K = 0.5 of the K = 2 labels"),
        ('evolve --link "sign(h[1])" --label-noise -0.1 --alpha 1', ">= 0"),
        ('gamp --link "sign(h[1])" --label-noise nan --alpha 1 --dimension 10', "--label-noise must be a number"),
        ("threshold --layers 2 --label-noise 0.1", "it belongs to --link"),
        ("explain --layers 2 --label-noise 0.1", "it belongs to --link"),
        ("report --layers 2 --label-noise 0.1 --out there", "it belongs to --link"),
        ('explain --link "h[1]" --label-noise 0.1', "label noise is of discrete outputs"),
        ("evolve --layers 1 --label-noise 0.1 --alpha 1", "it belongs to --link"),
        ("descend " + SIGN + " --alpha 1 --dimension 10", "its outputs are discrete"),
    ],
)
def test_refused(attnlimits, flags, message):
    said = attnlimits(flags)
    assert said.status == 2
    assert message in said.err and len(said.err.strip().splitlines()) == 1


def test_the_page_of_a_link_has_the_law_of_its_labels(attnlimits):
    said = attnlimits('explain --link "sign(h[1])+sign(h[2])" --label-noise 1/10').out
    assert "y is replaced by one of the 2 other labels, each as likely, with probability 1/10" in said
    assert "(17/20 [y = g(h)] + 1/20)" in said
    assert "at label noise 1/10: alpha_c of" in said
    latex = attnlimits(f"explain {SIGN} --latex --no-number").out
    assert r"\left(\frac{4}{5}\,\mathbf 1[y=g(h)] + \frac{1}{10}\right)" in latex


def test_a_report_of_a_link_with_label_noise(attnlimits, tmp_path):
    found = json.loads(attnlimits(f"report {SIGN} --effort quick --out {tmp_path} --json").out)
    failed = [one for part in found["parts"] for one in part["outcomes"] if one["state"] == "failed"]
    assert failed == [] and found["complete"]
