"""--prior and --density of the verbs that have a prior of the weights."""

import json

import numpy as np
import pytest

import attnlimits as al

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


@pytest.mark.parametrize("prior", ["laplace", '"exp(-w**4)"'])
@pytest.mark.parametrize(
    "verb",
    [
        'evolve --link "sign(h[1])" --alpha 1',
        "evolve --layers 1 --alpha 0.3",
        "curve --layers 1 --from 0.3 --to 0.3 --points 1",
        'free-energy --link "sign(h[1])" --alpha 1',
        'free-energy --link "h[1]**2" --transitions',
        'landscape --link "sign(h[1])" --alpha 1 --out {}/a.png',
        'threshold --link "sign(h[1])*abs(h[2])" --staircase',
        'gamp --link "sign(h[1])" --alpha 1 --dimension 100 --seeds 2',
        'make-data --link "sign(h[1])" --alpha 1 --dimension 50 --out {}/made',
        "descend --layers 1 --alpha 4 --dimension 30 --seeds 2 --epochs 400",
    ],
)
def test_every_verb_takes_densities(attnlimits, verb, prior, tmp_path):
    said = attnlimits(f"{verb.format(tmp_path)} --prior {prior} --json")
    # A descent may end before it has converged.
    assert said.status in (0, 1) if verb.startswith("descend") else said.status == 0
    assert said.err == ""
    assert ("Laplace prior" if prior == "laplace" else "prior of density exp(-w**4)") in said.out


def test_known_weights(attnlimits, tmp_path):
    flags = '--link "sign(h[1])" --alpha 1 --known 0.3 --side-strength 0.5'
    evolved = json.loads(attnlimits(f"evolve {flags} --json").out)
    free = json.loads(attnlimits(f"free-energy {flags} --json").out)
    assert abs(evolved["overlap"][0][0] - free["overlap"][0][0]) < 1e-8
    found = json.loads(attnlimits(f"gamp {flags} --dimension 500 --seeds 4 --json").out)
    assert found["state_evolution"]["overlap"] == evolved["overlap"]
    assert abs(found["overlap"][0][0] - evolved["overlap"][0][0]) < 0.1
    link = al.Link("sign(h[1])")
    weights = al.teacher(link, 80, rng=0)
    X, Y = al.make_data(link, weights, 1.0, rng=0)
    side = al.learning.side_information(weights, known=0.3, strength=0.5, rng=0)
    for name, array in (("x", X), ("y", Y), ("known", side["known"]), ("side", side["side_information"])):
        np.save(tmp_path / f"{name}.npy", array)
    files = " ".join(f"--{name} {tmp_path}/{name}.npy" for name in ("x", "y", "known", "side"))
    own = json.loads(attnlimits(f'gamp --link "sign(h[1])" {files} --side-strength 0.5 --json').out)
    run = al.gamp(link, X, Y, **side)
    assert np.abs(np.array(own["weights"]) - run.weights).max() < 1e-12


def test_rows_of_a_covariance(attnlimits, tmp_path):
    np.save(tmp_path / "T.npy", np.array([[1.0, 0.6], [0.6, 1.0]]))
    rows = f"--row-covariance {tmp_path / 'T.npy'}"
    found = json.loads(attnlimits(f'evolve --link "sign(h[1]);sign(h[2])" --alpha 1 {rows} --json').out)
    assert abs(found["overlap"][0][1] - 0.377119145) < 1e-8 and "Gaussian rows of covariance" in found["status"]
    # h_1^2 + h_2^2 on whitened rows is another quadratic form, whose threshold is another.
    said = attnlimits(f'threshold --link "h[1]*h[2]" {rows} --json')
    independent = float(json.loads(attnlimits('threshold --link "h[1]*h[2]" --json').out)["value"])
    assert said.status == 0 and abs(float(json.loads(said.out)["value"]) - independent) > 0.01


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("evolve --layers 1 --alpha 1 --prior binry", "prior must be gaussian, binary, laplace, sparse, or a density"),
        ('evolve --layers 1 --alpha 1 --prior "1-w**2"', "must be >= 0 everywhere"),
        ('curve --layers 1 --from 1 --to 2 --prior "1/(1+w**2)"', "diverges, or nearly"),
        ('gamp --layers 1 --alpha 1 --dimension 10 --prior "exp(-w**"', "with h for w: link: expected"),
        ("evolve --layers 1 --alpha 1 --known 1", "--known must be shares in [0, 1)"),
        ("evolve --layers 1 --alpha 1 --known nan", "--known must be shares in [0, 1)"),
        ("evolve --layers 1 --alpha 1 --known x", "--known must be a share in [0, 1)"),
        ("evolve --layers 1 --alpha 1 --known 0.1,0.2", "one share for each of the P = 1 rows"),
        ("evolve --layers 1 --alpha 1 --side-strength -1", "--side-strength must be finite and >= 0"),
        ("gamp --layers 1 --alpha 1 --dimension 10 --side S.npy", "--side is for data of your own"),
        ("gamp --layers 1 --x X.npy --y Y.npy --side S.npy", "--side and --side-strength belong together"),
        ("evolve --layers 1 --alpha 1 --row-covariance T.npy --prior binary", "--row-covariance is of Gaussian rows"),
        ("threshold --layers 2 --row-covariance T.npy", "--row-covariance is for --link"),
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
