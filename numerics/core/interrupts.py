"""Signals that end the command: Ctrl-C, and the request of a batch system or of the machine to end."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from .watch import ENDING, watch

__all__ = [
    "INTERRUPTED",
    "forget_interrupt",
    "interruptible",
    "interrupts_before_errors",
    "leave_signals",
    "without_interrupts",
]

_Handler = signal.Handlers | Callable[[int, FrameType | None], object]

#: Exit status of an interrupted command.
INTERRUPTED = 130

# Brings an interrupt again, so many seconds later; not on Windows.
_AGAIN: int | None = getattr(signal, "SIGALRM", None)


@contextmanager
def interruptible(last_words: Callable[[], object] | None = None) -> Iterator[None]:
    """Let Ctrl-C stop what runs here wherever it falls, and SIGTERM likewise.

    What a verb keeps then is kept, and temporary folders are removed. An interrupt that falls into a finaliser or a
    callback of C is passed over by Python with a traceback: here it comes again a moment later instead.

    Parameters
    ----------
    last_words : callable, optional
        Where the process is the command's own: called before the process is ended because it has not stopped within
        two seconds of a signal.
    """
    # Only the main thread may set signals; a handler of the program that calls is its own.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    unwatch = watch(INTERRUPTED, last_words) if last_words is not None else None
    ours = [number for number in (signal.SIGTERM, _AGAIN) if number and signal.getsignal(number) == signal.SIG_DFL]
    usual_handlers: dict[int, _Handler] = {number: signal.SIG_DFL for number in ours}
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        usual_handlers[signal.SIGINT] = signal.default_int_handler
    _came.clear()
    for number in usual_handlers:
        signal.signal(number, _interrupt)
    usual = sys.unraisablehook

    moment = 0.01

    def unraisable(about: "sys.UnraisableHookArgs") -> None:
        if _AGAIN in ours and issubclass(about.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, moment)
        elif not _came.is_set():
            usual(about)
        # Otherwise an object that an interrupt left half made is removed.

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        # Of the command's own process such objects may go with it.
        ends = last_words is not None and _came.is_set()
        sys.unraisablehook = _without_a_word if ends else usual
        if _AGAIN in ours:
            signal.setitimer(signal.ITIMER_REAL, 0)
        # Where no signal has come the command's own process has its status, which stays (`leave_signals`).
        done = last_words is not None and not _came.is_set()
        for number, handler in usual_handlers.items():
            signal.signal(number, signal.SIG_IGN if done else handler)
        if unwatch is not None:
            unwatch()


@contextmanager
def interrupts_before_errors() -> Iterator[None]:
    """Let an interrupt come before an error, which may be what it left behind.

    A callback or an import that was cut short has not done its work: numba then misses the machine code that it was to
    receive, and NumPy reports a module that could not be loaded.
    """
    try:
        yield
    except Exception:
        if _came.is_set():
            raise KeyboardInterrupt from None
        raise


_came = threading.Event()


def _without_a_word(_: "sys.UnraisableHookArgs") -> None:
    pass


def _interrupt(number: int, frame: object) -> NoReturn:
    _came.set()
    raise KeyboardInterrupt


@contextmanager
def without_interrupts(*more: int) -> Iterator[None]:
    """Let processes started here ignore Ctrl-C, which reaches all of a terminal: this process ends them in order.

    Signals that come to this one meanwhile are answered: at once where another thread takes them (the watch of the
    command), otherwise at the end of the block.

    Parameters
    ----------
    more : int
        Other signals that they ignore.
    """
    numbers = (signal.SIGINT, *more)
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker  # not at the start of every command

        # Up to Python 3.11 its start leaves these signals unblocked, and must not lie within the block.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signals
        yield
        return
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
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
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if status == INTERRUPTED else signal.SIG_IGN)
