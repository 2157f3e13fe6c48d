"""How long the parts and the whole take: exponentials, a threshold, a fixed point, a curve."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnlimits.generated.fastmath import exp_array
from attnlimits.numerics.fixed_point.evolve import curve, evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer
from attnlimits.papers.troiani2025.figures.figure_1 import grid

from .ratios import Ratios


def timed(benchmark: Any, call: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    """Result of the call and its least seconds; once, and untimed by the plugin, where benchmarks are disabled."""
    seconds: list[float] = []

    def measured() -> Any:
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
        return result

    result = benchmark.pedantic(measured, rounds=1 if benchmark.disabled else rounds)
    return result, min(seconds)


@pytest.mark.parametrize("name", ["attnlimits", "numpy"])
def test_exponentials(benchmark: Any, table: Callable[[str], None], name: str) -> None:
    x = np.linspace(-30.0, 0.0, 2**15)
    call = exp_array if name == "attnlimits" else np.exp
    exp_array(x)
    values, seconds = timed(benchmark, lambda: call(x), 200)
    np.testing.assert_allclose(values, np.exp(x), rtol=1e-15)
    table(f"exp, {name}: {1e9 * seconds / x.size:.2f} ns each, {x.size / seconds / 1e9:.2f} G/s")


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_threshold_to_twelve_digits(benchmark: Any, table: Callable[[str], None], activation: str) -> None:
    result, seconds = timed(benchmark, lambda: last_layer(Network(activation=activation), digits=12), 3)
    assert result.converged
    table(f"threshold of two {activation} layers, 12 digits ({result.value}): {seconds:.2f} s")


@pytest.mark.slow  # the first of the points below runs the same, and so does `make bench`
def test_fixed_point(benchmark: Any, table: Callable[[str], None]) -> None:
    effort = {"samples": 256, "replicas": 8, "tol": 1e-3} if benchmark.disabled else {}
    result, seconds = timed(benchmark, lambda: evolve(Network(), 0.5, **effort), 1)
    assert result.converged
    table(
        f"state evolution at alpha = 0.5 (q_22 = {result.overlap[1, 1]:.4f} +- {result.overlap_error[1, 1]:.4f}, "
        f"{result.n_iter} evaluations): {seconds:.2f} s on all cores"
    )


@pytest.mark.parametrize("alpha", [0.5, *(pytest.param(one, marks=pytest.mark.measures) for one in (0.9, 1.0, 1.05))])
def test_points_of_the_main_job(benchmark: Any, table: Callable[[str], None], ratio: Ratios, alpha: float) -> None:
    """Points of `make run` in exponentials, by processor time: what makes it longer is seen here."""
    x, start = np.linspace(-30.0, 0.0, 10**7), time.process_time()
    result = benchmark.pedantic(lambda: evolve(Network(), alpha, accuracy=1e-3), rounds=1)
    spent, start = time.process_time() - start, time.process_time()
    np.exp(x)
    exponentials = time.process_time() - start
    assert result.converged
    table(f"evolve of two layers at alpha = {alpha}, 1e-3: {spent:.2f} s of the processor")
    ratio(f"evolve of two layers at alpha = {alpha}, 1e-3 / 10^7 exponentials", spent / exponentials, better="less")


@pytest.mark.measures
def test_points_up_to_recovery(benchmark: Any, table: Callable[[str], None], ratio: Ratios) -> None:
    """Densely where both layers are learned: a point that takes many times as long as others is seen here."""
    evolve(Network(), 0.01, workers=1)  # compiled kernels are loaded
    spent = {}
    for alpha in np.arange(0.9, 1.051, 0.002).round(3).tolist():
        start = time.process_time()
        assert evolve(Network(), alpha, accuracy=1e-3, workers=1).reached
        spent[alpha] = time.process_time() - start
    benchmark.pedantic(lambda: None, rounds=1)
    slowest, median = max(spent, key=lambda alpha: spent[alpha]), np.median(list(spent.values()))
    table(
        f"evolve of two layers at {len(spent)} alphas from 0.9 to 1.05, 1e-3: {median:.2f} s of the processor in the "
        f"median, at most {spent[slowest]:.2f} s (alpha = {slowest:g})"
    )
    ratio("evolve of two layers, alpha = 0.9 to 1.05: slowest point / median", spent[slowest] / median, better="less")


@pytest.mark.measures
def test_curve_to_four_digits(benchmark: Any, table: Callable[[str], None]) -> None:
    """The curve of `make run`, ten times as accurate, on two threads."""
    # Of two decimals each, as the thresholds themselves are too near a threshold.
    alphas = grid(48, (0.19, 0.73))
    start = time.process_time()
    results, seconds = timed(benchmark, lambda: curve(Network(), alphas, accuracy=1e-4, workers=2), 1)
    spent = time.process_time() - start
    assert all(result.reached for result in results)
    table(f"{len(alphas)} points of two layers, 1e-4: {spent:.0f} s of the processor, {seconds:.0f} s on two threads")


def test_curve(benchmark: Any, table: Callable[[str], None]) -> None:
    alphas = np.linspace(0.0, 1.6, 48)
    effort = {}
    if benchmark.disabled:
        alphas, effort = alphas[:10:3], {"samples": 64, "replicas": 4, "tol": 1e-3}
    results, seconds = timed(benchmark, lambda: curve(Network(), alphas, **effort), 1)
    assert len(results) == len(alphas)
    done = sum(r.converged for r in results)
    table(f"curve of {len(alphas)} alphas up to {alphas[-1]:.2g}, {done} converged: {seconds:.1f} s on all cores")
