"""The records of a registry: equations and errata, and the outcome of their checks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..shown import in_html

STATUSES: dict[str, str] = {
    "proved": "proved symbolically",
    "checked": "checked numerically",
    "definition": "definition",
    "prose": "prose only",
}
"""Statuses of an equation and their wording; an entry without anything to check says why, in ``reason``."""

ERRATUM = "erratum"
"""Status of the results of errata: a published value or statement that the check of the entry contradicts."""

SOURCES = ("restored", "derived")
"""Where the LaTeX of an entry comes from: the specification, or rebuilt from the prose around the number."""

CLAIMS = ("proved", "checked")


class RegistryError(ValueError):
    """A registry that cannot be trusted; the message lists every problem found.

    Parameters
    ----------
    paper : str
        Citekey of the paper.
    problems : sequence of str
        One sentence per problem.
    """

    def __init__(self, paper: str, problems: Sequence[str]) -> None:
        self.paper = paper
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"the equation registry of {paper!r} has {len(self.problems)} problem(s):\n{lines}")


@dataclass(frozen=True)
class Equation:
    """One numbered equation of a paper.

    Attributes
    ----------
    id : int
        Number of the equation in the paper, >= 1.
    title : str
        Short name.
    latex : str
        The formula.
    source : {"restored", "derived"}
        Where the formula comes from.
    status : {"proved", "checked", "definition", "prose"}
        What is known about it.
    code : str or None
        Dotted path of the object that implements it.
    check : str or None
        ``"module:function"`` of its check; required where the status is proved or checked.
    note : str or None
        Scope of the check, or how the formula was rebuilt.
    reason : str or None
        Why there is nothing to prove; required where the status is definition or prose, and only there.
    """

    id: int
    title: str
    latex: str
    source: str
    status: str
    code: str | None = None
    check: str | None = None
    note: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Erratum:
    """One published value or statement that does not hold.

    Attributes
    ----------
    id : str
        Short name, unique in the paper.
    concerns : str
        Equation, figure or section it is about.
    published : str
        What the paper has.
    correct : str
        What holds instead.
    evidence : str
        A sentence on how one knows.
    check : str
        ``"module:function"``; it computes the correct value, and fails where the published one were right.
    """

    id: str
    concerns: str
    published: str
    correct: str
    evidence: str
    check: str


Entry = Equation | Erratum


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found.

    Attributes
    ----------
    residual : float
        Largest deviation, >= 0; exactly 0 for an identity that SymPy reduced to zero.
    tolerance : float
        Largest residual that passes; 0 for a symbolic check.
    kind : {"symbolic", "numeric"}
        How the residual was obtained.
    detail : str
        What was compared with what.
    """

    residual: float
    tolerance: float
    kind: Literal["symbolic", "numeric"]
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("symbolic", "numeric"):
            raise ValueError(f"kind must be 'symbolic' or 'numeric', got {self.kind!r}")
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0.0):
            raise ValueError(f"tolerance must be finite and >= 0, got {self.tolerance!r}")
        if self.kind == "symbolic" and self.tolerance != 0.0:
            raise ValueError(f"a symbolic check has tolerance 0, got {self.tolerance!r}")

    @property
    def ok(self) -> bool:
        """Whether the residual is a number within the tolerance (a NaN never is)."""
        return 0.0 <= self.residual <= self.tolerance


@in_html
@dataclass(frozen=True)
class CheckResult:
    """Outcome of one registry entry in a run.

    Attributes
    ----------
    id : int or str
        Number of the equation, or name of the erratum.
    status : str
        Status the entry claims; `ERRATUM` for an erratum.
    ok : bool or None
        True or False where a check ran, None where the entry has none.
    residual : float
        Residual of the check; NaN where none ran or where it raised.
    seconds : float
        Time of the check; 0 where an earlier entry of the same run already ran it.
    message : str
        What was compared, why it failed, or why there is nothing to check.
    """

    id: int | str
    status: str
    ok: bool | None
    residual: float
    seconds: float
    message: str


def spans(numbers: Sequence[int]) -> str:
    """Write sorted integers compactly: 1-3, 7."""
    parts: list[str] = []
    start = previous = None
    for number in numbers:
        if start is None or previous is None or number != previous + 1:
            start = number
            parts.append(str(number))
        else:
            parts[-1] = f"{start}-{number}"
        previous = number
    return ", ".join(parts)
