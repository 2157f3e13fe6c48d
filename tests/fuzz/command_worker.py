"""A process that runs one command line after another, each in a copy of itself that is the command's own process.

Reads a JSON object a line on stdin, {"words": [..], "folder": .., "out": .., "err": ..}, and answers with two: the
number of the copy, and when that has ended its status, seconds of processor time and memory. What all commands load is
loaded once.
"""

import ctypes
import gc
import json
import os
import resource
import signal
import sys
from typing import Any, NoReturn, TextIO

import numba  # noqa: F401
import scipy.optimize  # noqa: F401

from attnlimits.numerics.cli import command  # noqa: F401
from attnlimits.numerics.cli.main import main

# What a command may have before the system refuses more: beyond it, the machine is at risk.
_MOST_MEMORY = 4 * 2**30


def _end_with_parent() -> None:
    """Ask the system to end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _run(asked: dict[str, Any], answers: TextIO) -> NoReturn:
    """Be the command, and say so when it begins."""
    os.chdir(asked["folder"])
    for number, name in ((1, "out"), (2, "err")):
        place = os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(place, number)
        os.close(place)
    sys.argv = ["attnlimits", *asked["words"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    answers.write(json.dumps({"process": os.getpid()}) + "\n")
    answers.flush()
    sys.exit(main())


def work() -> None:
    """Answer until the input ends."""
    _end_with_parent()
    questions, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    for question in questions:
        copy = os.fork()
        if copy == 0:
            _run(json.loads(question), answers)
        _, status, used = os.wait4(copy, 0)
        code = os.waitstatus_to_exitcode(status)
        answer = {"status": code if code >= 0 else f"died: {code}", "seconds": used.ru_utime + used.ru_stime}
        answers.write(json.dumps(answer | {"peak": used.ru_maxrss}) + "\n")
        answers.flush()


if __name__ == "__main__":
    work()
