"""Modules of compiled functions of an architecture: derived when first asked for, kept, checked before they are run.

The derivation runs in a process of its own, so that SymPy is not imported here; its answer is kept in the user's cache
(`core.derived`).
"""

import hashlib
import json
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

from ..core.derived import Derived, derivation_of, keep, stored
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.notes import note

__all__ = ["Derivable", "Worker", "derivation_by", "derived_module", "derived_source"]

# What derived modules import, beside the compiler.
_RUNTIME = "attnlimits.generated.fastmath", "attnlimits.generated.lanes"
# Status of the process where there is nothing to derive.
_REFUSED = 3
_lock = threading.Lock()
_modules: dict[tuple[str, str], ModuleType] = {}


class Derivable(Protocol):
    """A model of which modules are derived."""

    @property
    def request(self) -> dict[str, object]:
        """What the process is told of it, as JSON holds it."""


class Worker(NamedTuple):
    """A process that derives.

    Attributes
    ----------
    kind : str
        Sub-folder of the cache.
    module : str
        Full name; all that it imports makes the answers.
    what : str
        What it derives, for messages.
    signatures : tuple of (str, str)
        Functions of the module, with the types that they are compiled for, as numba reads them: written out, they need
        no compiler before there is something to compile.
    seconds : float
        After which it is stopped.
    """

    kind: str
    module: str
    what: str
    signatures: tuple[tuple[str, str], ...]
    seconds: float


def derived_module(worker: Worker, model: Derivable, **more: bool) -> ModuleType:
    """Module of an architecture, for any skip strength, inverse temperature and readout weights.

    Parameters
    ----------
    worker : Worker
    model : Network
    more : bool
        What else the process is told.

    Raises
    ------
    KernelNotFoundError
        There is none; the message has the reason.
    ConvergenceError
        The derivation took too long.
    """
    asked = json.dumps(model.request | more)
    with _lock:
        if (worker.kind, asked) not in _modules:
            _modules[worker.kind, asked] = _executed(worker, _found(worker, asked))
        return _modules[worker.kind, asked]


def derived_source(worker: Worker, model: Derivable, **more: bool) -> Derived:
    """Source of that module, which is not executed."""
    return _found(worker, json.dumps(model.request | more))


@cache
def derivation_by(worker: Worker) -> str:
    """Digest of all that makes the answers of a process, and of what they import."""
    return derivation_of(worker.module, *_RUNTIME)


def _found(worker: Worker, asked: str) -> Derived:
    """Source from the cache, or derived and kept there."""
    derivation = derivation_by(worker)
    request = hashlib.sha256(f"{derivation} {asked}".encode()).hexdigest()
    if (known := stored(worker.kind, request)) is not None:
        return known
    # The file is another one where what derives it is, and with it the machine code that is kept beside it.
    made = keep(worker.kind, request, _derived(worker, asked) + f"# derived by {derivation}\n".encode())
    if not made.path.is_file():
        raise KernelNotFoundError(
            f"there is no folder to keep {worker.what} in; set ATTNLIMITS_CACHE to a folder of your own"
        )
    return made


def _derived(worker: Worker, asked: str) -> bytes:
    """Answer of the process."""
    note(f"deriving {worker.what} (once, a few seconds)")
    command = [sys.executable, "-P", "-m", worker.module]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=worker.seconds, check=False)
    except subprocess.TimeoutExpired:
        raise ConvergenceError(
            f"the derivation of {worker.what} took more than {worker.seconds:g} s and was stopped; take fewer "
            "layers or tokens"
        ) from None
    if done.returncode == 0:
        return done.stdout
    if done.returncode == _REFUSED:
        raise KernelNotFoundError(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1])
    raise ConvergenceError(
        f"the process that derives {worker.what} ended by itself (status {done.returncode}); try again"
    )


def _executed(worker: Worker, found: Derived) -> ModuleType:
    """Execute a source, and not what lies at its path by now; compile its functions."""
    source, path = found
    module = _named(worker.kind, path)
    # Compiled code that is kept on disk is found by the name of its module.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
        for name, types in worker.signatures:
            module.__dict__[name].compile(types)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _named(kind: str, path: Path) -> ModuleType:
    module = ModuleType(f"attnlimits_{kind}_{path.stem}")
    module.__file__ = str(path)
    return module
