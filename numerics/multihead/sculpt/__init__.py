"""Sculpting: a convex body around the attention matrices, made smaller by certified rows."""

from .results import SculptResult
from .sculpt import sculpt

__all__ = ["SculptResult", "sculpt"]
