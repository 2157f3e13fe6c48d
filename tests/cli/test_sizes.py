"""What would not fit into memory is refused with what it would take, before it is taken."""

import pytest

import attnlimits as al

LARGE = [
    "evolve --alpha 0.5 --samples 1152921504606846976",
    "evolve --alpha 0.5 --layers 3 --samples 16 --replicas 1000000000",
    "evolve --alpha 0.5 --layers 3 --nodes 1152921504606846976",
    "evolve --alpha 0.5 --link h[1]*h[2] --samples 1152921504606846976",
    "evolve --alpha 0.5 --layers 2147483648",
    f"evolve --alpha 0.5 --layers {'1' * 400}",
    "evolve --alpha 0.5 --layers 1 --tokens 2147483648",
    "threshold --layers 2147483648",
    "threshold --layer 1 --activation linear --samples 1152921504606846976",
    "curve --layers 1 --from 0 --to 1 --points 2147483648",
    "free-energy --layers 1 --alpha 0.5 --samples 1152921504606846976",
    "landscape --layers 1 --alpha 0.5 --points 2147483648 --out l.png",
    "figure troiani2025-1 --points 2147483648",
    "denoise --layers 2147483648 --y [[1]] --omega [[1]] --V [[1]]",
]


@pytest.mark.parametrize("command", LARGE)
def test_too_large_is_refused_in_one_line(attnlimits, command):
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (1, "", 1)
    assert " would take " in said.err and " may be taken here" in said.err


def test_a_committee_of_any_depth_has_its_limit(attnlimits):
    said = attnlimits("committee --layers 2147483648")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert "its limit of many layers" in said.err


def test_a_committee_with_a_weak_skip_is_refused_before_it_is_computed(attnlimits, monkeypatch):
    monkeypatch.setattr(al.committee, "committee_threshold", lambda *_, **__: pytest.fail("it was computed"))
    said = attnlimits("committee --layers 5 --skip 4")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert "skip must be > L - 1 = 4" in said.err
