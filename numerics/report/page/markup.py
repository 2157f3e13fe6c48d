"""Small pieces of HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

__all__ = ["LAYOUT", "Record", "code", "missing", "number_cells", "section", "table"]

#: A JSON object of the record of a report.
Record: TypeAlias = Mapping[str, Any]
#: Entries by which such a record, and what is in it, is known.
LAYOUT = {"format": "attnlimits report", "schema": 1}


def section(name: str, title: str, body: Iterable[str]) -> str:
    """A part of the page with its heading."""
    inner = "\n".join(body)
    heading = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">\n{heading}\n{inner}\n</section>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """A table that scrolls by itself; cells are HTML, `numbers` the columns of numbers."""
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "\n".join(
        f"<tr>{''.join(f'<td{_CLASS if k in numbers else str()}>{cell}</td>' for k, cell in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


_CLASS = ' class="number"'


def missing(name: str, reason: str) -> str:
    """The one line of a step that has no result."""
    return f'<p class="missing"><strong>{escape(name)}:</strong> no number here. {escape(reason)}</p>'


def number_cells(number: Record) -> tuple[str, str, str, str]:
    """Name, value with its closed form, error and kind of a number, as HTML."""
    exact = f" = {escape(number['exact'])}" if number["exact"] else ""
    error = "–" if number["error"] is None else f"{number['error']:.1e}"
    return escape(number["name"]), escape(number["value"]) + exact, error, number["how"]


def code(text: str) -> str:
    """Text of a program; nothing where there is none."""
    return f"<code>{escape(text)}</code>" if text else ""
