"""The ratios that every change must keep, in processor time: half a minute, on a machine that may be busy.

`make bench-short` runs these alone, `make bench` with the long ones. The yardsticks are what nobody can do without: a
plain compiled trapezoid, exponentials, products of matrices, the start of Python and of the libraries.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from mpmath.ctx_mp import MPContext
from threadpoolctl import threadpool_limits

from attnlimits.generated.fastmath import exp_array
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold

from .drawn import draw
from .ratios import Ratios, processor_seconds, seconds_of_commands
from .test_gamp_speed import problem

ROUNDS = 7
# The peer's cheapest grids at 1e-10, from `peer.tune` on 200 of these samples: box and nodes.
GRIDS = {(0.0, 0.5): (6.5, 67), (0.3, 0.99): (7.0, 157)}


pytestmark = pytest.mark.measures


@pytest.fixture(autouse=True)
def timed(benchmark: Any) -> None:
    """Have the plugin run what takes its own times."""
    benchmark.pedantic(lambda: None, rounds=1)


@pytest.mark.parametrize("q", GRIDS, ids=str)
def test_denoiser_over_a_plain_trapezoid(peer: ModuleType, ratio: Ratios, q: tuple[float, float]) -> None:
    model = Network()
    v, omega, covariance = draw(model, np.diag(q), 100)
    setting = peer.Setting(*GRIDS[q])
    reference = denoise_readout(model, v, omega, covariance, tol=1e-13, workers=1).g_out
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = denoise_readout(model, v, omega, covariance, tol=1e-10, workers=1).g_out

    def theirs() -> None:
        found["theirs"] = peer.g_out(v, omega, covariance, setting, skip=model.skip, beta=model.beta)

    our, their = processor_seconds([ours, theirs], ROUNDS)
    for value in found.values():
        assert np.percentile(peer.relative_error(value, reference), 95) <= 1e-10
    ratio(f"short: compiled trapezoid / denoiser, q = {q}, 1e-10", their / our, better="more")


def test_exponentials_over_those_of_numpy(ratio: Ratios) -> None:
    x = np.linspace(-30.0, 0.0, 2**17)
    ours, theirs = processor_seconds([lambda: exp_array(x), lambda: np.exp(x)], 30)
    ratio("short: NumPy's exp / exp of the kernels", theirs / ours, better="more")


def test_an_iteration_of_gamp_over_its_products(ratio: Ratios) -> None:
    x, samples, estimate, covariance = problem(Network(1, 2), 2000)
    flat = x.reshape(-1, 2000)
    columns = np.ascontiguousarray(estimate.T, dtype=np.float32)
    scores = np.random.default_rng(1).standard_normal((1, len(flat)), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        calls = [lambda: samples.sweep(estimate, covariance), lambda: (flat @ columns, scores @ flat)]
        iteration, products = processor_seconds(calls, ROUNDS)
    ratio("short: iteration of GAMP / its two products, D = 2000, one layer", iteration / products, better="less")


@pytest.mark.parametrize("alpha", [0.66, 0.8])
def test_a_point_of_state_evolution_in_exponentials(ratio: Ratios, alpha: float) -> None:
    """Before and after the first layer is learned; the unit is compiled as the sums are."""
    x = np.linspace(-30.0, 0.0, 10**6)
    calls = [lambda: evolve(Network(), alpha, accuracy=1e-3, workers=1), lambda: exp_array(x)]
    point, million = processor_seconds(calls, 3)
    ratio(
        f"short: evolve of two layers at alpha = {alpha}, 1e-3 / 10^6 compiled exponentials",
        point / million,
        better="less",
    )


def test_a_threshold_in_exponentials(ratio: Ratios) -> None:
    mp = MPContext()
    mp.dps = 30

    def exponentials() -> None:
        for k in range(10_000):
            mp.exp(-mp.mpf(k) / 997)

    threshold, many = processor_seconds([lambda: precise_threshold(Network(), 15), exponentials], 3)
    ratio("short: threshold to 15 digits / 10^4 exponentials of mpmath at 30", threshold / many, better="less")


def test_starts_over_those_of_what_they_need(ratio: Ratios) -> None:
    """The second call of each; the numerator holds the denominator."""
    python, command = [sys.executable, "-c"], [sys.executable, "-m", "attnlimits"]
    point = ["evolve", "--layers", "2", "--alpha", "0.6", "--json"]
    spent = seconds_of_commands(
        [
            *([*python, ""], [*command, "--version"]),
            *([*python, "import numpy, argparse"], [*command, "--help"]),
            *([*python, "import scipy.special, numba"], [*command, *point]),
        ],
        2,
    )
    for name, least, whole in zip(("--version", "--help", " ".join(point[:-1])), spent[::2], spent[1::2], strict=True):
        ratio(f"short: attnlimits {name} / starting what it needs", whole / least, better="less")
