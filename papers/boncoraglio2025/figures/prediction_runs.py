"""Errors of prediction by message passing on random instances, on fresh samples: the dots of the figure of them.

`python -m attnlimits.papers.boncoraglio2025.figures.prediction_runs` adds the runs that prediction_runs.json beside
this file lacks (some five minutes for all on one core); an interrupted run goes on where it stopped.
"""

from dataclasses import dataclass
from pathlib import Path

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.instances import amp_instances

from ...figures import Progress, Record, add_missing, recompute, stored_runs

__all__ = ["CASES", "DATA", "RHO", "Case", "compute", "run", "stored"]

DATA = Path(__file__).with_name("prediction_runs.json")
RHO = 0.5
# Near perfect recovery the steps shrink slowly.
_SEEDS, _ITERATIONS = 8, 400


@dataclass(frozen=True)
class Case:
    """One dot of each prediction."""

    activation: str
    beta: float
    alpha: float
    tokens: int = 2
    dimension: int = 100


CASES: tuple[Case, ...] = (
    *(Case("softmax", beta, alpha) for beta in (1.0, 4.0) for alpha in (0.025, 0.05, 0.1, 0.15)),
    *(Case("hardmax", 1.0, alpha) for alpha in (0.1, 0.3, 1.0)),
)


def run(case: Case, seeds: int = _SEEDS) -> Record:
    """Mean errors over instances, each on 1000 fresh samples, and the standard errors of these means."""
    output = channel(case.activation, case.tokens, case.beta, logarithms=case.activation == "softmax")
    found = amp_instances(case.alpha, RHO, case.dimension, output, count=seeds, max_iter=_ITERATIONS)
    mean, plug = found.prediction.posterior_mean, found.prediction.plug_in
    return case.__dict__ | {
        "posterior_mean": [mean.value, mean.error],
        "plug_in": [plug.value, plug.error],
        "seeds": seeds,
        "converged": sum(result.converged for result in found.results),
    }


def stored() -> list[Record]:
    """Return the stored runs."""
    return stored_runs(DATA)


def compute(progress: Progress | None = None) -> Path:
    """Run the cases that are missing, each written to `DATA` at once."""
    return add_missing(DATA, [vars(case) for case in CASES], lambda case: run(Case(**case)), progress)


if __name__ == "__main__":
    print(f"wrote {recompute('errors of prediction', compute)}")
