"""Signals that end the command: Ctrl-C, and the request of a batch system or of the machine to end."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

__all__ = [
    "INTERRUPTED",
    "forget_interrupt",
    "interruptible",
    "interrupts_before_errors",
    "leave_signals",
    "without_interrupts",
]

#: Exit status of an interrupted command.
INTERRUPTED = 130

# Brings an interrupt again, so many seconds later; not on Windows.
_AGAIN: int | None = getattr(signal, "SIGALRM", None)
_MOMENT = 0.01


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C stop what runs here wherever it falls, and SIGTERM likewise.

    What a verb keeps then is kept, and temporary folders are removed. An interrupt that falls into a finaliser or a
    callback of C is passed over by Python with a traceback: here it comes again a moment later instead.
    """
    # Only the main thread may set signals; a handler of the program that calls is its own.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in (signal.SIGTERM, _AGAIN) if number and signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    usual = sys.unraisablehook

    def unraisable(about: "sys.UnraisableHookArgs") -> None:
        if _AGAIN in ours and issubclass(about.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _MOMENT)
        else:
            usual(about)

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = usual
        if _AGAIN in ours:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interrupts_before_errors() -> Iterator[None]:
    """Let an interrupt that was passed over in a callback come before an error, which may be what it left behind.

    A callback that was cut short has not done its work: numba then misses the machine code that it was to receive.
    """
    try:
        yield
    except Exception:
        if _AGAIN and signal.getitimer(signal.ITIMER_REAL)[0] > 0:
            time.sleep(10 * _MOMENT)  # and the interrupt ends it
        raise


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def without_interrupts(*more: int) -> Iterator[None]:
    """Let processes started here ignore Ctrl-C, which reaches all of a terminal: this process ends them in order.

    Parameters
    ----------
    more : int
        Other signals that they ignore.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signals
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *more)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
