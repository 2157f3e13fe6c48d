"""The part of the page on message passing: instances of a teacher at random beside the state evolution."""

import numpy as np

import attnlimits as al

from ..core.decimals import to_error
from ..core.typing import Numbers as Array
from ..model.described import of_data
from ..model.routes import require
from .cost import chosen, costly
from .evolution import fixed_point
from .steps import Found, Number, Outcome, Part, Runner, Step

__all__ = ["instances"]

_MODULES = ("attnlimits.verbs.gamp", "attnlimits.numerics.learning.instances")


def instances(run: Runner, weak: float | None) -> Part:
    """Run message passing on instances, and the state evolution at the same alpha."""
    title = "Message passing on instances"
    try:
        require("gamp", of_data(run.model))
    except (ValueError, RuntimeError) as error:
        return Part("instances", title, (run.refuse("instances", "message passing", str(error)),))
    alphas = chosen(run, weak)
    if costly(run):
        alphas = alphas[-1:]
    found: list[Outcome] = []
    for alpha in alphas:
        found += [run.run(_gamp(run, alpha)), fixed_point(run, alpha, "uninformed")]
    return Part("instances", title, tuple(found))


def _gamp(run: Runner, alpha: float) -> Step:
    effort, model = run.effort, of_data(run.model)
    dimension = effort.costly_dimension if costly(run) else effort.dimension
    # Fewer where each iteration denoises by sampling.
    most_iterations, few_iterations = 200, 100
    settings = {
        "alpha": alpha,
        "dimension": dimension,
        "seeds": effort.seeds,
        "max_iter": few_iterations if costly(run) else most_iterations,
    }

    # Of the overlaps of iterations, which are drawn.
    decimals = 5

    def call(alpha: float, dimension: int, seeds: int, max_iter: int) -> Found:
        def learn(seed: int, weights: Array, x: Array, y: Array) -> al.learning.GAMPResult:
            return al.gamp(run.model, x, y, teacher=weights, rng=seed, max_iter=max_iter)

        runs = al.learning.on_instances(model, alpha, dimension, learn, count=seeds)
        mean = al.learning.mean_of(runs, [r.n_iter for r in runs])
        q, error = mean.overlap, mean.overlap_error
        numbers = tuple(
            Number(
                f"q_{i + 1}{i + 1} by message passing, alpha = {alpha:g}, D = {dimension}, {seeds} instances",
                to_error(q[i, i], error[i, i]),
                float(error[i, i]),
                "monte-carlo",
            )
            for i in range(len(q))
        )
        data = {
            "alpha": alpha,
            "dimension": dimension,
            "seeds": seeds,
            "overlap": q,
            "overlap_error": error,
            "iterations": mean.n_iter,
            "converged": mean.converged,
            "status": mean.status,
            "history": [
                np.round(r.history.diagonal(axis1=1, axis2=2), decimals) for r in runs if r.history is not None
            ],
        }
        return numbers, data

    return Step("instances", f"gamp, alpha = {alpha:g}", "gamp", settings, call, _MODULES)
