"""Transitions of the overlap of one group: weak recovery, spinodals, and where two branches have one free entropy.

Along one overlap the alpha at which it is stationary is a function of it, alpha(w), w = -log(1 - q): branches are
where it rises (maxima of Phi), and its folds are the spinodals. The uninformed branch rises to the first overlap with
alpha(q) = alpha.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from ..core.results import Estimate, Result, versions
from ..core.shown import few_lines
from ..priors import Prior, as_prior
from .balance import GroupBalance
from .entropy import FreeEntropy
from .psi_out import OutputEntropy
from .starts import evaluate_ahead

__all__ = ["Transition", "Transitions", "transitions"]

Array = NDArray[np.float64]

_BEGIN = np.geomspace(1e-3, 0.15, 6)
# Changes of log alpha along a fold below this are rounding.
_DEEP = 1e-7


@few_lines
@dataclass(frozen=True)
class Transition:
    """A first-order transition: between its two alphas two branches coexist.

    Attributes
    ----------
    informed : Estimate
        Spinodal of the upper branch: above it the informed start keeps a larger overlap.
    information : Estimate
        Where the free entropies of both branches are equal: above, the upper one is Bayes-optimal.
    algorithmic : Estimate
        Spinodal of the lower branch: above it the uninformed start reaches the upper one.
    overlaps : tuple of float
        Of the lower and of the upper branch at the information-theoretic threshold; one if recovered.
    free_entropies : tuple of float
        Of both, there; for a recovered branch whose free entropy diverges, on its divergent side.
    """

    informed: Estimate
    information: Estimate
    algorithmic: Estimate
    overlaps: tuple[float, float]
    free_entropies: tuple[float, float]


@dataclass(frozen=True, repr=False)
class Transitions(Result):
    """Thresholds of one group of indices.

    Attributes
    ----------
    weak : Estimate or None
        Alpha above which zero overlap is unstable; None where it is no fixed point, so that any alpha will do.
    recovery : float
        Alpha = P d/k from which recovery is the global maximum if it diverges; inf if y fixes no entry of h.
    first_order : tuple of Transition
        In the order of alpha; between `information` and `algorithmic` lies the hard phase.
    perfect : Estimate or None
        Alpha from which the uninformed start recovers, to within what is resolved.
    w, log_alpha : ndarray
        The curve.
    status : str
    reached : bool
        Whether every alpha is as accurate as was asked; true where nothing was asked for.
    versions : dict
    """

    weak: Estimate | None
    recovery: float
    first_order: tuple[Transition, ...]
    perfect: Estimate | None
    w: Array
    log_alpha: Array
    status: str = "converged: every fold of alpha(q) was located"
    reached: bool = True
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def error(self) -> float:
        """The largest of any alpha, that of `perfect` aside, which is of how close to one overlaps are followed."""
        found = [one.error for pair in self.first_order for one in (pair.informed, pair.information, pair.algorithmic)]
        return max([*found, 0.0 if self.weak is None else self.weak.error])


def transitions(
    output: OutputEntropy, prior: Prior | str | None = None, *, closest: float | None = None
) -> Transitions:
    """Find all transitions of a channel with one group of indices.

    Parameters
    ----------
    output : OutputEntropy
        With one group: one index, or several that share an overlap.
    prior : Prior, optional
    closest : float, optional
        Distance to one beyond which an overlap counts as recovered.

    Returns
    -------
    Transitions

    Raises
    ------
    ValueError
        Several groups: take `stationary_points` at each alpha.

    Notes
    -----
    Towards recovery Phi = -(alpha k - P d)/2 log V + O(1). So where y fixes k > 0 entries of h, the recovered branch is
    below every other for alpha < P d/k and above for alpha > P d/k: this is its information-theoretic threshold,
    whatever the finite parts. For discrete outputs and priors nothing diverges, and both are compared.

    References
    ----------
    troiani2025, (10), (14)-(16).
    """
    if len(output.groups) != 1:
        raise ValueError(
            f"transitions are found for one group of indices (14), got {len(output.groups)}: take stationary_points at "
            "each alpha"
        )
    if not output.channel.smooth:
        raise ValueError(
            f"alpha(q) of {output.describe()} is sampled with jumps, whose folds mean nothing (14): "
            "take `curve` with both starts"
        )
    curve = _Curve(output, as_prior(prior), closest)
    return curve.transitions()


class _Curve:
    """alpha(w), its folds, and Phi along it."""

    def __init__(self, output: OutputEntropy, prior: Prior, closest: float | None) -> None:
        self.output, self.prior = output, prior
        self.balance = GroupBalance(output, prior, closest)
        # Step of w in which folds are looked for, and accuracy of their place.
        step = 0.15
        self.nodes = np.concatenate([_BEGIN, np.arange(_BEGIN[-1] + step, self.balance.top, step), [self.balance.top]])
        evaluate_ahead(self.balance, [np.array([w]) for w in self.nodes])
        self.values = np.array([self.at(w) for w in self.nodes])

    def at(self, w: float) -> float:
        """Log alpha."""
        return float(self.balance(np.array([w]))[0])

    def error(self, w: float) -> float:
        """Relative error of alpha."""
        q = self.output.matrix(-np.expm1(-np.array([w])))
        mean, error = self.output.gradient(q)
        return float(error[0, 0] / max(abs(mean[0, 0]), 1e-300)) + 1e-12

    def phi(self, w: float, alpha: float) -> Estimate:
        """Phi of the fixed point at w."""
        return FreeEntropy(self.output, alpha, self.prior)(self.output.matrix(-np.expm1(-np.array([w]))))

    def folds(self) -> list[tuple[float, float]]:
        """Local maxima and minima of log alpha, in turn: (w, log alpha)."""
        found = []
        for k in range(1, len(self.nodes) - 1):
            left, here, right = self.values[k - 1 : k + 2]
            sign = 1.0 if here > max(left, right) else -1.0 if here < min(left, right) else 0.0
            if sign:
                best = minimize_scalar(
                    lambda w, sign=sign: -sign * self.at(float(w)),
                    bracket=(self.nodes[k - 1], self.nodes[k], self.nodes[k + 1]),
                    method="golden",
                    options={"xtol": 1e-7},
                )
                found.append((float(best.x), self.at(float(best.x))))
        return found

    def transitions(self) -> Transitions:
        zero = self.at(0.0)
        weak = None if zero == -math.inf else self._alpha(0.0, math.exp(zero))
        solved = self.output.solved
        dimension = self.output.channel.share * self.output.size * self.prior.dimension
        recovery = dimension / solved if solved > 0 else math.inf
        folds = self.folds()
        start = zero if math.isfinite(zero) else self.values[0]
        # Turning points with both ends: rising pieces in between are branches.
        turns = _resolved([(0.0, start), *folds, (self.balance.top, float(self.values[-1]))])
        first_order = []
        for k in range(len(turns) - 1):
            (w_high, high), (w_low, low) = turns[k], turns[k + 1]
            if high - low > _DEEP:
                first_order.append(self._transition(turns, k, w_high, w_low, recovery))
        return Transitions(weak, recovery, tuple(first_order), self._perfect(recovery), self.nodes, self.values)

    def _alpha(self, w: float, alpha: float) -> Estimate:
        q = self.output.matrix(-np.expm1(-np.array([w])))
        error = self.error(w) if w > 0 else float(np.ptp(self.output.averages(q).growth[:, 0]))
        if w == 0 and not math.isfinite(error):
            error = 1e-9
        # Of sums of some thousand terms, and of the logarithm.
        rounding = 64 * np.finfo(float).eps * (1 + abs(math.log(alpha)))
        return Estimate(alpha, alpha * (error + rounding), self.output.how)

    def _transition(
        self, turns: list[tuple[float, float]], k: int, w_high: float, w_low: float, recovery: float
    ) -> Transition:
        """Between the maximum at w_high and the minimum at w_low, which may be recovery itself."""
        high, low = turns[k][1], turns[k + 1][1]
        recovered = k + 2 == len(turns)
        begin = turns[k - 1][0] if k else 0.0

        def lower(alpha: float) -> tuple[float, Estimate]:
            """W and Phi of the branch below: the last crossing before the maximum, or zero."""
            w = self._crossing(begin, w_high, alpha)
            return w, self.phi(w, alpha)

        def upper(alpha: float) -> tuple[float, Estimate]:
            """The same of the branch above."""
            if recovered:
                return math.inf, FreeEntropy(self.output, alpha, self.prior).recovered()
            w = self._crossing(w_low, turns[k + 2][0], alpha)
            return w, self.phi(w, alpha)

        def gain(log_alpha: float) -> float:
            alpha = math.exp(log_alpha)
            return upper(alpha)[1].value - lower(alpha)[1].value

        # Without divergence a recovered branch is stable at any alpha.
        informed = Estimate(0.0, 0.0, self.output.how) if recovered else self._alpha(w_low, math.exp(low))
        # Where nothing diverges, equality is looked for so far below the algorithmic threshold, in log alpha; the
        # distance kept from the spinodals, and a step for a slope.
        lowest, inside, inside_step = 5.0, 1e-9, 1e-4
        if recovered and 0 < recovery < math.inf:
            # It begins, is stable, and diverges to the better side at once.
            informed = information = Estimate(recovery, 0.0, self.output.how)
            (w, below), (w_above, phi_above) = lower(recovery), (math.inf, math.inf)
        else:
            span = high - lowest if recovered else low
            root = _equal(gain, span + inside, high - inside)
            alpha = math.exp(root)
            (w, below), (w_above, above) = lower(alpha), upper(alpha)
            phi_above = above.value
            # By how much the difference of both changes with alpha.
            step = min(inside_step, 0.5 * (high - root), 0.5 * (root - span))
            slope = (gain(root + step) - gain(root - step)) / (2 * step * alpha)
            error = (above.error + below.error) / max(slope, 1e-300) + 1e-11 * alpha
            # Between the spinodals it is in any case.
            information = Estimate(alpha, min(float(error), alpha * math.expm1(high - span)), self.output.how)
        overlaps = -math.expm1(-w), -math.expm1(-w_above)
        algorithmic = self._alpha(w_high, math.exp(high))
        return Transition(informed, information, algorithmic, overlaps, (below.value, phi_above))

    def _crossing(self, a: float, b: float, alpha: float) -> float:
        """W in [a, b] at which log alpha(w) = log alpha, rising from a to b; the nearer end where there is none."""
        target = math.log(alpha)
        if a == 0 and self.at(0.0) >= target:
            return 0.0
        begin = max(a, float(_BEGIN[0]))
        if self.at(begin) >= target:
            return begin
        if self.at(b) <= target:
            return b
        return float(brentq(lambda w: self.at(float(w)) - target, begin, b, xtol=1e-12, rtol=1e-13))

    def _perfect(self, recovery: float) -> Estimate | None:
        """Largest alpha of a stationary point: above it nothing stops the uninformed start."""
        k = int(np.argmax(self.values))
        highest = max([self.values[k], *(value for _, value in self.folds())])
        if self.values[-1] >= highest - _DEEP:
            k = len(self.values) - 1
        if k == len(self.values) - 1 and not (math.isfinite(recovery) or self.prior.dimension == 0):
            return None
        w = self.nodes[k]
        found = self._alpha(float(w), math.exp(float(highest)))
        if k == len(self.values) - 1:
            # alpha(w) goes on to its limit by terms of order V^{1/2}.
            return Estimate(found.value, found.error + found.value * math.exp(-0.5 * self.balance.top), found.how)
        return found


def _resolved(turns: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Turning points without pairs that differ by rounding, the ends kept: between them there is one branch."""
    kept = list(turns)
    while len(kept) > 2:
        depths = [abs(b[1] - a[1]) for a, b in pairwise(kept)]
        k = int(np.argmin(depths))
        if not depths[k] <= _DEEP:
            break
        inside = [at for at in (k, k + 1) if 0 < at < len(kept) - 1]
        kept = [one for at, one in enumerate(kept) if at not in inside]
    return kept


def _equal(gain: Callable[[float], float], low: float, high: float) -> float:
    """Log alpha at which a gain that grows with it vanishes; an end where rounding of a short range hides its sign."""
    if gain(low) >= 0:
        return low
    return high if gain(high) <= 0 else float(brentq(gain, low, high, xtol=1e-11, rtol=1e-11))
