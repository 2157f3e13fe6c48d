"""Errors of gradient descent on random instances, softmax at two to six tokens: of one student, of the mean of many.

`python -m attnlimits.papers.boncoraglio2025.figures.descent_runs` adds the runs that amp_runs.json beside this file
lacks (a quarter of an hour for all on one core); an interrupted run goes on where it stopped. Those of two tokens are
at the alphas of the public runs, those of more at the same numbers of functionals, alpha (T^2 + T - 2).

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

__all__ = ["ALPHAS", "CASES", "compute", "run"]

#: Those of the public runs.
ALPHAS = tuple(alpha for alpha, _ in DESCENT["gd"].points)
#: Tokens and alphas.
CASES = (
    *((2, alpha) for alpha in ALPHAS),
    *((tokens, round(4 * alpha / (tokens**2 + tokens - 2), 5)) for tokens in (3, 4, 5, 6) for alpha in ALPHAS[1:3]),
)
_RHO, _DIMENSION, _SEEDS, _STUDENTS, _PUBLIC = 0.5, 100, 4, 4, 32


def run(
    alpha: float, tokens: int = 2, *, seeds: int = _SEEDS, dimension: int = _DIMENSION, steps: int = 1000
) -> list[Record]:
    """Two records as amp_runs.json holds them: of one student ("gd") and of the mean of 32 ("agd")."""
    output = channel("softmax", tokens)
    errors = []
    for seed in range(seeds):
        S = teacher(dimension, _RHO, seed)
        x, y = make_data(S, alpha, output, seed)
        found = descend(x, y, output, _RHO, students=_STUDENTS, steps=steps, teacher=S, rng=seed)
        errors.append((found.of_mean(1), found.of_mean(_PUBLIC)))
    place = {"activation": "softmax", "tokens": tokens, "rho": _RHO, "dimension": dimension, "alpha": alpha}
    means, spreads = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / math.sqrt(seeds)
    return [
        place | {"method": method, "mmse": float(mean), "error": float(spread), "seeds": seeds}
        for method, mean, spread in zip(("gd", "agd"), means, spreads, strict=True)
    ]


def compute(progress: Progress | None = None) -> Path:
    """Run what is missing, each alpha written at once."""
    step = Steps(progress, len(CASES))
    for tokens, alpha in CASES:
        if not amp_runs.stored({"method": "agd", "tokens": tokens, "alpha": alpha, "dimension": _DIMENSION}):
            amp_runs.add(run(alpha, tokens))
        step()
    return amp_runs.DATA


if __name__ == "__main__":
    print(f"wrote {recompute('gradient descent', compute)}")
