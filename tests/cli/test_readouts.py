"""Heads of several layers on the command line: their readout weights, and heads that do not mix."""

import json

import pytest

import attnlimits as al


def test_readouts_are_read_by_rows_and_layers(attnlimits):
    flags = "threshold --heads 2 --samples 32 --replicas 4 --json"
    mixed = json.loads(attnlimits(f"{flags} --readouts '1,0.3;-0.2,0.8'").out)
    model = al.Network(2, 2, heads=2, readouts=[((1.0, 0.3), (-0.2, 0.8))])
    assert float(mixed["value"]) == float(al.threshold(model, samples=32, replicas=4).value)


def test_heads_that_do_not_mix_are_networks_side_by_side(attnlimits):
    # Each meets D/H coordinates of all samples.
    found = json.loads(attnlimits("threshold --heads 2 --samples 128 --json").out)
    alone = float(al.threshold(al.Network(2, 2)).value)
    assert abs(float(found["value"]) - alone / 2) < 4 * found["error"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--layers 2 --heads 99999999", "--heads must be at most 1000 for several layers"),
        ("--layers 1 --heads 99999999", "heads must be at most 1000 for the exact threshold"),
        ("--layers 1 --heads 99999999 --activation none", "activation must be one of"),
        ("--layers 2 --heads 200 --noise 0.1", "quasi-random points have at most 21201 dimensions"),
    ],
)
def test_more_heads_than_can_be_served_are_refused_at_once(attnlimits, flags, words):
    """An identity of so many rows would take hours to write down, in which nothing answers."""
    said = attnlimits(f"threshold {flags}")
    assert said.status == 2
    assert words in said.err


def test_the_direction_of_many_heads_does_not_fit(attnlimits):
    said = attnlimits("threshold --layers 2 --heads 999")
    assert said.status == 1
    assert "heads = 999 would take 29 TiB of memory" in said.err
