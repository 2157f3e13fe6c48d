"""One iteration of AMP beside what it cannot do without: an eigendecomposition and two passes over the data.

`make bench` shows the ratio of the least of each, which take turns. The passes are X Shat and X^T (G X), one matrix
product each.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.results import AMPStep

from .ratios import Ratios

RHO = 0.5


def seconds(x: Any, y: Any, output: Any, covariance: Any, S: Any, count: int) -> tuple[float, float]:
    """Least seconds of an iteration, and of an eigendecomposition with two products; they take turns."""
    flat = x.reshape(-1, len(S))
    spent: list[list[float]] = [[], []]
    start = time.perf_counter()

    def tick(step: AMPStep) -> None:
        nonlocal start
        end = time.perf_counter()
        np.linalg.eigh(S)
        product = flat @ S
        flat.T @ product
        after = time.perf_counter()
        spent[0].append(end - start)
        spent[1].append(after - end)
        start = time.perf_counter()

    amp(x, y, output, RHO, max_iter=count, tol=1e-12, covariance=covariance, callback=tick)
    return min(spent[0]), min(spent[1])


@pytest.mark.parametrize(
    ("name", "tokens", "alpha", "covariance"),
    [("softmax", 2, 0.15, "gram"), ("softmax", 2, 0.15, "scalar"), ("softmax", 4, 0.03, "gram")],
)
def test_an_iteration_beside_its_products(
    benchmark: Any,
    table: Callable[[str], None],
    ratio: Ratios,
    name: str,
    tokens: int,
    alpha: float,
    covariance: str,
) -> None:
    quick = benchmark.disabled
    d, rounds = (40, 3) if quick else (200, 20)
    output = channel(name, tokens)
    S = teacher(d, RHO, 0)
    x, y = make_data(S, alpha, output, 0)
    iteration, least = seconds(x, y, output, covariance, S, rounds)
    table(
        f"d = {d}, n = {len(x)}, {name}, T = {tokens}, {covariance}: iteration {1e3 * iteration:.1f} ms, "
        f"eigendecomposition and two products {1e3 * least:.1f} ms, ratio {iteration / least:.2f}"
    )
    ratio(f"iteration of AMP / its products, {name}, T = {tokens}, {covariance}", iteration / least, better="less")
    if not quick:
        assert iteration < 2 * least
    benchmark.pedantic(lambda: np.linalg.eigh(S), rounds=1)
