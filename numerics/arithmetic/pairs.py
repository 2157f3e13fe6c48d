"""Arrays of pairs of float64, see `doubledouble`, with the arithmetic of NumPy arrays."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .doubledouble import add_arrays, divide_arrays, exp_arrays, leading_floats, multiply_arrays, sqrt_arrays

__all__ = ["Pairs", "Parts", "concatenate"]

Array = NDArray[np.float64]
Places: TypeAlias = int | slice | NDArray[np.int64] | NDArray[np.bool_] | None


class Parts(NamedTuple):
    """High and low parts of an array of pairs, contiguous: what compiled functions take, and fill."""

    hi: Array
    lo: Array

    @classmethod
    def zeros(cls, *shape: int) -> "Parts":
        """Array of zeros."""
        return cls(np.zeros(shape), np.zeros(shape))


class Pairs:
    """Array of pairs with the arithmetic of NumPy arrays: broadcasting, +, -, *, /, indexing.

    Parameters
    ----------
    hi, lo : array_like
        The parts, |lo| <= ulp(hi)/2; lo defaults to zero.
    """

    __array_ufunc__ = None  # so that ndarray + Pairs comes here

    def __init__(self, hi: ArrayLike, lo: ArrayLike = 0.0) -> None:
        self.hi: Array = np.asarray(hi, dtype=np.float64)
        self.lo: Array = np.broadcast_to(np.asarray(lo, dtype=np.float64), self.hi.shape)

    @classmethod
    def exact(cls, value: int | float | Fraction | Decimal) -> "Pairs":
        """Round an exact number: int, float, Fraction or Decimal."""
        hi, lo = leading_floats(Fraction(value), 2)
        return cls(hi, lo)

    @property
    def parts(self) -> Parts:
        """Both parts, contiguous."""
        return Parts(np.ascontiguousarray(self.hi), np.ascontiguousarray(self.lo))

    @property
    def number(self) -> tuple[float, float]:
        """Both parts of a single pair."""
        return float(self.hi), float(self.lo)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both parts."""
        return self.hi.shape

    def __add__(self, other: "Pairs | ArrayLike") -> "Pairs":
        b = _pairs(other)
        return _applied(add_arrays, self.hi, self.lo, b.hi, b.lo)

    def __neg__(self) -> "Pairs":
        return Pairs(-self.hi, -self.lo)

    def __sub__(self, other: "Pairs | ArrayLike") -> "Pairs":
        return self + (-_pairs(other))

    def __rsub__(self, other: ArrayLike) -> "Pairs":
        return _pairs(other) - self

    def __mul__(self, other: "Pairs | ArrayLike") -> "Pairs":
        b = _pairs(other)
        return _applied(multiply_arrays, self.hi, self.lo, b.hi, b.lo)

    def __truediv__(self, other: "Pairs | ArrayLike") -> "Pairs":
        b = _pairs(other)
        return _applied(divide_arrays, self.hi, self.lo, b.hi, b.lo)

    def __rtruediv__(self, other: ArrayLike) -> "Pairs":
        return _pairs(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, key: Places | tuple[Places, ...]) -> "Pairs":
        return Pairs(self.hi[key], self.lo[key])

    def reshape(self, *shape: int) -> "Pairs":
        """Reshape both parts."""
        return Pairs(self.hi.reshape(*shape), self.lo.reshape(*shape))

    def ravel(self) -> "Pairs":
        """Flatten both parts to contiguous arrays."""
        return Pairs(np.ascontiguousarray(self.hi.ravel()), np.ascontiguousarray(self.lo.ravel()))

    def exp(self) -> "Pairs":
        """Exponential of each entry; zero below -600."""
        return _applied(exp_arrays, self.hi, self.lo)

    def log(self) -> "Pairs":
        """Natural logarithm of each positive entry: Newton's step from the float64 one."""
        start = Pairs(np.log(self.hi))
        return start + (self * (-start).exp() - 1.0)

    def sqrt(self) -> "Pairs":
        """Square root of each entry >= 0."""
        return _applied(sqrt_arrays, self.hi, self.lo)

    def sum(self) -> "Pairs":
        """Sum of all entries."""
        flat = self.ravel()
        if flat.hi.size == 0:
            return Pairs(0.0)
        while flat.hi.size > 1:
            if flat.hi.size % 2:
                flat = concatenate([flat, Pairs(np.zeros(1))])
            half = flat.hi.size // 2
            flat = flat[:half] + flat[half:]
        return flat[0]

    def fraction(self) -> Fraction:
        """Exact value of a single pair."""
        return Fraction(float(self.hi)) + Fraction(float(self.lo))


def concatenate(parts: "list[Pairs]") -> Pairs:
    """Join one-dimensional arrays of pairs."""
    return Pairs(np.concatenate([p.hi for p in parts]), np.concatenate([p.lo for p in parts]))


def _pairs(value: "Pairs | ArrayLike") -> Pairs:
    return value if isinstance(value, Pairs) else Pairs(value)


def _applied(loop: Callable[..., None], *parts: Array) -> Pairs:
    """Run a loop over flat arrays on arrays that broadcast."""
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    hi, lo = np.empty(shape), np.empty(shape)
    loop(*(_flat(part, shape) for part in parts), hi.reshape(-1), lo.reshape(-1))
    return Pairs(hi, lo)


def _flat(part: Array, shape: tuple[int, ...]) -> Array:
    """Entries of an array that broadcasts; never to be written, so that a loop is compiled for one kind of arrays."""
    flat = np.ascontiguousarray(part if part.shape == shape else np.broadcast_to(part, shape)).reshape(-1)
    flat.flags.writeable = False
    return flat
