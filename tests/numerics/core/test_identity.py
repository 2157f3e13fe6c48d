"""Identities: they change with the sources that have a part in a number, and are refused where there are none."""

import ast
import importlib.util
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnlimits.numerics.core import identity
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.core.identity import imports, route_identity, source_hash, sources
from attnlimits.numerics.model.derivations import WORKER

ROUTE = "attnlimits.numerics.fixed_point.evolve"


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Return the folder of a small package in the place of the numerics."""
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    )
    texts = {
        "__init__.py": "",
        "route.py": "from . import rule  # (the rule)\n\n\n"
        "def value():\n    from .deep.sums import (\n        total,  # (1)\n    )\n    return total\n",
        "rule.py": "import numpy\n",
        "deep/__init__.py": "",
        "deep/sums.py": "import attnlimits.numerics.route\nfrom ..flags import NODES\n",
        "flags.py": "import argparse\nfrom . import bar\nNODES = 1\n",
        "bar.py": "",
        "other.py": "",
    }
    (tmp_path / "deep").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    _forget()
    yield tmp_path
    _forget()


def _forget():
    identity._files.cache_clear()
    identity._read.cache_clear()
    source_hash.cache_clear()


def _named(*names):
    return {f"attnlimits.numerics{name}" for name in names}


def test_what_a_module_imports_is_followed_anywhere_in_it(package):
    assert set(sources("attnlimits.numerics.route")) == _named("", ".route", ".rule", ".deep", ".deep.sums")


def test_the_command_line_has_a_part_where_it_is_named(package):
    assert set(sources("attnlimits.numerics.flags")) == _named(".flags")


@pytest.mark.parametrize("changed", ["__init__.py", "route.py", "rule.py", "deep/__init__.py", "deep/sums.py"])
def test_every_source_counts(package, changed):
    before = source_hash("attnlimits.numerics.route")
    (package / changed).write_text((package / changed).read_text() + "\n")
    _forget()
    assert source_hash("attnlimits.numerics.route") != before


@pytest.mark.parametrize("changed", ["flags.py", "bar.py", "other.py"])
def test_no_other_source_counts(package, changed):
    before = source_hash("attnlimits.numerics.route")
    (package / changed).write_text((package / changed).read_text() + "\n")
    _forget()
    assert source_hash("attnlimits.numerics.route") == before


def test_a_module_of_another_name_and_the_same_content_is_the_same(package):
    before = source_hash("attnlimits.numerics.rule")
    (package / "rule.py").rename(package / "rules.py")
    _forget()
    assert source_hash("attnlimits.numerics.rules") == before


def test_formulas_count():
    assert route_identity((ROUTE,), "one") != route_identity((ROUTE,), "two")
    assert len(route_identity((ROUTE,))) == 64


def test_a_module_without_a_source_is_refused(package):
    with pytest.raises(KernelNotFoundError, match=r"no source of the module attnlimits\.numerics\.gone"):
        source_hash("attnlimits.numerics.gone")
    with pytest.raises(KernelNotFoundError, match="for no module"):
        source_hash()
    shutil.move(package / "deep", package / "deeper")
    _forget()
    with pytest.raises(
        KernelNotFoundError, match=r"of attnlimits\.numerics\.deep\.sums, which attnlimits\.numerics\.route"
    ):
        source_hash("attnlimits.numerics.route")


def _statements(body):
    """Statements in order, those within others after them."""
    for node in body:
        yield node
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from _statements(getattr(node, field, ()))


def _by_syntax_tree(module: str, text: str, package: bool):
    for node in _statements(ast.parse(text).body):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = module.split(".")[: len(module.split(".")) - node.level + package] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            yield base, tuple(alias.name for alias in node.names)


@pytest.mark.slow_for("derive")
@pytest.mark.parametrize("folder", ["numerics", "derive", "generated"])
def test_statements_are_those_of_the_syntax_tree(repository, folder):
    paths = sorted((repository / folder).rglob("*.py"))
    assert paths
    for path in paths:
        parts = path.relative_to(repository).with_suffix("").parts
        module = ".".join(["attnlimits", *(part for part in parts if part != "__init__")])
        text, package = path.read_text(encoding="utf-8"), path.name == "__init__.py"
        found = {(s.base, s.inner) for s in imports(module, text, package=package) if _is_ours(s.base)}
        assert found == {s for s in _by_syntax_tree(module, text, package) if _is_ours(s[0])}, path


def _is_ours(base: str) -> bool:
    return base.partition(".")[0] == "attnlimits"


def test_numbers_do_not_import_the_command_line_nor_sweeps():
    found = set(
        sources(ROUTE, "attnlimits.numerics.thresholds.last_layer", "attnlimits.numerics.thresholds.first_layer")
    )
    assert len(found) > 50
    assert not [name for name in found if "cli" in name or "sweeps" in name or "plots" in name]


def test_fields_of_the_front_door_are_followed():
    found = sources("attnlimits.verbs.free_entropy")
    assert {"attnlimits.free_energy", "attnlimits.numerics.free_energy.entropy"} <= set(found)


def test_derivations_are_those_of_their_process():
    found = {Path(*name.split(".")[1:]).as_posix() for name in sources(WORKER)}
    assert {"derive/links/worker", "derive/links/link", "derive/emit/link_source"} <= found
    assert not [name for name in found if not name.startswith("derive")]


def test_an_identity_is_cheap():
    """Less than parsing the modules that have a part in it."""
    root = Path(identity.__file__).parents[2]
    files = [
        file for name in sources(ROUTE) if (file := root.joinpath(*name.split(".")[1:]).with_suffix(".py")).exists()
    ]
    assert len(files) > 50
    cost = {"identity": [], "parsed": []}
    for _ in range(2):
        _forget()
        begin = time.perf_counter()
        source_hash(ROUTE)
        cost["identity"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        for file in files:
            ast.parse(file.read_bytes())
        cost["parsed"].append(time.perf_counter() - begin)
    assert min(cost["identity"]) < min(cost["parsed"])


def test_the_front_door_has_no_part_in_a_number():
    """It names all folders: every edit of one would make all records stale."""
    assert "attnlimits" not in sources("attnlimits.numerics.model.kernels")
