"""Results as accurate as asked: by as many points or as fine rules as it takes, within bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

__all__ = [
    "LINK_RANGE",
    "RANGE",
    "ROOM",
    "Attempt",
    "By",
    "Effort",
    "as_accurate",
    "checked",
    "is_reached",
    "not_reached",
    "stated",
]

#: Errors up to so many times the accuracy asked for are what a last step leaves.
ROOM = 1.1
#: What can be asked for of overlaps of a link, and of those of networks and of free entropies.
LINK_RANGE, RANGE = (1e-12, 0.1), (1e-10, 0.1)
# Most points per randomisation, and times the nodes of a posterior; finest rules.
_MOST, _MOST_INNER, _FINEST = 2**16, 16, 1e-10
# Errors are asked to be smaller by this, as they are known to a quarter.
_SHARE = 0.8

#: What makes errors smaller: more samples, finer rules, or nothing, as the finest averages were taken.
By: TypeAlias = Literal["samples", "rules", "all"]

Found = TypeVar("Found")


class _Result(Protocol):
    """A dataclass with a status, and `reached`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def status(self) -> str:
        """A sentence."""


Stated = TypeVar("Stated", bound=_Result)


def checked(accuracy: object, least: float, largest: float, what: str) -> float:
    """Refuse what is not a number in a range.

    Raises
    ------
    ValueError
        The message names the range, and what it is of.
    """
    number = isinstance(accuracy, int | float | np.floating) and not isinstance(accuracy, bool)
    if not (number and least <= float(accuracy) <= largest):  # type: ignore[arg-type]
        raise ValueError(f"accuracy must be a number in [{least:g}, {largest:g}] for {what}, got {accuracy!r}")
    return float(accuracy)  # type: ignore[arg-type]


def is_reached(times: float, sure: bool) -> bool:
    """Whether a result that is sure, with an error so many times the accuracy, is as accurate as was asked."""
    return bool(sure and times <= ROOM)


def not_reached(accuracy: float) -> str:
    """The beginning of a sentence on why."""
    return f"the accuracy of {accuracy:g} is not reached"


@dataclass(frozen=True)
class Effort:
    """What averages may take.

    Attributes
    ----------
    samples : int
        Points per randomisation, where they are sampled.
    inner : int
        Times the usual nodes of a posterior.
    fine : float
        Relative accuracy, where they are by rules that have one.
    """

    samples: int
    inner: int = 1
    fine: float = 1e-3


class Attempt(NamedTuple, Generic[Found]):
    """What one effort gave.

    Attributes
    ----------
    found : object
    error : float
        The largest, as the accuracy is meant: absolute, or relative.
    accuracy : float
        Asked for.
    converged : bool
    beyond_doubt : bool
        False where more than its error is uncertain, so that it does not count as reached.
    by : By
    """

    found: Found
    error: float
    accuracy: float
    converged: bool
    beyond_doubt: bool
    by: By

    @property
    def times(self) -> float:
        """The error in units of the accuracy."""
        return self.error / self.accuracy

    @property
    def reached(self) -> bool:
        """Whether it has converged, beyond doubt, and no error is a tenth more than the accuracy."""
        return is_reached(self.times, self.converged and self.beyond_doubt)

    def missed(self, effort: Effort | None = None) -> str:
        """A sentence on an accuracy that an effort has not reached, and what would."""
        start = not_reached(self.accuracy)
        if not self.converged:
            return start
        if self.by == "samples" and effort is not None:
            wanted = effort.samples * max(2.0, (self.times / _SHARE) ** 2)
            would = f"about 2^{math.ceil(math.log2(wanted))} would reach it (samples)"
            return f"{start}: {effort.samples} points leave {self.error:.1g}, {would}"
        return f"{start}: the finest averages leave {self.error:.1g}"


def stated(at: Attempt[Stated], effort: Effort | None = None) -> Stated:
    """What an attempt gave; where the accuracy is not reached, marked as that, with the sentence in its status."""
    if at.reached:
        return at.found
    return replace(at.found, reached=False, status=f"{at.found.status}; {at.missed(effort)}")


def as_accurate(solve: Callable[[Effort], Attempt[Found]], first: Effort) -> tuple[Attempt[Found], Effort]:
    """The attempt that reaches the accuracy, or the last one, and its effort.

    Parameters
    ----------
    solve : callable
        From an effort to what it gives.
    first : Effort
        Of the first attempt.
    """
    effort, at = first, solve(first)
    # Four times the points halve what scatters; what falls by less than this is a bias that more nodes diminish.
    falls = 0.75
    while at.converged and not at.reached and (more := _more(effort, at)) is not None:
        before, grown = at.times, math.log2(more.samples / effort.samples)
        effort, at = more, solve(more)
        if at.by == "rules" and at.times >= before:
            break  # finer rules do not help
        if at.by == "samples" and at.times > falls ** (0.5 * grown) * before and effort.inner < _MOST_INNER:
            effort = replace(effort, inner=2 * effort.inner)
    return at, effort


def _more(effort: Effort, at: Attempt[Found]) -> Effort | None:
    """The next effort; None where there is none."""
    # Points of the next attempt in units of the last; how much finer the rules of one attempt are at most.
    least_times, most_times, most_finer = 2, 16, 100
    if at.by == "samples" and effort.samples < _MOST:
        times = 2 ** math.ceil(math.log2(min(max((at.times / _SHARE) ** 2, least_times), most_times)))
        return replace(effort, samples=effort.samples * min(times, _MOST // effort.samples))
    if at.by == "rules" and effort.fine > _FINEST:
        return replace(effort, fine=max(_FINEST, effort.fine * _SHARE / min(max(at.times, 2.0), most_finer)))
    return None
