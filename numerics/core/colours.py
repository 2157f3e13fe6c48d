"""The colours of curves, the same in every figure.

Those of Okabe and Ito, with a darker purple: seen with protanopia, deuteranopia or tritanopia any two of them differ by
more than 15 in CIELAB, and a figure that needs more than colour tells its curves apart by their style as well.
"""

__all__ = ["BLUE", "CYCLE", "GREEN", "ORANGE", "PURPLE", "RED", "YELLOW"]

RED, BLUE, GREEN, PURPLE = "#d55e00", "#0072b2", "#009e73", "#aa3377"
ORANGE, YELLOW = "#e69f00", "#f0e442"
#: In the order of the layers, and of curves in general.
CYCLE = (BLUE, RED, GREEN, PURPLE, ORANGE)
