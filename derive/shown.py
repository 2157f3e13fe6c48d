"""How an object shows itself in a notebook: its text, as it stands."""

from html import escape
from typing import TypeVar

__all__ = ["in_html"]

Shown = TypeVar("Shown", bound=type)


def in_html(cls: Shown) -> Shown:
    """Let a notebook show the text of an object as it stands, for a class whose `repr` is short."""
    cls._repr_html_ = _html  # type: ignore[attr-defined]
    return cls


def _html(self: object) -> str:
    return f"<pre>{escape(repr(self))}</pre>"
