"""Arrays of fixed-point numbers: every bound holds against balls of many more bits, and is not far above the error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb

from attnlimits.numerics.arithmetic.ball import BALLS, working_bits
from attnlimits.numerics.arithmetic.fixed_words import Fixed, words_for
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.network import Network, kernel
from attnlimits.numerics.posterior.precise.sum import _Linear, _Softmax

BITS = 900


def numbers(rng: np.random.Generator, size: int, scale: float) -> list[arb]:
    """Numbers of many bits and of all sizes up to a scale."""
    rough = scale * rng.uniform(-1, 1, size) * 10.0 ** rng.integers(-30, 1, size)
    return [arb(value) / arb(3).sqrt() for value in rough.tolist()]


def check(made: Fixed, exact: list[arb], units: float) -> None:
    """The error is within the bound, and the bound within so many units of the last word."""
    assert len(made) == len(exact) and made.error <= units * made.unit
    for value, number in zip(made.balls(), exact, strict=True):
        assert abs(value.mid() - number) <= made.error
        assert abs(number) <= made.most + made.error


@pytest.mark.parametrize("words", [3, 5])
def test_operations(words: int, rng: np.random.Generator) -> None:
    with working_bits(BITS):
        x, y = numbers(rng, 60, 40.0), numbers(rng, 60, 3.0)
        one, other = Fixed.of(x, words), Fixed.of(y, words)
        check(one + other, [a + b for a, b in zip(x, y, strict=True)], 3)
        check(one - other, [a - b for a, b in zip(x, y, strict=True)], 3)
        check(-one, [-a for a in x], 2)
        # 1.001 (24 + 2) for the arguments, and at most a unit per word for the product.
        check(one * other, [a * b for a, b in zip(x, y, strict=True)], 30 + words)
        check(one * other[:1], [a * y[0] for a in x], 30 + words)
        check(one.dot(other), [sum((a * b for a, b in zip(x, y, strict=True)), arb(0))], 60 * (30 + words))
        even = np.arange(60) % 2 == 0
        check(one.signed(even), [-a if k % 2 == 0 else a for k, a in enumerate(x)], 3)
        check(one.where(even, other), [x[k] if k % 2 == 0 else y[k] for k in range(60)], 3)
        check(one.shortened(words - 1), x, 3) if words > 3 else None
        assert one.negative.tolist() == [bool(a < 0) for a in x]
        check(Fixed.together([one, other]), x + y, 3)


@pytest.mark.parametrize("words", [3, 5])
@pytest.mark.parametrize("largest", [0.0, 9.0])
def test_exponential(words: int, largest: float, rng: np.random.Generator) -> None:
    with working_bits(BITS):
        x = [arb(largest) - abs(a) for a in numbers(rng, 80, 300.0)] + [
            arb(0),
            arb(-2000),
            arb(-(2**50)),
            -arb(2).log(),
        ]
        exact = [a.exp() for a in x]
        # Some hundred units for the steps, as large as the largest result.
        check(Fixed.of(x, words).exp(), exact, 2000 * np.exp(largest))


@pytest.mark.parametrize("words", [3, 5])
def test_reciprocal(words: int, rng: np.random.Generator) -> None:
    with working_bits(BITS):
        x = [abs(a) + arb("0.01") for a in numbers(rng, 80, 300.0)] + [arb(10) ** 9, arb(1), arb(1) / 128]
        # The smallest is 1/128: 128^2 of the error of the argument.
        check(Fixed.of(x, words).reciprocal(), [1 / a for a in x], 5e4)


@pytest.mark.parametrize(
    "operation",
    [
        lambda: Fixed.of([arb(10) ** 30], 3),
        lambda: Fixed.of([arb(10) ** 12], 3) * Fixed.of([arb(10) ** 12], 3),
        lambda: Fixed.of([arb(45)], 3).exp(),
        lambda: Fixed.of([arb(0)], 3).reciprocal(),
        lambda: Fixed.of([arb(10) ** 18] * 3, 3).dot(Fixed.of([arb(1)] * 3, 3)),
    ],
)
def test_overflow_is_refused(operation: Callable[[], Any]) -> None:
    with working_bits(BITS), pytest.raises(ConvergenceError, match="prior widths"):
        operation()


def test_words() -> None:
    assert [words_for(bits) for bits in (0, 64, 128, 129, 256, 257)] == [3, 3, 3, 5, 5, 7]


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_kernel(activation: str, rng: np.random.Generator) -> None:
    """Solving B_1 h_2 = v in fixed point encloses what the generated kernel gives on balls, also at large scores."""
    with working_bits(BITS):
        c, beta, i2, vp, vm = arb("0.3"), arb("1.7"), arb("1.3"), arb("0.7"), arb("-1.1")
        exact = (vp, vm, c, beta, arb(0), arb(0), arb(0), arb(0), arb(1), arb(0), i2)
        link = (_Linear if activation == "linear" else _Softmax)(exact, 5)
        x, y = (list(map(arb, (rng.normal(size=100) * 10.0 ** rng.integers(-3, 2, 100)).tolist())) for _ in range(2))
        y[0], x[1] = arb(0), arb(0)
        a, b, share = link.node(Fixed.of(x, 5), link.row(Fixed.of(y, 5)))
        undo = kernel(Network(activation=activation), "mp").undo
        plus, minus, det = zip(*(undo(BALLS, p, m, vp, vm, c, beta) for p, m in zip(x, y, strict=True)), strict=True)
        largest = c if activation == "linear" else 1 + c
        for made, wanted in (
            (a, [n * i2 for n in plus]),
            (b, [n * i2 for n in minus]),
            (share, [n * largest for n in det]),
        ):
            assert made.error < 1e-68  # 2^-256 is 1e-77, and the indices reach 1e2
            assert all(value.overlaps(number) for value, number in zip(made.balls(), wanted, strict=True))
