"""Shared by the benchmarks: the peer, which lives beside them, and tables that outlast the captured output."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest


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
