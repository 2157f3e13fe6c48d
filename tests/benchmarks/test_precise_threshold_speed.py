"""Thresholds to many digits: seconds, growth with the digits, and nested mpmath quadrature side by side."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold
from attnlimits.papers.troiani2025.figures.cost_per_digit import growth, measure

from .ratios import Ratios


@pytest.mark.parametrize("digits", [15, *(pytest.param(digits, marks=pytest.mark.measures) for digits in (30, 50))])
def test_seconds(benchmark: Any, table: Callable[[str], None], digits: int) -> None:
    precise_threshold(Network(), 14)
    start = time.process_time()
    result = benchmark.pedantic(lambda: precise_threshold(Network(), digits), rounds=1)
    seconds = time.process_time() - start
    table(f"threshold of two softmax layers, {digits} digits ({result.value}): {seconds:.2f} processor seconds")
    assert result.error < 10.0**-digits


@pytest.mark.measures
def test_growth(benchmark: Any, table: Callable[[str], None], ratio: Ratios) -> None:
    record = benchmark.pedantic(lambda: measure((25, 35, 50), 1), rounds=1)
    factor = growth(record)
    table(f"25, 35, 50 digits: {record['seconds']} processor seconds, x{factor:.1f} per doubling of the digits")
    ratio("threshold: seconds per doubling of the digits", factor, better="less")


def test_against_nested_mpmath_quadrature(benchmark: Any, table: Callable[[str], None], ratio: Ratios) -> None:
    """The plain formula at 10 digits: integrals over h_1 within an integral over y.

    The peer would take weeks: its time is that of the inner integrals at one output, times the outputs that the same
    routine visits in the outer one, counted on the Gaussian density of the outputs of one layer.
    """
    mp = MPContext()
    mp.dps = 12 if not benchmark.disabled else 5
    calls = 0

    def surrogate(u: Any, v: Any) -> Any:
        nonlocal calls
        calls += 1
        return mp.exp(-(u * u + v * v) / 2)

    def density(u: Any, v: Any) -> Any:
        def inside(x: Any, z: Any) -> Any:
            p = 1 / (1 + mp.exp(-(z * z + x * z)))
            r = 1 / (1 + mp.exp(-(z * z - x * z)))
            tau = 2 / (p + r)
            a = (p - r) / (p + r)
            return tau * mp.exp(-((u - a * v) ** 2 + (tau * v) ** 2 + x * x + z * z) / 2) / mp.pi

        return mp.quad(inside, [-mp.inf, 0, mp.inf], [0, mp.inf])

    mp.quad(surrogate, [0, mp.inf], [0, mp.inf])
    start = time.perf_counter()
    z = density(mp.mpf("0.7"), mp.mpf("1.1"))
    inner = time.perf_counter() - start
    assert z > 0
    # Z and three second moments at every output.
    peer = 4 * inner * calls
    precise_threshold(Network(), 14)
    start = time.perf_counter()
    result = benchmark.pedantic(lambda: precise_threshold(Network(), 10), rounds=1)
    ours = time.perf_counter() - start
    table(
        f"10 digits ({result.value}): {ours:.2f} s; nested mpmath.quad, extrapolated from one inner integral of "
        f"{inner:.2f} s and {calls} outputs with 4 each: {peer:.3g} s, {peer / ours:.2g} times as long"
    )
    ratio("nested mpmath.quad / threshold to 10 digits", peer / ours, better="more")
    assert peer > 1000 * ours
