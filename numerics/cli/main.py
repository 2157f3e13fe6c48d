"""The command `attnlimits`.

Every verb takes `--json` and then prints one JSON object. Exit status: 0 on success, 1 if a computation failed or did
not converge, 2 on bad arguments, 130 if it was interrupted; a failure prints one line on stderr that says what to do.
"""

import gc
import sys
from collections.abc import Sequence
from functools import partial

import attnlimits as al

from ..core.interrupts import leave_signals
from .guard import guarded, say

__all__ = ["main"]

# New objects between two collections. Imports and compilers make millions that stay: at Python's own 700 the collector
# takes a tenth of the time of a first call.
_COLLECT = 50000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    if argv is not None:
        return guarded(partial(_main, argv))
    # The process is the command's own, and ends with it.
    gc.set_threshold(_COLLECT)
    status = guarded(partial(_main, sys.argv[1:]))
    leave_signals(status)
    return status


def _main(words: Sequence[str]) -> int:
    if list(words) == ["--version"]:  # without the parsers and NumPy, the most of the time of a start
        say(f"attnlimits {al.__version__}")
        return 0
    from .command import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
