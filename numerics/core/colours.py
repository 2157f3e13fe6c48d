"""The colours of curves, the same in every figure."""

__all__ = ["BLUE", "GREEN", "ORANGE", "PURPLE", "RED", "YELLOW"]

RED, BLUE, GREEN, PURPLE = "#b3261e", "#1f4e9c", "#2e7d32", "#8e24aa"
ORANGE, YELLOW = "#ef6c00", "#f4c20d"
