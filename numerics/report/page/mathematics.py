"""Formulas of a page: MathML where `latex2mathml` is installed, plain text otherwise."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from importlib import import_module
from typing import cast

__all__ = ["line", "typeset"]

_Convert = Callable[..., str]
# A letter of another alphabet without braces, which the converter passes over.
_BARE = re.compile(r"\\(mathbb|mathcal) ([A-Za-z])")


@cache
def _converter() -> _Convert | None:
    """Function of the optional package that turns LaTeX into MathML."""
    try:
        return cast(_Convert, import_module("latex2mathml.converter").convert)
    except ImportError:
        return None


def typeset() -> bool:
    """Whether formulas are typeset."""
    return _converter() is not None


def line(record: Mapping[str, object]) -> str:
    """A formula or a sentence of `explain`, with `text`, `latex` and whether it is a `formula`, as HTML."""
    text, latex = str(record["text"]), _BARE.sub(r"\\\1{\2}", str(record["latex"]))
    convert = _converter()
    if record["formula"]:
        shown = f"<code>{escape(text)}</code>" if convert is None else convert(latex, display="block")
        return f'<div class="formula" tabindex="0" role="group" aria-label="{escape(text)}">{shown}</div>'
    if convert is None:
        return f"<p>{escape(text)}</p>"
    parts = latex.split("$")
    return f"<p>{''.join(convert(part) if k % 2 else escape(part) for k, part in enumerate(parts))}</p>"
