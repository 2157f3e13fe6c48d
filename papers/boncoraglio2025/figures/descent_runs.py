"""Errors of gradient descent on random instances, softmax at two tokens: of one student, and of the mean of many.

`python -m attnlimits.papers.boncoraglio2025.figures.descent_runs` adds the runs that amp_runs.json beside this file
lacks (five minutes for all on one core); an interrupted run goes on where it stopped.

Four students give the expected error of the mean of 32, the number of the public runs: `DescentResult.of_mean`.
"""

import math
from pathlib import Path

import numpy as np

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.gd import descend

from ...figures import Progress, Record, Steps, recompute
from . import amp_runs
from .published import DESCENT

__all__ = ["ALPHAS", "compute", "run"]

#: Those of the public runs.
ALPHAS = tuple(alpha for alpha, _ in DESCENT["gd"].points)
_RHO, _DIMENSION, _SEEDS, _STUDENTS, _PUBLIC = 0.5, 100, 4, 4, 32


def run(alpha: float, *, seeds: int = _SEEDS, dimension: int = _DIMENSION, steps: int = 1000) -> list[Record]:
    """Two records as amp_runs.json holds them: of one student ("gd") and of the mean of 32 ("agd")."""
    output = channel("softmax")
    errors = []
    for seed in range(seeds):
        S = teacher(dimension, _RHO, seed)
        x, y = make_data(S, alpha, output, seed)
        found = descend(x, y, output, _RHO, students=_STUDENTS, steps=steps, teacher=S, rng=seed)
        errors.append((found.of_mean(1), found.of_mean(_PUBLIC)))
    place = {"activation": "softmax", "tokens": 2, "rho": _RHO, "dimension": dimension, "alpha": alpha}
    means, spreads = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / math.sqrt(seeds)
    return [
        place | {"method": method, "mmse": float(mean), "error": float(spread), "seeds": seeds}
        for method, mean, spread in zip(("gd", "agd"), means, spreads, strict=True)
    ]


def compute(progress: Progress | None = None) -> Path:
    """Run what is missing, each alpha written at once."""
    step = Steps(progress, len(ALPHAS))
    for alpha in ALPHAS:
        if not amp_runs.stored({"method": "agd", "alpha": alpha, "dimension": _DIMENSION}):
            amp_runs.add(run(alpha))
        step()
    return amp_runs.DATA


if __name__ == "__main__":
    recompute("gradient descent", compute)
