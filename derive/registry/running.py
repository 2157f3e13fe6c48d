"""Run the checks of a registry: import what an entry names, call it, and compare its residual with its tolerance."""

import importlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .entries import (
    CLAIMS,
    ERRATUM,
    STATUSES,
    CheckOutcome,
    CheckResult,
    Entry,
    Equation,
    Erratum,
    RegistryError,
    spans,
)
from .reading import load, load_errata


def resolve(path: str) -> Any:
    """Import the object behind ``"package.module:attribute"`` or ``"package.module.attribute"``.

    Parameters
    ----------
    path : str
        Dotted path.

    Returns
    -------
    object
        What the path names.

    Raises
    ------
    LookupError
        No module or attribute of that name.
    """
    module_path, colon, attribute_path = path.partition(":")
    if colon:
        modules, attributes = module_path.split("."), attribute_path.split(".")
    else:
        modules, attributes = module_path.split("."), []
    while modules:
        name = ".".join(modules)
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError as error:
            # A missing dependency inside an existing module is its own story, not a wrong path.
            missing_here = error.name is not None and (name == error.name or name.startswith(error.name + "."))
            if colon or not missing_here:
                raise LookupError(f"{path!r} does not resolve: {error}") from error
            attributes.insert(0, modules.pop())
            continue
        for attribute in attributes:
            if not hasattr(found, attribute):
                raise LookupError(f"{path!r} does not resolve: {name!r} has no attribute {'.'.join(attributes)!r}")
            found = getattr(found, attribute)
        return found
    raise LookupError(f"{path!r} does not resolve: no such package")


def unresolved(entries: Iterable[Entry]) -> list[str]:
    """Sentences on every ``code`` and ``check`` path that cannot be imported or, for a check, called.

    Parameters
    ----------
    entries : iterable of Equation or Erratum
        Entries to look at; their modules are imported.

    Returns
    -------
    list of str
        Empty where all is well.
    """
    problems: list[str] = []
    for entry in entries:
        who = f"equation ({entry.id})" if isinstance(entry, Equation) else f"erratum {entry.id!r}"
        for field in ("code", "check"):
            path = getattr(entry, field, None)
            if path is None:
                continue
            try:
                target = resolve(path)
            except Exception as error:  # an import may fail in any way; all of them make the path unusable
                problems.append(f"{who}: {field}: {error}")
                continue
            if field == "check" and not callable(target):
                problems.append(f"{who}: check: {path!r} is not callable")
    return problems


def run(
    paper: str,
    ids: Iterable[int | str] | None = None,
    progress: Callable[[int, int, Entry], None] | None = None,
) -> list[CheckResult]:
    """Run the checks of a paper: its equations, then its errata.

    Parameters
    ----------
    paper : str
        Citekey, one of `papers()`.
    ids : iterable of int or str, optional
        Numbers of the equations and names of the errata to run, all by default.
    progress : callable, optional
        Called as ``progress(done, total, entry)`` before each entry.

    Returns
    -------
    list of CheckResult
        One per selected entry, equations by number, then errata. Entries without a check have ``ok = None``.

    Raises
    ------
    RegistryError
        An invalid registry, a path that does not resolve among the selected entries, or a number the paper
        does not have.
    """
    return run_entries([*load(paper), *load_errata(paper)], ids=ids, progress=progress, paper=paper)


def run_entries(
    entries: Sequence[Entry],
    *,
    ids: Iterable[int | str] | None = None,
    progress: Callable[[int, int, Entry], None] | None = None,
    paper: str = "",
) -> list[CheckResult]:
    """Run the checks of given entries; see `run`.

    Parameters
    ----------
    entries : sequence of Equation or Erratum
        Entries of one paper.
    ids : iterable of int or str, optional
        Numbers and names to run, all by default.
    progress : callable, optional
        As in `run`.
    paper : str
        Citekey, for the messages.

    Returns
    -------
    list of CheckResult
        Equations by number, then errata as given.

    Raises
    ------
    RegistryError
        As in `run`.
    """
    numbered = sorted((e for e in entries if isinstance(e, Equation)), key=lambda e: e.id)
    ordered: list[Entry] = [*numbered, *(e for e in entries if isinstance(e, Erratum))]
    wanted = {e.id for e in ordered} if ids is None else set(ids)
    unknown = wanted - {e.id for e in ordered}
    if unknown:
        raise RegistryError(paper, _unknown(unknown, ordered))
    selected = [e for e in ordered if e.id in wanted]
    problems = [
        f"equation ({e.id}): status {e.status!r} claims a check and names none"
        for e in selected
        if isinstance(e, Equation) and e.status in CLAIMS and not e.check
    ]
    problems += unresolved(selected)
    if problems:
        raise RegistryError(paper, problems)

    done: dict[str, tuple[CheckOutcome | None, str]] = {}
    results: list[CheckResult] = []
    for position, entry in enumerate(selected):
        if progress is not None:
            progress(position, len(selected), entry)
        if entry.check is None:
            message = entry.reason or STATUSES[entry.status]
            results.append(CheckResult(entry.id, entry.status, None, math.nan, 0.0, message))
            continue
        seconds = 0.0
        if entry.check not in done:
            start = time.perf_counter()
            done[entry.check] = _call(entry.check)
            seconds = time.perf_counter() - start
        outcome, message = done[entry.check]
        results.append(_judge(entry, outcome, message, seconds))
    return results


def _unknown(unknown: set[int | str], entries: Sequence[Entry]) -> list[str]:
    """Sentences on ids that no entry has."""
    problems: list[str] = []
    numbers = sorted(i for i in unknown if isinstance(i, int))
    names = sorted(i for i in unknown if isinstance(i, str))
    if numbers:
        have = spans([e.id for e in entries if isinstance(e, Equation)])
        problems.append(f"no equation numbered {spans(numbers)}; there are {have}")
    if names:
        have = ", ".join(e.id for e in entries if isinstance(e, Erratum)) or "none"
        problems.append(f"no erratum called {', '.join(names)}; there are: {have}")
    return problems


def _call(path: str) -> tuple[CheckOutcome | None, str]:
    """Run one check; a check that raises, or returns something else, gives no outcome but a message."""
    try:
        outcome = resolve(path)()
    except Exception as error:  # a check may fail in any way; all of them are a failed check
        return None, f"raised {type(error).__name__}: {error}"
    if not isinstance(outcome, CheckOutcome):
        return None, f"returned {type(outcome).__name__}, expected CheckOutcome"
    return outcome, outcome.detail


def _judge(entry: Entry, outcome: CheckOutcome | None, message: str, seconds: float) -> CheckResult:
    status = entry.status if isinstance(entry, Equation) else ERRATUM
    if outcome is None:
        return CheckResult(entry.id, status, False, math.nan, seconds, message)
    ok = outcome.ok
    if not ok:
        message = f"residual {outcome.residual:.3e} above tolerance {outcome.tolerance:.1e}: {message}"
    elif status == "proved" and outcome.kind != "symbolic":
        ok, message = False, f"status 'proved' needs a symbolic check, this one is {outcome.kind}: {message}"
    return CheckResult(entry.id, status, ok, float(outcome.residual), seconds, message)
