"""Every figure of the papers: what is stored, what is drawn, what is said about it."""

import ast
import json
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.cli.figure import FIGURES, shows
from attnlimits.numerics.core.plots import WIDTHS, styled
from attnlimits.numerics.core.results import load, save
from attnlimits.papers.figures import Headline, Look, PaperFigure, add_missing, panels, stored_runs
from attnlimits.papers.troiani2025.figures import figure_1, figure_4

ALL = {name: import_module(module) for name, module in FIGURES.items()}


@pytest.fixture(params=ALL)
def module(request):
    return ALL[request.param]


def test_names(module):
    assert FIGURES[module.FIGURE.name] == module.__name__


def test_pictures_are_of_the_stored_data(module):
    """Drawn from other data, or not at all: `python -c "from MODULE import FIGURE; FIGURE.store()"` draws it again."""
    assert not module.FIGURE.stale()
    assert module.FIGURE.picture.stat().st_size < 150_000


def test_every_picture_is_of_a_figure(repository):
    stored = {path.resolve() for path in (repository / "papers").glob("*/figures/*.png")}
    assert stored == {module.FIGURE.picture.resolve() for module in ALL.values()}


def test_captions_stand_on_the_page_of_the_paper(module, repository):
    """Its first line in `attnlimits figure --list`, the paragraph after it below the picture."""
    described = ast.get_docstring(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
    first, caption = described.split("\n\n")[:2]
    assert first == shows(module.FIGURE.name) and "\n" not in first and first.endswith(".")
    assert len(caption) > 150
    paper = module.FIGURE.name.split("-")[0]
    pages = [page.read_text(encoding="utf-8") for page in (repository / "papers" / paper).glob("*.md")]
    (page,) = [" ".join(page.split()) for page in pages if f"figures/{module.FIGURE.picture.name}" in page]
    assert f"*{' '.join(caption.split())}*" in page


# In a column there is the least room.
EACH_WIDTH = [
    pytest.param(width, id=name, marks=[] if name == "column" else [pytest.mark.slow]) for name, width in WIDTHS.items()
]


# Other tests draw those of the numbers 3 and 5.
@pytest.mark.slow_for(
    *("boncoraglio2025-1", "boncoraglio2025-3", "boncoraglio2025-5", "chen2024-scaling"),
    *("troiani2025-5", "troiani2025-examples", "troiani2025-work_precision"),
)
@pytest.mark.parametrize("width", EACH_WIDTH)
def test_legends_are_outside_the_data(module, width):
    """And nothing is cut off, at both widths of print."""
    figure = module.FIGURE
    with styled():
        picture = figure.draw(load(figure.data), width)
        picture.draw_without_rendering()
    frames = [axes.get_window_extent() for axes in picture.axes]
    legends = [axes.get_legend() for axes in picture.axes] + picture.legends
    for legend in filter(None, legends):
        assert not any(legend.get_window_extent().overlaps(frame) for frame in frames)
    whole, drawn = picture.bbox, picture.get_tightbbox().transformed(picture.dpi_scale_trans)
    # Around a legend there are 4 empty pixels.
    assert drawn.x0 > -2 and drawn.y0 > -2 and drawn.x1 < whole.x1 + 2 and drawn.y1 < whole.y1 + 2
    assert picture.get_figwidth() == width
    for axes in picture.axes:
        assert axes.get_xlabel()
    letters = [axes.get_title(loc="left") for axes in picture.axes if "bf{" in axes.get_title(loc="left")]
    assert len(letters) == (len(picture.axes) if len(picture.axes) > 1 else 0)


def test_other_data_make_a_picture_stale(tmp_path):
    data = tmp_path / "data.json"
    shutil.copy(figure_1.DATA, data)
    figure = PaperFigure("made", data, figure_1.draw, figure_1.headline, lambda progress=None: load(data))
    assert figure.stale()
    figure.store()
    assert not figure.stale()
    data.write_text(data.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert figure.stale()
    # Computed again, it is drawn again.
    assert figure.remake() == load(data) and not figure.stale()


def test_looks(tmp_path):
    figure = figure_4.FIGURE
    made = figure.make(tmp_path, 0, lambda *_: None, Look(("svg",), 6.0, "slides"), stored=True)
    assert set(made["files"]) == {"json", "svg"} and {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg"}
    # 6 inches at 72 points.
    assert 'width="432pt"' in (tmp_path / "troiani2025-4.svg").read_text(encoding="utf-8")


def test_panels_are_beside_each_other_where_there_is_room():
    for width, columns in ((3.4, 1), (5.0, 2), (7.0, 3), (20.0, 3)):
        figure, found = panels(["one", "two", "three"], width)
        grid = found[0].get_subplotspec().get_gridspec()
        assert grid.ncols == columns and len(figure.axes) == 3
    assert len(panels(["one"] * 4, 7.0, most=2)[0].axes) == 4


def test_a_headline_says_what_is_missing(tmp_path):
    figure = PaperFigure(
        "made",
        figure_1.DATA,
        figure_1.draw,
        lambda record: Headline("1", 0.5, ["line"], False, "not converged", "estimated", {"quantity": "one"}),
        lambda progress=None: load(figure_1.DATA),
    )
    made = figure.make(tmp_path, 0, lambda *_: None, Look(("png",)))
    assert (made["value"], made["converged"], made["status"], made["quantity"]) == ("1", False, "not converged", "one")
    assert made["summary"][0] == "line" and json.loads((tmp_path / "made.json").read_text()) == load(figure_1.DATA)


def test_thresholds_are_points_of_the_grid():
    """No overlap lifts before its line, and all do right after it."""
    record = load(figure_1.DATA)
    alpha = np.array([point["alpha"] for point in record["curve"]])
    for found, layer in zip(record["thresholds"], (1, 0), strict=True):
        threshold, q = float(found["value"]), np.array([p["overlap"][layer][layer] for p in record["curve"]])
        assert threshold in alpha
        assert (q[alpha <= threshold] == 0).all() and (q[alpha > threshold] > 0).all()
    assert figure_1.headline(record).converged


def test_a_grid_of_a_few_points_has_its_thresholds():
    alphas = figure_1.grid(4, (0.2, 0.7))
    assert (np.diff(alphas) > 0).all()
    assert {0.0, 0.2, 0.7, 1.0, 1.6} <= set(alphas)
    assert abs(len(figure_1.grid(48, (0.2, 0.7))) - 48) <= 2


def test_the_phase_diagram_has_no_kink():
    """From point to point the drawn lines turn by less than five degrees, which the interpolation rounds off."""
    record = load(figure_4.DATA)
    value, logs = np.array(record["value"]), np.log(record["skip"])
    assert value.shape == (2, 3, 13)
    # As drawn: 0.85 in alpha is as high as seven tenths of the axis of c are long.
    slopes = np.diff(value / 0.85, axis=2) / (np.diff(logs) / np.ptp(logs)) * 0.7
    assert np.abs(np.diff(np.degrees(np.arctan(slopes)), axis=2)).max() < 5


def test_runs_that_are_missing_are_added_beside_those_of_another_process(tmp_path):
    path, ran, steps = tmp_path / "runs.json", [], []
    save(path, {"runs": [{"alpha": 0.2, "value": 2}]})

    def run(case):
        """While it lasts another process adds the case after the next one, and one of its own."""
        ran.append(case["alpha"])
        if case["alpha"] == 0.1:
            save(path, {"runs": [*stored_runs(path), {"alpha": 0.4, "value": 4}, {"alpha": 0.9, "value": 9}]})
        return case | {"value": 1}

    cases = [{"alpha": alpha} for alpha in (0.1, 0.2, 0.3, 0.4)]
    assert add_missing(path, cases, run, lambda *done: steps.append(done)) == path
    assert ran == [0.1, 0.3] and steps == [(k, 4) for k in (1, 2, 3, 4)]
    found = {record["alpha"]: record["value"] for record in stored_runs(path)}
    assert found == {0.1: 1, 0.2: 2, 0.3: 1, 0.4: 4, 0.9: 9} and len(stored_runs(path)) == 5
    assert stored_runs(tmp_path / "none.json") == []
    # The case itself, added meanwhile, is not there twice.
    add_missing(path, [{"alpha": 0.5}], lambda case: save(path, {"runs": [*stored_runs(path), case]}) or case)
    assert [record["alpha"] for record in stored_runs(path)].count(0.5) == 1
