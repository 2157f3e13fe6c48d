"""Message passing and gradient descent on instances of a teacher at random, and their mean errors."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from ..core.results import Estimate
from ..core.shown import few_lines
from ..core.standard_error import standard_error
from ..learning.blocks import Array
from .amp import AmpSettings, amp
from .channels import Channel
from .data import instance, make_data, refuse_size
from .gd import descend
from .heads import heads_teacher, sum_of_heads
from .prediction import errors_on_data
from .results import AMPResult, AMPStep, DescentResult, PredictionErrors

__all__ = ["DescentInstances", "Instances", "amp_instances", "descent_instances"]


@few_lines
class Instances(NamedTuple):
    """Results of instances, their mean error ||S - Shat||^2/d and its standard error, None for one instance.

    `prediction` holds the mean errors of predictions on fresh samples, and their standard errors. With several heads
    S = L^{-1/2} sum_l S_l, and `head` is the error of each S_l, estimated by L^{-1/2} Shat; else None.
    """

    results: list[AMPResult]
    error: float
    error_of_error: float | None
    prediction: PredictionErrors
    head: Estimate | None = None


def amp_instances(
    alpha: float,
    rho: float,
    dimension: int,
    output: Channel,
    *,
    count: int,
    heads: int = 1,
    seed: int = 0,
    dtype: type[np.float32] | type[np.float64] = np.float64,
    progress: Callable[[int, int], None] | None = None,
    **settings: Unpack[AmpSettings],
) -> Instances:
    """Estimate S of `count` teachers, with `seed` and those after it.

    Parameters
    ----------
    alpha, rho : float
        n/d^2 and r/d, of each head.
    dimension : int
        d.
    output : Channel
        Of the sum of the heads, where there are several: `heads_channel`.
    count, heads, seed : int
    dtype : {np.float64, np.float32}, optional
        Of the tokens.
    progress : callable, optional
        Called with (done, total) iterations of all instances, as if none converged.
    settings : optional
        As in `amp`.
    """
    most = settings.setdefault("max_iter", 200)
    found, fresh, of_heads = [], [], []
    for number in range(count):

        def tick(step: AMPStep, number: int = number) -> None:
            if progress is not None:
                progress(number * most + step.iteration, count * most)

        each = heads_teacher(dimension, rho, heads, seed + number)
        S = sum_of_heads(each)
        x, y = instance(S, alpha, output, seed + number, dtype=dtype)
        width = heads * rho
        found.append(amp(x, y, output, width, teacher=S, seed=seed + number, callback=tick, **settings))
        last = found[-1]
        of_heads.append(_of_each(each, last.estimate))
        fresh.append(errors_on_data(S, last.estimate, max(last.predicted, 0.0), output, rng=seed + number))
    errors = np.array([r.mmse for r in found])
    prediction = PredictionErrors(_mean([f.posterior_mean for f in fresh]), _mean([f.plug_in for f in fresh]))
    return Instances(found, float(errors.mean()), _spread(errors), prediction, _head(of_heads, heads))


class _Rate(TypedDict, total=False):
    """Settings that are passed on to `descend`."""

    rate: float


@few_lines
class DescentInstances(NamedTuple):
    """Results of instances, and means over these with their standard errors, None for one instance.

    `single` is the error ||S - Shat||^2/d of a student, `averaged` that of the mean of all students of an instance.
    With several heads S = L^{-1/2} sum_l S_l, and `head` is the error of each S_l, by L^{-1/2} times that mean.
    """

    results: list[DescentResult]
    single: float
    error_of_single: float | None
    averaged: float
    error_of_averaged: float | None
    prediction: Estimate
    head: Estimate | None = None


def descent_instances(
    alpha: float,
    rho: float,
    dimension: int,
    output: Channel,
    *,
    count: int,
    heads: int = 1,
    seed: int = 0,
    steps: int = 1000,
    students: int = 4,
    progress: Callable[[int, int], None] | None = None,
    **settings: Unpack[_Rate],
) -> DescentInstances:
    """Descend from several starts on data of `count` teachers, those of `amp_instances`.

    Parameters
    ----------
    alpha, rho, dimension, output, count, heads, seed, progress
        As in `amp_instances`; progress counts steps.
    steps, students, settings : optional
        As in `descend`.

    Notes
    -----
    Outputs of several heads depend on S alone: a student is one of the width of all, as in `descend`.
    """
    refuse_size(alpha, dimension, output.tokens, f"d = {dimension} at alpha = {alpha:g}", scalar=True)
    found, fresh, of_heads = [], [], []
    for number in range(count):

        def tick(student: int, step: int, number: int = number) -> None:
            if progress is not None:
                progress((number * students + student) * steps + step, count * students * steps)

        each = heads_teacher(dimension, rho, heads, seed + number)
        S = sum_of_heads(each)
        x, y = make_data(S, alpha, output, seed + number)
        found.append(
            descend(
                x,
                y,
                output,
                rho,
                heads=heads,
                teacher=S,
                rng=seed + number,
                callback=tick,
                steps=steps,
                students=students,
                **settings,
            )
        )
        fresh.append(errors_on_data(S, found[-1].estimate, 0.0, output, rng=seed + number).plug_in)
        of_heads.append(_of_each(each, found[-1].estimate))
    single, averaged = (np.array([getattr(r, name) for r in found]) for name in ("single", "mmse"))
    return DescentInstances(
        found,
        float(single.mean()),
        _spread(single),
        float(averaged.mean()),
        _spread(averaged),
        _mean(fresh),
        _head(of_heads, heads),
    )


def _of_each(each: Array, estimate: Array) -> float:
    """Mean error of the S_l, estimated by what they have in common."""
    heads, d = each.shape[:2]
    return float(((each - estimate / math.sqrt(heads)) ** 2).sum()) / (heads * d)


def _head(errors: list[float], heads: int) -> Estimate | None:
    """Mean over instances of the error of each of several heads."""
    return _mean([Estimate(value, math.inf, "monte-carlo") for value in errors]) if heads > 1 else None


def _spread(values: Array) -> float | None:
    return float(standard_error(values)) if len(values) > 1 else None


def _mean(found: list[Estimate]) -> Estimate:
    """Over instances; of one instance, with the standard error over its samples."""
    if len(found) == 1:
        return found[0]
    values = np.array([f.value for f in found])
    return Estimate(float(values.mean()), float(standard_error(values)), "monte-carlo")
