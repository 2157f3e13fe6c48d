"""Signals that end the command: Ctrl-C, and the request of a batch system or of the machine to end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

__all__ = ["INTERRUPTED", "forget_interrupt", "leave_signals", "terminable"]

#: Exit status of an interrupted command.
INTERRUPTED = 130


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM stop what runs here as Ctrl-C does: what a verb keeps then is kept, temporary folders are removed."""
    # Only the main thread may set signals; a handler of the program that calls is its own.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def forget_interrupt() -> None:
    """Let the process end with the status that it returns.

    An interrupt that passed through code compiled from text, as named tuples and numba have it, leaves a mark in the
    interpreter (`unhandled_keyboard_interrupt`), which then ends itself by SIGINT though the interrupt was caught. The
    next code that runs from text takes the mark away.
    """
    exec("")


def leave_signals(status: int) -> None:
    """Set the signals for the last moments of the process, in which Python would answer them by a traceback.

    What is done is done: a result that is printed stays a success. After an interrupt, when threads may have to finish
    a step, another one ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if status == INTERRUPTED else signal.SIG_IGN)
