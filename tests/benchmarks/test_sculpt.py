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
from attnlimits.papers.chen2024.figures.table import ROWS as ALL
from attnlimits.papers.chen2024.figures.table import Row

from .ratios import Ratios

# A row of each kind.
ROWS = [ALL[i] for i in (1, 2, 3, 5, 7, 9, 12, 13, 16, 20)]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Fit once, for what is compiled or loaded on first use."""
    made = make_examples(*make_teacher("gauss", 1, 6, rng=0), samples=300, tokens=2, rng=0)
    sculpt(made.X, made.Y, 1, rng=0)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=[pytest.mark.measures] * (row is not ROWS[0])) for row in ROWS]
)
def test_seconds_beside_the_prototype(benchmark: Any, table: Callable[[str], None], ratio: Ratios, row: Row) -> None:
    rng = np.random.default_rng(1000)
    theta, w = make_teacher(row.family, row.heads, row.dim, scale=row.scale, rng=rng)
    made = make_examples(theta, w, samples=row.samples, tokens=row.tokens, noise=row.noise, rng=rng)
    start = time.process_time()
    found = benchmark.pedantic(
        sculpt, (made.X, made.Y, row.heads), {"noise_std": made.noise_std, "rng": 0}, rounds=1, iterations=1
    )
    spent = time.process_time() - start
    prototype = row.sculpt.seconds
    assert prototype is not None
    steps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in found.seconds.items())
    table(f"{row.name}: {spent:.2f} s ({prototype} s): {steps}")
    ratio(f"sculpting / its prototype, {row.name}", spent / prototype, better="less")
    assert found.converged
    # Every second of a step is counted once: what is left is the checks of the arguments and the hold-out.
    assert 0 <= spent - sum(found.seconds.values()) < 0.2 * spent + 0.1
    if not benchmark.disabled:
        assert spent < 2 * prototype
