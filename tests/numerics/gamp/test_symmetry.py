"""Overlaps modulo the symmetries of a link."""

import numpy as np
import pytest

from attnlimits.numerics.fibres import LastLayer
from attnlimits.numerics.gamp.symmetry import symmetry
from attnlimits.numerics.link_cli import kernel_of
from attnlimits.numerics.models import Attention


def rotation(size, rng):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def block(*parts):
    size = sum(len(p) for p in parts)
    out, at = np.zeros((size, size)), 0
    for p in parts:
        out[at : at + len(p), at : at + len(p)] = p
        at += len(p)
    return out


@pytest.mark.parametrize(
    ("model", "element"),
    [
        (Attention(2, 2), lambda rng: np.diag([1.0, -1.0])),
        (Attention(1, 3, 3), lambda rng: rotation(3, rng)),
        (Attention(2, 2, (2, 1)), lambda rng: block(rotation(2, rng), [[-1.0]])),
        (LastLayer(2, 1, "softmax", False), lambda rng: -np.eye(2)),
        (kernel_of("h[1]**2 + h[2]**2 + h[1]*h[2]"), lambda rng: np.array([[0.0, -1.0], [-1.0, 0.0]])),
        (kernel_of("h[1]**2 + h[2]**3"), lambda rng: np.diag([-1.0, 1.0])),
    ],
    ids=["signs", "O(3)", "O(2) and sign", "untied", "exchange", "one sign"],
)
def test_an_image_of_the_teacher_is_the_teacher(model, element, rng):
    r = np.asarray(element(rng))
    h = rng.standard_normal((20, model.indices, model.tokens))
    assert model.link(r @ h) == pytest.approx(model.link(h), abs=1e-9)
    w = rng.standard_normal((model.indices, 500))
    overlap = w @ (r.T @ w).T / 500
    assert symmetry(model).align(overlap) == pytest.approx(w @ w.T / 500, abs=1e-9)


def test_what_is_no_symmetry_stays(rng):
    """h_2 enters with its sign."""
    overlap = np.diag([0.5, -0.4])
    assert symmetry(kernel_of("h[1]**2 + h[2]**3")).align(overlap) == pytest.approx(overlap)
    overlap = np.diag([0.5, -0.4])
    assert symmetry(LastLayer(2, 1, "softmax", False)).align(overlap) == pytest.approx(overlap)
