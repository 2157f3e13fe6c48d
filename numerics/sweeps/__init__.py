"""Sweeps: one computation at every point of a grid, in parallel, resumable, in one self-describing folder.

`sweep(grid, out)` computes, `open_sweep(out)` gives an `xarray.Dataset` over the axes; `attnlimits sweep` does both.
"""

from .runner import SweepReport, sweep
from .tasks import Function, Task, register
from .view import open_sweep

__all__ = ["Function", "SweepReport", "Task", "open_sweep", "register", "sweep"]
