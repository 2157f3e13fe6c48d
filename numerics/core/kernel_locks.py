"""One process at a time compiles a kernel: those beside it wait, and load what it has kept.

Processes that start together would otherwise compile the same kernels at the same time, each for itself: the workers of
a sweep, or of the tests.
"""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # on Windows each compiles for itself
    fcntl = None  # type: ignore[assignment]

__all__ = ["first_to_compile"]

# Seconds to wait for another process, which may have been stopped; between two looks.
_PATIENCE, _PAUSE = 120.0, 0.02
# Source files whose kernels this process compiles now.
_held: set[str] = set()


@contextmanager
def first_to_compile(file: str) -> Iterator[None]:
    """Wait until no other process compiles a kernel of a source file; without a wait, let others wait meanwhile.

    Who has waited keeps nobody waiting: where what was compiled could not be kept, all others compile it at once.
    Source files do not import each other in circles, so that no two processes wait for each other. The lock is one on
    the source file itself, which may be read-only; it ends with the process.

    Parameters
    ----------
    file : str
        Without such a file, or in a folder without locks, nobody waits.
    """
    if fcntl is None or file in _held:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(open(file, "rb"))
            waited = _wait(source.fileno())
        except OSError:
            yield
            return
        if waited:
            fcntl.flock(source, fcntl.LOCK_UN)
            yield
            return
        _held.add(file)
        try:
            yield
        finally:
            _held.discard(file)
            # Not by closing the file alone: a copy of this process would keep it.
            fcntl.flock(source, fcntl.LOCK_UN)


def _wait(descriptor: int) -> bool:
    """Take the lock; whether another process had it. Gives up after a while."""
    end, waited = time.monotonic() + _PATIENCE, False
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return waited
        except BlockingIOError:
            waited = True
            time.sleep(_PAUSE)
    return True
