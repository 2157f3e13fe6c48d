"""How the error of message passing falls to its limit with d, of the sum of several heads and of one layer as wide.

`python -m attnlimits.papers.boncoraglio2025.figures.size_runs` adds the runs that size_runs.json beside this file lacks
(half an hour for all on one core); an interrupted run goes on where it stopped.

At every d the sum of L heads is one layer of width L r/d in law, S' = W W^T/sqrt(L r d) with W of all columns, and the
error of both exceeds the state evolution by c/d.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.heads import heads_channel, heads_teacher, heads_width, sum_of_heads
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.core.results import Estimate

from ...figures import Progress, Record, add_missing, recompute, stored_runs

__all__ = ["CASES", "DATA", "RHO", "Case", "compute", "excess", "run", "stored"]

DATA = Path(__file__).with_name("size_runs.json")
#: Width of each head.
RHO = 0.25


@dataclass(frozen=True)
class Case:
    """Instances of one dimension: of the sum of the heads, or ("one") of a layer of the width of all."""

    heads: int
    alpha: float
    noise: float
    dimension: int
    drawn: str


CASES: tuple[Case, ...] = tuple(
    Case(heads, alpha, noise, dimension, drawn)
    for heads, alpha, noise, dimensions in (
        (2, 0.1, 0.0, (50, 100, 200)),
        (3, 0.15, 0.3, (50, 100, 200)),
        (2, 0.1, 0.0, (400,)),
    )
    for dimension in dimensions
    for drawn in ("sum", "one")
)


def run(case: Case, seeds: Sequence[int]) -> Record:
    """Error ||S' - Shat||^2/d of every instance, with Tr S'/d and Tr S'^2/d, whose means are known."""
    output = heads_channel("softmax", case.heads, noise=case.noise)
    rows: list[tuple[float, float, float]] = []
    # First seed of one layer: its teachers are no others' draws.
    alone = 10_000
    for number in seeds:
        if case.drawn == "sum":
            seed = number
            S = sum_of_heads(heads_teacher(case.dimension, RHO, case.heads, seed))
        else:
            seed = alone + number
            S = teacher(case.dimension, heads_width(case.heads, RHO, case.dimension), seed)
        x, y = make_data(S, case.alpha, output, seed)
        found = amp(x, y, output, case.heads * RHO, tol=1e-6, max_iter=300, teacher=S)
        assert found.mmse is not None
        rows.append((found.mmse, float(np.trace(S)) / case.dimension, float((S**2).sum()) / case.dimension))
    mmse, trace, square = zip(*rows, strict=True)
    return case.__dict__ | {"mmse": list(mmse), "trace": list(trace), "square": list(square)}


def stored() -> list[Record]:
    """Return the stored runs."""
    return stored_runs(DATA)


def excess(runs: Sequence[Record]) -> list[tuple[int, Estimate]]:
    """By how much the mean error of the instances of each dimension exceeds the state evolution, relative to it.

    Parameters
    ----------
    runs : sequence of dict
        Of one number of heads, at one alpha and noise.

    Returns
    -------
    list of (int, Estimate)
        Dimensions, and the excess with one standard error. What the scatter of Tr S' and Tr S'^2 explains is taken
        off, by a regression with slopes common to all dimensions on their distances from (r'/d)^{1/2} and
        1 + (r' + 1)/d, the means.
    """
    first = runs[0]
    output = heads_channel("softmax", first["heads"], noise=first["noise"])
    dimensions = sorted({int(r["dimension"]) for r in runs})
    rows, values = [], []
    for r in runs:
        d = int(r["dimension"])
        width = heads_width(first["heads"], RHO, d)
        limit = evolve(first["alpha"], width, output).mmse.value
        for mmse, trace, square in zip(r["mmse"], r["trace"], r["square"], strict=True):
            own = [float(d == other) for other in dimensions]
            rows.append([*own, trace - math.sqrt(width), square - 1 - width - 1 / d])
            values.append(mmse / limit - 1)
    design, y = np.array(rows), np.array(values)
    # The scatter depends on d: least squares with the variance of each dimension, from a first fit with equal ones.
    weights = np.ones(len(y))
    for _ in range(2):
        fit = np.linalg.lstsq(design * weights[:, None], y * weights, rcond=None)[0]
        off = y - design @ fit
        for column in range(len(dimensions)):
            own_rows = design[:, column] == 1
            weights[own_rows] = 1 / off[own_rows].std(ddof=1)
    covariance = np.linalg.inv(design.T @ (design * weights[:, None] ** 2))
    return [
        (d, Estimate(float(fit[i]), float(np.sqrt(covariance[i, i])), "monte-carlo")) for i, d in enumerate(dimensions)
    ]


def compute(progress: Progress | None = None) -> Path:
    """Run the cases that are missing, each written to `DATA` at once."""
    seeds = {50: 200, 100: 80, 200: 40, 400: 8}

    def made(case: Record) -> Record:
        return run(Case(**case), range(seeds[case["dimension"]]))

    return add_missing(DATA, [vars(case) for case in CASES], made, progress)


if __name__ == "__main__":
    print(f"wrote {recompute('sizes of message passing', compute)}")
