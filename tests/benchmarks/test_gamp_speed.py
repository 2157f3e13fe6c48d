"""One iteration of GAMP beside the two matrix products it cannot do without, and how it grows with the data.

`make bench` shows the table. The products are X W^T and G^T X by one BLAS call each on all cores; an iteration reads X
once for both, in blocks, and calls the denoiser in between.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.learning.gamp import informed_start, teacher
from attnlimits.numerics.learning.passes import Samples
from attnlimits.numerics.learning.products import project
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior

from .ratios import Ratios

# Seconds per sample of the published denoiser with its slopes by finite differences, on a core like the one it was
# measured on: the least of its range.
PUBLISHED = 4.4
ALPHA = 1.2


def problem(model: Network, dimension: int) -> tuple[NDArray[Any], Samples, NDArray[Any], NDArray[Any]]:
    """Data of a teacher in float32, and an estimate at overlap 0.5."""
    rng = np.random.default_rng(0)
    weights = teacher(model, dimension, 0)
    x = np.empty((round(ALPHA * dimension), model.tokens, dimension), np.float32)
    for row in x:
        row[:] = rng.standard_normal(row.shape, dtype=np.float32)
    h = np.swapaxes(x @ weights.T.astype(np.float32), 1, 2).astype(np.float64) / np.sqrt(dimension)
    samples = Samples(x, model.link(h), model, lambda y: posterior(model, y, tol=1e-4))
    return x, samples, informed_start(weights, 0.5, 0), np.eye(model.indices) * 0.5


def seconds(calls: list[Callable[[], Any]], rounds: int, least: float = 0.0) -> list[float]:
    """Least seconds of each, of so many rounds in so many seconds at least.

    They take turns, so that a busy machine slows all of them.
    """
    best = [np.inf] * len(calls)
    end = time.perf_counter() + least
    while rounds > 0 or time.perf_counter() < end:
        rounds -= 1
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


@pytest.mark.parametrize("model", [Network(1, 2), Network(2, 2)], ids=["L=1", "L=2"])
def test_an_iteration_beside_its_products(
    benchmark: Any, table: Callable[[str], None], ratio: Ratios, model: Network
) -> None:
    quick = benchmark.disabled
    dimension = 400 if quick else 10_000
    x, samples, estimate, covariance = problem(model, dimension)
    flat = x.reshape(-1, dimension)
    columns = np.ascontiguousarray(estimate.T, dtype=np.float32)
    scores = np.random.default_rng(1).standard_normal((model.indices, len(flat)), dtype=np.float32)
    (block,) = samples.blocks
    omega = project(np.float32(estimate), x, block.onsager)
    iteration, products, denoiser = seconds(
        [
            lambda: samples.sweep(estimate, covariance),
            lambda: (flat @ columns, scores @ flat),
            lambda: block.output(omega, covariance, slice(0, len(x))),
        ],
        1 if quick else 7,
    )
    each = denoiser / len(x)
    table(
        f"D = {dimension}, N = {len(x)}, {model.describe()}: iteration {iteration:.3f} s, "
        f"two products {products:.3f} s, ratio {iteration / products:.2f}; "
        f"denoiser {1e6 * each:.1f} us per sample on one core, {PUBLISHED / each:.0f} times faster than published"
    )
    layers = f"L = {model.layers}"
    ratio(f"iteration of GAMP / its two products, D = {dimension}, {layers}", iteration / products, better="less")
    ratio(f"published denoiser / ours, {layers}", PUBLISHED / each, better="more")
    # A thousandfold, wherever it runs.
    assert each < PUBLISHED / 1000
    if not quick:
        assert iteration < 2 * products
    benchmark.pedantic(lambda: samples.sweep(estimate, covariance), rounds=1 if quick else 3)


@pytest.mark.measures
def test_cost_grows_no_faster_than_the_data(benchmark: Any, table: Callable[[str], None]) -> None:
    """Products take time ~ N D, the denoiser ~ N: together at most linear in N D, and linear but for the denoiser."""
    dimensions = [1000, 2000, 4000, 7000, 10_000]
    size = np.log([ALPHA * d * d for d in dimensions])
    for model in (Network(1, 2), Network(2, 2)):
        whole, rest = [], []
        for dimension in dimensions:
            _, samples, estimate, covariance = problem(model, dimension)
            (block,) = samples.blocks
            output = block.output
            once = seconds([lambda s=samples, w=estimate, v=covariance: s.sweep(w, v)], 9, 1.0)
            # The same pass, with scores that cost nothing.
            block.output = Scores(output.rows)
            bare = seconds([lambda s=samples, w=estimate, v=covariance: s.sweep(w, v)], 9, 1.0)
            whole += once
            rest += bare
        times = ", ".join(
            f"D = {d}: {1e3 * s:.1f} ({1e3 * b:.1f}) ms" for d, s, b in zip(dimensions, whole, rest, strict=True)
        )
        exponent, bare_exponent = (float(np.polyfit(size, np.log(spent), 1)[0]) for spent in (whole, rest))
        table(f"{model.describe()}: an iteration (without its denoiser): {times}")
        table(f"seconds ~ (N D)^{exponent:.2f}, without the denoiser ~ (N D)^{bare_exponent:.2f}")
        assert exponent < 1.1
    benchmark.pedantic(lambda: samples.sweep(estimate, covariance), rounds=1)


class Scores:
    """Scores that are the prior means."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __call__(self, omega: NDArray[Any], V: NDArray[Any], part: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        return omega, V
