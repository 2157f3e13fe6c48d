"""The denoiser on jax's first device, a GPU where there is one, beside the compiled one on all cores."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.jax import denoise_jax

# A CPU runs what is written for a GPU some twenty times slower than the compiled loops.
SAMPLES = {"cpu": 200}
MANY, QUICK = 20_000, 8


@pytest.mark.slow  # jax compiles; tests/numerics/posterior/test_jax_kernels.py compares the two at other places
@pytest.mark.parametrize("q", [(0.0, 0.5), (0.3, 0.99)], ids=str)
def test_jax_beside_the_compiled_denoiser(benchmark: Any, table: Callable[[str], None], q: tuple[float, float]) -> None:
    jax = pytest.importorskip("jax", reason="the extra attnlimits[gpu] is not installed")
    device = jax.devices()[0]
    samples = QUICK if benchmark.disabled else SAMPLES.get(device.platform, MANY)
    model, rng = Network(), np.random.default_rng(20250201)
    overlap = np.diag(q)
    V = np.eye(2) - overlap
    omega = matrix_root(overlap) @ rng.standard_normal((samples, 2, 2))
    y = model.link(omega + np.linalg.cholesky(V) @ rng.standard_normal(omega.shape))

    def seconds(call: Callable[[], Any]) -> tuple[Any, float]:
        call()  # compiles
        start = time.perf_counter()
        result = call()
        return result, time.perf_counter() - start

    expected, ours = seconds(lambda: denoise(model, y, omega, V, tol=1e-11))
    made, theirs = seconds(lambda: denoise_jax(model, y, omega, V, tol=1e-11))
    scale = np.abs(expected.dg_out).max(axis=(1, 2, 3, 4))
    assert (np.abs(made.dg_out - expected.dg_out).max(axis=(1, 2, 3, 4)) <= 1e-10 * scale).all()
    table(
        f"denoiser, q = diag{q}, {samples} samples to 1e-11: compiled {1e6 * ours / samples:.1f} us each on all "
        f"cores, jax {1e6 * theirs / samples:.1f} us on {device.platform} ({device.device_kind}), "
        f"{ours / theirs:.3g} times as fast"
    )
    benchmark.pedantic(lambda: denoise_jax(model, y, omega, V, tol=1e-11), rounds=1)
