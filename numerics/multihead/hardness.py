"""How the cost of learning grows with the number of heads: hidden parities against gradients and second order.

The parity layers of `parity` carry the parity of n hidden coordinates in one entry of each row. All C(d - 1, n) of them
are orthogonal to each other and to all polynomials of lower degree, so that a method which sees examples only through
averages needs a number of averages, or a precision, that grows as d^(c n), and n or n + 1 is the number of heads.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.blas import one_blas_thread
from ..core.random import seeded
from ..core.results import Result, versions
from ..core.shown import few_lines
from .adam import adam
from .checks import at_least_zero, count, one_of
from .errors import LearnError
from .layer import multihead
from .parity import ParityTeacher, SqCorrelations, hidden_bit, parity_teacher, sq_correlations
from .refine import Descent, Stop, lbfgs, levenberg_marquardt
from .sculpt.sculpt import sculpt
from .size import refuse_size

__all__ = ["METHODS", "HardnessPoint", "HardnessResult", "hardness"]

Array = NDArray[np.float64]

METHODS = ("adam", "lbfgs", "lm", "sculpt")
# The methods that take all examples at once are given so many: more cost them time and no success.
_LBFGS_ROWS, _LBFGS_STEPS, _LM_ROWS, _LM_STEPS = 4000, 500, 800, 100


@few_lines
@dataclass(frozen=True)
class HardnessPoint:
    """One method on one parity layer.

    Attributes
    ----------
    n, heads : int
        Size of the hidden set, and m, which the student has too.
    method : str
    error : float
        Mean squared error on the hidden bit over fresh examples: 1 for the predictor 0.
    deviation : float
        One standard error of it.
    starts : int
        Random starts made; the one with the least error on held-out examples is tested.
    seconds : float
        CPU time of all starts.
    status : str
        A sentence; for "sculpt", which needs a sum of the W_i of full rank, its refusal. The error is then 1: nothing
        is predicted.
    refused : str
        Name of the error by which the method refuses such layers; empty where it does not.
    """

    n: int
    heads: int
    method: str
    error: float
    deviation: float
    starts: int
    seconds: float
    status: str
    refused: str = ""


@dataclass(frozen=True, repr=False)
class HardnessResult(Result):
    """Table of `hardness`.

    Attributes
    ----------
    dim, samples : int
    start_scale : float
    points : tuple of HardnessPoint
        In the order of sizes, then methods.
    correlations : tuple of SqCorrelations
        One per size, at min(d, 12) or n + 1; exactly 0 pairwise and with monomials of lower degree.
    seed : int
    status : str
    versions : dict
    """

    papers: ClassVar[tuple[str, ...]] = ("chen2024",)

    dim: int
    samples: int
    start_scale: float
    points: tuple[HardnessPoint, ...]
    correlations: tuple[SqCorrelations, ...]
    seed: int
    status: str
    versions: dict[str, str] = field(default_factory=versions)


def hardness(
    sizes: Sequence[int] = (1, 2, 3, 4, 5, 6, 7),
    *,
    dim: int = 10,
    samples: int = 20000,
    methods: Sequence[str] = METHODS,
    starts: int = 3,
    start_scale: float = 4.0,
    rng: np.random.Generator | int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> HardnessResult:
    """Learn layers that carry a hidden parity, and measure how much of the parity was learned.

    Parameters
    ----------
    sizes : sequence of int
        Sizes n of the hidden sets, 1 <= n <= dim - 1; m = n heads for odd n and n + 1 for even n.
    dim : int
        d.
    samples : int
        Examples; Adam sees all, L-BFGS 4000 of them and Levenberg-Marquardt 800.
    methods : sequence of str
        Of "adam", "lbfgs", "lm", "sculpt".
    starts : int
        Random starts of each method at most.
    start_scale : float
        Standard deviation of the logit differences x^T Theta (x_a - x_b) at the starts. From large ones all methods do
        worse: the attention of most rows begins saturated.
    rng : Generator, int or None
    progress : callable, optional
        Called with (done, total) after each method on each layer.

    Returns
    -------
    HardnessResult

    Raises
    ------
    ValueError
        An argument out of range.

    Notes
    -----
    Without noise a parity is easy by Gaussian elimination: this is about methods that use averages of examples. It is
    not the paper's cryptographic bound.
    """
    tried = [one_of("methods", method, METHODS) for method in methods]
    total, rows = count("starts", starts), count("samples", samples)
    scale = at_least_zero("start_scale", start_scale)
    seed, _ = seeded(rng)
    heads = max((n + 1 - n % 2 for n in sizes), default=1)
    asked = f"samples = {rows}, dim = {dim} and sizes up to {max(sizes, default=0)}"
    refuse_size(asked, rows, 2, dim, heads)
    if "lm" in tried:
        refuse_size(f'{asked} with method "lm"', min(rows, _LM_ROWS), 2, dim, heads, normal=True)
    points: list[HardnessPoint] = []
    # Enumerated at this dimension where d is larger: the zeros are the same.
    enumerated = 12
    correlations = tuple(sq_correlations(n, dim if dim <= enumerated else max(n + 1, enumerated)) for n in sizes)
    # Fresh examples that a student is judged on, and those that choose among its starts.
    test, choose = 5000, 2000
    # Threads of BLAS would only wait for each other on matrices of this size.
    with one_blas_thread():
        for n in sizes:
            # One stream per size: a table does not depend on which other sizes are in it.
            generator = np.random.default_rng([seed, n])
            made = parity_teacher(n, dim, generator)
            X, chosen, tested = (
                np.asarray(2.0 * generator.integers(0, 2, (size, 2, dim)) - 1) for size in (rows, choose, test)
            )
            Y = multihead(X, made.theta, made.w)
            task = _Task(n, made, X, Y, chosen, tested, total, scale)
            for method in tried:
                points.append(_point(method, task, generator.spawn(1)[0]))
                if progress is not None:
                    progress(len(points), len(sizes) * len(tried))
    learned = sum(point.error < 0.5 for point in points)
    status = f"{learned} of {len(points)} runs learned more than half of the hidden bit"
    return HardnessResult(dim, rows, scale, tuple(points), correlations, seed, status)


class _Task(NamedTuple):
    """A parity layer of n hidden coordinates, examples of it, fresh ones that choose and judge, and the starts."""

    n: int
    made: ParityTeacher
    X: Array
    Y: Array
    chosen: Array
    tested: Array
    starts: int
    scale: float


def _point(method: str, task: _Task, generator: np.random.Generator) -> HardnessPoint:
    made = task.made

    # Error at which a descent ends.
    exact = 1e-8

    def learned(theta: Array, w: Array) -> bool:
        return float(np.mean(_squares(Descent(theta, w, 0.0, 0, ""), made, task.chosen))) < exact

    begin, least, tries, status, refused = time.process_time(), np.inf, 0, "", ""
    # The trivial predictor, until something is found.
    best = Descent(0 * made.theta, 0 * made.w, 1.0, 0, "")
    # No further start is made after one with this error; that of the trivial predictor is 1.
    while tries < (1 if method == "sculpt" else task.starts) and least > 1e-3:
        tries += 1
        try:
            found = _descend(method, task, generator, learned)
        except LearnError as refusal:
            status, refused = str(refusal), type(refusal).__name__
            break
        error = float(np.mean(_squares(found, made, task.chosen)))
        if error < least:
            best, least, status = found, error, found.status
    seconds = time.process_time() - begin
    squares = _squares(best, made, task.tested)
    deviation = float(squares.std(ddof=1) / np.sqrt(squares.size))
    return HardnessPoint(
        task.n, len(made.theta), method, float(squares.mean()), deviation, tries, seconds, status, refused
    )


def _squares(found: Descent, made: ParityTeacher, X: Array) -> Array:
    """Squared errors on the hidden bits, of the rows that carry one."""
    bit = hidden_bit(X, made.subset)
    return np.asarray((multihead(X, found.theta, found.w)[:, :, 0] - bit)[bit != 0] ** 2)


def _descend(method: str, task: _Task, generator: np.random.Generator, stop: Stop) -> Descent:
    X, Y, shape = task.X, task.Y, task.made.theta.shape
    if method == "sculpt":
        result = sculpt(X, Y, shape[0], rng=generator)
        return Descent(result.theta, result.w, result.validation_error, 0, result.status)
    dim = shape[-1]
    theta = task.scale / (math.sqrt(2.0) * dim) * generator.standard_normal(shape)
    if method == "adam":
        return adam(X, Y, theta, generator.standard_normal(shape) / math.sqrt(dim), rng=generator)
    if method == "lbfgs":
        return lbfgs(X[:_LBFGS_ROWS], Y[:_LBFGS_ROWS], theta, max_iter=_LBFGS_STEPS, stop=stop)
    return levenberg_marquardt(X[:_LM_ROWS], Y[:_LM_ROWS], theta, max_iter=_LM_STEPS, stop=stop)
