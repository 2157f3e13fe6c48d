"""Cosines of Gram matrices of weights."""

import numpy as np
import pytest

from attnlimits.numerics.learning.classifier import half_time, similarity


def test_against_the_large_matrices(rng):
    w, v = rng.standard_normal((5, 3, 40)), rng.standard_normal((3, 40))
    large = [one.T @ one for one in w]
    final = v.T @ v
    expected = [np.vdot(a, final) / np.linalg.norm(a) / np.linalg.norm(final) for a in large]
    assert similarity(w, v) == pytest.approx(expected, rel=1e-12)
    # Another rank than the final one is compared likewise.
    assert similarity(w[0, :2], v).shape == ()


def test_rotations_and_scales_of_rows_are_not_seen(rng):
    v = rng.standard_normal((3, 20))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert similarity(rotation @ v, v) == pytest.approx(1, rel=1e-14)
    # Fourth powers of these are beyond float64.
    assert similarity(1e120 * v, 1e-120 * v) == pytest.approx(1, rel=1e-14)
    other = rng.standard_normal((3, 20))
    assert similarity(rotation @ other, v) == pytest.approx(float(similarity(other, v)), rel=1e-12)


def test_orthogonal_directions_have_none():
    eye = np.eye(4)
    assert similarity(eye[:2], eye[2:]) == 0
    assert similarity(eye[:1], eye[:2]) == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize(
    ("w", "v", "words"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), "must have shapes"),
        (np.ones(3), np.ones((1, 3)), "must have shapes"),
        (np.zeros((2, 3)), np.ones((2, 3)), "zero has no direction"),
        (np.full((2, 3), np.nan), np.ones((2, 3)), "must be finite"),
    ],
)
def test_what_has_no_cosine_is_refused(w, v, words):
    with pytest.raises(ValueError, match=words):
        similarity(w, v)


def test_half_times():
    assert half_time([0.0, 0.5, 1.0]) == 1.0
    assert half_time([0.2, 0.4, 0.8, 1.0]) == pytest.approx(1.5)
    assert half_time([0.7, 0.7]) == 0.0
