"""Accuracies of stationary points, transitions and landscapes: met, or said not to be."""

import numpy as np
import pytest

import attnlimits as al

TWO_LAYERS = al.Network(layers=2, tokens=2)


def test_stationary_points_are_as_accurate_as_asked():
    plain, found = (al.free_energy.answer(TWO_LAYERS, 0.5, accuracy=a) for a in (None, 1e-3))
    assert found.reached and found.error <= 1.1e-3 < plain.error
    truth = al.evolve(TWO_LAYERS, 0.5, accuracy=1e-6).overlap
    for one in (plain, found):
        best = one.points[0]
        assert (np.abs(best.overlap - truth) <= best.overlap_error + 1e-6).all()


def test_transitions_are_as_accurate_as_asked():
    """Phase retrieval: 1/2 and 1 exactly, the algorithmic one by evolve from both sides."""
    found = al.free_energy.transitions(al.Link("h[1]**2"), accuracy=1e-6)
    assert found.reached and found.error <= 1.1e-6
    assert abs(found.weak.value - 0.5) <= found.weak.error
    (pair,) = found.first_order
    assert pair.information.value == pytest.approx(1.0, abs=1e-12)
    below, above = (
        al.evolve(al.Link("h[1]**2"), pair.algorithmic.value + sign * 1e-3, max_iter=2000).overlap[0, 0]
        for sign in (-1, 1)
    )
    assert below < 0.9 and above > 0.999


def test_a_psi_out_has_its_own_accuracy():
    output = al.free_energy.entropy_of(al.Link("h[1]**2"))
    with pytest.raises(ValueError, match="this Psi_out has its own"):
        al.free_energy.transitions(output, accuracy=1e-6)
