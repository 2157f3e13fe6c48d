"""The steps of a report: each computes one thing, and is kept in the folder until its route changes."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ..core.errors import KernelNotFoundError, NotServedError
from ..core.files import write_json
from ..core.identity import route_identity
from ..core.results import as_dict
from ..model.described import Model
from ..model.link import Link
from ..model.link_store import Request
from .commands import command
from .effort import Effort

__all__ = ["Data", "Found", "Number", "Outcome", "Part", "Progress", "Runner", "Setting", "Step"]

_NAMES = "abcdefghijklmnopqrstuvwxyz0123456789.+"


#: JSON objects of the plots and tables, whose shape each part knows.
Data: TypeAlias = dict[str, Any]
#: Values of the settings of public functions.
Setting: TypeAlias = Any


class Progress(Protocol):
    """Called after every step with its part, its name, its state, and its seconds (None: it was kept)."""

    def __call__(self, part: str, name: str, state: str, seconds: float | None, /) -> object:
        """Take note of it."""
        ...


@dataclass(frozen=True)
class Number:
    """One number of the page.

    Attributes
    ----------
    name : str
        What it is.
    value : str
        In decimal; "infinite" and the like are words.
    error : float or None
        Absolute; None where the value is a word.
    how : str
        "rigorous", "estimated" or "monte-carlo".
    exact : str or None
        Closed form.
    """

    name: str
    value: str
    error: float | None
    how: str
    exact: str | None = None


#: What a step gives: its numbers, and its data before arrays and results in them become plain.
Found: TypeAlias = tuple[tuple[Number, ...], Data]


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes
    ----------
    part, name : str
    state : {"done", "refused", "failed"}
    reason : str
        Why there is no number.
    command : str
        Computes the same again.
    seconds : float
        That it took when it was computed.
    numbers : tuple of Number
    data : dict
        What the plots and tables of the part are made of.
    """

    part: str
    name: str
    state: str
    reason: str = ""
    command: str = ""
    seconds: float = 0.0
    numbers: tuple[Number, ...] = ()
    data: Data = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether it has a result."""
        return self.state == "done"


@dataclass(frozen=True)
class Step:
    """One computation.

    Attributes
    ----------
    part, name : str
        Where it stands on the page, and what it is.
    verb : str
        Of the command that does the same; empty if none does.
    settings : dict
        Of the function and, where `flags` has no others, of the command.
    call : callable
        Called with the settings; gives the numbers and the data.
    modules : tuple of str
        Full names of the modules that compute it.
    flags : dict, optional
        Of the command, where they are others than the settings.
    """

    part: str
    name: str
    verb: str
    settings: Mapping[str, object]
    call: Callable[..., "Found"]
    modules: tuple[str, ...]
    flags: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Part:
    """One part of the page: its outcomes, and notes beside them."""

    name: str
    title: str
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    data: Data = field(default_factory=dict)


class Runner:
    """Runs steps on a model, or takes what the folder has of them.

    Parameters
    ----------
    model : Network or Link
    folder : Path or None
        Where steps are kept; None keeps nothing.
    effort : Effort
    progress : callable, optional
    """

    def __init__(self, model: Model, folder: Path | None, effort: Effort, progress: Progress | None = None) -> None:
        self.model, self.effort = model, effort
        self._folder, self._progress = folder, progress

    def run(self, step: Step) -> Outcome:
        """Outcome of a step; only an interrupt ends it otherwise."""
        identity = self._identity(step)
        found = self._kept(step, identity)
        if found is None:
            found = self._computed(step)
            if found.done and self._folder is not None:
                write_json(self._place(step), {"identity": identity, "outcome": as_dict(found)}, allow_nan=False)
            self._report(found, found.seconds)
        else:
            self._report(found, None)
        return found

    def refuse(self, part: str, name: str, reason: str) -> Outcome:
        """Outcome of what is known not to be served."""
        found = Outcome(part, name, "refused", reason)
        self._report(found, 0.0)
        return found

    def _report(self, found: Outcome, seconds: float | None) -> None:
        if self._progress is not None:
            self._progress(found.part, found.name, found.state, seconds)

    def _computed(self, step: Step) -> Outcome:
        begin = time.perf_counter()
        asked = command(step.verb, self.model, step.settings if step.flags is None else step.flags) if step.verb else ""

        def outcome(state: str, reason: str) -> Outcome:
            return Outcome(step.part, step.name, state, " ".join(reason.split()), asked, _since(begin))

        try:
            numbers, data = step.call(**step.settings)
        except (KernelNotFoundError, NotServedError) as error:
            return outcome("refused", str(error))
        except (ValueError, ArithmeticError, RuntimeError, MemoryError, OSError) as error:
            return outcome("failed", str(error) or type(error).__name__)
        except Exception as error:  # the page is made all the same, and shows it
            return outcome("failed", f"a fault of attnlimits, please report it: {type(error).__name__}: {error}")
        kept = as_dict(data)
        return Outcome(step.part, step.name, "done", "", asked, _since(begin), numbers, kept)

    def _identity(self, step: Step) -> str:
        asked = json.dumps([_formulas(self.model), step.part, step.name, as_dict(dict(step.settings))], default=str)
        # What the part keeps of a result is in its own file and in this one.
        return route_identity(step.modules, asked, choosers=(step.call.__module__, type(self).__module__))

    def _place(self, step: Step) -> Path:
        assert self._folder is not None
        name = "".join(c if c in _NAMES else "-" for c in f"{step.part}-{step.name}".lower())
        return self._folder / f"{name}.json"

    def _kept(self, step: Step, identity: str) -> Outcome | None:
        if self._folder is None or not self._place(step).exists():
            return None
        try:
            record = json.loads(self._place(step).read_text(encoding="utf-8"))
            if record["identity"] != identity:
                return None
            numbers = tuple(Number(**number) for number in record["outcome"].pop("numbers"))
            return Outcome(**record["outcome"], numbers=numbers)
        except (ValueError, KeyError, TypeError, AttributeError):  # another program's file, or half of one
            return None


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)


def _formulas(model: Model) -> str:
    """Identity of the model and of the formulas that no module holds: a kernel is loaded by its name, or derived."""
    if isinstance(model, Link):
        request = Request(model.text, model.tokens, model.indices, model.noise)
        return f"{request.digest} {model.label_noise}"
    return json.dumps([asdict(model), model.kernel_hash], default=str)
