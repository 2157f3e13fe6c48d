"""The whole algorithm: from examples to Theta_i and W_i."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...core.blas import one_blas_thread
from ...core.random import seeded
from ...learning.blocks import Array
from ..checks import at_least_zero, boolean, count
from ..errors import NoConsistentModel
from ..holdout import Split, acceptable, hold_out
from .assumptions import check_certified, check_distinct, check_shape, check_sum
from .body import Body, inequalities, slabs, violation
from .certification import Certification, certify, differences, distinct, interior, noise_level
from .crude_sum import crude_sum
from .hull import Hull, affine_hull
from .margin import MarginFit, large_margin_sum
from .net import Net, best_tuples, search
from .programs import Polytope
from .refinement import proxies, refine
from .results import SculptResult
from .simplex import simplex_regression

__all__ = ["sculpt"]


def sculpt(
    X: ArrayLike,
    Y: ArrayLike,
    heads: int,
    *,
    noise_std: float | None = 0.0,
    X_val: ArrayLike | None = None,
    Y_val: ArrayLike | None = None,
    time_limit: float = 60.0,
    strict: bool = True,
    rng: np.random.Generator | int | None = None,
) -> SculptResult:
    """Learn Y = sum_i softmax(X Theta_i X^T) X W_i by sculpting a convex body around the Theta_i.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
        Entries +1 and -1, independent and uniform; k >= 2 and d >= m (k - 1).
    Y : array_like, shape (n, k, d)
    heads : int
        m.
    noise_std : float or None
        Standard deviation of the noise on every entry of Y; None: estimated from the certified rows.
    X_val, Y_val : array_like, optional
        Examples for validation; by default a fifth of X and Y, 2000 at most.
    time_limit : float
        Seconds for each linear program.
    strict : bool
        Raise `NoConsistentModel` where no candidate is accepted, instead of returning the best one, not converged.
    rng : Generator, int or None, optional

    Returns
    -------
    SculptResult

    Raises
    ------
    ValueError
        Arguments of a wrong shape, range or type.
    NotIdentifiable, Degenerate, DegenerateSum, InsufficientCertifiedRows, LinearProgramFailure, NoConsistentModel
        See there.

    Notes
    -----
    Steps: (1) `crude_sum`, (3) `slabs` and `inequalities`, (4) `affine_hull`, (5) `large_margin_sum`, (6) `Polytope`
    and (7) `search` follow the paper's plan with constants chosen here; the trimming of (2) `certify` and the descents
    of (8) `refine` are heuristics. Nothing is proved of the whole.

    References
    ----------
    chen2024, the algorithm.
    """
    heads = count("heads", heads)
    sigma = None if noise_std is None else at_least_zero("noise_std", noise_std)
    if not (isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0):
        raise ValueError(f"time_limit must be a finite number of seconds > 0 (linear programs), got {time_limit!r}")
    seed, generator = seeded(rng)
    split = hold_out(X, Y, X_val, Y_val, generator)
    boolean(split.X, 'the body is made of differences of such tokens; use method="restarts" for others')
    check_shape(split.X.shape[1], split.X.shape[2], heads)
    # The matrices are small: threads would only wait for each other.
    with one_blas_thread():
        found = _steps(split, heads, sigma, float(time_limit), seed, generator)
    if strict and not found.converged:
        raise NoConsistentModel(
            "the validation error of the best layer found",
            f"{found.validation_error:.3g}",
            f"at most {found.accept:.3g}",
            f"check the number of heads ({heads}) and noise_std, or give more examples",
        )
    return found


def _deviation(certification: Certification, level: float, samples: int) -> float:
    """Standard deviation, at most, that noise of this level gives to an entry of the sum of the W_i."""
    if not certification.rounds:
        return level / math.sqrt(samples)
    last = certification.rounds[-1]
    # Least second moment of certified patterns in any direction, where trimming ends.
    spread = 0.12
    return level / math.sqrt(last.kept * max(last.spread, spread))


class _Shape(NamedTuple):
    """Examples with distinct tokens, and what is found of the body from them."""

    x: Array
    y: Array
    certification: Certification
    level: float
    body: Body
    one_sided: Body
    hull: Hull
    margin: MarginFit | None


def _steps(
    split: Split, heads: int, sigma: float | None, time_limit: float, seed: int, generator: np.random.Generator
) -> SculptResult:
    clock = _Clock()
    with clock("crude sum"):
        kept = distinct(split.X)
        x, y = split.X[kept], split.Y[kept]
        check_distinct(len(x))
        crude = crude_sum(x, y)
        # An entry is the mean of n products of sums over k tokens, over k.
        check_sum(crude, y, heads, (sigma or 0.0) / math.sqrt(len(x)))
    with clock("certification"):
        certification = certify(x, y, crude, heads)
        level = noise_level(certification.patterns, x.shape[2]) if sigma is None else sigma
        check_sum(certification.s, y, heads, _deviation(certification, level, len(x)))
    certified = int(interior(certification.patterns).sum())
    with clock("body and hull"):
        shape = _shape(x, y, certification, heads, sigma)
    with clock("linear programs"):
        tightest = shape.body.tightest(1500)  # constraints of the linear programs
        polytope = Polytope(tightest, shape.one_sided, shape.hull, time_limit)
        # One head has no hull to bound: the level of the proxy itself bounds the least one.
        least = polytope.least_level() if heads > 1 else float(violation(tightest, shape.hull.proxy))
    nets: list[Net] = []

    # Candidates around the proxy.
    near_proxy = 4

    def candidates() -> Iterator[tuple[str, Array]]:
        yield from _from_nets(shape, polytope, _levels(heads, least), nets, clock)
        yield from proxies(shape.hull.proxy, heads, near_proxy, generator)

    accept = acceptable(split, shape.level, 2 * heads * x.shape[2] ** 2).high
    with clock("refinement"):
        noisy = shape.level > _rounding(y)
        found = refine(split, candidates(), accept=accept, noisy=noisy, noise_known=sigma is not None)
    converged = found.validation_error <= accept
    said = "accepted" if converged else f"not below {accept:.2g}"
    return SculptResult(
        theta=found.theta,
        w=found.w,
        validation_error=found.validation_error,
        accept=accept,
        noise_std=math.sqrt(found.validation_error * float(np.mean(split.Y_val**2))) if sigma is None else sigma,
        crude=crude,
        certification=shape.certification,
        certified=certified,
        body=shape.body,
        one_sided=shape.one_sided,
        hull=shape.hull,
        margin=shape.margin,
        least_level=least,
        nets=tuple(nets),
        attempts=found.attempts,
        converged=converged,
        status=f"validation error {found.validation_error:.2g} {said}, from {found.attempts[-1].start}",
        seconds=clock.seconds,
        seed=seed,
    )


def _levels(heads: int, least: float) -> list[float]:
    """Levels of the body over the least one. At 4 the boxes of the tests hold all heads, at 1.5 few."""
    ladder, least_of_all = (4.0, 12.0, 40.0), 3.0
    return [max(least_of_all, step * least) for step in (ladder if heads > 1 else ladder[:1])]


def _rounding(y: Array) -> float:
    """Residuals up to here are rounding of the outputs."""
    # Of the outputs: an estimate of the noise below is rounding, as residuals are off by 1e-9 of them at most.
    silent = 1e-8
    return silent * math.sqrt(float(np.mean(y**2)))


def _shape(x: Array, y: Array, certification: Certification, heads: int, sigma: float | None) -> _Shape:
    """Steps 3 to 5: the body, and the hull of the Theta_i."""
    margin = None
    level = noise_level(certification.patterns, x.shape[2]) if sigma is None else sigma
    body = slabs(x, certification.patterns, certification.s, level)
    check_certified(differences(certification.patterns), x.shape[2])
    hull = affine_hull(body, heads)
    # Rows of the large-margin fit, per unknown of a column of S.
    margin_rows = 8
    if heads == 1:
        # A better sum makes a thinner body.
        margin = large_margin_sum(x, y, hull.proxy, margin_rows * x.shape[2])
        patterns = simplex_regression(x, y, margin.s, certification.patterns.face)
        # Where both leave rounding, which sum is taken makes no difference beyond it.
        if np.median(patterns.rho) < np.median(certification.patterns.rho) + _rounding(y):
            certification = Certification(margin.s, patterns, certification.rounds, certification.status)
            body = slabs(x, patterns, margin.s, level)
            hull = affine_hull(body, heads)
    # One-sided constraints of the linear programs.
    most = 500
    one_sided = inequalities(x, certification.patterns, certification.s, level, most)
    return _Shape(x, y, certification, level, body, one_sided, hull, margin)


def _from_nets(
    shape: _Shape, polytope: Polytope, levels: list[float], nets: list[Net], clock: _Clock
) -> Iterator[tuple[str, Array]]:
    """The best tuples of a net at each level of the body; the nets are added to the list."""
    heads = shape.hull.directions.shape[0] + 1
    # Candidates from the net of every level.
    per_net = 2
    # Samples of the regressions.
    samples = 1500
    for t in levels:
        with clock("linear programs"):
            box = polytope.box(t)
        with clock("net"):
            net = search(shape.x[:samples], shape.y[:samples], shape.hull, box, heads)
            nets.append(net)
            chosen = best_tuples(net, per_net)
        for number, tuple_ in enumerate(chosen):
            yield f"net, t = {t:.3g}, no. {number + 1}", net.matrices(shape.hull, tuple_)


class _Clock:
    """Processor seconds by step; a step inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        outer, self._inner, start = self._inner, 0.0, time.process_time()
        try:
            yield
        finally:
            spent = time.process_time() - start
            self.seconds[step] = self.seconds.get(step, 0.0) + spent - self._inner
            self._inner = outer + spent
