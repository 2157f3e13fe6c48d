"""Curves of links whose indices are learned together: onsets against thresholds, overlaps against evolve."""

from functools import cache

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.fixed_point.continuation.records import CurveResult
from attnlimits.numerics.model.link_symmetry import symmetric_axes

EFFORT = {"samples": 256, "rng": 1}


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("h[1]*h[2]", [2]),
        ("h[1]*h[2]*h[3]", [3]),
        ("tanh(h[1]) + tanh(h[2])", [1, 1]),
        ("tanh(h[1]) - tanh(h[2])", [1, 1]),
        ("relu(h[1]) + relu(h[2]) + relu(h[3])", [1, 2]),
        ("h[1]*h[2] + tanh(h[3])", [1, 2]),
    ],
)
def test_axes_of_symmetric_links(text: str, groups: list[int]):
    found = symmetric_axes(al.Link(text).kernel)
    assert found is not None and [len(group) for group in found[1]] == groups
    assert np.allclose(found[0].T @ found[0], np.eye(len(found[0])))


def test_axes_are_fixed_by_symmetry_or_not_given():
    assert symmetric_axes(al.Link("tanh(h[1]) + 2*tanh(h[2])").kernel) is None
    with pytest.raises(ValueError, match="learned together"):
        al.curve(al.Link("tanh(h[1]) + 2*tanh(h[2])"), [1.0], **EFFORT)


@cache
def across(text: str) -> tuple[float, CurveResult]:
    """Threshold of a link and a curve that starts below it, which two tests share."""
    wanted = float(al.threshold(al.Link(text)).value or np.inf)
    return wanted, al.curve(al.Link(text), [0.9 * wanted, 1.8 * wanted], **EFFORT)


@pytest.mark.parametrize("text", ["h[1]*h[2]", pytest.param("h[1]*h[2]*h[3]", marks=pytest.mark.slow)])
def test_the_onset_of_a_product_is_its_threshold(text: str):
    link = al.Link(text)
    found = al.threshold(link)
    wanted = float(found.value if found.value is not None else np.inf)
    (onset,) = al.curve(link, [0.3, 0.4], start="uninformed", **EFFORT).onsets or (None,)
    assert onset is None and wanted > 0.4
    curve = across(text)[1]
    (onset,) = curve.onsets
    assert onset.indices == tuple(range(link.kernel.indices))
    assert abs(onset.value - wanted) <= 3 * onset.error + found.error
    below, above = curve.points["uninformed"]
    assert below.overlap.max() == 0 < above.overlap.min(initial=1, where=np.eye(len(above.overlap)) > 0)


# The committee below is held against evolve in the same way.
@pytest.mark.slow
def test_a_product_has_the_overlap_of_evolve():
    link = al.Link("h[1]*h[2]")
    wanted, curve = across("h[1]*h[2]")
    point = curve.points["uninformed"][-1]
    state = al.evolve(link, 1.8 * wanted, **EFFORT)
    sigma = np.hypot(point.overlap_error.max(), state.overlap_error.max())
    assert point.converged and state.converged
    assert np.abs(point.overlap - state.overlap).max() <= 3 * sigma < 0.1


def test_a_committee_before_it_specialises_has_the_overlap_of_evolve():
    link = al.Link("tanh(h[1]) + tanh(h[2])")
    curve = al.curve(link, [0.5, 0.9], **EFFORT)
    assert curve.converged and not curve.onsets  # the sum of the units is learned at any alpha
    for point in curve.points["uninformed"]:
        state = al.evolve(link, point.parameter, **EFFORT)
        assert np.ptp(point.overlap) <= 3 * point.overlap_error.max()
        sigma = np.hypot(point.overlap_error.max(), state.overlap_error.max())
        assert np.abs(point.overlap - state.overlap).max() <= 3 * sigma < 0.03


@pytest.mark.slow
def test_the_units_of_a_committee_specialise():
    link = al.Link("tanh(h[1]) + tanh(h[2])")
    curve = al.curve(link, [1.0, 1.6], start="both", **EFFORT)
    (onset,) = (one for one in curve.onsets if one.indices == (0, 1))
    assert 1.0 < onset.value < 1.6 and "h_1 - h_2 comes in at alpha = " in curve.status
    for start in ("uninformed", "informed"):
        before, after = curve.points[start]
        assert np.ptp(before.overlap) <= 3 * before.overlap_error.max()
        assert np.ptp(after.overlap) > 3 * after.overlap_error.max()
    # Just below and above it the difference of the units dies out and grows.
    for factor, grows in ((0.85, False), (1.25, True)):
        q = onset.overlap + 0.02 * np.array([[1, -1], [-1, 1]])
        moved = al.evolve(link, factor * onset.value, start=q, **EFFORT)
        assert (np.ptp(moved.overlap) > 0.08) == grows


@pytest.mark.parametrize("text", ["h[1]+h[2]*h[3]*h[4]", "h[1]+h[2]+h[3]*h[4]", "h[1]*h[2]+h[3]"])
def test_what_any_alpha_sets_off_beside_a_group_of_axes(text):
    """One index is learned at once, and others share an overlap: the curve stayed at zero, and stated no error."""
    (point,) = al.curve(al.Link(text), [0.5], samples=64).points["uninformed"]
    alone = al.evolve(al.Link(text), 0.5, samples=64)
    assert point.overlap.diagonal().max() > 0.1
    assert (np.abs(point.overlap - alone.overlap) <= point.overlap_error + alone.overlap_error).all()
