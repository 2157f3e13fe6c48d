"""--prior and --density of the verbs that have a prior of the weights."""

import json

import numpy as np
import pytest

SIGN = '--link "sign(h[1])" --prior binary'


def test_evolve_and_curve(attnlimits):
    found = json.loads(attnlimits(f"evolve {SIGN} --alpha 1 --json").out)
    assert abs(found["overlap"][0][0] - 0.56071473709) < 1e-10
    assert found["origin"]["settings"]["prior"] == "binary prior"
    curve = json.loads(attnlimits(f"curve {SIGN} --from 1 --to 1 --points 1 --json").out)
    assert abs(curve["points"]["uninformed"][0]["overlap"][0][0] - found["overlap"][0][0]) < 1e-10
    layer = json.loads(attnlimits("evolve --layers 1 --alpha 0.2 --prior sparse --density 0.2 --json").out)
    assert layer["converged"] and "Gauss-Bernoulli prior of density 0.2" in layer["status"]


def test_staircase(attnlimits):
    said = attnlimits('threshold --link "sign(h[1])+sign(h[2])" --prior binary --staircase --json')
    assert said.status == 0
    assert abs(float(json.loads(said.out)["steps"][1]["value"]) - 1.58932248) < 1e-7


def test_gamp(attnlimits):
    said = attnlimits(f"gamp {SIGN} --alpha 1 --dimension 200 --seeds 3 --json")
    found = json.loads(said.out)
    assert said.status == 0
    assert abs(found["state_evolution"]["overlap"][0][0] - 0.56071473709) < 1e-10
    assert abs(found["overlap"][0][0] - 0.5607) < 0.2


def test_make_data(attnlimits, tmp_path):
    flags = '--link "sign(h[1])" --prior sparse --density 0.1 --alpha 2 --dimension 500'
    said = attnlimits(f"make-data {flags} --out {tmp_path / 'made'} --json")
    assert said.status == 0 and json.loads(said.out)["prior"] == "Gauss-Bernoulli prior of density 0.1"
    weights = np.load(tmp_path / "made" / "teacher.npy")
    assert 20 < np.count_nonzero(weights) < 90


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("evolve --layers 1 --alpha 1 --density 0.1", "--density belongs to --prior sparse"),
        ("gamp --layers 1 --alpha 1 --dimension 10 --prior sparse", "--density belongs to --prior sparse"),
        ("curve --layers 1 --from 1 --to 2 --prior sparse --density 2", "density must be a number in (0, 1)"),
        ("make-data --layers 1 --alpha 1 --dimension 10 --out x --prior sparse", "--density belongs to --prior sparse"),
        ('threshold --link "h[1]**2" --prior binary', "--prior is for --staircase"),
        ('threshold --link "h[1]**2" --prior binary --staircase --given perfect', "of the steps at fixed points"),
    ],
)
def test_refusals(attnlimits, flags, message):
    said = attnlimits(flags)
    assert said.status == 2 and message in said.err
