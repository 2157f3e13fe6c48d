"""Charts of networks: derived when one is first asked for, kept in the user's cache and checked before they are run.

The derivation runs in a process of its own, so that SymPy is not imported here. A chart is a module of compiled
functions; its file is named by the hash of what it holds, as the kernels of links are (`link_store`).
"""

import hashlib
import json
import re
import subprocess
import sys
import threading
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from numba import float64

from ..core.cache import private_folder, read_private, temporary_folder
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.files import write_whole
from ..core.identity import source_hash
from .network import Network

__all__ = ["Chart", "chart_of"]

#: Module of the process that derives; all that it imports makes the charts.
DERIVATION = "attnlimits.derive.emit.chart_worker"
#: What charts import.
_RUNTIME = "attnlimits.generated.fastmath"
_SECONDS = 120.0
# Status of the process where there is no chart.
REFUSED = 3
_NAME = re.compile(r"chart_[0-9a-f]{64}")
_lock = threading.Lock()
_charts: dict[str, "Chart"] = {}
_VECTOR, _MATRIX = float64[::1], float64[:, ::1]


class Compiled(Protocol):
    """A function compiled by numba."""

    def compile(self, signature: tuple[object, ...]) -> object:
        """Compile for these types."""


class Chart(Protocol):
    """What `derive.emit.chart_source` prints."""

    INDICES: int
    TOKENS: int
    DATA: int
    HIDDEN: tuple[int, ...]
    FREE: tuple[int, ...]
    VARIABLES: tuple[str, ...]
    SIGNS: int
    READOUTS: int
    DERIVATION_HASH: str
    read: Compiled
    complete: Compiled


def chart_of(model: Network) -> Chart:
    """Chart of a network, for any skip strength, inverse temperature and readout weights.

    Raises
    ------
    KernelNotFoundError
        There is no chart; the message has the reason.
    ConvergenceError
        The derivation took too long.
    """
    asked = json.dumps(
        {
            "layers": model.layers,
            "tokens": model.tokens,
            "ranks": list(model.ranks),
            "activation": model.activation_name,
            "tied": model.tied,
            "heads": model.heads,
            "output": model.output,
        }
    )
    return _loaded(asked)


def _loaded(asked: str) -> Chart:
    """Load a chart from this process, from the cache, or derive it and keep it there."""
    with _lock:
        if asked not in _charts:
            _charts[asked] = _module(*_found(asked))
        return _charts[asked]


def _found(asked: str) -> tuple[bytes, Path]:
    """Source of a chart, and where it lies."""
    request = hashlib.sha256(f"{derivation()} {asked}".encode()).hexdigest()
    folder = private_folder("charts")
    if folder is not None and (known := _stored(folder, request)) is not None:
        return known
    # The file is another one where what derives it is, and with it the machine code that is kept beside it.
    source = _derive(asked) + f"# derived by {derivation()}\n".encode()
    if folder is not None:
        try:
            return source, _kept(folder, request, source)
        except OSError as error:
            folder = temporary_folder("charts", f"cannot be written ({error.strerror})")
    if folder is None:
        raise KernelNotFoundError(
            "there is no folder to keep derived charts in; set ATTNLIMITS_CACHE to a folder of your own"
        )
    return source, _kept(folder, request, source)


def _kept(folder: Path, request: str, source: bytes) -> Path:
    """Write a chart and which request it answers; return its file."""
    path = folder / f"chart_{hashlib.sha256(source).hexdigest()}.py"
    write_whole(path, source, 0o600)
    # The chart first: a note never names one that is not there.
    write_whole(folder / "requests" / request, f"{request} {path.stem}\n".encode(), 0o600)
    return path


def _stored(folder: Path, request: str) -> tuple[bytes, Path] | None:
    """Return what answered this request before, if it may be trusted."""
    note = read_private(folder / "requests" / request)
    asked, _, name = (note or b"").decode("ascii", "replace").strip().partition(" ")
    if asked != request or not _NAME.fullmatch(name):
        return None
    source = read_private(folder / f"{name}.py")
    if source is None or name != f"chart_{hashlib.sha256(source).hexdigest()}":
        return None
    return source, folder / f"{name}.py"


@cache
def derivation() -> str:
    """Digest of the sources that derive charts, and of the version of SymPy; neither is imported for it."""
    return hashlib.sha256(f"{metadata.version('sympy')} {source_hash(DERIVATION, _RUNTIME)}".encode()).hexdigest()


def _derive(asked: str) -> bytes:
    """Derive a chart in a process of its own."""
    print("attnlimits: deriving the chart of this architecture (once, a few seconds)", file=sys.stderr)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", DERIVATION],
            input=asked.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConvergenceError(
            f"the derivation of the chart took more than {_SECONDS:g} s and was stopped; take fewer layers or tokens"
        ) from None
    if done.returncode == 0:
        return done.stdout
    if done.returncode == REFUSED:
        raise KernelNotFoundError(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1])
    raise ConvergenceError(f"the process that derives charts ended by itself (status {done.returncode}); try again")


def _module(source: bytes, path: Path) -> Chart:
    """Execute the source of a chart, and not what lies at its path by now; compile its functions."""
    module = ModuleType(f"attnlimits_{path.stem}")
    module.__file__ = str(path)
    # Compiled code that is kept on disk is found by the name of its module.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
        chart = cast(Chart, module)
        chart.read.compile((_MATRIX, _VECTOR, _VECTOR, _VECTOR))
        chart.complete.compile((_VECTOR, _VECTOR, _VECTOR, _MATRIX))
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return chart
