"""How well a sweep uses two cores: the time on one core over twice that on two, starting the processes included."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlimits.numerics.sweeps import sweep
from attnlimits.numerics.sweeps.grid import Grid

# Some 0.3 s each, so that 160 take most of a minute on one core.
POINTS, QUICK = 160, 4


@pytest.mark.slow
def test_efficiency_on_two_cores(benchmark: Any, table: Callable[[str], None], tmp_path: Path) -> None:
    number = QUICK if benchmark.disabled else POINTS
    skips = {"linspace": [0.8, 1.2, number]}
    grid = Grid.of({"task": "threshold", "fixed": {"digits": 10}, "axes": {"skip": skips}})
    one = sweep(grid, tmp_path / "one", workers=1)
    two = benchmark.pedantic(lambda: sweep(grid, tmp_path / "two", workers=2), rounds=1)
    assert one.done == two.done == number
    efficiency = one.seconds / (2 * two.seconds)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    table(
        f"sweep of {number} thresholds: {one.seconds:.1f} s with one worker, {two.seconds:.1f} s with two: efficiency "
        f"{efficiency:.2f} (load of the machine {load:.1f}; above 2 the cores were shared with others)"
    )
