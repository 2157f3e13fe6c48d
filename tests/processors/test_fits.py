"""The fits that are compared between processors: named once, refused or found as their teachers allow, repeatable."""

import pytest
from fits import cases, run


def test_cases_have_names_of_their_own():
    assert len(cases()) == len(set(cases())) == 60
    assert sum(name.startswith("sculpt") for name in cases()) == 24
    assert sum("saturated" in name for name in cases()) >= 20 and sum("correlated" in name for name in cases()) >= 8


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        ("learn, saturated, seed 0", "found, 2 heads by restarts"),
        ("sculpt, correlated, seed 1", "found"),
        ("sculpt, parity, seed 0", "DegenerateSum"),
        ("learn, a head too few, seed 0", "NoConsistentModel"),
    ],
)
def test_fits_repeat_themselves_and_find_the_teacher(name, decision):
    found = run(name)
    assert found == run(name) and found["decision"] == decision
    # Outputs without noise fix the teacher, so that its distance is within the stated one of two ends.
    for value, error in found["numbers"].values():
        assert value <= error < 1e-9
    assert bool(found["numbers"]) == decision.startswith("found")
