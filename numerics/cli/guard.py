"""The outermost level of the command: streams that can fail, and what no verb has foreseen.

Whatever happens, the exit status is one of the documented ones, and a failure is one line on stderr.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import TextIO

from ..core.errors import ClusterError, ConvergenceError
from ..core.interrupts import INTERRUPTED, forget_interrupt, interruptible, interrupts_before_errors
from ..core.progress import close_bars

__all__ = ["DEBUG", "STATUSES", "fail", "guarded", "line", "say"]

#: Environment variable that asks for the traceback of a failure.
DEBUG = "ATTNLIMITS_DEBUG"
STATUSES = (
    "Exit status: 0 success, 1 a computation failed or did not converge, 2 bad arguments, 130 interrupted (Ctrl-C or "
    f"SIGTERM); a failure prints one line on stderr ({DEBUG}=1 adds its traceback)"
)
# Longest message, and longest word in it: a line that quotes a whole file is none.
_LONGEST, _LONGEST_WORD = 1000, 250


class _Unwritten(Exception):
    """Standard output did not take what was printed."""


def guarded(command: Callable[[], int], *, own: bool = False) -> int:
    """Run a command; turn whatever it raises into an exit status and one line on stderr.

    Parameters
    ----------
    command : callable
        Returns its status.
    own : bool, keyword-only
        Whether the process is the command's own, which a signal then ends within two seconds, whatever it computes.
    """
    if sys.stderr is None:
        # Closed by the caller (2>&-): Python would print messages to stdout.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        return fail("standard output is closed, so that a result would be lost; send it to /dev/null to drop it", 1)
    _print_anything(sys.stdout)
    # Without a home that can be written matplotlib has two lines of advice, and draws all the same.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    _failed.clear()
    try:
        with interruptible(_last_words if own else None):
            status = _status(command)
            _flush()
    except _Unwritten as error:
        status = fail(str(error), 1)
    except KeyboardInterrupt:
        status = _interrupted("interrupted")
    if status == INTERRUPTED:
        forget_interrupt()
    return status


# Whether the line about the failure has been printed.
_failed: list[str] = []


def _last_words() -> None:
    if not _failed:
        line("attnlimits: interrupted")


def _status(command: Callable[[], int]) -> int:
    """Run a command; each kind of error has its status."""
    try:
        with interrupts_before_errors():
            return command()
    except (_Unwritten, SystemExit):
        _flush()
        raise
    except KeyboardInterrupt as stop:
        return _interrupted(str(stop) or "interrupted")
    except MemoryError as error:
        return fail(_of_memory(error), 1)
    except RecursionError:
        return fail("the input is nested too deeply, or the model has too many layers; simplify it", 1)
    except (ClusterError, ConvergenceError, ArithmeticError) as error:
        return fail(_sentence(error), 1)
    except ValueError as error:
        return fail(_sentence(error), 2)
    except BrokenPipeError:
        _to_nothing(sys.stdout)
        return 0
    except FileNotFoundError as error:
        return fail(_of_system(error), 2)
    except OSError as error:
        return fail(_of_system(error), 1)
    except Exception as error:
        return fail(f"this is a fault of attnlimits, please report it: {type(error).__name__}: {error}", 1)


def say(text: str) -> None:
    """Print on stdout now, so that a full disk is found here; a pipe that is closed takes it without a word."""
    try:
        print(text)
    except OSError as error:
        _lose(error)
    _flush()


def fail(message: str, status: int) -> int:
    """Print one line on stderr, after the line of a progress bar; return the status."""
    close_bars()
    if os.environ.get(DEBUG) and sys.exc_info()[0] is not None:
        traceback.print_exc()
    line(f"attnlimits: {message}")
    _failed.append(message)
    return status


def _interrupted(message: str) -> int:
    """Status of an interrupt, with its line unless one was printed before it came: of a run that had failed."""
    return INTERRUPTED if _failed else fail(message, INTERRUPTED)


def line(message: str, end: str = "") -> None:
    """Print one line on stderr: no line breaks, no control characters, not longer than a reader can use."""
    text = " ".join(_shortened(word, _LONGEST_WORD) for word in message.split())
    text = _shortened(text, _LONGEST)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    try:
        print(text + end, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Nowhere to say it; the exit status remains.
        _to_nothing(sys.stderr)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 4 :]}"


def _print_anything(stream: TextIO) -> None:
    """Let characters that the locale has not, and bytes of file names, be printed as escapes."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        _lose(error)


def _lose(error: OSError) -> None:
    """Refuse to go on without standard output; but a reader that has closed it has what it wanted."""
    _to_nothing(sys.stdout)
    if not isinstance(error, BrokenPipeError):
        raise _Unwritten(f"standard output could not be written: {error.strerror}")


def _to_nothing(stream: TextIO) -> None:
    """Drop what a stream still holds: the interpreter would try it once more when it ends, and complain."""
    try:
        number = stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)
    except (OSError, ValueError):
        pass


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__


def _of_memory(error: MemoryError) -> str:
    """Refusals have a sentence with a remedy; Python's own have none, and NumPy's have the array alone."""
    if type(error) is MemoryError and str(error):
        return str(error)
    said = f": {error}" if str(error) else ""
    return f"not enough memory{said}; ask for less at a time (smaller files, fewer samples, points, tokens or digits)"


def _of_system(error: OSError) -> str:
    """Name the file; an error that a library raised by itself has a sentence only."""
    if error.strerror is None:
        return _sentence(error)
    return f"{error.strerror}: {error.filename}" if error.filename is not None else str(error.strerror)
