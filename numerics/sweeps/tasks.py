"""What a sweep can compute at a point: a table of tasks, open for more."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from .verb import EVOLVE, THRESHOLD, Parameters

__all__ = ["TASKS", "Function", "Parameters", "Task", "register", "task_named"]


class Task(Protocol):
    """A pure function from parameters to a record, and what a sweep has to know about it.

    Instances travel to other processes, so they must be picklable.
    """

    @property
    def name(self) -> str:
        """Name by which a grid asks for it."""
        ...

    def canonical(self, parameters: Parameters) -> dict[str, object]:
        """All parameters, defaults included, each value in its one spelling; ValueError for what it does not take."""
        ...

    def identity(self, parameters: Parameters) -> str:
        """Hash of what computes the number from its parameters: another hash makes old points stale."""
        ...

    def cost(self, parameters: Parameters) -> float:
        """Rough relative cost; costly points start first."""
        ...

    def command(self, parameters: Parameters) -> str:
        """How to compute the point again by hand."""
        ...

    def run(self, parameters: Parameters) -> dict[str, object]:
        """Compute; scalars, strings and arrays, with `value`, `error`, `how`, `converged` among them."""
        ...


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
    call: Callable[..., Mapping[str, object]]
    version: str = "1"

    def canonical(self, parameters: Parameters) -> dict[str, object]:
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

    def run(self, parameters: Parameters) -> dict[str, object]:
        """Call the function."""
        return dict(self.call(**parameters))


TASKS: dict[str, Task] = {
    "threshold": THRESHOLD,
    "evolve": EVOLVE,
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
