"""Errors of message passing on random instances: the dots of the figures.

`python -m attnlimits.papers.boncoraglio2025.figures.amp_runs` adds the runs that amp_runs.json beside this file lacks
(twenty minutes for all on one core); an interrupted run goes on where it stopped.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.core.results import save

from ...figures import Progress, Record, Steps, recompute, stored_runs

__all__ = ["CASES", "DATA", "Case", "add", "compute", "run", "stored"]

DATA = Path(__file__).with_name("amp_runs.json")
# Instances, as the paper has, and where one takes long.
_SEEDS, _FEW = 16, 8
# Near perfect recovery the steps shrink slowly.
_ITERATIONS = 400


@dataclass(frozen=True)
class Case:
    """One dot."""

    activation: str
    tokens: int
    rho: float
    dimension: int
    alpha: float


def _cases(activation: str, tokens: int, dimension: int, places: dict[float, Iterable[float]]) -> tuple[Case, ...]:
    return tuple(Case(activation, tokens, rho, dimension, alpha) for rho, alphas in places.items() for alpha in alphas)


CASES: tuple[Case, ...] = (
    *_cases("softmax", 2, 100, {0.5: (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.17, 0.2), 1.0: (0.05, 0.1, 0.15, 0.2)}),
    *_cases("softmax", 2, 100, {0.1: (0.02, 0.04), 2.0: (0.05, 0.1, 0.15, 0.2)}),
    *_cases("softmax", 3, 100, {0.5: (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07)}),
    *_cases("softmax", 4, 120, {0.5: (0.01, 0.02, 0.03, 0.036)}),
    *_cases("softmax", 5, 120, {0.5: (0.006, 0.013, 0.02, 0.023)}),
    *_cases("linear", 2, 100, {0.5: (0.04, 0.08, 0.11, 0.14), 1.0: (0.05, 0.1, 0.15)}),
    *_cases("hardmax", 2, 100, {rho: (0.1, 0.3, 1.0, 3.0) for rho in (0.1, 0.5, 1.0)}),
    *_cases("hardmax", 2, 100, {2.0: (0.1, 0.3, 1.0)}),
    *_cases("softmax", 6, 100, {0.5: (0.004, 0.00862, 0.01231, 0.016)}),
    # In no figure: how the bias of finite d shrinks.
    *_cases("softmax", 4, 100, {0.5: (0.01, 0.02, 0.03)}),
    *_cases("softmax", 5, 100, {0.5: (0.01, 0.015, 0.02)}),
    *_cases("softmax", 2, 200, {0.5: (0.05, 0.1, 0.15)}),
    *_cases("softmax", 3, 200, {0.5: (0.04,)}),
    *_cases("softmax", 4, 200, {0.5: (0.03,)}),
    *_cases("softmax", 5, 200, {0.5: (0.02,)}),
    *_cases("linear", 2, 200, {0.5: (0.08,)}),
    *_cases("hardmax", 2, 200, {0.5: (0.1, 0.3)}),
)


def run(case: Case, seeds: int = _SEEDS) -> Record:
    """Mean error over instances and the standard error of that mean, as amp_runs.json holds it."""
    output = channel(case.activation, case.tokens)
    errors: list[float] = []
    converged = 0
    for seed in range(seeds):
        S = teacher(case.dimension, case.rho, seed)
        x, y = make_data(S, case.alpha, output, seed)
        found = amp(x, y, output, case.rho, teacher=S, seed=seed, max_iter=_ITERATIONS)
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
