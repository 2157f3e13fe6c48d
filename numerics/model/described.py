"""What verbs take: a network or a link."""

from typing import TypeAlias

from .link import Link
from .links import LinkKernel
from .network import Network

__all__ = ["Model", "kernel_or_network"]

Model: TypeAlias = Network | Link


def kernel_or_network(model: Model) -> Network | LinkKernel:
    """What the numerics compute with: a network itself, and the kernel of a link."""
    return model.kernel if isinstance(model, Link) else model
