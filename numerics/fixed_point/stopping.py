"""When a fixed point is accurate enough: steps, errors and the next accuracy of the averages, for `refinement`.

A stage is a rule, or an effort of sampling, by which the fixed point is solved for. Two deterministic rules differ by
about the error of the coarser one, as errors fall by several times from one to the next; sampled averages have a
standard error. All of t = log(q/(1 - q)). The constants were chosen by hand when these rules were written; no script
fits them again. `tests/calibration/test_evolve.py` and `test_deep.py` hold the stated errors against finer
computations over the ranges served, and `tests/benchmarks/test_evolution_cost.py` holds the cost.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Refinable
from ..core.accuracy import ROOM, not_reached
from ..core.standard_error import student
from .balance import RECOVERED
from .reached import is_reached, missed, times_asked
from .slopes import NEARLY, logistic, logit
from .state import Solution

__all__ = [
    "CUT",
    "ROUGH",
    "WRONG_BY_SAMPLES",
    "Anchor",
    "Evaluation",
    "Judgement",
    "Stage",
    "below_top",
    "bias_of",
    "coupled",
    "is_short",
    "judge_rule",
    "judge_sampled",
    "missed_by_rules",
    "moving",
    "next_stage",
    "noise_of",
    "noted",
    "shortest_learned",
]

Array = NDArray[np.float64]

# Largest t: beyond it weights count as recovered.
_TOP = logit(RECOVERED)
#: Relative accuracy of the averages of the first stage, and of the search before it.
ROUGH = 1e-2
# Evaluations of a stage that does not settle, before the next finer one is taken: coarse rules may jump where their
# numbers of nodes change, by less than what they are off. Where the rule is fine enough, so many: a step by coarse
# rules costs far less than a finer rule.
_TRIES, _MOST_TRIES = 4, 8
#: Factor between the accuracies of neighbouring stages of deterministic rules: as errors fall at least so much, too, it
# also bounds from below what three agreeing rules leave of the error of two.
CUT = 0.2
# What the last step may miss is at most this share of the accuracy asked for (of sampled averages the step itself, if
# their noise is less), and it is at most so long: slopes are trusted no further. So long in u = -log(1 - q) where they
# are those of sampled averages, which belong to u.
_SHARE, _SHORT = 0.1, 0.1
# Next to a threshold slopes by t are proportional to the overlap, exp(t): from where they were measured, about a step
# away, to the fixed point, a step further on, they change by this many times the step. (Three layers at alpha = 0.212:
# the last step of -.057 misses 6 % of itself.)
_BENT = 2.0
# Sampled averages: the mildest cut. Levels stand for the inverse of the number of outputs; noise falls as its power
# -2/3 (three layers at alpha = 1.3, 2^12 to 2^16 quasi-random outputs).
_MILDEST_CUT, _PER_NOISE = 0.5, 1.5
#: Share of a step that slopes from sampled averages of accuracy 2e-3 may miss (`tests/calibration/test_deep.py` holds
#: the errors stated with it), and relative error of slopes from rules: two layers at alpha = .962 to .99 miss at most
#: .07 of what `coupled` makes of a step (`tests/numerics/fixed_point/test_last_steps.py`).
WRONG_BY_SAMPLES, WRONG_BY_RULES = 0.5, 0.25


class Evaluation(NamedTuple):
    """Averages at one point.

    Attributes
    ----------
    x : ndarray, shape (n,)
        Overlaps of the layers.
    averages : Averages
    log_alpha : ndarray, shape (n,)
        Logarithm of the alpha at which each layer would be stationary.
    imbalance : ndarray, shape (n,)
        log alpha - log alpha_l; positive where the iteration raises the overlap.
    """

    x: Array
    averages: Averages
    log_alpha: Array
    imbalance: Array


@dataclass(frozen=True)
class Anchor:
    """A point at which the averages of a stage are known.

    Attributes
    ----------
    t : ndarray, shape (n,)
    averages : Averages
    coarse : Averages, optional
        Less accurate ones at the same point, once they have been asked for.
    """

    t: Array
    averages: Averages
    coarse: Averages | None = None

    def moved(self, there: Averages) -> Averages | None:
        """Averages of the stage elsewhere, by the ratio of coarse ones there to those here.

        None if one of the three is sampled and another is not, which have no ratio for each randomisation, or if they
        are found by two methods (two layers near recovery: a series and rules), which differ by more than neighbours
        do.
        """
        known, here = self.averages, self.coarse
        assert here is not None
        if not known.g.shape == here.g.shape == there.g.shape or len({known.sampled, here.sampled, there.sampled}) > 1:
            return None
        if not known.method == here.method == there.method:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            g = np.where(here.g != 0, known.g * (there.g / here.g), there.g)
            growth = np.where(here.growth != 0, known.growth * (there.growth / here.growth), there.growth)
            bias = np.where(known.g.mean(axis=0) != 0, known.bias * (g / known.g).mean(axis=0), there.bias)
            ratio = (there.growth / here.growth).mean(axis=0)
        # NaN for layers that are learned, which have no growth rate.
        moves = np.isfinite(ratio) & (here.growth != 0).all(axis=0)
        growth_bias = np.where(moves, known.growth_bias * np.where(moves, ratio, 1.0), there.growth_bias)
        return replace(there, g=g, growth=growth, bias=bias, growth_bias=growth_bias)


@dataclass(frozen=True)
class Stage:
    """Where a refinement is, with what it has learned.

    Attributes
    ----------
    t, slopes : ndarray
        Where the next averages are taken, and d log alpha_l/dt.
    gap : ndarray
        Error of t by the latest comparison of rules; infinite before.
    level : float
        Accuracy of the averages.
    tries : int
        Evaluations with them.
    coarser : ndarray, optional
        Fixed point of the stage before.
    moved : (ndarray, ndarray), optional
        Latest t of this stage, and log alpha_l there.
    measured : (ndarray, ndarray), optional
        Of sampled averages: t at which slopes were taken from differences, and they, improved by steps.
    anchor : Anchor, optional
        Where averages of this stage were taken last, if their level is fine enough.
    """

    t: Array
    slopes: Array
    gap: Array
    level: float = ROUGH
    tries: int = 0
    coarser: Array | None = None
    moved: tuple[Array, Array] | None = None
    measured: tuple[Array, Array] | None = None
    anchor: Anchor | None = None


@dataclass(frozen=True)
class Judgement:
    """What an evaluation comes to: errors of t, whether they are small enough, and whether the step is.

    `through`: the next evaluation is one of a finer stage.
    """

    step: Array
    gap: Array
    error: Array
    enough: bool
    settled: bool
    through: bool
    coarser: Array | None


def below_top(t: Array) -> Array:
    """T within the range that is resolved; layers that come to recovery together keep the ratios of their 1 - q."""
    if (1 - logistic(t)).max() < NEARLY:
        return np.asarray(t - max(0.0, float(t.max() - _TOP)))
    return np.minimum(t, _TOP)


def moving(level: float) -> float:
    """Accuracy of the rules that move averages of this one; rounded, as averages are kept by their accuracy."""
    return min(float(f"{level / CUT**2:.3g}"), ROUGH)


def shortest_learned(level: float) -> float:
    """Least step in t from which Broyden's update learns: shorter ones show jumps of the rules that move averages."""
    # Least step in t from which slopes are learned, over the accuracy of the rules that move the averages. A fifth of
    # it made steps that led astray (two layers at alpha = 0.978).
    learned = 1.0
    return learned * moving(level)


def noise_of(averages: Averages, chosen: list[int], inverse: Array) -> Array:
    """Standard error of t where G is sampled, and what its bias makes of it."""
    g = averages.g[:, chosen, chosen]
    deviations = (g / g.mean(axis=0)) @ inverse.T
    factor = student(len(g)) if averages.sampled else 1.0
    out: Array = factor * deviations.std(axis=0, ddof=1) / math.sqrt(len(g))
    return out + bias_of(averages, chosen, inverse)


def bias_of(averages: Averages, chosen: list[int], inverse: Array) -> Array:
    """What the bias of G makes of t."""
    out: Array = np.abs(inverse) @ (np.abs(averages.bias[chosen, chosen]) / averages.g.mean(axis=0)[chosen, chosen])
    return out


def _is_within(step: Array, small: Array, short: Array | float = _SHORT) -> bool:
    return bool((np.abs(step) <= np.minimum(small, short)).all())


def coupled(slopes: Array, step: Array) -> Array:
    """|S^-1| |S| |step|: what a step may miss where each of the slopes S is off by as much as itself.

    Layers feed each other: an error of a slope by which one of them sees another's step displaces both.
    """
    return np.asarray(np.abs(np.linalg.pinv(slopes)) @ (np.abs(slopes) @ np.abs(step)))


def missed_by_rules(slopes: Array, step: Array) -> Array:
    """What a step by deterministic averages may miss."""
    return coupled(slopes, step * (WRONG_BY_RULES + _BENT * np.abs(step)))


def is_short(slopes: Array, step: Array, asked: Array) -> bool:
    """Whether what a step by deterministic averages may miss is a small part of the accuracy asked for, that of t."""
    return bool((missed_by_rules(slopes, step) <= _SHARE * asked).all()) and _is_within(step, asked)


def _left_by_three(before: Array, gap: Array) -> Array:
    """Error of the finest of three rules, whose distances were these: they fall as a geometric series or faster."""
    ratio = np.minimum(gap / np.maximum(before, 1e-300), 0.5)
    # Least share of the distance of the last two of three rules that is stated as the error of the finest.
    least_left = 0.5
    out: Array = gap * np.maximum(ratio / (1 - ratio), least_left)
    return out


def judge_rule(stage: Stage, step: Array, bias: Array, asked: Array, *, at_rest: bool, coarse: bool) -> Judgement:
    """Judge a step by deterministic averages, whose known bias makes `bias` of t.

    `asked` is the accuracy of t, `coarse`: there are finer rules. `at_rest`: max |F(q) - q| is at most the tolerance.
    """
    gap, coarser = stage.gap, stage.coarser
    settled = is_short(stage.slopes, step, asked) and at_rest
    # A step that ends the refinement is taken.
    to_come = missed_by_rules(stage.slopes, step) if settled else np.abs(step) * (1 + _BENT * np.abs(step))
    error, enough = gap + bias + to_come, False
    through = settled or (stage.tries + 1 >= _TRIES and coarse)
    if through:
        if coarser is not None:
            third = bool(np.isfinite(gap).all())
            before, gap = gap, np.maximum(np.abs(stage.t + step - coarser), CUT * gap if third else 0.0)
            left = (_left_by_three(before, gap) if third else gap) + bias
            # Two rules may agree by chance, three hardly.
            error, enough = left + to_come, bool((left <= asked).all()) and third
            if enough and not settled and stage.tries + 1 < _MOST_TRIES:
                return Judgement(step, stage.gap, error, False, False, False, coarser)
        coarser = stage.t + step
    return Judgement(step, gap, error, enough, settled, through, coarser)


def judge_sampled(stage: Stage, step: Array, noise: Array, asked: Array, *, at_rest: bool, coarse: bool) -> Judgement:
    """Judge a step by sampled averages, whose standard error makes `noise` of t."""
    error = noise + WRONG_BY_SAMPLES * np.abs(step)
    fine = bool((noise <= asked).all())
    enough = fine and bool((error <= ROOM * asked).all())
    # At last, steps are to leave less than the noise, or as little as is asked for where they can: they cost less than
    # finer averages.
    left = np.where(noise < asked, (ROOM * asked - noise) / WRONG_BY_SAMPLES, WRONG_BY_SAMPLES * noise)
    small = left if fine or not coarse else noise
    settled = _is_within(step, np.maximum(_SHARE * asked, small), _SHORT / logistic(stage.t)) and at_rest
    through = coarse and (settled or stage.tries + 1 >= _TRIES)
    return Judgement(step, noise, error, enough, settled, through, stage.coarser)


def next_stage(stage: Stage, judged: Judgement, here: Evaluation, asked: Array, finest: float) -> Stage:
    """Stage of the next evaluation, after the one `here`; nothing is finer than `finest`."""
    t = stage.t if judged.settled else below_top(stage.t + judged.step)
    if not judged.through:
        return replace(
            stage, t=t, gap=judged.gap, coarser=judged.coarser, tries=stage.tries + 1, moved=(stage.t, here.log_alpha)
        )
    level = max(_cut(stage, judged, asked, here.averages) * stage.level, finest)
    return replace(stage, t=t, gap=judged.gap, coarser=judged.coarser, level=level, tries=0, moved=None, anchor=None)


def _cut(stage: Stage, judged: Judgement, asked: Array, averages: Averages) -> float:
    """Accuracy of the next stage over that of this one."""
    # The noise of the roughest sampled averages is mostly bias, which falls faster.
    if not averages.sampled or stage.level >= ROUGH:
        return CUT
    # No stops on the way that would not be enough, and no more than is asked.
    missing = float((asked / np.maximum(judged.gap, asked)).min())
    # The standard error of n randomisations is itself known to 1/(2 (n - 1))^(1/2) of it.
    sure = 1 - 1 / math.sqrt(2 * (len(averages.g) - 1))
    # Noise further ahead than this is not predicted: the finest averages are those that coarser ones have asked for.
    sharpest_cut = 0.04
    return min(_MILDEST_CUT, max(sharpest_cut, (sure * missing) ** _PER_NOISE))


def noted(solution: Solution, averages: Refinable, accuracy: float, found: Averages | None) -> Solution:
    """The same, with whether the accuracy asked for is reached, and a sentence where the finest averages leave more.

    Of sampled outputs it says how many times as many would be needed, by the law of their noise; of rules and of
    another method (`Averages.method`, of those that were `found` last), that no finer ones are served. An iteration,
    without those, takes averages of one accuracy.
    """
    reached = is_reached(solution, accuracy, absolute=averages.absolute)
    if reached or not solution.converged or solution.doubt:
        return replace(solution, reached=reached)
    left = f"{solution.error.diagonal().max():.2g}"
    if found is None:
        why = f"the averages of the iteration leave {left}"
    elif solution.how == "monte-carlo" and not found.method:
        times = times_asked(solution, accuracy, absolute=averages.absolute) ** _PER_NOISE
        why = f"the finest averages leave {left}; it would take about {max(times, 2.0):.0f} times as many outputs"
    else:
        why = f"the finest averages leave {left}; no finer rule is served"
    return missed(solution, f"{not_reached(accuracy)}: {why}")
