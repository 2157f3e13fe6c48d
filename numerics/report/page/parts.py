"""What each part of a report shows: formulas, plots, and the tables behind them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from ...core.decimals import pm
from . import plots
from .markup import Record, missing, number_cells, table
from .mathematics import line, typeset

__all__ = ["part_of"]


def part_of(part: Record) -> Iterator[str]:
    """HTML of a part: its notes, what it shows, and one line for each step that has no result."""
    for note in part["notes"]:
        yield f"<p>{escape(note)}</p>"
    yield from _SHOWN[part["name"]](part)
    for reason, names in _reasons(part["outcomes"]).items():
        yield missing(", ".join(names), reason)


def _reasons(outcomes: Iterable[Record]) -> dict[str, list[str]]:
    """Why steps have no result, each reason once."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome["state"] != "done":
            found.setdefault(outcome["reason"], []).append(outcome["name"])
    return found


def _done(part: Record, key: str = "") -> list[Record]:
    """Data of the steps that have a result, with this entry."""
    return [o["data"] for o in part["outcomes"] if o["state"] == "done" and (not key or key in o["data"])]


def _number(value: float | None, error: float | None) -> str:
    return "–" if value is None else escape(pm(value, error)).replace("+-", "±")


def _derivation(part: Record) -> Iterator[str]:
    if not typeset():
        yield '<p class="quiet">Formulas are plain text: pip install latex2mathml, and they are typeset.</p>'
    for page in _done(part):
        for section in page["sections"]:
            yield f"<h3>{escape(section['title'])}</h3>"
            yield from map(line, section["lines"])
        yield f'<p class="quiet">{escape("; ".join(page["references"]))}</p>'


def _numbers(part: Record) -> Iterator[str]:
    rows = [number_cells(number) for outcome in part["outcomes"] for number in outcome["numbers"]]
    if rows:
        yield table("α = N/D, samples per dimension", ("", "value", "error", "kind"), rows, numbers=(1, 2))
    for data in _done(part, "status"):
        if "start" not in data and not data.get("converged", True):
            yield f'<p class="missing">{escape(data["status"])}</p>'


def _evolution(part: Record) -> Iterator[str]:
    points = sorted(_done(part, "start"), key=lambda point: point["alpha"])
    if points:
        marks = [(name, at) for name, at in part["data"].get("marks", ())]
        letters = "; ".join(f"{chr(ord('a') + k)}: {name}, α = {at:.6g}" for k, (name, at) in enumerate(marks))
        yield "<figure>" + plots.evolution_plot(points, marks)
        yield (
            "<figcaption>Above: overlaps of the fixed points that the iteration reaches from zero (full lines) and "
            "from full overlap (dashes), with their errors as bands; open circles: not converged. Below: error of "
            f"predicting a new output. {escape(letters)}</figcaption></figure>"
        )
        yield f"<details><summary>The {len(points)} fixed points as a table</summary>{_points(points)}</details>"
    yield from _numbers(part)


def _points(points: Sequence[Record]) -> str:
    size = len(points[0]["overlap"])
    head = ["α", "start", *map(plots.overlap_name, range(size)), "prediction error", "plug-in", ""]
    rows = [
        (
            f"{p['alpha']:.6g}",
            p["start"],
            *(_number(p["overlap"][i][i], p["overlap_error"][i][i]) for i in range(size)),
            *(_number(p[name]["value"], p[name]["error"]) for name in ("prediction_error", "plugin_error")),
            "" if plots.as_asked(p) else escape(p["status"]),
        )
        for p in points
    ]
    return table("Fixed points of the state evolution", head, rows, numbers=range(size + 4))


def _entropy(part: Record) -> Iterator[str]:
    yield from _numbers(part)
    for data in _done(part, "curves"):
        yield "<figure>" + plots.entropy_plot(data)
        yield (
            "<figcaption>Free entropy relative to zero overlap. Its maxima are the fixed points of the state "
            "evolution; the largest is Bayes-optimal.</figcaption></figure>"
        )
    rows = [
        (
            f"{data['alpha']:.6g}",
            ", ".join(
                _number(point["overlap"][i][i], point["overlap_error"][i][i]) for i in range(len(point["overlap"]))
            ),
            escape(point["kind"]),
            "stable" if point["stable"] else "unstable",
            _number(point["free_entropy"]["value"], point["free_entropy"]["error"]),
        )
        for data in _done(part, "points")
        for point in data["points"]
    ]
    if rows:
        yield table("Stationary points of the free entropy", ("α", "overlaps", "kind", "", "Φ(q) − Φ(0)"), rows)


def _instances(part: Record) -> Iterator[str]:
    theory = {data["alpha"]: data for data in _done(part, "start")}
    for number, data in enumerate(_done(part, "history"), start=1):
        beside = theory.get(data["alpha"])
        yield "<figure>" + plots.instances_plot(data, beside, f"instances-{number}")
        yield (
            f"<figcaption>α = {data['alpha']:g}, D = {data['dimension']}, {data['seeds']} instances; "
            f"{escape(data['status'])}.</figcaption></figure>"
        )
        rows = []
        for i in range(len(data["overlap"])):
            found = _number(data["overlap"][i][i], data["overlap_error"][i][i])
            expected = "–" if beside is None else _number(beside["overlap"][i][i], beside["overlap_error"][i][i])
            rows.append((plots.overlap_name(i), found, expected))
        yield table("Mean over the instances", ("", "message passing", "state evolution"), rows, numbers=(1, 2))


def _depth(part: Record) -> Iterator[str]:
    points = _done(part, "skip")
    limit = next(
        (o["data"]["alpha"] for o in part["outcomes"] if o["name"] == "one layer" and o["state"] == "done"), None
    )
    if len(points) > 1:
        yield "<figure>" + plots.depth_plot(points, limit) + "</figure>"
    yield from _numbers(part)


_SHOWN: dict[str, Callable[[Record], Iterator[str]]] = {
    "derivation": _derivation,
    "thresholds": _numbers,
    "evolution": _evolution,
    "entropy": _entropy,
    "instances": _instances,
    "depth": _depth,
}
