"""The whole page of a report, from its record."""

from collections.abc import Iterator
from html import escape

from .markup import LAYOUT, Record, code, number_cells, section, table
from .parts import part_of
from .style import STYLE

__all__ = ["document"]

_KINDS = {
    "rigorous": "exact, or proved: the error is a bound",
    "estimated": "deterministic, the error is estimated from refinements",
    "monte-carlo": "averages over samples, the error is one standard error",
}


def document(record: Record) -> str:
    """One self-contained page: no script, nothing from the network.

    Parameters
    ----------
    record : dict
        What `report.json` holds.

    Raises
    ------
    ValueError
        It is no record of a report, or of another layout.
    """
    if not LAYOUT.items() <= record.items():
        raise ValueError("this is no record of `attnlimits report`, or one of another version: make the report again")
    parts = [(part["name"], part["title"], list(part_of(part))) for part in record["parts"]]
    parts += [
        ("numbers", "What is exact, and what is estimated", list(_numbers(record))),
        ("served", "What is served, and what is not", list(_served(record))),
        ("again", "Make this page again", list(_again(record))),
        ("citations", "Versions and citations", list(_citations(record))),
    ]
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in parts)
    title = escape(record["model"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the numbers</a>
<header>
<h1>{title}</h1>
{_headline(record)}
</header>
<nav aria-label="Parts of this page"><ul>{links}</ul></nav>
<main id="main">
{chr(10).join(section(*part) for part in parts)}
</main>
<footer class="quiet">Made by attnlimits {escape(record["versions"]["attnlimits"])}.
Indices are h = W x / sqrt(D), and alpha = N/D is the number of samples per dimension.</footer>
</body>
</html>
"""


def _headline(record: Record) -> str:
    """The weak-recovery threshold, or why there is none."""
    main = next(part for part in record["parts"] if part["name"] == "thresholds")["outcomes"][0]
    if not main["numbers"]:
        return f'<p class="missing">No weak-recovery threshold: {escape(main["reason"])}</p>'
    name, value, error, how = number_cells(main["numbers"][0])
    scatter = "" if main["numbers"][0]["error"] is None else f" ± {error}"
    return f'<p class="main-number">{name.capitalize()}: α = {value}{scatter}</p><p class="quiet">{_KINDS[how]}</p>'


def _numbers(record: Record) -> Iterator[str]:
    yield "<dl>" + "".join(f"<dt><strong>{k}</strong></dt><dd>{escape(v)}</dd>" for k, v in _KINDS.items()) + "</dl>"
    rows = []
    for part in record["parts"]:
        for outcome in part["outcomes"]:
            again = code(outcome["command"])
            rows += [(*number_cells(number), again) for number in outcome["numbers"]]
    yield table("Every number, and the command that makes it", ("", "value", "error", "kind", "command"), rows)
    spent = sum(outcome["seconds"] for part in record["parts"] for outcome in part["outcomes"])
    yield f'<p class="quiet">All steps together took {spent:.0f} s.</p>'


def _served(record: Record) -> Iterator[str]:
    rows = [
        (escape(row["name"]), escape(row["route"]) + (f" ({escape(row['note'])})" if row["note"] else ""), row["how"])
        for row in record["served"]
        if not row["why"]
    ]
    yield table("Served, by the preferred route", ("", "route", "kind of error"), rows)
    refused = [(escape(row["name"]), escape(row["why"])) for row in record["served"] if row["why"]]
    if refused:
        yield table("Not served, and why", ("", "why"), refused)


def _again(record: Record) -> Iterator[str]:
    if record["command"]:
        yield f"<pre>{escape(record['command'])}</pre>"
    call = f'al.report({record["python"]}, "report", effort="{record["effort"]}")'
    yield f"<pre>import attnlimits as al\n\n{escape(call)}</pre>"
    commands = dict.fromkeys(
        outcome["command"] for part in record["parts"] for outcome in part["outcomes"] if outcome["command"]
    )
    lines = "\n".join(map(escape, commands))
    yield f"<details><summary>The command of every step</summary><pre>{lines}</pre></details>"


def _citations(record: Record) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    yield f"<p>{escape(versions)}</p>"
    yield f"<pre>{escape(record['citations'])}</pre>"
