"""What verbs take: a network or a link."""

from typing import TypeAlias

from .link import Link
from .links import LinkKernel
from .network import Network

__all__ = ["Model", "kernel_or_network", "of_data"]

Model: TypeAlias = Network | Link


def kernel_or_network(model: Model) -> Network | LinkKernel:
    """What the numerics compute with: a network itself, and the kernel of a link."""
    return model.kernel if isinstance(model, Link) else model


def of_data(model: Model) -> Network | LinkKernel:
    """What data are made of: a network itself, and the kernel of a link with its outputs as they were written."""
    return model.observed if isinstance(model, Link) else model
