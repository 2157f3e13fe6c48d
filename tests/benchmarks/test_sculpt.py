"""Processor seconds of sculpting beside those of the prototype in its table, step by step.

`make bench` shows the table. One BLAS thread, and processor time rather than wall time: the machine may be shared.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.multihead.sculpt import sculpt
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

# Family, heads, tokens, dimension, scale, relative noise, samples, and the prototype's median seconds.
ROWS = [
    ("gauss", 2, 2, 8, 4.0, 0.0, 1000, 1.0),
    ("gauss", 2, 2, 8, 4.0, 0.0, 30_000, 1.6),
    ("gauss", 2, 2, 12, 4.0, 0.0, 30_000, 4.9),
    ("gauss", 2, 2, 20, 4.0, 0.0, 30_000, 32.0),
    ("gauss", 2, 4, 8, 4.0, 0.0, 20_000, 11.0),
    ("gauss", 3, 2, 8, 4.0, 0.0, 60_000, 2.7),
    ("gauss", 3, 3, 10, 4.0, 0.0, 60_000, 8.7),
    ("gauss", 4, 2, 8, 2.0, 0.0, 100_000, 3.4),
    ("corr", 3, 2, 8, 30.0, 0.0, 60_000, 3.2),
    ("gauss", 3, 2, 8, 4.0, 0.1, 60_000, 10.0),
]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Fit once, for what is compiled or loaded on first use."""
    made = make_examples(*make_teacher("gauss", 1, 6, rng=0), samples=300, tokens=2, rng=0)
    sculpt(made.X, made.Y, 1, rng=0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, row[:-1])))
def test_seconds_beside_the_prototype(benchmark: Any, table: Callable[[str], None], row: tuple[Any, ...]) -> None:
    family, heads, tokens, dim, scale, noise, samples, prototype = row
    if benchmark.disabled and row is not ROWS[0]:
        pytest.skip("a matter of seconds: run `make bench`")
    rng = np.random.default_rng(1000)
    theta, w = make_teacher(family, heads, dim, scale=scale, rng=rng)
    made = make_examples(theta, w, samples=samples, tokens=tokens, noise=noise, rng=rng)
    start = time.process_time()
    found = benchmark.pedantic(
        sculpt, (made.X, made.Y, heads), {"noise_std": made.noise_std, "rng": 0}, rounds=1, iterations=1
    )
    spent = time.process_time() - start
    steps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in found.seconds.items())
    table(f"{family} m={heads} k={tokens} d={dim} N={samples}: {spent:.2f} s ({prototype} s): {steps}")
    benchmark.extra_info.update(seconds=spent, over_prototype=spent / prototype)
    assert found.converged
    # Every second of a step is counted once: what is left is the checks of the arguments and the hold-out.
    assert 0 <= spent - sum(found.seconds.values()) < 0.2 * spent + 0.1
    if not benchmark.disabled:
        assert spent < 2 * prototype
