"""Width rho of S from data, by the evidence along it.

log P(y | x, rho) is the sum over parts of the data of log P(part | parts before it). At each rho message passing learns
S from the parts before, and the part is scored by Z_out at the indices that its estimate predicts; the first part, by
the mean of the prior. As a score of predictions it is largest on average where these are those of the posterior, at the
rho of the teacher, also where message passing at another rho is not exact. V in Z_out is the one at which the part is
likeliest, for at finite d that of the iteration may be far off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from ..core.errors import ConvergenceError
from ..core.results import Result, versions
from ..learning.blocks import Array, Source
from .amp import AmpSettings, amp
from .channels import Channel, pairs
from .checks import count
from .data import gram, indices
from .parts import Parts

__all__ = ["WidthEstimate", "estimate_rho"]

# Of log rho, between which the first look is.
_LEAST, _LARGEST, _LOOKS = math.log(0.01), math.log(20.0), 39
# Of log V.
_PRECISE, _ANY = math.log(1e-6), math.log(4.0)
# Points on either side of the best, standard deviations to their ends, and rounds of looking for it.
_SIDES, _REACH, _ROUNDS = 2, 1.8, 5


@dataclass(frozen=True, repr=False)
class WidthEstimate(Result):
    """The width of S that data have the largest evidence for.

    Attributes
    ----------
    rho : float
    error : float or None
        Estimated bound, two standard deviations: see the notes of `estimate_rho`. None where there is none.
    evidence : ndarray, shape (k, 2)
        Widths, and the logarithm of the evidence there up to a constant.
    alpha : float
        n/d^2.
    converged, status, n_iter, versions
        Provenance; `n_iter` counts widths.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    rho: float
    error: float | None
    evidence: Array
    alpha: float
    converged: bool
    status: str
    n_iter: int
    versions: dict[str, str] = field(default_factory=versions)


class _Scores:
    """Samples in parts, and scores of predictions of them."""

    def __init__(self, data: Parts, parts: int, settings: AmpSettings) -> None:
        self.data, self.output, self.settings = data, data.output, settings
        self.cuts = [round(data.samples * k / parts) for k in range(parts + 1)]
        self.scalar = settings.get("covariance") == "scalar"

    def of(self, begin: int, end: int, S: Array, V: float | None) -> float:
        """Log Z_out of the samples from one to another, at V or at the V of the largest."""
        blocks = []
        for x, y in self.data.rows(begin, end):
            h = indices(x, S)[:, *pairs(self.output.tokens)]
            blocks.append((self.output.prepare(y), h, None if self.scalar else gram(x)))

        def score(log_v: float) -> float:
            terms = (self.output.log_evidence(seen, h, math.exp(log_v), sigma) for seen, h, sigma in blocks)
            return float(sum(term.sum() for term in terms))

        if V is not None:
            return score(math.log(V))
        found = minimize_scalar(lambda t: -score(t), bounds=(_PRECISE, _ANY), method="bounded", options={"xatol": 0.05})
        return -float(found.fun)

    def first_look(self, rho: float) -> float:
        """All samples by the mean of the prior."""
        return self.of(0, self.data.samples, math.sqrt(rho) * np.eye(self.data.dimension), 1.0)

    def evidence(self, rho: float) -> float:
        """Parts after parts."""
        total = self.of(0, self.cuts[1], math.sqrt(rho) * np.eye(self.data.dimension), 1.0)
        for end, after in zip(self.cuts[1:-1], self.cuts[2:], strict=True):
            learned = amp(*self.data.first(end), self.output, rho, **self.settings)
            total += self.of(end, after, learned.estimate, None)
        return total


def estimate_rho(
    x: ArrayLike | Source,
    y: ArrayLike | None,
    output: Channel,
    *,
    parts: int = 4,
    callback: Callable[[int], object] | None = None,
    **settings: Unpack[AmpSettings],
) -> WidthEstimate:
    """Estimate the width r/d of S = W W^T/sqrt(r d) from data, by the evidence along it.

    Parameters
    ----------
    x : array_like of shape (n, T, d), or callable
        Memory-mapped if wanted, or a function that gives an iterable of blocks (x, y), the same at every call: as in
        `amp`.
    y : array_like of shape (n, T, T), or None where x is a function
    output : Channel
    parts : int, keyword-only
        At least two; the samples are taken in the order given.
    callback : callable, keyword-only, optional
        Called with the number of widths tried.
    settings
        Of `amp`.

    Returns
    -------
    WidthEstimate

    Raises
    ------
    ValueError
        Fewer samples than parts; and as `amp`.

    Notes
    -----
    Predictions are scored one by one, which learns the width of the S at hand: Tr S/d, of mean rho^(1/2) and standard
    deviation 2^(1/2)/d. No data of one teacher have rho better than to 2^(3/2) rho^(1/2)/d. The square of this is added
    to that of the standard deviation by the parabola through the logarithm of the evidence. Every width takes parts - 1
    runs of message passing; there are five to some fifteen widths.

    References
    ----------
    boncoraglio2025, (45): the evidence per d^2 in the limit.
    """
    parts = count("parts", parts, 2, "evidence")
    data = Parts(x, y, output)
    if data.samples < parts:
        raise ValueError(f"x must have at least as many samples as parts, got {data.samples} and {parts}")
    settings.setdefault("max_iter", 60)
    settings.setdefault("tol", 1e-4)
    scores = _Scores(data, parts, settings)
    looks = np.linspace(_LEAST, _LARGEST, _LOOKS)
    values = np.array([scores.first_look(math.exp(u)) for u in looks])
    best = int(values.argmax())
    centre = float(looks[best])
    spacing = float(looks[1] - looks[0])
    around = values[max(best - 1, 0) : best + 2]
    bend = -float(np.diff(around, 2)[0]) / spacing**2 if len(around) == 3 else 0.0
    if bend > 0:
        centre += spacing * 0.5 * float((around[2] - around[0]) / (2 * around[1] - around[0] - around[2]))
    # Least step in log rho.
    step = max(_REACH / _SIDES / math.sqrt(bend), 0.02) if bend > 0 else spacing
    return _climbed(scores, centre, step, data.samples / data.dimension**2, callback)


def _climbed(
    scores: _Scores, centre: float, step: float, alpha: float, callback: Callable[[int], object] | None
) -> WidthEstimate:
    """Evidence at points around the centre, which follows the best of them.

    Points are counted in half steps from the first centre: one that is met again is known by its number, whatever the
    rounding of its sum.
    """

    def at(half: int) -> float:
        return centre + 0.5 * step * half

    table: dict[int, float] = {}
    fit: tuple[float, float] | None = None
    middle = 0
    for _ in range(_ROUNDS):
        points = [middle + 2 * k for k in range(-_SIDES, _SIDES + 1)]
        for point in points:
            if point not in table:
                try:
                    table[point] = scores.evidence(math.exp(at(point)))
                except ConvergenceError:
                    table[point] = -math.inf
                if callback is not None:
                    callback(len(table))
        fit = _parabola([at(point) for point in points], [table[point] for point in points])
        best = max(points, key=lambda point: table[point])
        if fit is not None and abs(fit[0] - at(middle)) <= 1.5 * step:
            break
        middle = best if best != middle else best + (1 if fit is None or fit[0] >= at(middle) else -1)
    rows = np.array([(math.exp(at(point)), table[point]) for point in sorted(table)])
    if fit is None or abs(fit[0] - at(middle)) > 1.5 * step:
        rho = float(rows[rows[:, 1].argmax(), 0])
        status = "not converged: the evidence has no maximum inside the widths tried; give more samples"
        return WidthEstimate(rho, None, rows, alpha, False, status, len(table))
    rho = math.exp(fit[0])
    error = 2 * math.hypot(rho * fit[1], math.sqrt(8 * rho) / scores.data.dimension)
    status = f"converged: a parabola through the logarithm of the evidence at {2 * _SIDES + 1} widths"
    return WidthEstimate(rho, error, rows, alpha, True, status, len(table))


def _parabola(u: list[float], values: list[float]) -> tuple[float, float] | None:
    """Place of the maximum and standard deviation, from points whose evidence is not far below the best."""
    at, logs = np.array(u), np.array(values)
    kept = logs > logs.max() - 12
    if kept.sum() < 3:
        kept = np.argsort(np.argsort(-logs)) < 3
    if not np.isfinite(logs[kept]).all():
        return None
    a, b, _ = np.polyfit(at[kept] - at.mean(), logs[kept], 2)
    return None if a >= 0 else (float(at.mean() - b / (2 * a)), float((-2 * a) ** -0.5))
