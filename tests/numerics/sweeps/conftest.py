"""What the tests of sweeps share: cheap tasks, grids from text, records without what differs from run to run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlimits.numerics.sweeps import Function
from attnlimits.numerics.sweeps.grid import Grid, read_grid
from attnlimits.numerics.sweeps.store import Store
from attnlimits.numerics.sweeps.tasks import TASKS


@pytest.fixture
def toml(tmp_path) -> Callable[[str], Path]:
    """Return a function that writes a grid file."""

    def write(text: str) -> Path:
        path = tmp_path / "grid.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def grid_of(toml) -> Callable[[str], Grid]:
    """Return a function that reads a grid from text."""
    return lambda text: read_grid(toml(text))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Function:
    """Return a task that is quick, and fails where it is told to."""

    # Inside a function: it travels to other processes by value, as no module of tests could.
    def compute(a, b=0, fail=False):
        if fail:
            raise ArithmeticError("a  point\nthat fails")
        return {"value": str(a + 10 * b), "error": 0.5, "how": "estimated", "converged": a != 99, "matrix": [[a, b]]}

    task = Function("toy", compute)
    monkeypatch.setitem(TASKS, "toy", task)
    return task


@pytest.fixture
def records() -> Callable[[Path], dict[str, dict[str, Any]]]:
    """Return a function that reads all records of a store by key, without the seconds."""

    def read(folder: Path) -> dict[str, dict[str, Any]]:
        store = Store(folder)
        found = {path.stem: store.read(path.stem) for path in store.points.iterdir()}
        return {key: {k: v for k, v in record.items() if k != "seconds"} for key, record in sorted(found.items())}

    return read
