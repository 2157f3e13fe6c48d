"""How well the compiled denoiser uses two cores from threads: one thread's time over twice that of two."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout

from .drawn import draw
from .ratios import Ratios

# Some tenths of a second on one core; of many such runs the least counts, for which a busy machine must be free once.
SAMPLES, QUICK, ROUNDS = 6_000, 256, 40


@pytest.mark.parametrize("q", [(0.0, 0.5), (0.3, 0.99)], ids=str)
def test_efficiency_of_two_threads(
    benchmark: Any, table: Callable[[str], None], ratio: Ratios, q: tuple[float, float]
) -> None:
    samples, rounds = (QUICK, 1) if benchmark.disabled else (SAMPLES, ROUNDS)
    v, omega, V = draw(Network(), np.diag(q), samples)
    wall, busy = [np.inf] * 3, [0.0] * 3
    results: dict[int, Any] = {}
    for _ in range(rounds):
        for workers in (1, 2):
            start, cpu = time.perf_counter(), time.process_time()
            results[workers] = denoise_readout(Network(), v, omega, V, tol=1e-10, workers=workers)
            seconds = time.perf_counter() - start
            if seconds < wall[workers]:
                wall[workers], busy[workers] = seconds, (time.process_time() - cpu) / seconds
    np.testing.assert_array_equal(results[1].dg_out, results[2].dg_out)
    blas = sorted({entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"})
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    table(
        f"denoiser, q = diag{q}, {samples} samples: {1e6 * wall[1] / samples:.1f} us each with one thread "
        f"({busy[1]:.2f} cores busy), {1e6 * wall[2] / samples:.1f} us with two ({busy[2]:.2f} cores busy): efficiency "
        f"{wall[1] / (2 * wall[2]):.2f} (BLAS allows itself {blas} threads; load of the machine {load:.1f})"
    )
    ratio(f"denoiser on two threads, q = {q}: share of two cores", wall[1] / (2 * wall[2]), better="more")
    # One thread takes no more than one core: nothing below it, BLAS included, adds threads of its own.
    assert busy[1] < 1.1
    benchmark.pedantic(lambda: denoise_readout(Network(), v, omega, V, tol=1e-10, workers=2), rounds=1)
