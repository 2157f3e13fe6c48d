"""Powers under a Gaussian, t^n exp(-t/2)/((2n)!)^(1/2) with t = x y, for all n and many t, in fixed point.

They stay below one. For every t one of them near the peak n = t/2 is computed in balls, and recurrences run from there
upwards and downwards in n, away from the peak, where the ratios of neighbours are below one and errors do not grow. The
1/(2n(2n - 1))^(1/2) in these ratios are replaced by numbers of one digit, which cost little; what is left of the
factorials is a factor near one for each n.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from ...arithmetic.ball import working_bits
from ...arithmetic.balls import Ball, Balls
from ...arithmetic.digit_runs import BITS, Numbers, Step, advance, clear
from ...arithmetic.fixed_digits import Fixed, Scale, from_balls

__all__ = ["Norms", "Window", "gaussian_powers"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """For each n the interval of t where something matters, and how many digits.

    Attributes
    ----------
    low, high : array, shape (n,)
        Power n matters for low <= t <= high; low > high where it does not matter at all.
    up, down : array, shape (n,)
        How many of the last digits the recurrences may leave out.
    """

    low: Array
    high: Array
    up: Counts
    down: Counts

    @classmethod
    def of(cls, log_sizes: Array, log_floor: float) -> "Window":
        """Where exp(log_sizes[n]) t^n exp(-t/2) (e/2n)^n is above exp(log_floor).

        Notes
        -----
        The last digits that are left out at n count exp(log_sizes[n]) there and at larger n, on the way up. On the
        way down the power is multiplied by its ratio to the one at m < n, at most that at t = 2n.
        """
        n = np.arange(len(log_sizes))
        room = np.maximum(log_sizes - log_floor, 0.0)
        # n (log r - r + 1) = -room for r = t/2n on both sides of one, by bisection; exp(-t/2) for n = 0.
        share = room / np.maximum(n, 1)
        ends = []
        for low, high in ((np.zeros(len(n)), np.ones(len(n))), (np.ones(len(n)), 4.0 + 2 * share)):
            rising = bool(low[0] == 0)
            for _ in range(60):
                middle = 0.5 * (low + high)
                beyond = (_loss(middle) > -share) == rising
                low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
            ends.append(2 * n * 0.5 * (low + high))
        small, large = ends
        large[0] = 2 * room[0]
        small[log_sizes <= log_floor], large[log_sizes <= log_floor] = np.inf, -1.0
        # A power that has begun to matter goes on, and one that has ceased to does not begin again.
        small = np.maximum.accumulate(small)
        large = np.minimum(np.maximum.accumulate(large), np.maximum.accumulate(large[::-1])[::-1])
        bits = -np.minimum(log_sizes, 0.0) / math.log(2)
        shrink = np.min(np.where(n[None] <= n[:, None], bits[None] + _shrink(n[:, None], n[None]), np.inf), axis=1)
        digits = [np.floor(np.maximum(b, 0.0) / BITS).astype(np.int64) for b in (bits, shrink)]
        return cls(small, large, *(np.minimum.accumulate(d[::-1])[::-1] for d in digits))


def _loss(ratio: Array) -> Array:
    """Logarithm of (r e^(1 - r))."""
    return np.asarray(np.log(np.maximum(ratio, 1e-300)) - ratio + 1)


def _shrink(n: Counts, m: Counts) -> Array:
    """Bits that power m is below power n at t = 2n."""
    ratio = n / np.maximum(m, 1)
    return np.asarray(np.where(m > 0, -m * _loss(ratio), n) / math.log(2))


@dataclass(frozen=True)
class Norms:
    """Short numbers r_n in place of 1/(2n(2n - 1))^(1/2), n = 1 .. : powers are t^n exp(-t/2) r_1 .. r_n.

    Attributes
    ----------
    short : list of int
        2^22 r_n; the first one, of n = 0, counts for nothing.
    """

    short: list[int]

    @classmethod
    def up_to(cls, most: int) -> "Norms":
        """r_1 .. r_most."""
        return cls([0] + [round(2**BITS / math.sqrt(2 * n * (2 * n - 1))) for n in range(1, most + 1)])

    @property
    def most(self) -> int:
        """Largest n."""
        return len(self.short) - 1

    def ratios(self) -> list[fmpq]:
        """r_n."""
        return [fmpq(r, 2**BITS) for r in self.short]

    def products(self) -> list[fmpq]:
        """r_1 .. r_n, exactly."""
        out = [fmpq(1)]
        for ratio in self.ratios()[1:]:
            out.append(out[-1] * ratio)
        return out

    def rest(self) -> Balls:
        """1/((2n)! (r_1 .. r_n)^2), near one."""
        out, value = [arb(1)], fmpq(1)
        for n, ratio in enumerate(self.ratios()[1:], 1):
            value /= 2 * n * (2 * n - 1) * ratio * ratio
            out.append(arb(value))
        return out


def gaussian_powers(
    x: Balls, y: Balls, norms: Norms, window: Window, scale: Scale
) -> Iterator[tuple[int, slice, Fixed, Array]]:
    """Powers of all t = x y in fixed point.

    Parameters
    ----------
    x, y : list of arb
        Rows and columns; x >= 0, and y >= 0 in increasing order.
    norms : Norms
    window : Window
        For the same n as norms.
    scale : Scale

    Yields
    ------
    int, slice, Fixed, array
        n, rows, the powers n of these rows, and bounds of their absolute values, all overwritten later. Every n comes
        twice, with the t below 2n + 2 and with the others, each time with zero in place of the others.
    """
    t = np.outer([float(a) for a in x], [float(b) for b in y])
    most = norms.most
    last = np.searchsorted(-np.maximum.accumulate(window.high[::-1])[::-1], -t, "right") - 1
    first = np.minimum(np.floor(0.5 * t).astype(np.int64), last)
    start = _start_values(x, y, first, norms, scale)
    # How many t of each row are below 2n + 2, and where those that matter begin and end.
    above = np.array([2.0 * n for n in range(1, most + 2)])
    middle, low = _counts(t, above, "left"), _counts(t, window.low, "left")
    high = np.maximum(_counts(t, window.high, "right"), middle)
    peak = t < above[np.maximum(first, 0)]
    at_peak, beyond = ([np.flatnonzero((first == n) & kind) for n in range(most + 1)] for kind in (peak, ~peak))
    flat = t.ravel()

    run = _Run(start, _products(x, y, scale, t < above[-1]))
    short = from_balls([arb(ratio) for ratio in norms.ratios()], scale)
    for n in range(most + 1):
        levels = scale.last + 1 - int(window.up[n])
        if n:
            run.clear(low[n - 1], np.minimum(low[n], middle[n - 1]))
            run.multiply(short[n], low[n], middle[n - 1], levels)
        run.place(at_peak[n][flat[at_peak[n]] >= window.low[n]])
        yield n, *run.found(low[n], middle[n], levels)

    run = _Run(start, _reciprocals(x, y, scale, (t > 1.0) & (t <= window.high.max())))
    inverse = from_balls([arb(0), *(1 / arb(ratio) for ratio in norms.ratios()[1:])], scale)
    for n in range(most, -1, -1):
        levels = scale.last + 1 - int(window.down[n])
        if n < most:
            run.place(at_peak[n + 1][flat[at_peak[n + 1]] <= window.high[n]])
            run.clear(high[n], high[n + 1])
            run.multiply(inverse[n + 1], middle[n], high[n], levels)
        run.place(beyond[n])
        yield n, *run.found(middle[n], high[n], levels)


def _counts(t: Array, ends: Array, side: Literal["left", "right"]) -> Counts:
    """How many t of each row are below each end, or not above it for "right"; shape (ends, rows)."""
    return np.ascontiguousarray(np.array([np.searchsorted(row, ends, side) for row in t]).T)


class _Run:
    """Powers of all t at one n, and the ratios that carry them on."""

    def __init__(self, start: Fixed, factor: Fixed) -> None:
        self._start = Numbers(start.digits, start.error, start.size)
        self._factor = Numbers(factor.digits, factor.error, factor.size)
        self._now = Numbers(*(np.zeros(part.shape) for part in self._start))

    def place(self, index: Counts) -> None:
        """Put in the starts of some t."""
        now, start = self._now, self._start
        levels = len(now.digits)
        now.digits.reshape(levels, -1)[:, index] = start.digits.reshape(levels, -1)[:, index]
        now.error.flat[index] = start.error.flat[index]
        now.size.flat[index] = start.size.flat[index]

    def clear(self, low: Counts, high: Counts) -> None:
        """Take out what no longer matters."""
        clear(self._now, low, high)

    def multiply(self, ratio: Fixed, low: Counts, high: Counts, levels: int) -> None:
        """Go on to the next power."""
        step = Step(np.ascontiguousarray(ratio.digits), float(ratio.error), levels, Scale(levels - 1).rounding)
        advance(self._now, self._factor, step, low, high)

    def found(self, low: Counts, high: Counts, levels: int) -> tuple[slice, Fixed, Array]:
        """Rows that hold anything, their numbers and bounds of them."""
        full = np.flatnonzero(low < high)
        rows = slice(int(full[0]), int(full[-1]) + 1) if len(full) else slice(0)
        return rows, Fixed(self._now.digits[:, rows], self._now.error[rows]).cut(levels), self._now.size[rows]


def _start_values(x: Balls, y: Balls, first: Counts, norms: Norms, scale: Scale) -> Fixed:
    """Powers n = first >= 0 of all t."""
    with working_bits(scale.bits + BITS):
        rest = [arb(value) for value in norms.products()]
        rows = [_powers(a, int(n)) for a, n in zip(x, first.max(axis=1), strict=True)]
        columns = [
            [p * f for p, f in zip(_powers(b, int(n)), rest, strict=False)]
            for b, n in zip(y, first.max(axis=0), strict=True)
        ]
        half = [-a / 2 for a in x]
        places = np.argwhere(first >= 0)
        found = from_balls(
            [
                rows[r][n] * columns[c][n] * (half[r] * y[c]).exp()
                for (r, c), n in zip(places.tolist(), first[first >= 0].tolist(), strict=True)
            ],
            scale,
        )
    digits, error = np.zeros((scale.last + 1, *first.shape)), np.zeros(first.shape)
    digits[:, first >= 0], error[first >= 0] = found.digits, found.error
    return Fixed(digits, error)


def _powers(x: Ball, most: int) -> Balls:
    """x^0 .. x^most."""
    out = [arb(1)]
    for _ in range(most):
        out.append(out[-1] * x)
    return out


def _products(x: Balls, y: Balls, scale: Scale, wanted: Flags) -> Fixed:
    """Products x y where they are wanted; zero elsewhere."""
    parts, power = [], 0
    with working_bits(scale.bits + 3 * BITS):
        lift = [math.ceil(math.log2(max(1.0, *(float(a) for a in numbers)))) for numbers in (x, y)]
        # Digits that the powers of two bring up.
        power = sum(lift)
        wide = Scale(scale.last - (-power // BITS))
        for numbers, down in zip((x, y), lift, strict=True):
            unit = arb(2) ** -down
            parts.append(from_balls([a * unit for a in numbers], wide))
    out = parts[0][:, None] * parts[1][None, :]
    out = Fixed(np.where(wanted, out.digits, 0.0), np.where(wanted, out.error, 0.0))
    # Of two, by which numbers grow at once: their digits stay exact.
    most_power = 31
    while power > most_power:
        out, power = out.times_power(most_power, wide.last + 1), power - most_power
    out = out.times_power(power, scale.last + 1)
    return Fixed(np.ascontiguousarray(out.digits), out.error)


def _reciprocals(x: Balls, y: Balls, scale: Scale, wanted: Flags) -> Fixed:
    """1/(x y) where it is wanted, x y > 1 there; zero elsewhere."""
    with working_bits(scale.bits + 3 * BITS):
        one, other = (
            [1 / a if float(a) * max(float(b) for b in others) > 1.0 else arb(0) for a in numbers]
            for numbers, others in ((x, y), (y, x))
        )
        return _products(one, other, scale, wanted)
