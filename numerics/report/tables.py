"""The numbers of a report as comma-separated values."""

import csv
import io
from collections.abc import Iterable, Sequence

from .steps import Outcome

__all__ = ["curve_table", "number_table"]


def number_table(outcomes: Iterable[Outcome]) -> str:
    """Every number with its error, its kind, and the command that makes it."""
    rows = [
        (outcome.part, number.name, number.value, number.error, number.how, number.exact or "", outcome.command)
        for outcome in outcomes
        for number in outcome.numbers
    ]
    return _csv(("part", "name", "value", "error", "how", "exact", "command"), rows)


def curve_table(outcomes: Iterable[Outcome]) -> str:
    """Fixed points of both starts: overlaps, errors of estimation and of prediction."""
    found = [o.data for o in outcomes if o.part == "evolution" and "start" in o.data]
    size = len(found[0]["overlap"]) if found else 0
    names = [f"q_{i + 1}{i + 1}" for i in range(size)]
    head = ["alpha", "start", *(name for q in names for name in (q, f"{q}_error")), "prediction_error"]
    head += ["prediction_error_error", "plugin_error", "plugin_error_error", "converged", "reached", "how"]
    rows = []
    for point in found:
        overlaps = [point[name][i][i] for i in range(size) for name in ("overlap", "overlap_error")]
        errors = [point[name][key] for name in ("prediction_error", "plugin_error") for key in ("value", "error")]
        # A record of an earlier version has not kept whether an accuracy was reached.
        ends = [point["converged"], point.get("reached", ""), point["how"]]
        rows.append((point["alpha"], point["start"], *overlaps, *errors, *ends))
    return _csv(head, rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
