"""How an object shows itself: its name and a few lines, as text and in a notebook, for classes of any kind."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np

from .decimals import pm
from .typing import Array

__all__ = ["few_lines", "in_html", "overlap_entries", "overlaps"]

Shown = TypeVar("Shown", bound=type)

# Lines of an object's text; characters of one of them, and of a text in it; entries of an array, overlaps in a line.
_MOST_LINES, _WIDTH, _LONGEST, _ENTRIES, _OVERLAPS = 6, 110, 60, 4, 4


def few_lines(cls: Shown) -> Shown:
    """Let objects of a class show their name and at most five lines below it, as text and in a notebook.

    These are `lines()` of the class where it has such a method, and otherwise what `describe()` gives and the values
    of the fields, or the public attributes.
    """
    cls.__repr__ = _text  # type: ignore[assignment]
    return in_html(cls)


def in_html(cls: Shown) -> Shown:
    """Let a notebook show the text of an object as it stands, for a class whose `repr` is short."""
    cls._repr_html_ = _html  # type: ignore[attr-defined]
    return cls


def _text(self: object) -> str:
    model = getattr(getattr(self, "origin", None), "model", None)
    about = ", ".join(f"{name}={value}" for name, value in model.items()) if isinstance(model, Mapping) else ""
    made: Iterable[str] = self.lines() if hasattr(self, "lines") else _values(self)
    shown = [f"{type(self).__name__}({about})", *filter(None, made)]
    return "\n  ".join(shown if len(shown) <= _MOST_LINES else [*shown[: _MOST_LINES - 2], "..", shown[-1]])


def _html(self: object) -> str:
    return f"<pre>{escape(repr(self))}</pre>"


def _values(self: object) -> Iterator[str]:
    if hasattr(self, "describe"):
        yield str(self.describe())
    values = [f"{name} = {_short(value)}" for name, value in _attributes(self) if value is not None]
    # No break within a value.
    lines = textwrap.wrap(", ".join(v.replace(" ", "\0") for v in values), _WIDTH, break_on_hyphens=False)
    yield from (line.replace("\0", " ") for line in lines)


def _attributes(self: object) -> Iterator[tuple[str, object]]:
    if is_dataclass(self):
        names = [f.name for f in fields(self) if f.repr]
    else:
        names = list(getattr(self, "_fields", ())) or list(vars(self))
    return ((name, getattr(self, name)) for name in names if not name.startswith("_"))


def _short(value: Any) -> str:
    if hasattr(value, "value") and hasattr(value, "error") and hasattr(value, "how"):
        return f"{pm(value.value, value.error)} ({value.how})"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool | int | np.generic):
        return str(value)
    if isinstance(value, np.ndarray):
        if value.size <= _ENTRIES and value.dtype.kind in "biufc":
            return " ".join(np.array2string(value, precision=6, separator=", ").split())
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, Mapping | Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return _several(value)
    if hasattr(value, "describe"):
        return str(value.describe())
    if type(value).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return type(value).__name__
    return textwrap.shorten(getattr(value, "__name__", None) or str(value), _LONGEST, placeholder=" ..")


def _several(values: Any) -> str:
    plain = not isinstance(values, Mapping) and all(isinstance(v, bool | int | float | str) for v in values)
    if plain and len(values) <= _ENTRIES:
        return f"({', '.join(map(_short, values))})"
    kinds = {type(v).__name__ for v in (values.values() if isinstance(values, Mapping) else values)}
    return f"{len(values)} of {kinds.pop()}" if len(kinds) == 1 else f"{len(values)} values"


def overlap_entries(overlap: Array, error: Array | None = None) -> list[tuple[str, float, float | None]]:
    """Names, values and errors of the diagonal overlaps, and after them of the other entries that are not zero.

    Parameters
    ----------
    overlap, error : ndarray, shape (P, P)
        Of an entry off the diagonal that is not three of its errors from zero nothing is given; of a symmetric matrix
        only those above it are.
    """
    size = len(overlap)
    both = not np.allclose(overlap, overlap.T, rtol=1e-9, atol=1e-12)
    pairs = [(i, i) for i in range(size)]
    pairs += [(i, j) for i in range(size) for j in range(size) if i < j or (both and i > j)]
    apart = "," if size > 9 else ""
    found = []
    # An entry off the diagonal is shown where it is so many of its errors from zero.
    clear = 3.0
    for i, j in pairs:
        value, off = float(overlap[i, j]), None if error is None else float(error[i, j])
        if i == j or (value and abs(value) > clear * (off or 0.0)):
            found.append((f"q_{i + 1}{apart}{j + 1}", value, off))
    return found


def overlaps(overlap: Array, error: Array | None = None) -> str:
    """Overlaps with their errors in one line: of many the first ones, and the largest one off the diagonal."""
    size = len(overlap)
    entries = overlap_entries(overlap, error)
    diagonal, others = entries[:size], entries[size:]
    shown = [_entry(entry) for entry in diagonal[:_OVERLAPS]] + [f".. ({size} in all)"] * (size > _OVERLAPS)
    if others:
        shown.append(_entry(max(others, key=lambda entry: abs(entry[1]))))
        if len(others) > 1:
            shown[-1] += f" (the largest of {len(others)} off the diagonal)"
    return ", ".join(shown)


def _entry(entry: tuple[str, float, float | None]) -> str:
    name, value, error = entry
    return f"{name} = {value:.6g}" if error is None else f"{name} = {pm(value, error)}"
