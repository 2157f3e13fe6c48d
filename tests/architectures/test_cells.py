"""Every architecture by every verb: a number with its error, or a reason from mathematics."""

import math

import pytest
from cells import MODELS, REASONS, VERBS, cell

FEW = [
    ("L=1, M=2, untied", "curve"),
    ("L=1, M=3, untied, rank 2", "free-energy"),
    ("L=1, M=2, untied", "gamp"),
    ("L=2, M=2, rank 2", "threshold"),
    ("L=2, M=2, untied, noise 0.3", "free-energy"),
    ("L=3, M=3, sequence output", "evolve"),
]


def _check(model, verb):
    found = cell(model, verb)
    if isinstance(found, str):
        assert any(part in model for part in REASONS), found
        assert "there is" in found or "is not served" in found
    else:
        assert math.isfinite(found.value) and 0 <= found.error < math.inf


@pytest.mark.parametrize(("model", "verb"), FEW)
def test_some_cells(model, verb):
    _check(model, verb)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("model", MODELS)
def test_all_cells(model, verb):
    _check(model, verb)
