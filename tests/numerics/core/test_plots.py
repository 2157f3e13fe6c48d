"""How pictures look: curves through their points, widths, styles, colours that everybody tells apart."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from attnlimits.numerics.core import colours
from attnlimits.numerics.core.destinations import picture_file
from attnlimits.numerics.core.plots import WIDTHS, inches, legend_below, on_axes, save_figure, smooth, styled, titled

#: Linear RGB as it is seen without one kind of cone, Machado, Oliveira and Fernandes (2009), severity 1.
SEEN = {
    "three cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, cones):
    """CIELAB of a colour as it is seen."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    t = TO_XYZ @ np.clip(np.array(cones) @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("cones", SEEN)
def test_colours_differ_for_everybody(cones):
    """By 15 and more, where 2.3 is just seen; the red and green of a traffic light would be 6 apart."""
    values = [getattr(colours, name) for name in colours.__all__ if name != "CYCLE"]
    assert set(colours.CYCLE) <= set(values)
    for one, other in itertools.combinations(values, 2):
        assert np.linalg.norm(lab(one, SEEN[cones]) - lab(other, SEEN[cones])) > 15, (one, other)


def test_a_smooth_curve_goes_through_its_points_and_not_beyond():
    x, y = [0.0, 1.0, 2.0, 2.5, 4.0], [0.0, 0.0, 0.7, 0.95, 1.0]
    dense, curve = smooth(x, y, (1.0,))
    assert (np.diff(dense) > 0).all() and (np.diff(curve) >= 0).all()
    assert np.interp(x, dense, curve) == pytest.approx(y, abs=1e-14)
    # It does not lift before the kink, and leaves it with a slope.
    assert (curve[dense <= 1] == 0).all()
    first = np.flatnonzero(dense > 1)[0]
    assert (curve[first] / (dense[first] - 1)) == pytest.approx(0.7, abs=0.2)
    # Without the kink the slope is continuous there.
    smoother = smooth(x, y)[1]
    assert smoother[first] < 0.2 * curve[first]


def test_a_smooth_curve_is_near_the_function():
    """Closer by four and more for twice the points: of second order at the ends, of higher order inside."""
    off = []
    for count in (25, 49):
        x = np.linspace(0, 3, count)
        dense, curve = smooth(x, np.tanh(x))
        off.append(np.abs(curve - np.tanh(dense)).max())
    assert off[0] < 1e-3 and off[1] < off[0] / 4
    assert [len(one) for one in smooth([1.0], [2.0])] == [1, 1]


def test_widths():
    assert inches("column") == WIDTHS["column"] and inches("page") == 2 * WIDTHS["column"] + 0.25
    assert inches("4.5") == 4.5
    for text in ("wide", "1.9", "41", "nan", ""):
        with pytest.raises(ValueError, match="column, page or inches"):
            inches(text)


def test_styles():
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    with styled("slides"):
        assert matplotlib.rcParams["font.size"] == 12
    with styled("ggplot"):
        assert matplotlib.rcParams["axes.facecolor"] == "#E5E5E5"
    assert matplotlib.rcParams["font.size"] == before
    with pytest.raises(ValueError, match="no style 'none'"), styled("none"):
        pass


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_picture_is_the_same_file(tmp_path, kind):
    for name in ("one", "two"):
        with on_axes(None) as axes:
            axes.plot([0, 1], [0, 1])
            save_figure(axes.figure, tmp_path / "new" / f"{name}.{kind}")
    first, second = (path.read_bytes() for path in sorted((tmp_path / "new").iterdir()))
    assert first == second and len(first) > 1000


def test_names_of_pictures(tmp_path):
    assert picture_file(None, "--plot") is None
    assert picture_file(tmp_path / "new" / "a.svg", "--plot") == tmp_path / "new" / "a.svg"
    with pytest.raises(ValueError, match=r"--plot needs a name that ends with \.png, \.pdf, \.svg"):
        picture_file(tmp_path / "a.jpg", "--plot")
    with pytest.raises(OSError, match="this is a folder"):
        (tmp_path / "b.png").mkdir()
        picture_file(tmp_path / "b.png", "--plot")


def test_letters_and_legends():
    figure = Figure((7, 3), layout="constrained")
    panels = figure.subplots(1, 2)
    titled(panels, ["first", "second"])
    assert [axes.get_title(loc="center")[-6:] + axes.get_title(loc="left")[-6:] for axes in panels] == [
        " first",
        "second",
    ]
    assert "{a}" in panels[0].get_title() + panels[0].get_title(loc="left")
    panels[0].plot([0, 1], label="a curve")
    legend_below(panels[0])
    figure.draw_without_rendering()
    frame, legend = panels[0].get_window_extent(), panels[0].get_legend().get_window_extent()
    assert legend.y1 < frame.y0 and legend.y0 >= 0
