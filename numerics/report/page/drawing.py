"""Plots as SVG inside a page: text and curves take the colours of its style, so that they are read in the dark, too."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

from matplotlib import rc_context

from ...core.plots import new_figure
from .style import SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["INK", "Drawing", "drawing", "series"]

#: Stands for the colour of text.
INK = "#010203"
# Colours that stand for those of the style: no picture has them otherwise.
_SERIES = [f"#0102f{k}" for k in range(1, SERIES + 1)]
_STYLE: dict[str, object] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib, and measures the text; the page shows it in its own
    "font.size": 9,
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick")},
    **{f"axes.{name}": INK for name in ("edgecolor", "labelcolor")},
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def series(number: int) -> str:
    """Colour of a curve, counted from 0."""
    return _SERIES[number % SERIES]


class Drawing:
    """A figure, and after its block `svg`, the element."""

    def __init__(self, figure: "Figure") -> None:
        self.figure, self.svg = figure, ""


@contextmanager
def drawing(name: str, about: str, height: float) -> Iterator[Drawing]:
    """Give an empty figure of this height in inches, and make it an element with this description."""
    # Inches: as wide as a phone, so that its text is read there.
    width = 4.7
    with rc_context({**_STYLE, "svg.hashsalt": name}):  # type: ignore[dict-item]
        made = Drawing(new_figure(figsize=(width, height)))
        yield made
        text = io.StringIO()
        made.figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    made.svg = _element(text.getvalue(), name, about)


def _element(text: str, name: str, about: str) -> str:
    """The SVG without its prologue and its size, its identifiers in a space of their own, in colours of the style."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{name}-", body)
    for k, colour in enumerate(_SERIES, start=1):
        body = body.replace(colour, f"var(--series-{k})")
    body = body.replace(INK, "currentColor")
    body = re.sub(r"(\d\.\d{3})\d+", r"\1", body)  # a thousandth of a point is not seen
    head = re.match(r"<svg[^>]*>", body)
    assert head is not None
    opened = re.sub(r'\s(?:width|height)="[^"]*"', "", head[0])
    label = f' role="img" aria-label="{escape(about)}">'
    return opened.removesuffix(">") + label + body[head.end() :]
