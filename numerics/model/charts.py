"""Charts of networks: derived when one is first asked for, kept in the user's cache and checked before they are run.

The derivation runs in a process of its own, so that SymPy is not imported here. A chart is a module of compiled
functions; its file is checked as those of links are (`core.derived`).
"""

import hashlib
import json
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from numba import float64

from ..core.derived import Derived, derivation_of, keep, stored
from ..core.errors import ConvergenceError, KernelNotFoundError
from .network import Network

__all__ = ["Chart", "chart_of", "of_scores"]

#: Module of the process that derives; all that it imports makes the charts.
DERIVATION = "attnlimits.derive.emit.chart_worker"
#: What charts import.
_RUNTIME = "attnlimits.generated.fastmath"
_SECONDS = 120.0
# Status of the process where there is no chart.
REFUSED = 3
_KIND = "charts"
_lock = threading.Lock()
_charts: dict[str, "Chart"] = {}
_VECTOR, _MATRIX = float64[::1], float64[:, ::1]


class Compiled(Protocol):
    """A function compiled by numba."""

    def compile(self, signature: tuple[object, ...]) -> object:
        """Compile for these types."""


class Chart(Protocol):
    """What `derive.emit.chart_source` prints."""

    ROWS: int
    TOKENS: int
    DATA: int
    HIDDEN: tuple[int, ...]
    FREE: tuple[int, ...]
    VARIABLES: tuple[str, ...]
    SIGNS: int
    READOUTS: int
    NOISE: int
    DERIVATION_HASH: str
    read: Compiled
    complete: Compiled
    from_output: Compiled


def chart_of(model: Network) -> Chart:
    """Chart of a network, for any skip strength, inverse temperature and readout weights.

    Raises
    ------
    KernelNotFoundError
        There is no chart; the message has the reason.
    ConvergenceError
        The derivation took too long.
    """
    return _loaded(_asked(model))


def _asked(model: Network) -> str:
    """What the derivation is asked for."""
    return json.dumps(
        {
            "layers": model.layers,
            "tokens": model.tokens,
            "ranks": list(model.ranks),
            "activation": model.activation_name,
            "tied": model.tied,
            "heads": model.heads,
            "output": model.output,
            "noisy": model.noise > 0,
        }
    )


def of_scores(model: Network) -> Network:
    """One layer of linear attention, which says as much as one whose activation is a monotone function of each score.

    Raises
    ------
    KernelNotFoundError
        The activation is not provably monotone.
    """
    # Only for such an activation there is a chart.
    _found(_asked(replace(model, heads=1, output="last", readouts=None)))
    return replace(model, activation="linear")


def _loaded(asked: str) -> Chart:
    """Load a chart from this process, from the cache, or derive it and keep it there."""
    with _lock:
        if asked not in _charts:
            _charts[asked] = _module(*_found(asked))
        return _charts[asked]


def _found(asked: str) -> Derived:
    """Source of a chart, from the cache or derived."""
    request = hashlib.sha256(f"{derivation()} {asked}".encode()).hexdigest()
    if (known := stored(_KIND, request)) is not None:
        return known
    # The file is another one where what derives it is, and with it the machine code that is kept beside it.
    made = keep(_KIND, request, _derive(asked) + f"# derived by {derivation()}\n".encode())
    if not made.path.is_file():
        raise KernelNotFoundError(
            "there is no folder to keep derived charts in; set ATTNLIMITS_CACHE to a folder of your own"
        )
    return made


@cache
def derivation() -> str:
    """Digest of what derives charts and of what they import (`derived.derivation_of`)."""
    return derivation_of(DERIVATION, _RUNTIME)


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
    module = ModuleType(f"attnlimits_chart_{path.stem}")
    module.__file__ = str(path)
    # Compiled code that is kept on disk is found by the name of its module.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
        chart = cast(Chart, module)
        chart.read.compile((_MATRIX, _VECTOR, _VECTOR, _VECTOR))
        chart.complete.compile((_VECTOR, _VECTOR, _VECTOR, _MATRIX))
        chart.from_output.compile((_MATRIX, _VECTOR, _VECTOR))
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return chart
