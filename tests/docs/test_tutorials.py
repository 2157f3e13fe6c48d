"""The blocks that the site executes run, each page in one namespace, as the directive `run` runs them."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from attnlimits.numerics.cli.figure import FIGURES

ROOT = Path(__file__).resolve().parents[2]
EXECUTED = sorted(path for path in (ROOT / "docs").rglob("*.md") if "```{run}" in path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """What the directive runs; it needs no Sphinx."""
    spec = importlib.util.spec_from_file_location("executed", ROOT / "docs/extensions/executed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_every_block_runs_and_shows_something(run, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    text = path.read_text(encoding="utf-8")
    if "attnlimits[data]" in text:
        pytest.importorskip("wordllama", reason="needs word vectors: pip install 'attnlimits[data]'")
    blocks = list(run.blocks(text))
    assert len(blocks) == text.count("```{run}")
    shown = [run.execute(language, code, names) for language, code in blocks]
    assert all(printed.strip() or figure is not None for printed, figure in shown[1:])


def test_a_block_prints_and_the_last_value_is_shown(run):
    assert run.execute("python", "print('a')\n1 + 1", {}) == ("a\n2\n", None)
    assert run.execute("sh", "attnlimits threshold --layers 1 --digits 4", {})[0].startswith("tied softmax attention")


def test_a_failing_command_is_an_error(run):
    with pytest.raises(RuntimeError, match="threshold"):
        run.execute("sh", "attnlimits threshold --layers 0", {})


@pytest.mark.parametrize("name", FIGURES)
def test_the_lines_beside_a_figure_of_a_paper_draw_it(run, name):
    """Ten at most; the picture that they end with is as large as the stored one, and they print its numbers."""
    names = {}
    lines = run.drawing(FIGURES[name])
    assert len(lines.splitlines()) <= 10
    printed, picture = run.execute("python", lines, names)
    assert names["FIGURE"].name == name
    assert printed.strip() and picture is names["picture"]
    with Image.open(names["FIGURE"].picture) as stored:
        wanted = [inches * stored.info["dpi"][0] for inches in picture.get_size_inches()]
        assert all(abs(a - b) < 2 for a, b in zip(stored.size, wanted, strict=True))


def test_the_gallery_has_ten_figures_or_more_beyond_those_of_the_papers(run):
    """Each of at most ten lines, which another test runs, and the stored figures of every paper."""
    text = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    drawn = [code for language, code in run.blocks(text) if language == "python"]
    assert len(drawn) >= 10
    assert all(re.search(r"^axes$|^axes\.figure\.legend\(.*\)$|\.plot\(\)$", code.splitlines()[-1]) for code in drawn)
    assert max(sum(bool(line) for line in code.splitlines()) for code in drawn) <= 10
    papers = {name.split("-")[0] for name in FIGURES}
    assert all(f"```{{figures}} {paper}\n" in text for paper in papers)
