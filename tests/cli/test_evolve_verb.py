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


def test_links_have_no_accuracy(attnlimits):
    said = attnlimits('evolve --link "h[1]**2" --alpha 1.2 --accuracy 1e-9')
    assert said.status == 2 and "--accuracy is for networks" in said.err
