"""Message passing on instances of a teacher at random, and its mean error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.standard_error import standard_error
from .amp import amp
from .channels import Channel
from .data import instance, teacher
from .results import AMPResult, AMPStep

__all__ = ["Instances", "amp_instances"]


class Instances(NamedTuple):
    """Results of instances, their mean error ||S - Shat||^2/d and its standard error, None for one instance."""

    results: list[AMPResult]
    error: float
    error_of_error: float | None


def amp_instances(
    alpha: float,
    rho: float,
    dimension: int,
    output: Channel,
    *,
    count: int,
    seed: int = 0,
    max_iter: int = 200,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Instances:
    """Estimate S of `count` teachers, with `seed` and those after it.

    Parameters
    ----------
    alpha, rho : float
        n/d^2 and r/d.
    dimension : int
        d.
    output : Channel
    count, seed : int
    progress : callable, optional
        Called with (done, total) iterations of all instances, as if none converged.
    max_iter, settings : optional
        As in `amp`.
    """
    found = []
    for number in range(count):

        def tick(step: AMPStep, number: int = number) -> None:
            if progress is not None:
                progress(number * max_iter + step.iteration, count * max_iter)

        S = teacher(dimension, rho, seed + number)
        x, y = instance(S, alpha, output, seed + number)
        found.append(
            amp(x, y, output, rho, teacher=S, seed=seed + number, callback=tick, max_iter=max_iter, **settings)
        )
    errors = np.array([r.mmse for r in found])
    return Instances(found, float(errors.mean()), float(standard_error(errors)) if count > 1 else None)
