"""Shared by the benchmarks: the peer, which lives beside them, tables, and ratios that outlast the captured output."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .ratios import Ratios

_RATIOS = pytest.StashKey[Ratios]()


@pytest.fixture(scope="session")
def peer() -> ModuleType:
    """Return the module `peer`; tests are not importable by name here."""
    name = "attnlimits_benchmark_peer"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("peer.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def table() -> Iterator[Callable[[str], None]]:
    """Collect lines and print them when the module is done (`make bench` shows them)."""
    lines: list[str] = []
    yield lines.append
    print("\n" + "\n".join(lines))


@pytest.fixture
def ratio(request: pytest.FixtureRequest, benchmark: Any) -> Callable[..., None]:
    """Return what takes a ratio by its name; it is not kept where benchmarks are disabled."""
    if benchmark.disabled:
        return lambda name, value, *, better: None
    return request.config.stash.setdefault(_RATIOS, Ratios())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only measures where benchmarks are disabled, as the plugin disables them in test processes."""
    if config.getoption("benchmark_disable") or hasattr(config, "workerinput"):
        out = [item for item in items if item.get_closest_marker("measures")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the ratios, and write them."""
    ratios = config.stash.get(_RATIOS, None)
    if ratios is not None and ratios.found:
        terminalreporter.section("ratios")
        terminalreporter.write("\n".join(ratios.lines()) + "\n")
        ratios.write()
