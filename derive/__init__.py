"""Exact symbolic derivations of the theory, and the generator of the numeric kernels.

Everything in this folder is SymPy; it is exact until a printer writes a number.  ``python -m
attnlimits.derive`` writes the kernels into ``generated/``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["link"]


def __getattr__(name: str) -> Any:
    """Load `link`, a module that can be called, when it is asked for."""
    if name == "link":
        return import_module(f"{__name__}.links.link")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
