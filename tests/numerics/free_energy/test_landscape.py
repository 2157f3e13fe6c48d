"""Landscapes: the grid against single values, and the picture."""

import numpy as np
import pytest

from attnlimits.numerics.free_energy import FreeEntropy, OutputEntropy, output_entropy, stationary_points
from attnlimits.numerics.free_energy.landscape import landscape
from attnlimits.numerics.free_energy.pictures import draw
from attnlimits.numerics.model.link_kernels import kernel_of


def test_a_line_is_what_single_values_say(tmp_path):
    free = FreeEntropy(output_entropy(kernel_of("h[1]**2")), 1.05)
    record = landscape(free, points=17, top=0.995)
    for k in (7, 40, 93):
        q = record["overlaps"][0][k]
        assert record["phi"][k] == pytest.approx(free(np.array([[q]])).value, abs=record["error"])
    assert record["error"] < 1e-3
    path = tmp_path / "line.png"
    points = stationary_points(free)
    draw(record, points, free.output.groups, "phase retrieval", path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_plane_is_what_the_formula_says(polynomial, tmp_path):
    channel = polynomial((1.2, 3.0), 2.0)
    free = FreeEntropy(OutputEntropy(channel), 0.7)
    told = []
    record = landscape(free, points=14, top=0.9, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (196, 196)
    a, b = np.meshgrid(*record["overlaps"], indexing="ij")
    expected = 0.5 * (a + np.log(1 - a) + b + np.log(1 - b)) + 0.7 * 0.5 * (0.6 * a**2 + 1.5 * b**2 + 2 * a**2 * b**2)
    assert np.abs(record["phi"] - expected).max() <= record["error"] + 1e-12
    assert record["error"] < 1e-3
    best = np.unravel_index(record["phi"].argmax(), record["phi"].shape)
    point = stationary_points(free, starts=8)[0]
    assert [record["overlaps"][0][k] for k in best] == pytest.approx(list(point.overlap.diagonal()), abs=0.01)
    path = tmp_path / "plane.png"
    draw(record, (point,), free.output.groups, "polynomial", path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"points": 3}, "points must be"), ({"top": 1.0}, "top must be"), ({"points": 5.0}, "points")],
)
def test_bad_arguments_are_refused(polynomial, arguments, words):
    free = FreeEntropy(OutputEntropy(polynomial((1.0,))), 0.5)
    with pytest.raises(ValueError, match=words):
        landscape(free, **arguments)


def test_three_overlaps_are_refused(polynomial):
    with pytest.raises(ValueError, match="one or two overlaps"):
        landscape(FreeEntropy(OutputEntropy(polynomial((1.0, 1.0, 1.0))), 0.5))
