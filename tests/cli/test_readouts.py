"""Heads of several layers on the command line: their readout weights, and heads that do not mix."""

import json

import attnlimits as al


def test_readouts_are_read_by_rows_and_layers(attnlimits):
    flags = "threshold --heads 2 --samples 16 --replicas 2 --json"
    mixed = json.loads(attnlimits(f"{flags} --readouts '1,0.3;-0.2,0.8'").out)
    model = al.Network(2, 2, heads=2, readouts=[((1.0, 0.3), (-0.2, 0.8))])
    assert float(mixed["value"]) == float(al.threshold(model, samples=16, replicas=2).value)


def test_heads_that_do_not_mix_are_networks_side_by_side(attnlimits):
    # Each meets D/H coordinates of all samples.
    found = json.loads(attnlimits("threshold --heads 2 --samples 128 --json").out)
    alone = float(al.threshold(al.Network(2, 2)).value)
    assert abs(float(found["value"]) - alone / 2) < 4 * found["error"]
