"""Data of the attention-indexed model: teachers, samples, and the indices of a sample.

h_ab = (x_a^T S x_b - delta_ab Tr S)/sqrt(d) = Tr(S Z_ab), in independent entries a <= b.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from ..core.memory import refuse_memory
from ..core.shown import few_lines
from ..core.validation import numbers, plain
from ..learning.blocks import Array, Floats, rows_of
from ..learning.blocks import stream as seeded_stream
from .channels import Channel, pairs
from .checks import CITE, above_zero, count

__all__ = [
    "Single",
    "Stream",
    "check_matrix",
    "check_samples",
    "gram",
    "indices",
    "instance",
    "make_data",
    "matrix_of",
    "refuse_size",
    "rows_at_a_time",
    "stream",
    "teacher",
    "whole_sizes",
]

# Arrays of d x d that an iteration has at a time: S, the step and its parts, the eigenvectors and their workspace.
_MATRICES = 12
# Entries of x read or made at a time.
_ENTRIES = 1 << 22
# Largest number of entries of x in float64 that are kept in memory: 256 MiB.
_HELD = 1 << 25


def rows_at_a_time(tokens: int, dimension: int) -> int:
    """Samples per block."""
    return max(1, _ENTRIES // (tokens * dimension))


def _samples(alpha: float, dimension: int) -> int:
    """Samples n of alpha = n/d^2."""
    return max(1, round(above_zero("alpha", alpha, "alpha = n/d^2") * dimension * dimension))


def _columns(rho: float, dimension: int) -> int:
    """Columns r of rho = r/d."""
    return max(1, round(above_zero("rho", rho, "rho = r/d") * dimension))


def whole_sizes(alpha: float, rho: float, dimension: int) -> tuple[float, float]:
    """n/d^2 and r/d of the whole numbers n of samples and r of columns that `make_data` and `teacher` draw.

    Parameters
    ----------
    alpha, rho : float
    dimension : int
        d.

    Returns
    -------
    alpha, rho : float
    """
    return _samples(alpha, dimension) / dimension**2, _columns(rho, dimension) / dimension


def teacher(dimension: int, rho: float, rng: np.random.Generator | int | None = None) -> Array:
    """Draw S = W W^T/sqrt(r d) with r = round(rho d), at least 1, and W standard Gaussian.

    Returns
    -------
    ndarray, shape (d, d)
    """
    dimension = count("dimension", dimension, 2, "d")
    refuse_memory(f"dimension = {dimension}", 8 * _MATRICES * float(dimension) ** 2, "take a smaller one")
    width = _columns(rho, dimension)
    return matrix_of(seeded_stream(rng, 0).standard_normal((dimension, width)))


def matrix_of(W: Array) -> Array:
    """S = W W^T/sqrt(r d) of weights of shape (d, r)."""
    return np.asarray(W @ W.T / math.sqrt(W.size))


def indices(x: Floats, S: Array) -> Array:
    """H of samples, shape (n, T, T).

    Parameters
    ----------
    x : ndarray, shape (n, T, d)
    S : ndarray, shape (d, d)
        Symmetric.
    """
    n, tokens, d = x.shape
    product = (x.reshape(n * tokens, d) @ S.astype(x.dtype)).reshape(x.shape)
    h = np.asarray(product @ x.swapaxes(1, 2), np.float64)
    h[:, np.arange(tokens), np.arange(tokens)] -= np.trace(S)
    return np.asarray(0.5 * (h + h.swapaxes(1, 2)) / math.sqrt(d))


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused where h is
def gram(x: Floats) -> Array:
    """Covariance (2/d) Tr(Z_ab Z_cd) of h given the tokens, in units of Q: shape (n, P, P), 1 + delta_ab on average.

    Notes
    -----
    With K = x x^T it is (2/d^2) [(K_ac K_bd + K_ad K_bc)/2 - delta_cd K_ab - delta_ab K_cd + delta_ab delta_cd d].
    """
    tokens, d = x.shape[1], x.shape[2]
    rows, columns = pairs(tokens)
    equal = (rows == columns).astype(np.float64)
    K = np.asarray(x @ x.swapaxes(1, 2), np.float64)
    product = K[:, rows[:, None], rows] * K[:, columns[:, None], columns]
    product += K[:, rows[:, None], columns] * K[:, columns[:, None], rows]
    own = K[:, rows, columns]
    return np.asarray(
        (2 / d**2)
        * (0.5 * product - own[:, :, None] * equal - equal[:, None] * own[:, None, :] + d * np.outer(equal, equal))
    )


@few_lines
class Stream:
    """Seeded samples in blocks that are drawn again at every pass, so that they need not fit in memory.

    A call gives all blocks (x, y); `tokens` gives those of x alone, which spares the labels.
    """

    def __init__(
        self, S: Array, samples: int, output: Channel, root: int, dtype: type[np.float32] | type[np.float64], rows: int
    ) -> None:
        self._S, self._output, self._root, self._dtype = S, output, root, dtype
        self._sizes = [min(rows, samples - start) for start in range(0, samples, rows)]

    def describe(self) -> str:
        """One line."""
        samples, blocks = sum(self._sizes), len(self._sizes)
        return f"{samples} samples of {self._output.tokens} tokens in {len(self._S)} dimensions, {blocks} blocks"

    def _block(self, number: int) -> tuple[Floats, np.random.Generator]:
        rng = np.random.default_rng([self._root, number])
        shape = (self._sizes[number], self._output.tokens, len(self._S))
        return rng.standard_normal(shape, dtype=self._dtype), rng

    def __call__(self) -> Iterator[tuple[Floats, Array]]:
        """Blocks (x, y)."""
        for number in range(len(self._sizes)):
            x, rng = self._block(number)
            yield x, self._output.draw(indices(x.astype(np.float64, copy=False), self._S), rng)

    def tokens(self) -> Iterator[Floats]:
        """Blocks of x."""
        for number in range(len(self._sizes)):
            yield self._block(number)[0]


def make_data(
    S: ArrayLike,
    alpha: float,
    output: Channel,
    rng: np.random.Generator | int | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float64,
) -> tuple[Floats, Array]:
    """Draw n = round(alpha d^2) samples, at least 1, and label them by S.

    Parameters
    ----------
    S : array_like, shape (d, d)
        Symmetric.
    alpha : float
    output : Channel
    rng : Generator, int or None, optional
    dtype : {np.float64, np.float32}, keyword-only
        Of x.

    Returns
    -------
    x : ndarray, shape (n, T, d)
    y : ndarray, shape (n, T, T)

    References
    ----------
    boncoraglio2025, model.
    """
    source = stream(S, alpha, output, rng, dtype=dtype)
    blocks = list(source())
    return np.concatenate([np.asarray(x) for x, _ in blocks]), np.concatenate([np.asarray(y) for _, y in blocks])


def stream(
    S: ArrayLike,
    alpha: float,
    output: Channel,
    rng: np.random.Generator | int | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    rows: int | None = None,
) -> Stream:
    """The data of `make_data` in blocks that are drawn again at every pass, so that they need not fit in memory.

    Parameters
    ----------
    rows : int, keyword-only, optional
        Samples per block.
    """
    matrix = check_matrix("S", S)
    d = len(matrix)
    n = _samples(alpha, d)
    step = rows_at_a_time(output.tokens, d) if rows is None else count("rows", rows, 1, "samples per block")
    return Stream(matrix, n, output, int(seeded_stream(rng, 1).integers(2**63)), dtype, step)


def instance(
    S: ArrayLike,
    alpha: float,
    output: Channel,
    rng: np.random.Generator | int | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float64,
) -> tuple[Floats, Array] | tuple[Stream, None]:
    """Draw samples as `make_data` does where x fits into 256 MiB, or else as `stream` does, in single precision."""
    matrix = check_matrix("S", S)
    if round(alpha * matrix.size) * output.tokens * len(matrix) * np.dtype(dtype).itemsize <= _HELD * 8:
        return make_data(matrix, alpha, output, rng, dtype=dtype)
    return stream(matrix, alpha, output, rng), None


@few_lines
class Single:
    """An array of samples in blocks of single precision, converted again at every pass; it may be memory-mapped.

    Parameters
    ----------
    x : array_like, shape (n, T, d)
        float32 or float64.
    y : array_like, shape (n, T, T)
    output : Channel
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, output: Channel) -> None:
        self._x, self._y = check_samples(x, output.tokens), np.asarray(y)
        if len(self._x) != len(self._y):
            raise ValueError(
                f"x and y must have as many samples, got {len(self._x)} and {len(self._y)} ({CITE}, model)"
            )
        self._parts = list(rows_of(self._x, rows_at_a_time(*self._x.shape[1:])))

    def describe(self) -> str:
        """One line."""
        samples, tokens, dimension = self._x.shape
        return f"{samples} samples of {tokens} tokens in {dimension} dimensions, {len(self._parts)} blocks"

    def __call__(self) -> Iterator[tuple[Floats, Array]]:
        """Blocks (x, y)."""
        return zip(self.tokens(), (self._y[part] for part in self._parts), strict=True)

    def tokens(self) -> Iterator[Floats]:
        """Blocks of x."""
        return (np.asarray(self._x[part], np.float32) for part in self._parts)


def refuse_size(alpha: float, dimension: int, tokens: int, what: str, *, scalar: bool = False) -> None:
    """Raise MemoryError if message passing on n = alpha d^2 samples of so many tokens does not fit into memory.

    Parameters
    ----------
    alpha : float
    dimension, tokens : int
    what : str
        The arguments that determine the size, for the message.
    scalar : bool, keyword-only
        The covariance of entries is taken in its limit, not for each sample.
    """
    d, n, entries = float(dimension), max(1.0, alpha * float(dimension) ** 2), tokens * (tokens + 1) / 2
    rows = min(n, rows_at_a_time(tokens, dimension))
    # Of the samples: tokens and outputs, unless they are drawn again; the output, scores and memory of each.
    held = 16 * n * tokens * (d + tokens) if n * tokens * d <= _HELD else 0.0
    # Of a block: tokens, their products, and the covariance of all pairs of entries with what it is made of.
    block = 8 * rows * (3 * tokens * d + 6 * tokens**2 + (0 if scalar else 5 * entries**2))
    remedy = "take fewer dimensions or tokens" + ("" if scalar else ', or the covariance "scalar"')
    refuse_memory(what, _MATRICES * 8 * d**2 + held + 24 * n * entries + block, remedy)


def check_samples(x: ArrayLike, tokens: int) -> Floats:
    """Return samples of shape (n, T, d), float32 or float64, or raise ValueError."""
    array = plain("x", x)
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"x must be float32 or float64, real entries of mean 0 and variance 1 ({CITE}, model), got {array.dtype}; "
            "convert by x.astype(np.float32)"
        )
    if array.ndim != 3 or array.shape[1] != tokens or not len(array) or array.shape[2] < 2:
        raise ValueError(
            f"x must have shape (n, T, d) with T = {tokens} tokens and d >= 2 ({CITE}, model), got {array.shape}; "
            "put samples first, then tokens, then coordinates"
        )
    return array


def check_matrix(name: str, value: ArrayLike, dimension: int | None = None) -> Array:
    """Return a symmetric matrix of finite float64, or raise ValueError."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        refuse_memory(f"{name} of shape {value.shape}", 8 * _MATRICES * value.size, "take fewer dimensions")
    array = numbers(name, value)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or (dimension is not None and len(array) != dimension):
        size = "d" if dimension is None else str(dimension)
        raise ValueError(f"{name} must be a square matrix ({size}, {size}) ({CITE}, model), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite ({CITE}, model), got NaN or infinity; repair the matrix first")
    largest = float(np.abs(array).max(initial=0.0))
    # Largest entry of a matrix, whose squares are added up.
    most = 1e100
    if not len(array) or largest > most:
        raise ValueError(
            f"{name} must have d >= 1, and entries of at most {most:g} ({CITE}, model), got shape "
            f"{array.shape} and {largest:.3g}; scale it"
        )
    off = float(np.abs(array - array.T).max())
    if off > 1e-9 * (1 + largest):
        raise ValueError(
            f"{name} must be symmetric ({CITE}, model), it is off by {off:.3g}; pass ({name} + {name}^T)/2 if that is "
            "rounding"
        )
    return 0.5 * (array + array.T)
