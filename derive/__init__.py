"""Exact symbolic derivations of the theory, and the generator of the numeric kernels.

Everything in this folder is SymPy; it is exact until a printer writes a number.  ``python -m
attnlimits.derive`` writes the kernels into ``generated/``.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .links.form import Link

__all__ = ["link"]


def __getattr__(name: str) -> Callable[..., "Link"]:
    """Load the function `link` when it is asked for."""
    if name == "link":
        made: Callable[..., Link] = import_module(f"{__name__}.links.link").link
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
