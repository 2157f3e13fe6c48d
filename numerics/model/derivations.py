"""Derivations in a process of their own, which is ended where it takes too long or too much memory.

Exact algebra can run away on a link of a few characters, in loops that no signal interrupts. The process is started
with the first derivation, kept for the next ones, and ends with this one.
"""

import atexit
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

from ..core.errors import ConvergenceError
from ..core.watch import on_sudden_end

__all__ = ["SECONDS", "WORKER", "derive_link"]

#: Environment variable with the seconds of processor time that a derivation may take.
SECONDS = "ATTNLIMITS_DERIVE_SECONDS"
#: Module of the process that derives; all that it imports makes the kernels.
WORKER = "attnlimits.derive.links.worker"
# Links in use take up to a few seconds.
_USUAL = 20.0
# Seconds on the clock for each of processor time: where other processes share the cores, and where the system has no
# limit of processor time. The first derivation also starts Python and loads SymPy, within the same time.
_PATIENCE = 2.25


def derive_link(request: dict[str, object]) -> bytes:
    """Source of the kernel of a link.

    Parameters
    ----------
    request : dict
        ``text``, ``tokens``, ``indices``, ``noise``, ``axes``, ``reduced``: see `link_kernels.kernel_of`.

    Raises
    ------
    ValueError
        The link cannot be read or solved; the message names the part.
    ConvergenceError
        The derivation took too long or too much memory.
    """
    seconds = _seconds()
    with _lock:
        reply = _ask(request | {"seconds": seconds}, seconds)
    if "source" in reply:
        return reply["source"].encode()
    if "refused" in reply:
        raise ValueError(reply["refused"])
    raise ConvergenceError(reply["failed"])


# Status of a process that the system ended by its limit of processor time.
_OUT_OF_TIME = (-signal.SIGXCPU,) if hasattr(signal, "SIGXCPU") else ()


@dataclass
class _Worker:
    process: "subprocess.Popen[str]"
    owner: int


_lock = threading.Lock()
_worker: _Worker | None = None


def _seconds() -> float:
    text = os.environ.get(SECONDS, "")
    try:
        seconds = float(text) if text else _USUAL
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e9:
        raise ValueError(f"{SECONDS} must be a number of seconds > 0, got {text!r}")
    return seconds


def _ask(request: dict[str, object], seconds: float) -> dict[str, str]:
    process = _running()
    assert process.stdin is not None and process.stdout is not None
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(_PATIENCE * seconds, end)
    timer.daemon = True
    timer.start()
    line = ""
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
    finally:
        timer.cancel()
        timer.join()
        # Interrupted, or ended: the next derivation starts another.
        if late.is_set() or not line.endswith("\n"):
            _end()
    if line.endswith("\n"):
        return dict(json.loads(line))
    if late.is_set() or process.returncode in _OUT_OF_TIME:
        return {
            "failed": f"the derivation of the link took more than {seconds:g} s and was stopped; write it with fewer "
            f"functions of functions, lower powers or fewer terms, or give it longer by {SECONDS}"
        }
    return {"failed": f"the process that derives links ended by itself (status {process.returncode}); try again"}


def _running() -> "subprocess.Popen[str]":
    global _worker
    if _worker is not None and _worker.owner == os.getpid() and _worker.process.poll() is None:
        return _worker.process
    _end()
    atexit.unregister(_end)
    atexit.register(_end)
    process = subprocess.Popen(
        # -P: a file sympy.py in the present folder is none of ours.
        [sys.executable, "-P", "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        # Threads of the linear algebra take address space, and nothing here uses them.
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    _worker = _Worker(process, os.getpid())
    return process


def _end() -> None:
    """End the process, if it is this one's."""
    global _worker
    worker, _worker = _worker, None
    if worker is None or worker.owner != os.getpid():
        return
    if worker.process.poll() is None:
        worker.process.kill()
    for stream in (worker.process.stdin, worker.process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    worker.process.wait()


on_sudden_end(_end)
