"""Charts of networks: derived when one is first asked for (`derived_module`), as modules of compiled functions."""

from dataclasses import replace
from typing import Protocol, cast

from .activations import ScoreFunction
from .derived_module import Worker, derivation_by, derived_module, derived_source
from .network import CHART_WORKER, Network

__all__ = ["Chart", "chart_of", "computed_as", "derivation", "of_scores"]

_VECTOR, _MATRIX = "float64[::1]", "float64[:, ::1]"
_WORKER = Worker(
    "charts",
    CHART_WORKER,
    "the chart of this architecture",
    (
        ("read", f"({_MATRIX}, {_VECTOR}, {_VECTOR}, {_VECTOR})"),
        ("complete", f"({_VECTOR}, {_VECTOR}, {_VECTOR}, {_MATRIX})"),
        ("complete_lanes", f"({_VECTOR}, {_VECTOR}, {_VECTOR}, {_VECTOR}, {_VECTOR})"),
        ("from_output", f"({_MATRIX}, {_VECTOR}, {_VECTOR})"),
    ),
    seconds=120.0,
)


class Compiled(Protocol):
    """A function compiled by numba."""

    def compile(self, signature: tuple[object, ...] | str) -> object:
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
    CONSTANTS: int
    NOISE: int
    DERIVATION_HASH: str
    read: Compiled
    complete: Compiled
    complete_lanes: Compiled
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
    return cast(Chart, derived_module(_WORKER, model, noisy=model.noise > 0))


def of_scores(model: Network) -> Network:
    """One layer of linear attention, which says as much as one whose activation is a monotone function of each score.

    Raises
    ------
    KernelNotFoundError
        The activation is not provably monotone.
    """
    # Only for such an activation there is a chart.
    derived_source(_WORKER, model.one_head, noisy=model.noise > 0)
    return replace(model, activation="linear")


def computed_as(model: Network) -> Network:
    """Network by which thresholds and fixed points of one layer without noise are computed; others themselves.

    Equal heads are as one of them on its coordinates, tokens as their attention, and monotone functions as the scores.

    Raises
    ------
    KernelNotFoundError
        The activation is not provably monotone.
    """
    if model.layers > 1 or model.noise or model.chain is not None:
        return model
    return of_scores(model.one_head) if isinstance(model.activation, ScoreFunction) else model.one_head


def derivation() -> str:
    """Digest of what derives charts and of what they import (`core.derived`)."""
    return derivation_by(_WORKER)
