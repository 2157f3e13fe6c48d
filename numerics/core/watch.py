"""An end that waits for nobody: what a signal asks for happens also while a library computes without looking up.

Python answers a signal between two of its own instructions. A compiled loop, an optimising compiler or the end of a
pool of threads may take minutes until then. Two watchers see to it that the process ends all the same:

- a thread, which removes what is half-written, ends the processes that were started, and then this one;
- a process, for libraries that let no other thread run in the meantime, which kills.

The system's own handler of a signal writes its number into a pipe, which needs no instruction of Python.
"""

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from os import _exit  # ends at once: nothing is flushed, and no handler runs
from pathlib import Path
from typing import NoReturn

__all__ = ["ENDING", "on_sudden_end", "watch"]

#: Signals that end the command.
ENDING = (signal.SIGINT, signal.SIGTERM)
_READ = 512

_clean: list[Callable[[], object]] = []


def on_sudden_end(clean: Callable[[], object]) -> Callable[[], None]:
    """Do this where the process is ended without the usual clean-up; what is returned takes it back."""
    _clean.append(clean)
    return lambda: _clean.remove(clean)


def watch(status: int, last_words: Callable[[], object]) -> Callable[[], object]:
    """Watch over this process, which has one thread yet; return what ends the watch where no signal has come.

    Parameters
    ----------
    status : int
        Of the process where it is ended.
    last_words : callable
        Called before, for a message.
    """
    read, written = _pipe()
    os.set_blocking(written, False)
    heard, told, outside = read, -1, 0
    if hasattr(os, "fork") and threading.active_count() == 1:
        heard, told = _pipe()
        outside = os.fork()
        if outside == 0:
            os.close(written)
            _outside(read, told)
        os.close(read)
        os.close(told)
    asked = threading.Event()

    # Seconds from a signal in which a verb may keep what it has; then the thread ends the process.
    orderly = 1.4

    def inside() -> None:
        while got := os.read(heard, _READ):
            if _asks(got):
                asked.set()
                time.sleep(orderly)
                _end(status, last_words, outside)

    threading.Thread(target=inside, daemon=True, name="end").start()
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def end() -> None:
        signal.set_wakeup_fd(before)
        os.close(written)
        if outside:
            os.waitpid(outside, 0)

    # What follows a signal is watched until the interpreter has joined its threads.
    return lambda: atexit.register(end) if asked.is_set() else end()


def _pipe() -> tuple[int, int]:
    """A pipe beside the standard streams, also where these are closed and their numbers free."""
    ends = list(os.pipe())
    low = [end for end in ends if end <= 2]
    while min(ends) <= 2:
        ends = [os.dup(end) if end <= 2 else end for end in ends]
        low += [end for end in ends if end <= 2]
    for end in low:
        os.close(end)
    return ends[0], ends[1]


def _asks(got: bytes) -> bool:
    return any(number in got for number in ENDING)


def _outside(read: int, told: int) -> NoReturn:
    """The other process: pass on what the signals ask, and kill the watched one if that does not help."""
    parent, deadline = os.getppid(), None
    # Seconds from a signal after which this process ends the other one.
    last = 1.8
    with contextlib.suppress(BaseException):
        for number in (*ENDING, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 2)
        while True:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([read], [], [], rest)[0]:
                if os.getppid() == parent:
                    _end_children(parent)
                    os.write(2, b"attnlimits: interrupted\n")
                    os.kill(parent, signal.SIGKILL)
                break
            got = os.read(read, _READ)
            if not got:
                break
            if deadline is None and _asks(got):
                deadline = time.monotonic() + last
                os.write(told, got)
    _exit(0)


def _end(status: int, last_words: Callable[[], object], outside: int) -> NoReturn:
    with contextlib.suppress(BaseException):
        _end_children(os.getpid())
        if outside:
            os.waitpid(outside, 0)
    for clean in list(_clean):
        with contextlib.suppress(BaseException):
            clean()
    with contextlib.suppress(BaseException):
        last_words()
        sys.stderr.flush()
    _exit(status)


def _end_children(process: int) -> None:
    """Kill the processes that one has started, and those that they have, but not this one; Linux alone lists them.

    Those that remove shared memory which is left behind end by themselves, when they have done so.
    """
    for child in _children(process):
        with contextlib.suppress(OSError):
            if child == os.getpid() or b"resource_tracker" in Path(f"/proc/{child}/cmdline").read_bytes():
                continue
            below = _children(child)
            for number in (child, *below):
                os.kill(number, signal.SIGKILL)


def _children(number: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{number}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text(encoding="ascii").split())
    return found
