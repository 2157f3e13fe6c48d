"""Two softmax layers learned together by gradient descent: an experiment at d = 20, of which no limit is known.

`python -m attnlimits.papers.boncoraglio2025.figures.deep_runs` adds the runs that deep_runs.json beside this file lacks
(some ten minutes for all on one core); an interrupted run goes on where it stopped.
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.aim.data import indices, teacher
from attnlimits.numerics.aim.deep_descent import descend_layers
from attnlimits.numerics.aim.layers import deep_outputs

from ...figures import Progress, Record, add_missing, recompute, stored_runs

__all__ = ["ALPHAS", "DATA", "RHO", "SEEDS", "compute", "run", "stored"]

DATA = Path(__file__).with_name("deep_runs.json")
ALPHAS = (0.1, 0.2, 0.4, 0.8, 1.6)
RHO, SEEDS = 0.5, 8


def run(alpha: float, seeds: int) -> Record:
    """Errors of both layers of every instance, shape (seeds, 2), of one student each, and how many have settled."""
    rows, settled = [], 0
    dimension, skip, steps = 20, 1.0, 1500
    for seed in range(seeds):
        S = [teacher(dimension, RHO, 100 * layer + seed) for layer in (1, 2)]
        x = np.random.default_rng([11, seed]).standard_normal((round(alpha * dimension**2), 2, dimension))
        y = deep_outputs(np.stack([indices(x, s) for s in S]), skip)
        found = descend_layers(x, y, [RHO, RHO], skip, teachers=S, steps=steps, rng=seed)
        assert found.errors is not None
        rows.append(found.errors.tolist())
        settled += found.converged
    return {"alpha": alpha, "dimension": dimension, "rho": RHO, "skip": skip, "errors": rows, "converged": settled}


def stored() -> list[Record]:
    """Return the stored runs, in increasing alpha."""
    return sorted(stored_runs(DATA), key=lambda r: float(r["alpha"]))


def compute(progress: Progress | None = None) -> Path:
    """Run what is missing, each alpha written to `DATA` at once."""
    return add_missing(DATA, [{"alpha": alpha} for alpha in ALPHAS], lambda case: run(case["alpha"], SEEDS), progress)


if __name__ == "__main__":
    print(f"wrote {recompute('two layers together', compute)}")
