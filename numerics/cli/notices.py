"""What a long run says on stderr of what it does: that it is alive, on a terminal; what takes its time, elsewhere."""

import argparse
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self, TextIO

from ..core.progress import bars_drawn
from .guard import line

__all__ = ["Notices"]

# Seconds after which a silent run says what it does, where lines stay.
_WHEN = (10, 60, 300, 1800, 7200)
# Seconds after which a terminal shows that the run is alive, and after which it does so again.
_SOON, _AGAIN = 1.5, 0.5


class Notices:
    """Lines on stderr while a verb computes in silence: none with --quiet, or beside a progress bar.

    On a terminal one line shows the seconds; it is drawn over itself and goes away. Elsewhere lines stay, of a verb
    that sets the attribute `doing` of its arguments, without --json.

    Parameters
    ----------
    args : Namespace
        Of the verb.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._usual: TextIO | None = None

    def __enter__(self) -> Self:
        if self._args.quiet:
            return self
        if sys.stderr.isatty():
            self._usual, sys.stderr = sys.stderr, _Terminal(sys.stderr)
            self._thread = threading.Thread(target=self._tick, args=(sys.stderr,), daemon=True)
        elif not self._args.json:
            self._thread = threading.Thread(target=self._speak, daemon=True)
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._usual is not None:
            sys.stderr = self._usual

    def _tick(self, terminal: "_Terminal") -> None:
        begin = time.monotonic()
        wait = _SOON
        while not self._ended.wait(wait):
            if bars_drawn():
                terminal.erase()
            else:
                doing = getattr(self._args, "doing", "computing")
                spent = int(time.monotonic() - begin)
                terminal.draw(f"attnlimits {self._args.verb}: {spent} s so far, {doing} (Ctrl-C ends it)")
            wait = _AGAIN
        terminal.erase()

    def _speak(self) -> None:
        begin = time.monotonic()
        for seconds in _WHEN:
            if self._ended.wait(seconds - (time.monotonic() - begin)):
                return
            doing = getattr(self._args, "doing", "")
            if doing and not bars_drawn():
                line(f"attnlimits: {self._args.verb}, {seconds:g} s so far: {doing} (Ctrl-C ends it)")


class _Terminal:
    """A stream to a terminal with one line that goes away when anything else is written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock, self._drawn = stream, threading.RLock(), 0

    def draw(self, text: str) -> None:
        """Write the line over itself."""
        text = text[: shutil.get_terminal_size().columns - 1]
        with self._lock:
            self._stream.write(f"\r{text.ljust(self._drawn)}")
            self._stream.flush()
            self._drawn = len(text)

    def erase(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._drawn:
                # Not by an escape sequence, which not every terminal has.
                self._stream.write(f"\r{' ' * self._drawn}\r")
                self._drawn = 0
                self._stream.flush()

    def write(self, text: str) -> int:
        """Write a text in place of the line."""
        with self._lock:
            self.erase()
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
