"""Instances of a teacher at random, and the means of what is learned from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..core.shown import few_lines
from ..core.standard_error import standard_error
from ..priors import GAUSSIAN, Prior, Spectrum
from .blocks import Array, Floats
from .data import make_data, teacher

if TYPE_CHECKING:
    from ..posterior.protocol import Model
    from .descent.results import DescentResult
    from .gamp.results import GAMPResult

__all__ = ["Instances", "mean_of", "on_instances"]

Result = TypeVar("Result", "GAMPResult", "DescentResult")


@few_lines
@dataclass(frozen=True)
class Instances:
    """Means over instances, and their standard errors."""

    overlap: Array
    overlap_error: Array
    self_overlap: Array
    converged: bool
    status: str
    n_iter: list[int]
    residual: float


def on_instances(
    model: Model,
    alpha: float,
    dimension: int,
    learn: Callable[[int, Array, Floats, Array], Result],
    *,
    count: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    prior: Prior | str = GAUSSIAN,
) -> list[Result]:
    """Learn from each of some instances.

    Parameters
    ----------
    model : Model
    alpha : float
        Samples per dimension N/D.
    dimension : int
        D.
    learn : callable
        Called with the seed, the weights of the teacher, X and Y.
    count : int
        Instances.
    seed : int, optional
        That of the first one; each of the others has the next.
    progress : callable, optional
        Called with (done, count).
    prior : Prior, optional
        Law of the teachers, Gaussian by default; of inputs with a spectrum, theirs.
    """
    spectrum = prior if isinstance(prior, Spectrum) else None
    found = []
    for k in range(count):
        weights = teacher(model, dimension, seed + k, prior=prior)
        found.append(learn(seed + k, weights, *make_data(model, weights, alpha, seed + k, spectrum=spectrum)))
        if progress is not None:
            progress(k + 1, count)
    return found


def mean_of(found: Sequence[Result], lengths: list[int]) -> Instances:
    """Average runs that know their teacher.

    Parameters
    ----------
    found : sequence
        Results on the instances.
    lengths : list of int
        Their numbers of iterations.
    """
    count = len(found)
    overlaps = np.array([r.overlap for r in found])
    done = sum(r.converged for r in found)
    status = f"converged: {done} of {count} instances"
    if done < count:
        first = next(r for r in found if not r.converged)
        status = f"not converged: {count - done} of {count} instances, the first: {first.status}"
    return Instances(
        overlap=overlaps.mean(axis=0),
        overlap_error=standard_error(overlaps),
        self_overlap=np.mean([r.self_overlap for r in found], axis=0),
        converged=done == count,
        status=status,
        n_iter=lengths,
        residual=max(r.residual for r in found),
    )
