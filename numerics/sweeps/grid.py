"""Grids: a task, its fixed parameters, and the axes it is swept over, read from a TOML file."""

import itertools
import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from ..core.typing import Array
from .store import key_of
from .tasks import Task, task_named

__all__ = ["Grid", "Point", "read_grid", "shipped"]

MAX_POINTS = 1_000_000
_SPACINGS: dict[str, Callable[..., Array]] = {"linspace": np.linspace, "geomspace": np.geomspace}


@dataclass(frozen=True)
class Point:
    """A point of a grid: its parameters, what computes it (see `Task.identity`), and the key of both."""

    key: str
    parameters: dict[str, object]
    identity: str


@dataclass(frozen=True)
class Grid:
    """The product of some axes, for one task.

    Attributes
    ----------
    task : Task
    fixed : dict
        Parameters that all points share.
    axes : dict of tuple
        Values of each axis; the last axis runs fastest.
    """

    task: Task
    fixed: dict[str, object]
    axes: dict[str, tuple[object, ...]]

    @staticmethod
    def of(record: Mapping[str, object], where: str = "the grid") -> "Grid":
        """Read a grid from what TOML gives: `task`, tables `fixed` and `axes`.

        Raises
        ------
        ValueError
            An entry, task, parameter or axis that does not exist, or values that are none.
        """
        try:
            unknown = set(record) - {"task", "fixed", "axes"}
            if unknown:
                raise ValueError(f"unknown entry {sorted(unknown)[0]!r}; a grid has task, [fixed] and [axes]")
            if "task" not in record:
                raise ValueError('task is missing, such as task = "threshold"')
            task = task_named(record["task"])
            fixed, given = _table(record, "fixed"), _table(record, "axes")
            if not given:
                raise ValueError("[axes] is empty: it needs at least one axis, such as skip = [0.5, 1.0, 2.0]")
            if both := set(fixed) & set(given):
                raise ValueError(f"{sorted(both)[0]} is both fixed and an axis; leave one of them out")
            _check_size(map(_length, given.values()))  # before the values take memory
            grid = Grid(task, fixed, {name: _axis(name, values) for name, values in given.items()})
            grid.points  # noqa: B018 -- every point is checked before the first is computed
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(map(len, self.axes.values()))

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points, the last axis fastest.

        Raises
        ------
        ValueError
            The task does not take a parameter; two points are the same; there are too many.
        """
        _check_size(self.shape)
        found: dict[str, Point] = {}
        for values in self._combinations():
            parameters = self.task.canonical(self.fixed | values)
            identity = self.task.identity(parameters)
            key = key_of(self.task.name, parameters, identity)
            if key in found:
                raise ValueError(
                    f"an axis has the same value twice: {', '.join(f'{k}={v}' for k, v in values.items())}"
                )
            found[key] = Point(key, parameters, identity)
        return tuple(found.values())

    def _combinations(self) -> Iterator[dict[str, object]]:
        for values in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    def describe(self) -> str:
        """Return one line: the task and the axes with their lengths."""
        return f"{self.task.name} over " + " x ".join(f"{name} ({len(values)})" for name, values in self.axes.items())

    def as_record(self) -> dict[str, object]:
        """Plain types, from which `of` makes the same grid."""
        axes = {name: list(values) for name, values in self.axes.items()}
        return {"task": self.task.name, "fixed": self.fixed, "axes": axes}


def _check_size(lengths: Iterable[int]) -> None:
    size = math.prod(lengths)
    if size > MAX_POINTS:
        got = size if size < 10**15 else "10^15 or more"
        raise ValueError(f"a grid has at most {MAX_POINTS} points, got {got}")


def _length(given: object) -> int:
    """Number of values of an axis as it is written; 1 for what is no axis, which `_axis` refuses."""
    if isinstance(given, list):
        return len(given)
    ends = next(iter(given.values()), None) if isinstance(given, Mapping) else None
    number = ends[2] if isinstance(ends, list) and len(ends) == 3 else 1
    # One that is too long by itself is refused by its name.
    return number if isinstance(number, int) and 1 <= number <= MAX_POINTS else 1


def _table(record: Mapping[str, object], name: str) -> dict[str, object]:
    table = record.get(name, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"{name} must be a table, [{name}], got {table!r}")
    # A name may be spelled as on the command line.
    named = {str(key).replace("-", "_"): value for key, value in table.items()}
    if len(named) < len(table):
        raise ValueError(f"[{name}] has a name twice, spelled with - and with _: {', '.join(table)}")
    if name == "fixed":
        for key, value in named.items():
            _check_value(f"fixed parameter {key}", value)
    return named


def _check_value(what: str, value: object) -> None:
    """Refuse what is neither a finite number, nor a word, nor a list of such (as ranks are)."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, bool | int | float | str) for part in parts):
        raise ValueError(f"{what} must be a number, true or false, a word, or a list of these, got {value!r}")
    if any(isinstance(part, float) and not _finite(part) for part in parts):
        raise ValueError(f"{what} must be finite, got {value!r}")


def _finite(number: float) -> bool:
    """Whether it is a float64, which an integer of TOML need not be."""
    return abs(number) <= sys.float_info.max


def _axis(name: str, given: object) -> tuple[object, ...]:
    if isinstance(given, Mapping):
        return _spaced(name, given)
    if not isinstance(given, list):
        raise ValueError(
            f"axis {name} must be a list of values, or {{ linspace = [start, stop, number] }} or geomspace; "
            f"got {given!r}"
        )
    if not given:
        raise ValueError(f"axis {name} is empty: it needs at least one value")
    for value in given:
        _check_value(f"a value of axis {name}", value)
    return tuple(given)


def _spaced(name: str, given: Mapping[str, object]) -> tuple[float, ...]:
    if len(given) != 1 or not set(given) <= set(_SPACINGS):
        raise ValueError(f"axis {name} must have one of {', '.join(_SPACINGS)}, got {', '.join(given) or 'nothing'}")
    ((kind, ends),) = given.items()
    if not (isinstance(ends, list) and len(ends) == 3) or not all(
        isinstance(x, int | float) and not isinstance(x, bool) for x in ends
    ):
        raise ValueError(f"axis {name}: {kind} must be [start, stop, number], got {ends!r}")
    start, stop, number = ends
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"axis {name}: {kind} needs a number of values >= 1, got {number!r}")
    if number > MAX_POINTS:
        raise ValueError(f"axis {name}: {kind} gives at most {MAX_POINTS} values, got {number}")
    if not (_finite(start) and _finite(stop)) or (kind == "geomspace" and min(start, stop) <= 0):
        wanted = "finite and > 0" if kind == "geomspace" else "finite"
        raise ValueError(f"axis {name}: both ends of {kind} must be {wanted}, got {start!r} and {stop!r}")
    # Spaced values are rounded to this many digits: the same on every machine, and short to write down.
    spaced_digits = 12
    return tuple(float(f"{x:.{spaced_digits}g}") for x in _SPACINGS[kind](start, stop, number))


def shipped() -> dict[str, Traversable]:
    """Grids that come with the package, by name: `<citekey>-<file>`."""
    papers = [entry for entry in files("attnlimits.papers").iterdir() if entry.is_dir()]
    found = {}
    for paper in papers:
        folder = paper / "sweeps"
        if folder.is_dir():
            for file in folder.iterdir():
                if file.name.endswith(".toml"):
                    found[f"{paper.name}-{file.name.removesuffix('.toml')}"] = file
    return dict(sorted(found.items()))


def read_grid(place: str | Path) -> Grid:
    """Read a grid from a TOML file, or from one that comes with the package, by its name.

    Parameters
    ----------
    place : str or path

    Raises
    ------
    ValueError
        No such file, no TOML, or no grid.
    """
    file: Path | Traversable = Path(place)
    if not file.is_file():
        known = shipped()
        if str(place) not in known:
            raise ValueError(f"no grid {place}: neither a TOML file nor one that is shipped ({', '.join(known)})")
        file = known[str(place)]
    try:
        record = tomllib.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{place} is no grid: its brackets are nested too deep") from None
    except ValueError as error:  # of TOML, of the text's encoding, or of an integer of thousands of digits
        raise ValueError(f"{place} is no TOML: {error}") from None
    return Grid.of(record, str(place))
