"""Scrambled Sobol points, bit for bit those of `scipy.stats.qmc.Sobol`.

Importing scipy.stats takes as long as a whole evolution of two layers; where no other part of it is needed, a first
call does not wait for it.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["shifted", "sobol"]

_BITS = 30
_MOST = 2**_BITS
_BELOW, _DIAGONAL = np.tri(_BITS, k=-1, dtype=np.bool_), np.eye(_BITS)


def sobol(dimension: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """First points of a Sobol sequence after a random linear scramble and a random shift.

    Parameters
    ----------
    dimension : int
        At least 1.
    count : int
        A power of two, at most 2^30.
    rng : numpy.random.Generator
        Randomises the scrambling, through a generator that is spawned from it.

    Returns
    -------
    ndarray, shape (count, dimension)
        Multiples of 2^-30 in [0, 1).

    Raises
    ------
    ValueError
        A number of points that is no power of two, or too large; too many dimensions.

    References
    ----------
    The scramble is that of J. Matousek, J. Complexity 14, 527 (1998), with a digital shift.

    Examples
    --------
    >>> import numpy as np
    >>> np.sort((4 * sobol(2, 4, np.random.default_rng(0))).astype(int), axis=0).T  # one in each quarter
    array([[0, 1, 2, 3],
           [0, 1, 2, 3]])
    """
    if count < 1 or count & (count - 1) or count > _MOST:
        raise ValueError(f"a Sobol sequence is balanced at powers of two up to 2^{_BITS}, got {count} points")
    # Direction numbers are known for so many dimensions.
    most_dimensions = 21201
    if dimension > most_dimensions:
        raise ValueError(
            f"quasi-random points have at most {most_dimensions} dimensions, got {dimension}; take fewer layers, "
            "tokens or heads, or a lower rank"
        )
    # The dimensions that joe_kuo.txt beside this file has; later ones are SciPy's.
    own_dimensions = 32
    if dimension > own_dimensions:
        from scipy.stats import qmc  # it takes long to load

        return np.asarray(qmc.Sobol(dimension, rng=rng).random(count))
    stream = rng.spawn(1)[0]
    powers = np.uint32(1) << np.arange(_BITS, dtype=np.uint32)
    shift = stream.integers(2, size=(dimension, _BITS), dtype=np.uint32) @ powers
    drawn = stream.integers(2, size=(dimension, _BITS, _BITS), dtype=np.uint32)
    scramble = np.where(_BELOW, drawn, _DIAGONAL)
    numbers = count.bit_length() - 1
    # Bits of a direction number, the first the highest, are a column; floating-point products are BLAS's, and exact.
    bits = (scramble @ _bits(dimension)[:, :, :numbers]).astype(np.uint32)
    steps = powers[::-1] @ (bits % 2)
    points = np.empty((count, dimension), np.uint32)
    points[0] = shift
    for k in range(numbers):
        # In the order of the Gray code the second half of a block is its first half backwards, one step on.
        points[1 << k : 2 << k] = points[: 1 << k][::-1] ^ steps[:, k]
    return np.asarray(points * 2.0**-_BITS)


def shifted(points: NDArray[np.float64], sets: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The same points after some random digital shifts.

    Sets of one scramble that differ by their shifts take a tenth of the time of sets of scrambles of their own, and the
    errors of sums over them do not correlate.

    Parameters
    ----------
    points : ndarray, shape (n, count, dimension)
        Of n sequences as of `sobol`.
    sets : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, sets, count, dimension)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> np.sort((4 * shifted(sobol(1, 4, rng)[None], 2, rng)).astype(int), axis=2)[0, :, :, 0]
    array([[0, 1, 2, 3],
           [0, 1, 2, 3]])
    """
    whole = (points * 2.0**_BITS).astype(np.uint32)
    shift = rng.integers(_MOST, size=(len(points), sets, 1, points.shape[2]), dtype=np.uint32)
    return np.asarray((whole[:, None] ^ shift) * 2.0**-_BITS)


@cache
def _first_numbers() -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Primitive polynomial, its bits the coefficients, and direction numbers of each dimension after the first.

    The lines are those of new-joe-kuo-6.21201, S. Joe and F. Y. Kuo, SIAM J. Sci. Comput. 30, 2635 (2008):
    dimension, degree, inner coefficients, direction numbers.
    """
    lines = Path(__file__).with_name("joe_kuo.txt").read_text().splitlines()[1:]
    rows = [tuple(map(int, line.split())) for line in lines]
    return tuple((1 << degree | inner << 1 | 1, tuple(numbers)) for _, degree, inner, *numbers in rows)


@cache
def _bits(dimension: int) -> NDArray[np.float64]:
    """Bits of the direction numbers, shape (dimension, bits, numbers)."""
    table = np.ones((dimension, _BITS), np.uint32)
    for row, (polynomial, first) in zip(table[1:], _first_numbers(), strict=False):
        degree = len(first)
        numbers = list(first)
        for j in range(degree, _BITS):
            new = numbers[j - degree] ^ numbers[j - degree] << degree
            for k in range(1, degree):
                if polynomial >> degree - k & 1:
                    new ^= numbers[j - k] << k
            numbers.append(new)
        row[:] = numbers
    # The j-th number has j + 1 bits, of which the last is the one of weight 2^-(j+1).
    table <<= np.arange(_BITS - 1, -1, -1, dtype=np.uint32)
    bits = table[:, None] >> np.arange(_BITS - 1, -1, -1, dtype=np.uint32)[:, None] & np.uint32(1)
    return bits.astype(np.float64)
