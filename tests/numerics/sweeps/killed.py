"""A sweep of short points, to be killed: `python killed.py DIR LOG WORKERS`."""

import os
import sys
import time
from pathlib import Path

from attnlimits.numerics.sweeps import Function, register, sweep
from attnlimits.numerics.sweeps.grid import Grid

POINTS = 40


def point(number: int, log: str) -> dict[str, object]:
    """Take a moment, fail at times, and note in the folder `log` which process finished the point."""
    time.sleep(0.01 + 0.002 * (number % 7))
    (Path(log) / str(number)).write_text(str(os.getpid()), encoding="utf-8")
    if number % 10 == 3:
        raise ArithmeticError(f"point {number} fails")
    # Long enough that a kill can fall into the writing of it.
    wave = [[float((number * i * k) % 101) / 7 for i in range(40)] for k in range(20)]
    return {"value": repr(number / 3), "error": 0.0, "how": "rigorous", "converged": True, "wave": wave}


def grid(log: str) -> Grid:
    """All points; the folder of the log is the same for all runs, as it is part of every key."""
    register(Function("killed", point))
    return Grid.of({"task": "killed", "fixed": {"log": log}, "axes": {"number": list(range(POINTS))}})


if __name__ == "__main__":
    sweep(grid(sys.argv[2]), sys.argv[1], workers=int(sys.argv[3]))
