"""Samples in blocks of rows, and random generators of which one seed gives several."""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "Floats", "Source", "rows_of", "stream"]

#: Numbers in double precision.
Array: TypeAlias = NDArray[np.float64]
#: Samples in single or double precision.
Floats: TypeAlias = NDArray[np.floating]
#: Gives all blocks (X_block, Y_block) once more at every call.
Source: TypeAlias = Callable[[], Iterable[tuple[ArrayLike, ArrayLike]]]


def rows_of(array: Sized, rows: int) -> Iterator[slice]:
    """Slices of so many rows each."""
    return (slice(start, min(start + rows, len(array))) for start in range(0, len(array), rows))


def stream(rng: np.random.Generator | int | None, purpose: int) -> np.random.Generator:
    """Return a generator; one seed gives unrelated ones to teachers (0), samples (1) and starts (2 and more)."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(None if rng is None else [rng, purpose])
