"""A process that runs one command line after another, and reports status, seconds and memory of each.

Reads a JSON object a line on stdin, {"words": [..], "folder": .., "out": .., "err": ..}, and answers with one.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

# What a command may have before the system refuses more: beyond it, the machine is at risk.
_MOST_MEMORY = 4 * 2**30


def _end_with_parent() -> None:
    """Ask the system to end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """Most memory held since the last call of `_forget_peak`, in KiB."""
    for entry in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if entry.startswith("VmHWM"):
            return int(entry.split()[1])
    return 0


def _run(words: list[str]) -> int | str:
    """Exit status, or what escaped from the command."""
    from attnlimits.numerics.cli.main import main

    try:
        return main(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else f"SystemExit({stop.code!r})"
    except KeyboardInterrupt:
        return "KeyboardInterrupt escaped"
    except BaseException as error:
        return f"{type(error).__name__} escaped: {error}"


def work() -> None:
    """Answer until the input ends."""
    _end_with_parent()
    questions, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for question in questions:
        asked = json.loads(question)
        os.chdir(asked["folder"])
        for number, name in ((1, "out"), (2, "err")):
            place = os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(place, number)
            os.close(place)
        _forget_peak()
        begin = time.perf_counter()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            status = _run(asked["words"])
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            # After the command had ended.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            status = 130
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        answers.write(json.dumps({"status": status, "seconds": time.perf_counter() - begin, "peak": _peak()}) + "\n")
        answers.flush()


if __name__ == "__main__":
    work()
