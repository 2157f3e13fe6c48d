"""The pages on the architectures: what they show is what `explain` prints, and their commands name real equations."""

import re
from importlib import resources

import pytest

from attnlimits.derive import registry
from attnlimits.derive.linearization import single_layer_threshold

FOLDER = resources.files("attnlimits.papers").joinpath("troiani2025", "architectures")
PAGES = ("tied", "untied", "sequence", "multi_head", "user_activation")


def _page(name):
    return FOLDER.joinpath(f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_code_prints(name, capsys):
    text = _page(name)
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    exec(compile(code, f"{name}.md", "exec"), {})  # the block of a page of this repository
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_the_page_name_checked_equations(name):
    numbers = [int(n) for ids in re.findall(r"attnlimits verify --id ([\d ]+)", _page(name)) for n in ids.split()]
    checked = {e.id for e in registry.load("troiani2025") if e.check is not None}
    assert set(numbers) <= checked


def test_every_architecture_has_one_page_that_the_readme_links_to():
    assert sorted(entry.name for entry in FOLDER.iterdir()) == sorted(f"{name}.md" for name in PAGES)
    readme = resources.files("attnlimits.papers").joinpath("troiani2025", "README.md").read_text(encoding="utf-8")
    for name in PAGES:
        assert f"(architectures/{name}.md)" in readme


def test_the_threshold_of_the_untied_page():
    value = single_layer_threshold(2, tied=False)
    assert f"sqrt(5) - 2 = {float(value):.4f}" in " ".join(_page("untied").split())
