"""The module of pictures, `plots`, loaded when it is first asked for: no number depends on it."""

from importlib import import_module
from types import ModuleType

__all__ = ["plots"]


def plots() -> ModuleType:
    """Return `core.plots`, which loads matplotlib: that takes a second, which only pictures need."""
    return import_module(".plots", __package__)
