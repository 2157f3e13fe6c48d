"""The verb spectrum: embeddings of a file, and the threshold of a model for them."""

import json

import numpy as np
import pytest

SCALE = np.repeat([0.5, 1.5], 20)


@pytest.fixture
def file(tmp_path):
    x = np.random.default_rng(0).standard_normal((600, 2, 40)) * np.sqrt(SCALE)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "last.npy", np.swapaxes(x, 1, 2))
    np.save(tmp_path / "flat.npy", x[:, 0])
    return tmp_path / "x.npy"


def test_the_threshold_of_a_model(attnlimits, file, tmp_path):
    said = attnlimits(f"spectrum {file} --layers 1 --json --out {tmp_path / 'e.npy'} --plot {tmp_path / 'a.png'}")
    found = json.loads(said.out)
    assert said.status == 0 and (tmp_path / "a.png").stat().st_size > 10_000
    assert abs(float(found["value"]) - 1.25) < 4 * found["error"]
    threshold = found["threshold"]
    assert float(threshold["value"]) == pytest.approx(1 / 6 / float(found["value"]), rel=1e-6)
    assert threshold["error"] == pytest.approx(found["error"] / 6 / float(found["value"]) ** 2, rel=1e-3)
    assert found["threshold_samples"] == pytest.approx(40 * float(threshold["value"]))
    # what is written is a spectrum of the other verbs: of the sample covariance, as observed
    again = json.loads(attnlimits(f"threshold --layers 1 --spectrum {tmp_path / 'e.npy'} --json").out)
    assert float(again["value"]) == pytest.approx(1 / 6 / found["sample_square"], rel=1e-9)


def test_shapes(attnlimits, file):
    text = attnlimits(f'spectrum {file} --link "h[1]**2"').out
    assert "correlation of two tokens" in text and "y = h_1_1**2" in text and "samples of 2 tokens, D = 40" in text
    last = json.loads(attnlimits(f"spectrum {file.with_name('last.npy')} --tokens-last --layers 1 --json").out)
    assert last["value"] == json.loads(attnlimits(f"spectrum {file} --layers 1 --json").out)["value"]
    flat = attnlimits(f"spectrum {file.with_name('flat.npy')} --layers 1").out
    assert "correlation" not in flat and "learned from alpha = 0.13" in flat
    assert "no threshold" in attnlimits(f'spectrum {file} --link "sign(h[1]*h[2]*h[3])"').out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("spectrum", "the following arguments are required: x"),
        ("spectrum {flat} --tokens-last", "--tokens-last is for X of shape (n, D, M)"),
        ("spectrum nosuch.npy --layers 1", "nosuch.npy"),
        ("spectrum {flat} --layers 1 --seed -1", "--seed must be >= 0"),
        ("spectrum {flat} --layers 0", "layers must be an integer >= 1"),
    ],
)
def test_refusals(attnlimits, file, flags, message):
    said = attnlimits(flags.format(flat=file.with_name("flat.npy")))
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1) and message in said.err
