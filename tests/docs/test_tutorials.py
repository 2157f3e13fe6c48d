"""The blocks that the site executes run, each page in one namespace, as the directive `run` runs them."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXECUTED = sorted(path for path in (ROOT / "docs").rglob("*.md") if "```{run}" in path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run():
    pytest.importorskip("sphinx", reason="needs Sphinx: pip install 'attnlimits[docs]'")
    spec = importlib.util.spec_from_file_location("run", ROOT / "docs/extensions/run.py")
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
