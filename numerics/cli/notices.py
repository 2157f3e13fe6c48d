"""What a long run says on stderr of what it does, where no progress bar does."""

import argparse
import sys
import threading
import time
from types import TracebackType
from typing import Self

from ..core.progress import bars_drawn
from .guard import line

__all__ = ["Notices"]

# Seconds after which a silent run says what it does.
_WHEN = (10, 60, 300, 1800, 7200)


class Notices:
    """Lines on stderr while a verb computes in silence: none with --json or --quiet, or beside a progress bar.

    A verb that sets the attribute `doing` of its arguments has them anywhere, the others on a terminal.

    Parameters
    ----------
    args : Namespace
        Of the verb.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if not (self._args.json or self._args.quiet):
            self._thread = threading.Thread(target=self._speak, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _speak(self) -> None:
        begin = time.monotonic()
        for seconds in _WHEN:
            if self._ended.wait(seconds - (time.monotonic() - begin)):
                return
            doing = getattr(self._args, "doing", "")
            if (doing or sys.stderr.isatty()) and not bars_drawn():
                doing = doing or "computing"
                line(f"attnlimits: {self._args.verb}, {seconds:g} s so far: {doing} (Ctrl-C ends it)")
