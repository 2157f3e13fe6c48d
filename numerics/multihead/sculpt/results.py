"""Frozen result of sculpting: what was learned, and what every step found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.results import Result, versions
from ...core.shown import few_lines
from .body import Body
from .certification import Certification
from .hull import Hull
from .margin import MarginFit
from .net import Net

__all__ = ["Attempt", "SculptResult"]

Array = NDArray[np.float64]


@few_lines
@dataclass(frozen=True)
class Attempt:
    """A descent from a candidate.

    Attributes
    ----------
    start : str
        Where the candidate came from: "net, t = 4.2, no. 1" or "proxy 2".
    regression_error : float
        Validation error of the candidate itself with the best W_i, before the descent.
    validation_error : float
    n_iter : int
        Steps.
    """

    start: str
    regression_error: float
    validation_error: float
    n_iter: int


@dataclass(frozen=True, repr=False)
class SculptResult(Result):
    """A multi-head layer learned by sculpting.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
    validation_error, accept : float
        |F - Y|^2 / |Y|^2 on the held-out examples, and up to where it is accepted.
    noise_std : float
        Given, or estimated from the residual on the held-out examples.
    crude : ndarray, shape (d, d)
        Step 1, first estimate of S = sum_i W_i.
    certification : Certification
        Step 2, with the estimate of S that the later steps use.
    certified : int
        Rows inside the simplex.
    body, one_sided : Body
        Step 3: two-sided constraints, and those from rows on the boundary of the simplex.
    hull : Hull
        Step 4.
    margin : MarginFit or None
        Step 5, for one head.
    least_level : float
        Step 6, smallest t of a body that is not empty; an upper bound of it for one head. Of order 1 to 20; above, rows
        were certified falsely.
    nets : tuple of Net
        Steps 6 and 7, one per level of the body that was tried, with the box it fills.
    attempts : tuple of Attempt
        Step 8.
    converged : bool
        validation_error <= accept.
    status : str
    seconds : dict of str to float
        Processor time of every step.
    seed : int
        -1 for a generator of the caller's.
    versions : dict of str to str
    """

    papers: ClassVar[tuple[str, ...]] = ("chen2024",)

    theta: Array
    w: Array
    validation_error: float
    accept: float
    noise_std: float
    crude: Array
    certification: Certification
    certified: int
    body: Body
    one_sided: Body
    hull: Hull
    margin: MarginFit | None
    least_level: float
    nets: tuple[Net, ...]
    attempts: tuple[Attempt, ...]
    converged: bool
    status: str
    seconds: dict[str, float]
    seed: int
    versions: dict[str, str] = field(default_factory=versions)
