"""What a sweep can compute at a point: a table of tasks, open for more."""

import argparse
import contextlib
import inspect
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from ..core.identity import route_identity
from ..model.attention import kernel_modules
from ..model.link_store import Request

__all__ = ["TASKS", "Function", "Parameters", "Task", "Verb", "register", "task_named"]

Parameters = Mapping[str, Any]


class Task(Protocol):
    """A pure function from parameters to a record, and what a sweep has to know about it.

    Instances travel to other processes, so they must be picklable.
    """

    @property
    def name(self) -> str:
        """Name by which a grid asks for it."""
        ...

    def canonical(self, parameters: Parameters) -> dict[str, Any]:
        """All parameters, defaults included, each value in its one spelling; ValueError for what it does not take."""
        ...

    def identity(self, parameters: Parameters) -> str:
        """Hash of what computes the number from its parameters: another hash makes old points stale."""
        ...

    def cost(self, parameters: Parameters) -> float:
        """Rough relative cost; dear points start first."""
        ...

    def command(self, parameters: Parameters) -> str:
        """How to compute the point again by hand."""
        ...

    def run(self, parameters: Parameters) -> dict[str, Any]:
        """Compute; scalars, strings and arrays, with `value`, `error`, `how`, `converged` among them."""
        ...


def _threshold_cost(p: Parameters) -> float:
    if p["link"] is not None or p["layers"] == 1:
        return 1.0
    if p["layer"] not in (None, p["layers"]):
        return 1e5
    digits = p["digits"] or 12
    return float(digits**2 * 30.0 ** min(p["layers"] + p["tokens"] - 4, 20) * (1 + 1 / p["skip"]))


def _evolve_cost(p: Parameters) -> float:
    return float((p["samples"] or 4096) * p["replicas"] * p["layers"])


_NUMERICS = "attnlimits.numerics"


def _threshold_modules(p: Parameters) -> tuple[str, ...]:
    if p["link"] is not None:
        return _LINK_MODULES
    if p["layer"] not in (None, p["layers"]):
        return (f"{_NUMERICS}.thresholds.first_layer",)
    return (f"{_NUMERICS}.thresholds.last_layer",)


def _evolve_modules(p: Parameters) -> tuple[str, ...]:
    if p["link"] is not None:
        return (*_LINK_MODULES, f"{_NUMERICS}.fixed_point.link")
    return (f"{_NUMERICS}.fixed_point.evolve",)


# `link_cli` also chooses between routes and adds exact forms.
_LINK_MODULES = tuple(
    f"{_NUMERICS}.{name}"
    for name in ("cli.link", "model.link_kernels", "thresholds.link.thresholds", "thresholds.exact")
)


def _link(p: Parameters) -> Request:
    """What the derivation of the link is asked for; its digest is also that of the sources that derive it."""
    return Request(p["link"], noise=str(p["noise"]))


@dataclass(frozen=True)
class Verb:
    """A verb of the command: its parameters are the flags, its record is what `--json` prints.

    Parameters
    ----------
    name : str
        The verb.
    required : tuple of str
        Flags without a default.
    cost_of : callable
        Relative cost from all parameters.
    modules_of : callable
        Full names of the modules that compute the number, from all parameters.
    """

    name: str
    required: tuple[str, ...]
    cost_of: Callable[[Parameters], float]
    modules_of: Callable[[Parameters], tuple[str, ...]]

    def canonical(self, parameters: Parameters) -> dict[str, Any]:
        """Return every flag of the verb with its value as the command reads it.

        Raises
        ------
        ValueError
            A flag that the verb does not have, a missing one, or a value that it cannot read.
        """
        self._check_names(parameters)
        found = dict(self._defaults())
        for name, value in parameters.items():
            flag = _flag(name, value)
            if flag is not None:
                found[name] = _read(self.name, self.required, name, flag)
                if isinstance(found[name], float) and not math.isfinite(found[name]):
                    raise ValueError(f"task {self.name}: {name} must be finite, got {value!r}")
        return found

    def identity(self, parameters: Parameters) -> str:
        """Identity of the route: sources of the numerics, and the generated kernel or the derivation of the link.

        Raises
        ------
        KernelNotFoundError
            There are no sources.
        """
        modules = self.modules_of(parameters)
        if parameters["link"] is not None:
            return route_identity(modules, _link(parameters).digest)
        return route_identity(modules + kernel_modules(str(parameters["activation"]), int(parameters["tokens"])))

    def cost(self, parameters: Parameters) -> float:
        """Rough relative cost."""
        try:
            return self.cost_of(parameters)
        except (ArithmeticError, TypeError):  # out of range: the point fails at once, and says why
            return 0.0

    def command(self, parameters: Parameters) -> str:
        """Return the command line without the flags at their defaults."""
        defaults = self._defaults()
        told = {k: v for k, v in parameters.items() if k in self.required or v != defaults[k]}
        return " ".join(["attnlimits", self.name, *(_quoted(flag) for flag in _flags(told)), "--json"])

    def run(self, parameters: Parameters) -> dict[str, Any]:
        """Run the verb on one thread, silently.

        Raises
        ------
        ValueError, ArithmeticError, RuntimeError
            Whatever the verb refuses or fails with.
        """
        args = self._parsed(parameters, "--workers=1")
        with contextlib.redirect_stderr(io.StringIO()):  # the sweep has the one progress bar
            record, _, ok = args.run(args)
        # A sweep keeps versions, model and settings itself; of the iterates only their number.
        left_out = ("versions", "history", "origin")
        return {k: v for k, v in record.items() if k not in left_out} | {"converged": record.get("converged", ok)}

    def _defaults(self) -> dict[str, Any]:
        return _defaults(self.name, self.required)

    def _parsed(self, parameters: Parameters, *more: str) -> argparse.Namespace:
        self._check_names(parameters)
        return _parse([self.name, *_flags(parameters), *more])

    def _check_names(self, parameters: Parameters) -> None:
        known = self._defaults()
        for name in parameters:
            if name == "workers":
                raise ValueError(
                    "workers is no parameter of a point, each has one thread; --workers of the sweep sets how many "
                    "points are computed at a time"
                )
            if name not in known:
                raise ValueError(f"task {self.name} has no parameter {name!r}; it has {', '.join(sorted(known))}")
        for name in self.required:
            if name not in parameters:
                raise ValueError(f"task {self.name} needs the parameter {name!r}, fixed or as an axis")


def _flags(parameters: Parameters) -> list[str]:
    """Flags of a command line."""
    return [flag for name, value in parameters.items() if (flag := _flag(name, value)) is not None]


def _flag(name: str, value: Any) -> str | None:
    """One flag of a command line, None for one that is left out; floats keep all digits."""
    flag = "--" + name.replace("_", "-")
    if value is True:
        return flag
    if value is None or value is False:
        return None
    return f"{flag}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _quoted(flag: str) -> str:
    import shlex

    return shlex.quote(flag)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _parse(words: list[str]) -> argparse.Namespace:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return _parser().parse_args(words)
    except SystemExit:
        sentence = said.getvalue().partition("error: ")[2].rpartition(" (see ")[0]
        raise ValueError(f"task {words[0]}: {sentence}") from None


@lru_cache(maxsize=1)
def _parser() -> argparse.ArgumentParser:
    from ..cli import main as cli  # which registers the verb `sweep`, and so imports this package

    return cli._parser()


@lru_cache
def _defaults(verb: str, required: tuple[str, ...]) -> dict[str, Any]:
    """Parameters of a verb in the order of their names."""
    found = vars(_parse([verb, *(f"--{name}=0" for name in required)]))
    return {k: _plain(found[k]) for k in sorted(found) if k not in ("verb", "run", "json", "workers")}


@lru_cache(maxsize=4096)
def _read(verb: str, required: tuple[str, ...], name: str, flag: str) -> Any:
    """Value of one flag as the command reads it: no flag of a verb changes how another one is read.

    The whole parser takes half a millisecond for a line, of which a grid may have a million: a flag that takes a value
    is read by its type alone, and the parser has the word where that refuses.
    """
    option, has_value, text = flag.partition("=")
    action = _options(verb).get(option)
    if has_value and isinstance(action, _Store) and action.nargs is None:
        with contextlib.suppress(ValueError, TypeError, argparse.ArgumentTypeError):
            value = action.type(text) if callable(action.type) else text
            if action.choices is None or value in action.choices:
                return _plain(value)
    needed = [f"--{other}=0" for other in required if other != name]
    return _plain(vars(_parse([verb, *needed, flag]))[name])


# argparse names no class for the action "store", and gives no list of the options of a parser.
_Store = type(argparse.ArgumentParser().add_argument("--any"))


@lru_cache
def _options(verb: str) -> dict[str, argparse.Action]:
    """Options of a verb by their long names."""
    verbs = next(action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {option: action for action in verbs.choices[verb]._actions for option in action.option_strings}


@dataclass(frozen=True)
class Function:
    """A function of one's own as a task.

    Parameters
    ----------
    name : str
        What grids call it.
    call : callable
        Takes keywords and returns a mapping; other processes must be able to import it. Its signature gives the
        parameters and their defaults.
    version : str
        Change it when the function changes: points of the old one are then stale.
    """

    name: str
    call: Callable[..., Mapping[str, Any]]
    version: str = "1"

    def canonical(self, parameters: Parameters) -> dict[str, Any]:
        """Return the keywords with their defaults.

        Raises
        ------
        ValueError
            The function does not take them.
        """
        try:
            bound = inspect.signature(self.call).bind(**parameters)
        except TypeError as error:
            raise ValueError(f"task {self.name}: {error}") from None
        bound.apply_defaults()
        return dict(sorted(bound.arguments.items()))

    def identity(self, parameters: Parameters) -> str:
        """Return the version."""
        del parameters
        return self.version

    def cost(self, parameters: Parameters) -> float:
        """Every point costs the same."""
        del parameters
        return 1.0

    def command(self, parameters: Parameters) -> str:
        """Return the call."""
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in parameters.items())})"

    def run(self, parameters: Parameters) -> dict[str, Any]:
        """Call the function."""
        return dict(self.call(**parameters))


TASKS: dict[str, Task] = {
    "threshold": Verb("threshold", (), _threshold_cost, _threshold_modules),
    "evolve": Verb("evolve", ("alpha",), _evolve_cost, _evolve_modules),
}


def register(task: Task) -> None:
    """Add a task to the table, under its name.

    Raises
    ------
    ValueError
        The name is taken by another one.
    """
    if TASKS.get(task.name, task) != task:
        raise ValueError(f"there is a task {task.name!r} already; give this one another name")
    TASKS[task.name] = task


def task_named(name: object) -> Task:
    """Return the task of that name.

    Raises
    ------
    ValueError
        There is none; the message lists what exists.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"task must be one of {', '.join(sorted(TASKS))}, got {name!r}")
    return TASKS[name]
