"""Averages of three layers with one hidden layer known, by lattices: over their range, against finer ones.

Both have nodes of their own, and as many of each point: they are known about equally well, so that this is no line of
the table, whose truths are known better than what they judge.
"""

import json

import numpy as np
import pytest
from finer_lattices import known_averages, lattice_cases
from harness import TRUTHS

from attnlimits.numerics.channel.deep.hidden_lattice import HiddenLattice
from attnlimits.numerics.model.network import Network


@pytest.mark.slow
def test_lattices_against_finer_ones() -> None:
    """What is stated is about one standard error."""
    stored = json.loads((TRUTHS / "lattices.json").read_text(encoding="utf-8"))["cases"]
    assert [one["settings"] for one in stored] == lattice_cases()
    ratios = []
    for seed, one in enumerate(stored):
        s = one["settings"]
        model = Network(3, skip=s["skip"], beta=s["beta"])
        values, off = known_averages(HiddenLattice(model, 0, rng=np.random.default_rng(seed), workers=1), s["q"])
        ratios.append((values - one["value"]) / np.hypot(off, one["error"]))
    assert np.abs(ratios).max() < 3
    assert np.sqrt(np.mean(np.square(ratios))) < 1.3
