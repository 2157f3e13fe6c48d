"""Charts of networks: derived when one is first asked for, kept in the user's cache and checked before they are run.

The derivation runs in a process of its own, so that SymPy is not imported here. A chart is a module of compiled
functions; its file is named by the hash of what it holds, as the kernels of links are (`link_store`).
"""

import hashlib
import importlib.util
import json
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from numba import float64

from ..core.cache import private_folder, read_private
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.files import write_whole
from ..core.identity import source_hash
from .network import Network

__all__ = ["Chart", "chart_of"]

#: Module of the process that derives; all that it imports makes the charts.
DERIVATION = "attnlimits.derive.emit.chart_worker"
_SECONDS = 120.0
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


@cache
def _loaded(asked: str) -> Chart:
    """Load a chart from the cache, or derive it and keep it there."""
    request = hashlib.sha256(f"{derivation()} {asked}".encode()).hexdigest()
    folder = private_folder("charts")
    path = None if folder is None else _stored(folder, request)
    if path is None:
        source = _derive(asked)
        if folder is None:
            raise KernelNotFoundError(
                "there is no folder to keep derived charts in; set ATTNLIMITS_CACHE to a folder of your own"
            )
        path = folder / f"chart_{hashlib.sha256(source).hexdigest()}.py"
        write_whole(path, source, 0o600)
        write_whole(folder / "requests" / request, f"{path.stem}\n".encode(), 0o600)
    return _module(path)


def _stored(folder: Path, request: str) -> Path | None:
    """Return the file that answered this request before, if it may be trusted."""
    note = read_private(folder / "requests" / request)
    if note is None:
        return None
    name = note.decode("ascii", "replace").strip()
    source = read_private(folder / f"{name}.py")
    if source is None or name != f"chart_{hashlib.sha256(source).hexdigest()}":
        return None
    return folder / f"{name}.py"


@cache
def derivation() -> str:
    """Digest of the sources that derive charts, and of the version of SymPy; neither is imported for it."""
    return hashlib.sha256(f"{metadata.version('sympy')} {source_hash(DERIVATION)}".encode()).hexdigest()


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
    if done.returncode == 1:
        raise KernelNotFoundError(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1])
    raise ConvergenceError(f"the process that derives charts ended by itself (status {done.returncode}); try again")


def _module(path: Path) -> Chart:
    """Import a chart and compile its functions."""
    name = f"attnlimits_{path.stem}"
    module: ModuleType | None = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Compiled code that is kept on disk is found by the name of its module.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    chart = cast(Chart, module)
    chart.read.compile((_MATRIX, _VECTOR, _VECTOR, _VECTOR))
    chart.complete.compile((_VECTOR, _VECTOR, _VECTOR, _MATRIX))
    return chart
