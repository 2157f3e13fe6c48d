"""Outputs of networks and their Jacobians as compiled functions: derived when first asked for (`derived_module`)."""

from typing import Protocol, cast

from .charts import Compiled
from .derived_module import Worker, derived_module
from .network import JACOBIAN_WORKER, Network

__all__ = ["Jacobian", "jacobian_of"]

_VECTOR, _MATRIX = "float64[::1]", "float64[:, ::1]"
_WORKER = Worker(
    "jacobians",
    JACOBIAN_WORKER,
    "the Jacobian of this architecture",
    (("link", f"({_MATRIX}, {_VECTOR}, {_VECTOR})"), ("jacobian", f"({_MATRIX}, {_VECTOR}, {_MATRIX})")),
    seconds=120.0,
)


class Jacobian(Protocol):
    """What `derive.emit.jacobian_source` prints."""

    DERIVATION_HASH: str
    link: Compiled
    jacobian: Compiled


def jacobian_of(model: Network) -> Jacobian:
    """Link of a network with its Jacobian, for any skip strength, inverse temperature and readout weights.

    Raises
    ------
    KernelNotFoundError
        There is none; the message has the reason.
    ConvergenceError
        The derivation took too long.
    """
    return cast(Jacobian, derived_module(_WORKER, model))
