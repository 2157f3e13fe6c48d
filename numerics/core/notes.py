"""Lines on stderr about what takes a while, or stands in for something else; a caller may want none."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["note", "noted"]

_wanted = [True]


def note(sentence: str) -> None:
    """Print a line, where lines are wanted and can be printed."""
    if _wanted[-1] and sys.stderr is not None:
        print(f"attnlimits: {sentence}", file=sys.stderr)


@contextmanager
def noted(wanted: bool) -> Iterator[None]:
    """Print such lines in this block, or leave them out."""
    _wanted.append(wanted)
    try:
        yield
    finally:
        _wanted.pop()
