"""Instances have whole numbers of samples and columns: the record states what was run, and what was asked."""

import json

import pytest


def _record(attnlimits, command):
    return json.loads(attnlimits(f"{command} --json").out)


@pytest.mark.parametrize(
    ("verb", "alpha", "run"),
    [
        ("gamp --max-iter 2", 1e-3, 0.02),
        ("gamp --max-iter 2", 0.333, 0.34),
        ("gamp --max-iter 2", 0.8, 0.8),
        ("descend --epochs 2", 1e-3, 0.02),
        ("descend --epochs 2", 2.5, 2.5),
    ],
)
def test_alpha_is_that_of_the_samples(attnlimits, verb, alpha, run):
    found = _record(attnlimits, f"{verb} --layers 1 --alpha {alpha} --dimension 50 --seeds 1")
    assert found["alpha"] == run
    assert found.get("alpha_asked") == (None if run == alpha else alpha)
    if verb.startswith("gamp"):
        assert found["state_evolution"]["alpha"] == run
    said = attnlimits(f"{verb} --layers 1 --alpha {alpha} --dimension 50 --seeds 1").out
    assert ("asked)" in said) == (run != alpha) and f"alpha = {run:g}" in said


def test_alpha_and_width_of_extensive_width_are_those_of_samples_and_columns(attnlimits):
    for verb in ("amp --max-iter 2", "descend --steps 3 --students 1"):
        found = _record(attnlimits, f"aim {verb} --rho 0.07 --alpha 0.1001 --dimension 9 --seeds 1")
        assert (found["alpha"], found["alpha_asked"]) == (8 / 81, 0.1001)
        assert (found["rho"], found["rho_asked"]) == (1 / 9, 0.07)
        # The state evolution beside it is that of what was run.
        same = _record(attnlimits, f"aim {verb} --rho {1 / 9!r} --alpha {8 / 81!r} --dimension 9 --seeds 1")
        assert same["state_evolution"] == found["state_evolution"] and "alpha_asked" not in same
        said = attnlimits(f"aim {verb} --rho 0.07 --alpha 0.1001 --dimension 9 --seeds 1").out
        assert "rho=0.111111 (0.07 asked)" in said and "alpha = 0.0987654 (0.1001 asked)" in said


def test_data_that_are_written_state_their_own_alpha(attnlimits, tmp_path):
    found = _record(attnlimits, f"make-data --layers 1 --alpha 1.234 --dimension 50 --out {tmp_path / 'data'}")
    assert (found["alpha"], found["alpha_asked"], found["shape"]) == (62 / 50, 1.234, [62, 2, 50])
