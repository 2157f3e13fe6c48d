"""The verb `evolve`: its exit status where an accuracy was asked for."""

import json

import pytest

from attnlimits.numerics.channel.deep.averages import DeepAverages

THREE = "evolve --layers 3 --alpha 0.3 --workers 1"


def test_an_accuracy_that_is_not_reached_ends_with_status_one(attnlimits, monkeypatch):
    # No finer averages than the first ones.
    monkeypatch.setattr(DeepAverages, "finest", (3e-2, 3e-2))
    said = attnlimits(f"{THREE} --accuracy 1e-3 --tol 1e-2 --json")
    found = json.loads(said.out)
    assert said.status == 1
    assert found["converged"] and not found["reached"] and found["error"] > 1e-3
    assert "the accuracy of 0.001 is not reached: the finest averages leave" in found["status"]


@pytest.mark.slow  # tests/numerics/fixed_point/test_accurate.py reaches it; success is the status of every other run
def test_an_accuracy_that_is_reached_ends_with_success(attnlimits):
    said = attnlimits(f"{THREE} --accuracy 4e-3 --json")
    found = json.loads(said.out)
    assert said.status == 0, said.err
    assert found["reached"] and found["error"] <= 4e-3
    assert "not reached" not in found["status"]


def test_an_accuracy_of_a_link(attnlimits):
    said = attnlimits('evolve --link "h[1]**2" --alpha 0.8 --accuracy 1e-9 --json')
    assert said.status == 0 and json.loads(said.out)["reached"]
    missed = attnlimits('evolve --link "h[1]*h[2]" --alpha 0.8 --accuracy 1e-12 --json')
    found = json.loads(missed.out)
    assert missed.status == 1 and found["converged"] and not found["reached"]
    assert "the accuracy of 1e-12 is not reached: the finest averages leave" in found["status"]
    refused = attnlimits('evolve --link "h[1]**2" --alpha 0.8 --accuracy 0.5')
    assert refused.status == 2 and "accuracy must be a number in [1e-12, 0.1]" in refused.err
