"""Types that every room shares: arrays and JSON."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["JSON", "Array", "Numbers"]

#: What `json` reads and writes.
JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Array: TypeAlias = NDArray[np.float64]
#: An array of floats of any size, as a file may hold.
Numbers: TypeAlias = NDArray[np.floating]
