"""Errors of message passing on random instances: the dots of the figures.

`python -m attnlimits.papers.boncoraglio2025.figures.amp_runs` adds the runs that amp_runs.json beside this file lacks
(twenty minutes for all on one core); an interrupted run goes on where it stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.core.results import save

from ...figures import Progress, Record, Steps, recompute, stored_runs, table

__all__ = ["CASES", "DATA", "Case", "add", "compute", "run", "stored"]

DATA = Path(__file__).with_name("amp_runs.json")
# Instances, as the paper has, and where one takes long.
_SEEDS, _FEW = 16, 8


@dataclass(frozen=True)
class Case:
    """One dot."""

    activation: str
    tokens: int
    rho: float
    dimension: int
    alpha: float


def _case(row: Mapping[str, str]) -> Case:
    tokens, dimension = int(row["tokens"]), int(row["dimension"])
    return Case(row["activation"], tokens, float(row["rho"]), dimension, float(row["alpha"]))


#: amp_cases.csv beside this file; its last lines are in no figure: how the bias of finite d shrinks.
CASES: tuple[Case, ...] = tuple(map(_case, table(DATA.with_name("amp_cases.csv"))))


def run(case: Case, seeds: int = _SEEDS) -> Record:
    """Mean error over instances and the standard error of that mean, as amp_runs.json holds it."""
    output = channel(case.activation, case.tokens)
    errors: list[float] = []
    converged = 0
    # Near perfect recovery the steps shrink slowly.
    iterations = 400
    for seed in range(seeds):
        S = teacher(case.dimension, case.rho, seed)
        x, y = make_data(S, case.alpha, output, seed)
        found = amp(x, y, output, case.rho, teacher=S, seed=seed, max_iter=iterations)
        assert found.mmse is not None
        errors.append(found.mmse)
        converged += found.converged
    return case.__dict__ | {
        "method": "amp",
        "mmse": float(np.mean(errors)),
        "error": float(np.std(errors, ddof=1) / math.sqrt(seeds)),
        "seeds": seeds,
        "converged": converged,
    }


def compute(progress: Progress | None = None) -> Path:
    """Run the cases that are missing, each written to `DATA` at once."""
    step = Steps(progress, len(CASES))
    for case in CASES:
        if not stored(case.__dict__ | {"method": "amp"}):
            add([run(case, _SEEDS if case.dimension < 200 else _FEW)])
        step()
    return DATA


def add(made: list[Record]) -> None:
    """Write runs to `DATA` in the place of those alike, and keep what another process has added meanwhile."""
    alike = {_place(r) for r in made}
    save(DATA, {"runs": [*(r for r in stored_runs(DATA) if _place(r) not in alike), *made]})


def _place(record: Record) -> tuple[object, ...]:
    return tuple(record[name] for name in (*Case.__dataclass_fields__, "method"))


def stored(place: Record) -> list[Record]:
    """Return the stored runs that have the values of `place`, in increasing alpha."""
    found = [r for r in stored_runs(DATA) if all(r[name] == value for name, value in place.items())]
    return sorted(found, key=lambda r: float(r["alpha"]))


if __name__ == "__main__":
    print(f"wrote {recompute('message passing', compute)}")
