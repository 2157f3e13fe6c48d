"""Finished points of a curve in a file, with the averages they are made of: an interrupted curve goes on from them.

Averages are a function of the overlap (`channel.averages`), so that a curve that finds them in the file takes the same
way again, at no cost, to where it was interrupted: its numbers are those of a curve that was not.
"""

import base64
import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...channel.averages import Averages, Channel
from ...core.files import write_json
from ...core.results import as_dict
from ...core.typing import JSON
from .records import CurvePoint

__all__ = ["Kept"]

Array = NDArray[np.float64]
_Value: TypeAlias = Averages | tuple[Averages, Array] | Array | None

_FIELDS = ("g", "growth", "bias", "growth_bias")
_WORDS = ("how", "note", "method")


class Kept:
    """The file of one curve.

    Parameters
    ----------
    path : Path
        Read where it is of an unfinished curve of the same averages; anything else is replaced.
    shown : callable, optional
        From a point as it is followed to the point that is kept for the reader.
    """

    def __init__(self, path: str | Path, shown: Callable[[CurvePoint], CurvePoint] = lambda point: point) -> None:
        self.path, self._shown = Path(path), shown
        self._identity = ""
        self._known: dict[str, JSON] = {}
        self._written = time.monotonic()

    def open(self, about: dict[str, object]) -> None:
        """Take the averages of the file, if what they depend on is the same."""
        self._identity = hashlib.sha256(json.dumps(as_dict(about), sort_keys=True).encode()).hexdigest()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            unfinished = json.loads(self.path.read_text(encoding="utf-8"))["unfinished"]
            if unfinished["identity"] == self._identity:
                self._known = dict(unfinished["averages"])

    def channel(self, value: float | None, channel: Channel) -> Channel:
        """Averages of a channel at one value of the parameter, which are looked for in the file first."""
        return cast(Channel, _Remembered(self, repr(value), channel))

    def value(self, key: str, compute: Callable[[], _Value]) -> _Value:
        """Return a value by its key, or compute and keep it."""
        if key in self._known:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return _decoded(self._known[key])
        found = compute()
        self._known[key] = _encoded(found)
        return found

    def step(self, along: str, points: dict[str, Sequence[CurvePoint]], total: int) -> None:
        """Write the file from time to time."""
        # Seconds after which the file is written again, against ends that nothing can catch.
        often = 10.0
        if time.monotonic() - self._written > often:
            self.write(along, points, total)

    def write(self, along: str, points: dict[str, Sequence[CurvePoint]], total: int) -> str:
        """Write the points that are finished; return a sentence about them, empty where there are none."""
        done = sum(map(len, points.values()))
        if not done:
            return ""
        status = f"interrupted after {done} of {total} points"
        ordered = {
            start: [as_dict(self._shown(point)) for point in sorted(found, key=lambda p: p.parameter)]
            for start, found in points.items()
        }
        record = {"along": along, "points": ordered, "converged": False, "interrupted": True, "status": status}
        record["unfinished"] = {"identity": self._identity, "averages": self._known}
        write_json(self.path, record)
        self._written = time.monotonic()
        return f"{status}, which are in {self.path}; the same command goes on from them"


class _Remembered:
    """A channel whose averages are kept; all else is that of the channel."""

    def __init__(self, kept: Kept, value: str, channel: Channel) -> None:
        self._kept, self._value, self._channel = kept, value, channel

    def __getattr__(self, name: str) -> object:
        return getattr(self._channel, name)

    def __call__(self, q: Array) -> _Value:
        return self._kept.value(self._key("averages", q), lambda: self._channel(q))

    def operator(self, q: Array) -> _Value:
        """Averages and the operator (15), or None."""
        return self._kept.value(self._key("operator", q), lambda: self._channel.operator(q))

    def derivative(self, q: Array) -> _Value:
        """Derivative of the averages, or None."""
        return self._kept.value(self._key("derivative", q), lambda: self._channel.derivative(q))

    def _key(self, kind: str, q: Array) -> str:
        content = np.ascontiguousarray(q, dtype=np.float64).tobytes()
        return f"{kind} {self._value} {hashlib.sha256(content).hexdigest()}"


def _encoded(value: _Value) -> JSON:
    """A value as JSON, with every bit of its numbers."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return {"pair": [_encoded(value[0]), _encoded(value[1])]}
    if isinstance(value, Averages):
        arrays: dict[str, JSON] = {name: _encoded(getattr(value, name)) for name in _FIELDS}
        return arrays | {name: getattr(value, name) for name in _WORDS}
    content = np.ascontiguousarray(value, dtype=np.float64)
    return {"shape": list(value.shape), "bytes": base64.b64encode(content.tobytes()).decode("ascii")}


def _decoded(record: JSON) -> _Value:
    """Inverse of `_encoded`.

    Raises
    ------
    ValueError, KeyError, TypeError
        The record is damaged.
    """
    if record is None:
        return None
    if not isinstance(record, dict):
        raise TypeError("no record")
    if "pair" in record:
        first, second = (_decoded(part) for part in cast(list[JSON], record["pair"]))
        return cast(tuple[Averages, Array], (first, second))
    if "how" in record:
        arrays = {name: cast(Array, _decoded(record[name])) for name in _FIELDS}
        words = {name: cast(str, record[name]) for name in _WORDS}
        return Averages(**arrays, **words)  # type: ignore[arg-type]
    shape = tuple(int(cast(int, n)) for n in cast(list[JSON], record["shape"]))
    content = base64.b64decode(cast(str, record["bytes"]), validate=True)
    if len(content) != 8 * math.prod(shape):
        raise ValueError("cut short")
    return np.frombuffer(content, dtype=np.float64).reshape(shape).copy()
