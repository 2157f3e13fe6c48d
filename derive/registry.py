"""The equation registry: what a paper states, what implements it, and what checks it.

Every ``papers/<citekey>/equations.toml`` is read, validated and run from here: its numbered equations, and the
errata that were found in the paper. A *check* is a callable without arguments that returns a `CheckOutcome`; it
lives beside the paper, is imported only when it runs, and a check that raises has failed. Nothing heavy is
imported at load: reading and validating the structure of a registry needs neither SymPy nor the numerics.
"""

from __future__ import annotations

import importlib
import math
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

STATUSES: dict[str, str] = {
    "proved": "proved symbolically",
    "checked": "checked numerically",
    "definition": "definition",
    "prose": "prose only",
}
"""Statuses of an equation and their wording; an entry without anything to check says why, in ``reason``."""

ERRATUM = "erratum"
"""Status of the results of errata: a published value or statement that the check of the entry contradicts."""

SOURCES = ("restored", "derived")
"""Where the LaTeX of an entry comes from: the specification, or rebuilt from the prose around the number."""

_TEXT_FIELDS = ("title", "latex", "source", "status")
_OPTIONAL_FIELDS = ("code", "check", "note", "reason")
_ERRATUM_FIELDS = ("id", "concerns", "published", "correct", "evidence", "check")
_CLAIMS = ("proved", "checked")


class RegistryError(ValueError):
    """A registry that cannot be trusted; the message lists every problem found.

    Parameters
    ----------
    paper : str
        Citekey of the paper.
    problems : sequence of str
        One sentence per problem.
    """

    def __init__(self, paper: str, problems: Sequence[str]) -> None:
        self.paper = paper
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"the equation registry of {paper!r} has {len(self.problems)} problem(s):\n{lines}")


@dataclass(frozen=True)
class Equation:
    """One numbered equation of a paper.

    Attributes
    ----------
    id : int
        Number of the equation in the paper, >= 1.
    title : str
        Short name.
    latex : str
        The formula.
    source : {"restored", "derived"}
        Where the formula comes from.
    status : {"proved", "checked", "definition", "prose"}
        What is known about it.
    code : str or None
        Dotted path of the object that implements it.
    check : str or None
        ``"module:function"`` of its check; required where the status is proved or checked.
    note : str or None
        Scope of the check, or how the formula was rebuilt.
    reason : str or None
        Why there is nothing to prove; required where the status is definition or prose, and only there.
    """

    id: int
    title: str
    latex: str
    source: str
    status: str
    code: str | None = None
    check: str | None = None
    note: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Erratum:
    """One published value or statement that does not hold.

    Attributes
    ----------
    id : str
        Short name, unique in the paper.
    concerns : str
        Equation, figure or section it is about.
    published : str
        What the paper has.
    correct : str
        What holds instead.
    evidence : str
        A sentence on how one knows.
    check : str
        ``"module:function"``; it computes the correct value, and fails where the published one were right.
    """

    id: str
    concerns: str
    published: str
    correct: str
    evidence: str
    check: str


Entry = Equation | Erratum


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found.

    Attributes
    ----------
    residual : float
        Largest deviation, >= 0; exactly 0 for an identity that SymPy reduced to zero.
    tolerance : float
        Largest residual that passes; 0 for a symbolic check.
    kind : {"symbolic", "numeric"}
        How the residual was obtained.
    detail : str
        What was compared with what.
    """

    residual: float
    tolerance: float
    kind: Literal["symbolic", "numeric"]
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("symbolic", "numeric"):
            raise ValueError(f"kind must be 'symbolic' or 'numeric', got {self.kind!r}")
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0.0):
            raise ValueError(f"tolerance must be finite and >= 0, got {self.tolerance!r}")
        if self.kind == "symbolic" and self.tolerance != 0.0:
            raise ValueError(f"a symbolic check has tolerance 0, got {self.tolerance!r}")

    @property
    def ok(self) -> bool:
        """Whether the residual is a number within the tolerance (a NaN never is)."""
        return 0.0 <= self.residual <= self.tolerance


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one registry entry in a run.

    Attributes
    ----------
    id : int or str
        Number of the equation, or name of the erratum.
    status : str
        Status the entry claims; `ERRATUM` for an erratum.
    ok : bool or None
        True or False where a check ran, None where the entry has none.
    residual : float
        Residual of the check; NaN where none ran or where it raised.
    seconds : float
        Time of the check; 0 where an earlier entry of the same run already ran it.
    message : str
        What was compared, why it failed, or why there is nothing to check.
    """

    id: int | str
    status: str
    ok: bool | None
    residual: float
    seconds: float
    message: str


def papers() -> tuple[str, ...]:
    """Citekeys of the papers that have an equation registry, sorted."""
    root = resources.files("attnlimits.papers")
    return tuple(sorted(p.name for p in root.iterdir() if p.is_dir() and (p / "equations.toml").is_file()))


def load(paper: str) -> tuple[Equation, ...]:
    """Read and validate the registry of one paper.

    Parameters
    ----------
    paper : str
        Citekey, one of `papers()`.

    Returns
    -------
    tuple of Equation
        Ordered by number.

    Raises
    ------
    RegistryError
        Unknown paper, unreadable TOML, or entries that break a rule; all problems are listed.
    """
    return parse(_text(paper), paper=paper)


def load_errata(paper: str) -> tuple[Erratum, ...]:
    """Read and validate the errata of one paper, in the order of the file; see `load`."""
    return parse_errata(_text(paper), paper=paper)


def _text(paper: str) -> str:
    known = papers()
    if paper not in known:
        raise RegistryError(paper, [f"no such paper; there is a registry for: {', '.join(known) or 'none'}"])
    return resources.files("attnlimits.papers").joinpath(paper, "equations.toml").read_text(encoding="utf-8")


def _tables(text: str, paper: str, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the whole file and its array of tables ``[[kind]]``."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(paper, [f"not valid TOML: {error}"]) from error
    entries = data.get(kind, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RegistryError(paper, [f"{kind!r} must be an array of tables, [[{kind}]]"])
    return data, entries


def parse(text: str, *, paper: str) -> tuple[Equation, ...]:
    """Build the entries from the text of an ``equations.toml``.

    Parameters
    ----------
    text : str
        TOML with a table ``[paper]`` (key ``equations``: how many numbers the paper has) and
        ``[[equation]]`` entries.
    paper : str
        Citekey, for the messages and compared with ``paper.citekey``.

    Returns
    -------
    tuple of Equation
        Ordered by number; every number 1..``equations`` occurs once.

    Raises
    ------
    RegistryError
        TOML syntax, unknown or missing or ill-typed fields, unknown status or source, duplicate or missing
        numbers, a proved or checked entry without check, any other entry with one or without a reason.
    """
    data, entries = _tables(text, paper, "equation")
    problems: list[str] = []
    header = data.get("paper")
    total = header.get("equations") if isinstance(header, dict) else None
    if not isinstance(header, dict):
        problems.append("the table [paper] with citekey and equations is missing")
    else:
        if header.get("citekey") != paper:
            problems.append(f"paper.citekey is {header.get('citekey')!r}, expected {paper!r}")
        if not _is_positive_int(total):
            problems.append(f"paper.equations must be a positive integer, got {total!r}")
    equations: dict[int, Equation] = {}
    for position, entry in enumerate(entries, start=1):
        found = _entry_problems(entry, position)
        problems.extend(found)
        if found:
            continue
        if entry["id"] in equations:
            problems.append(f"equation ({entry['id']}) occurs more than once")
        equations[entry["id"]] = Equation(**entry)
    seen = {entry["id"] for entry in entries if _is_positive_int(entry.get("id"))}
    if isinstance(total, int) and _is_positive_int(total):
        missing = sorted(set(range(1, total + 1)) - seen)
        beyond = sorted(seen - set(range(1, total + 1)))
        if missing:
            problems.append(f"equations without entry: {_spans(missing)}")
        if beyond:
            problems.append(f"entries beyond paper.equations = {total}: {_spans(beyond)}")
    if problems:
        raise RegistryError(paper, problems)
    return tuple(equations[i] for i in sorted(equations))


def parse_errata(text: str, *, paper: str) -> tuple[Erratum, ...]:
    """Build the ``[[erratum]]`` entries of the text of an ``equations.toml``; a paper may have none.

    Parameters
    ----------
    text : str
        TOML; every erratum has exactly the fields of `Erratum`, all of them non-empty strings.
    paper : str
        Citekey, for the messages.

    Returns
    -------
    tuple of Erratum
        In the order of the text.

    Raises
    ------
    RegistryError
        TOML syntax, missing, unknown or ill-typed fields, a name that is taken or is a number.
    """
    _, entries = _tables(text, paper, "erratum")
    problems: list[str] = []
    errata: dict[str, Erratum] = {}
    for position, entry in enumerate(entries, start=1):
        who = f"erratum {entry.get('id', f'number {position}')!r}"
        found = [f"{who}: unknown field {key!r}" for key in entry if key not in _ERRATUM_FIELDS]
        for key in _ERRATUM_FIELDS:
            if key not in entry:
                found.append(f"{who}: field {key!r} is missing")
            elif not isinstance(entry[key], str) or not entry[key].strip():
                found.append(f"{who}: field {key!r} must be a non-empty string, got {entry[key]!r}")
        if isinstance(entry.get("check"), str) and ":" not in entry["check"]:
            found.append(f"{who}: check must be written 'module:function', got {entry['check']!r}")
        if isinstance(entry.get("id"), str) and entry["id"].isdigit():
            found.append(f"{who}: id must be a name, numbers are equations")
        if isinstance(entry.get("id"), str) and entry["id"] in errata:
            found.append(f"{who}: occurs more than once")
        problems += found
        if not found:
            errata[entry["id"]] = Erratum(**entry)
    if problems:
        raise RegistryError(paper, problems)
    return tuple(errata.values())


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
        if isinstance(e, Equation) and e.status in _CLAIMS and not e.check
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
        have = _spans([e.id for e in entries if isinstance(e, Equation)])
        problems.append(f"no equation numbered {_spans(numbers)}; there are {have}")
    if names:
        have = ", ".join(e.id for e in entries if isinstance(e, Erratum)) or "none"
        problems.append(f"no erratum called {', '.join(names)}; there are: {have}")
    return problems


def coverage(equations: Iterable[Equation]) -> dict[str, int]:
    """Count the entries per status.

    Parameters
    ----------
    equations : iterable of Equation
        Entries to count.

    Returns
    -------
    dict of str to int
        Keys: the four statuses, ``"with_code"``, ``"with_check"`` and ``"total"``.
    """
    entries = tuple(equations)
    counts = {status: sum(e.status == status for e in entries) for status in STATUSES}
    counts["with_code"] = sum(e.code is not None for e in entries)
    counts["with_check"] = sum(e.check is not None for e in entries)
    counts["total"] = len(entries)
    return counts


def summary(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Reduce a run to what a report or an exit status needs.

    Parameters
    ----------
    results : iterable of CheckResult
        From `run`.

    Returns
    -------
    dict
        Of the equations: ``counts`` (entries per status), ``total``, ``ran``, ``passed``. ``errata``: ``total`` and
        ``passed``. Of both: ``failed`` (numbers and names, a list), ``seconds`` and ``ok`` (no check failed).
    """
    entries = list(results)
    equations = [r for r in entries if r.status != ERRATUM]
    errata = [r for r in entries if r.status == ERRATUM]
    failed = [r.id for r in entries if r.ok is False]
    return {
        "counts": {status: sum(r.status == status for r in equations) for status in STATUSES},
        "total": len(equations),
        "ran": sum(r.ok is not None for r in equations),
        "passed": sum(r.ok is True for r in equations),
        "errata": {"total": len(errata), "passed": sum(r.ok is True for r in errata)},
        "failed": failed,
        "seconds": sum(r.seconds for r in entries),
        "ok": not failed,
    }


def table(results: Iterable[CheckResult]) -> str:
    """Format a run as text: one line per equation, one per erratum, then the totals.

    Parameters
    ----------
    results : iterable of CheckResult
        From `run`.

    Returns
    -------
    str
        Lines joined by newlines. Entries without a check say why in the last column.
    """
    entries = list(results)
    equations = [r for r in entries if r.status != ERRATUM]
    errata = [r for r in entries if r.status == ERRATUM]
    report = summary(entries)
    lines: list[str] = []
    if equations:
        lines += [_heading("eq.", 6), *(_line(r, f"({r.id})", 6) for r in equations), ""]
    if errata:
        width = max(len(str(r.id)) for r in errata)
        lines += [_heading("erratum", width), *(_line(r, str(r.id), width) for r in errata), ""]
    if equations:
        lines += [f"{STATUSES[status]:<22}{count:>5}" for status, count in report["counts"].items()]
        lines.append(f"{'equations':<22}{report['total']:>5}")
    if errata:
        lines.append(f"{'errata':<22}{report['errata']['total']:>5}")
    names = [f"({i})" if isinstance(i, int) else i for i in report["failed"]]
    verdict = f"FAILED: {', '.join(names)}" if names else "all passed"
    count = sum(r.ok is not None for r in entries)
    lines.append(f"{count} checks, {verdict}, {report['seconds']:.1f} s")
    return "\n".join(lines)


def _heading(name: str, width: int) -> str:
    return f"{name:>{width}}  {'status':<10}  {'result':<6}  {'residual':>9}  {'s':>6}  what was compared"


def _line(result: CheckResult, name: str, width: int) -> str:
    number = result.residual
    residual = "-" if math.isnan(number) else f"{number:.1e}" if number else "0"
    verdict = "-" if result.ok is None else "ok" if result.ok else "FAILED"
    seconds = "-" if result.ok is None else f"{result.seconds:.2f}"
    return f"{name:>{width}}  {result.status:<10}  {verdict:<6}  {residual:>9}  {seconds:>6}  {result.message}"


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _entry_problems(entry: dict[str, Any], position: int) -> list[str]:
    """Sentences on what is wrong with one raw entry."""
    if not _is_positive_int(entry.get("id")):
        return [f"entry number {position}: id must be a positive integer, got {entry.get('id')!r}"]
    who = f"equation ({entry['id']})"
    problems = [f"{who}: unknown field {key!r}" for key in entry if key not in ("id", *_TEXT_FIELDS, *_OPTIONAL_FIELDS)]
    for key in (*_TEXT_FIELDS, *_OPTIONAL_FIELDS):
        if key not in entry:
            if key in _TEXT_FIELDS:
                problems.append(f"{who}: field {key!r} is missing")
        elif not isinstance(entry[key], str) or not entry[key].strip():
            problems.append(f"{who}: field {key!r} must be a non-empty string, got {entry[key]!r}")
    status, source = entry.get("status"), entry.get("source")
    if isinstance(status, str) and status not in STATUSES:
        problems.append(f"{who}: unknown status {status!r}, expected one of {', '.join(STATUSES)}")
    if isinstance(source, str) and source not in SOURCES:
        problems.append(f"{who}: unknown source {source!r}, expected one of {', '.join(SOURCES)}")
    if status in _CLAIMS and "check" not in entry:
        problems.append(f"{who}: status {status!r} claims a check and names none")
    if status in STATUSES and status not in _CLAIMS:
        if "check" in entry:
            problems.append(f"{who}: status {status!r} contradicts its check; call it proved or checked")
        if "reason" not in entry:
            problems.append(f"{who}: status {status!r} needs a reason, a sentence on why there is nothing to prove")
    if status in _CLAIMS and "reason" in entry:
        problems.append(f"{who}: status {status!r} contradicts its reason; say what is checked in the note")
    if isinstance(entry.get("check"), str) and ":" not in entry["check"]:
        problems.append(f"{who}: check must be written 'module:function', got {entry['check']!r}")
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


def _spans(numbers: Sequence[int]) -> str:
    """Write sorted integers compactly: 1-3, 7."""
    parts: list[str] = []
    start = previous = None
    for number in numbers:
        if start is None or previous is None or number != previous + 1:
            start = number
            parts.append(str(number))
        else:
            parts[-1] = f"{start}-{number}"
        previous = number
    return ", ".join(parts)
