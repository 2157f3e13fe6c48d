"""Stationary points and landscapes as accurate as asked: by as fine averages as it takes, within bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..core.accuracy import RANGE, Attempt, By, Effort, as_accurate, checked, is_reached, not_reached, stated
from ..core.shown import few_lines
from ..priors import Prior
from .entropy import FreeEntropy
from .landscape import Landscape, landscape
from .located import located
from .points import StationaryPoint
from .psi_out import OutputEntropy
from .thresholds import Transitions, transitions

__all__ = ["USUAL", "Answer", "accurate_landscape", "accurate_transitions", "answered"]

#: Relative accuracy of averages by rules where no accuracy is asked for, and the coarsest where one is.
USUAL = 1e-2


@few_lines
@dataclass(frozen=True)
class Answer:
    """Stationary points of a free entropy, and what is known of them.

    Attributes
    ----------
    free : FreeEntropy
        As accurate as it took.
    points : tuple of StationaryPoint
        The one of the largest free entropy first.
    status : str
    converged : bool
        Whether the maximum of Phi is among them.
    reached : bool
        Whether their overlaps and free entropies are as accurate as was asked; true where nothing was asked for.
    """

    free: FreeEntropy
    points: tuple[StationaryPoint, ...]
    status: str
    converged: bool
    reached: bool = True

    @property
    def error(self) -> float:
        """The largest of an overlap on the diagonal, or of a free entropy that is finite.

        Overlaps at one have as their error how close to it averages are taken, which no accuracy is asked of.
        """
        errors = [point.free_entropy.error for point in self.points if math.isfinite(point.free_entropy.value)]
        inside = [point for point in self.points if point.kind != "recovered"]
        return max([0.0, *errors, *(float(point.overlap_error.diagonal().max()) for point in inside)])


def answered(
    make: Callable[[Effort], FreeEntropy], accuracy: float | None, first: Effort, *, starts: int = 2, rng: int = 0
) -> Answer:
    """Stationary points whose errors are at most `accuracy` where averages can be as fine.

    Parameters
    ----------
    make : callable
        Free entropy by averages of an effort.
    accuracy : float or None
        Of overlaps and free entropies, absolute; None: as the first effort makes them.
    first : Effort
    starts, rng : int, optional
        As in `located`.

    Raises
    ------
    ValueError
        The accuracy is not a number in its range.
    """

    def answer(effort: Effort) -> Answer:
        free = make(effort)
        return Answer(free, *located(free, starts=starts, rng=rng))

    if accuracy is None:
        return answer(first)
    asked = checked(accuracy, *RANGE, "free entropies")

    def attempt(effort: Effort) -> Attempt[Answer]:
        found = answer(effort)
        return Attempt(found, found.error, asked, found.converged, True, _by(found.free.output))

    return stated(*as_accurate(attempt, replace(first, fine=min(USUAL, asked))))


def accurate_transitions(
    make: Callable[[Effort], OutputEntropy],
    prior: Prior | str | None,
    accuracy: float,
    first: Effort,
    closest: float | None = None,
) -> Transitions:
    """Transitions whose errors are at most `accuracy` where averages can be as fine.

    Parameters
    ----------
    make : callable
        Output entropy by averages of an effort.
    prior : Prior, str or None
    accuracy : float
        Of every alpha, absolute.
    first : Effort
    closest : float, optional
        As in `transitions`.

    Raises
    ------
    ValueError
        The accuracy is not a number in its range; or as `transitions`.
    """
    asked = checked(accuracy, *RANGE, "transitions")

    def attempt(effort: Effort) -> Attempt[Transitions]:
        output = make(effort)
        found = transitions(output, prior, closest=closest)
        return Attempt(found, found.error, asked, True, True, _by(output))

    return stated(*as_accurate(attempt, replace(first, fine=min(USUAL, asked))))


def _by(output: OutputEntropy) -> By:
    """What makes its averages finer."""
    return "samples" if output.how == "monte-carlo" else "rules"


def accurate_landscape(
    answer: Answer, accuracy: float | None, *, points: int, top: float, progress: Callable[[int, int], None] | None
) -> tuple[Landscape, Answer]:
    """Phi on a grid from so many points or as many as the accuracy takes, and the answer with whether it is reached."""
    # Most points of a landscape along an axis.
    most_points = 65
    while True:
        found = landscape(answer.free, points=points, top=top, progress=progress)
        if accuracy is None or is_reached(found["error"] / accuracy, True):
            return found, answer
        if 2 * points - 1 > most_points:
            left = f"{not_reached(accuracy)}: {points} points along an axis leave {found['error']:.1g}"
            return found, replace(answer, reached=False, status=f"{answer.status}; {left}")
        points = 2 * points - 1
