"""The report about one model: all parts in their order, the page, and the data beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..core.citation import cite
from ..core.destinations import output_folder
from ..core.files import write_json, write_whole
from ..core.results import as_dict, versions
from ..core.shown import few_lines
from ..core.typing import JSON
from ..model.described import Model
from .commands import command, python
from .depth import depth
from .derivation import derivation
from .effort import effort_named
from .entropy import TRANSITIONS, entropy, marks
from .evolution import evolution
from .instances import instances
from .page.document import document
from .page.markup import LAYOUT
from .served import served
from .steps import Outcome, Part, Progress, Runner
from .tables import curve_table, number_table
from .thresholds import MAIN, thresholds, value_of

__all__ = ["Report", "make_report"]

#: Files of a report in its folder.
PAGE, DATA, NUMBERS, CURVE, KEPT = "index.html", "report.json", "numbers.csv", "curve.csv", "parts"


@few_lines
@dataclass(frozen=True)
class Report:
    """What a report wrote.

    Attributes
    ----------
    folder, page : Path
        Of all files, and the HTML page.
    record : dict
        What `report.json` holds.
    complete : bool
        Whether the weak-recovery threshold, the main part, was computed.
    status : str
        A sentence on what there is and what not.
    """

    folder: Path
    page: Path
    record: dict[str, JSON]
    complete: bool
    status: str

    def __repr__(self) -> str:
        """The page, and what is in it."""
        return f"Report({self.page})\n  {self.status}"


def make_report(model: Model, folder: str | Path, *, effort: str = "usual", progress: Progress | None = None) -> Report:
    """Compute what is served of a model and write its page; see `attnlimits.report`."""
    where = output_folder(Path(folder), "out")
    asked = effort_named(effort)
    run = Runner(model, where / KEPT, asked, progress)
    found = _parts(run)
    record: dict[str, JSON] = as_dict(record_of(model, effort, found))
    # The fixed points beside the instances are those of the curve.
    outcomes = list({(one.part, one.name): one for part in found for one in part.outcomes}.values())
    where.mkdir(parents=True, exist_ok=True)
    write_json(where / DATA, record, allow_nan=False)
    write_whole(where / NUMBERS, number_table(outcomes).encode())
    write_whole(where / CURVE, curve_table(outcomes).encode())
    write_whole(where / PAGE, document(record).encode())
    main = next(outcome for outcome in outcomes if outcome.name == MAIN)
    return Report(where, where / PAGE, record, main.done, _status(outcomes, main))


def _status(outcomes: list[Outcome], main: Outcome) -> str:
    missing = [outcome for outcome in outcomes if not outcome.done]
    done = f"{len(outcomes) - len(missing)} of {len(outcomes)} steps have results"
    if not main.done:
        return f"not complete: no weak-recovery threshold, {main.reason}; {done}"
    if missing:
        return f"complete: {done}; the page has the reasons for the others, of which the first is {missing[0].name}"
    return f"complete: {done}"


def _parts(run: Runner) -> list[Part]:
    """All parts in the order of the page; the curve marks the transitions of the free entropy."""
    formulas, found = derivation(run), thresholds(run)
    weak = value_of(found.outcomes[0]) or None
    # With the last layer perfectly known the first one may be learned before the last one is: no event of the curve.
    others = [
        (outcome.name, value)
        for outcome in found.outcomes[1:]
        if (value := value_of(outcome)) and "perfect" not in outcome.name
    ]
    free = entropy(run, weak)
    others += [mark for outcome in free.outcomes if outcome.name == TRANSITIONS for mark in marks(outcome)]
    curve = evolution(run, weak, list(_apart(others, weak)), jumps=not _has_transitions(free))
    deep = depth(run)
    return [formulas, found, curve, free, instances(run, weak), *([] if deep is None else [deep])]


def _has_transitions(free: Part) -> bool:
    return any(outcome.name == TRANSITIONS and outcome.done for outcome in free.outcomes)


def _apart(marks: list[tuple[str, float]], weak: float | None) -> Iterator[tuple[str, float]]:
    """Those that are no other threshold already."""
    seen = [] if weak is None else [weak]
    # Values of alpha nearer than this, relative, are one threshold.
    same = 1e-6
    for name, value in sorted(marks, key=lambda mark: mark[1]):
        if value > 0 and all(abs(value - other) > same * other for other in seen):
            seen.append(value)
            yield name, value


def record_of(model: Model, effort: str, parts: list[Part]) -> dict[str, object]:
    """What the page is made of, as plain data."""
    return {
        **LAYOUT,
        "model": model.describe(),
        "python": python(model),
        "command": command("report", model, {"effort": effort, "out": "report"}),
        "effort": effort,
        "parts": parts,
        "served": served(model),
        "versions": versions(),
        "citations": cite(),
    }
