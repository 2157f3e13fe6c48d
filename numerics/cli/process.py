"""The command in a process: its own, which ends with it, or that of a program that calls it."""

import gc
import sys
from collections.abc import Sequence
from functools import partial

import attnlimits as al

from ..core.interrupts import leave_signals
from .guard import guarded, say

__all__ = ["run"]

# New objects between two collections. Imports and compilers make millions that stay: at Python's own 700 the collector
# takes a tenth of the time of a first call.
_COLLECT = 50000


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command with these words, or with those of the process; return the exit status."""
    if argv is not None:
        return guarded(partial(_run, argv))
    # The process is the command's own, and ends with it.
    gc.set_threshold(_COLLECT)
    status = guarded(partial(_run, sys.argv[1:]), own=True)
    leave_signals(status)
    return status


def _run(words: Sequence[str]) -> int:
    if list(words) == ["--version"]:  # without the parsers and NumPy, the most of the time of a start
        say(f"attnlimits {al.__version__}")
        return 0
    from .command import run

    return run(words)
