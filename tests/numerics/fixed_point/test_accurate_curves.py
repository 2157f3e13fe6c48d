"""Accuracies of curves: met by finer rules or more samples, and what is said where they are not."""

import numpy as np
import pytest

import attnlimits as al

TWO_LAYERS = al.Network(layers=2, tokens=2)
FOUR = al.Link("h[1]+h[2]*h[3]*h[4]")


def test_two_layers_are_as_accurate_as_asked():
    """Relative, against the fixed points by themselves."""
    plain = al.curve(TWO_LAYERS, [0.3, 0.5])
    assert plain.largest_error(absolute=False) > 1e-4
    found = al.curve(TWO_LAYERS, [0.3, 0.5], accuracy=1e-5)
    assert found.reached and found.largest_error(absolute=False) <= 1.1e-5
    for coarse, point in zip(plain.points["uninformed"], found.points["uninformed"], strict=True):
        alone = al.evolve(TWO_LAYERS, point.alpha, accuracy=1e-6)
        together = point.overlap_error + alone.overlap_error
        assert (np.abs(point.overlap - alone.overlap) <= together).all()
        assert (np.abs(coarse.overlap - alone.overlap) <= coarse.overlap_error + alone.overlap_error).all()


def test_links_by_quadrature_have_their_finest_at_once():
    found = al.curve(al.Link("h[1]*h[2]"), [0.8, 0.9], accuracy=1e-9)
    assert found.reached and "not reached" not in found.status
    beyond = al.curve(al.Link("h[1]*h[2]"), [0.8], accuracy=1e-12)
    assert beyond.converged and not beyond.reached
    assert beyond.status.endswith(f"the finest averages leave {beyond.largest_error():.1g}")


def test_recovered_overlaps_are_not_asked_for_more():
    found = al.curve(al.Network(layers=1, tokens=2), [0.3, 0.9], accuracy=1e-8)
    assert found.points["uninformed"][1].recovered == (0,) and found.reached


def test_as_many_samples_as_it_takes(tmp_path):
    first = al.curve(FOUR, [0.5], samples=64, replicas=4)
    asked, path = 0.6 * first.largest_error(), tmp_path / "curve.json"
    found = al.curve(FOUR, [0.5], samples=64, replicas=4, accuracy=asked, keep=path)
    assert found.how == "monte-carlo" and found.reached and found.largest_error() <= 1.1 * asked
    assert not list(tmp_path.glob("curve.json.*"))


@pytest.mark.parametrize("model", [TWO_LAYERS, FOUR])
def test_refusals(model):
    with pytest.raises(ValueError, match="accuracy must be a number in"):
        al.curve(model, [0.3], accuracy=0.5)
