"""Lists of blocks, masks and correlated tokens on the command line."""

import json

import numpy as np
import pytest

from attnlimits.numerics.cli.main import main


def run(capsys, *words):
    status = main([*words, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else None, err


def test_a_causal_mask_is_a_flag(capsys):
    status, found, _ = run(capsys, "threshold", "--layers", "1", "--mask", "causal")
    assert status == 0
    assert abs(float(found["value"]) - 0.33939764) < 1e-8
    assert found["model"] == "attention(causal), M=2"


def test_masks_and_covariances_come_from_files(capsys, tmp_path):
    np.savetxt(tmp_path / "mask.txt", np.tri(3), fmt="%d")
    np.save(tmp_path / "c.npy", [[1.0, 0.5], [0.5, 2.0]])
    status, found, _ = run(capsys, "threshold", "-L", "1", "-M", "3", "--mask", str(tmp_path / "mask.txt"))
    assert (status, found["exact"]) == (0, "1/12")
    status, found, _ = run(capsys, "threshold", "-L", "1", "--token-covariance", str(tmp_path / "c.npy"))
    assert (status, found["exact"]) == (0, "1/6")


def test_flags_build_the_list_that_they_stand_for(capsys):
    status, found, _ = run(capsys, "evolve", "-L", "1", "--mask", "causal", "--alpha", "0.5")
    assert status == 0
    listed, again, _ = run(capsys, "evolve", "--blocks", "attention(causal)", "--alpha", "0.5")
    assert (listed, again["overlap"]) == (0, found["overlap"])


def test_explain_writes_the_page_of_a_list(capsys):
    status, found, _ = run(
        capsys, "explain", "--blocks", "attention(window:2) | residual(2) | norm | attention", "-M", "3", "--no-number"
    )
    assert status == 0
    assert [row["name"] for row in found["indices"]] == ["h_1", "h_4"]
    assert "diag(B_2*B_2.T)^(-1/2)*B_2" in found["text"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["threshold", "--blocks", "attention | blah"], "expected one of attention"),
        (["threshold", "--blocks", "attention", "--layers", "3"], "--layers describes layers"),
        (["threshold", "--blocks", "attention", "--mask", "causal"], "--mask is of layers"),
        (["threshold", "--mask", "nowhere.npy"], "nowhere.npy"),
        (["threshold", "--mask", "diagonal"], "mask must be"),
        (["threshold", "--token-covariance", "ar1:1"], "-1 < rho < 1"),
        (["threshold", "--link", "h[1]**2", "--mask", "causal"], "--mask describes a model"),
        (["threshold", "--blocks", "attention(mask=00/11)"], "row 1 sees none"),
        (["curve", "--mask", "causal", "--along", "skip", "--alpha", "1", "--from", "1", "--to", "2"], "along alpha"),
        (["threshold", "--mask", "causal", "--heads", "2"], "one head"),
        (["evolve", "--blocks", "attention | residual | readout(mean)", "--alpha", "1"], "noise"),
    ],
)
def test_what_makes_no_network_is_one_sentence(capsys, words, told):
    status, found, err = run(capsys, *words)
    assert (status, found) == (2, None)
    lines = [line for line in err.splitlines() if "deriving" not in line]
    assert len(lines) == 1
    assert told in lines[0]
