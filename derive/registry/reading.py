"""Read the registry of a paper from its ``equations.toml``, and list every rule that an entry breaks."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from .entries import (
    CLAIMS,
    SOURCES,
    STATUSES,
    Equation,
    Erratum,
    RegistryError,
    spans,
)

_TEXT_FIELDS = ("title", "latex", "source", "status")
_OPTIONAL_FIELDS = ("code", "check", "note", "reason")
_ERRATUM_FIELDS = ("id", "concerns", "published", "correct", "evidence", "check")


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


def _tables(text: str, paper: str, kind: str) -> tuple[dict[str, object], list[dict[str, Any]]]:
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
            problems.append(f"equations without entry: {spans(missing)}")
        if beyond:
            problems.append(f"entries beyond paper.equations = {total}: {spans(beyond)}")
    if problems:
        raise RegistryError(paper, problems)
    return tuple(equations[i] for i in sorted(equations))


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _blank(value: object) -> bool:
    return not isinstance(value, str) or not value.strip()


def _entry_problems(entry: Mapping[str, object], position: int) -> list[str]:
    """Sentences on what is wrong with one raw entry."""
    if not _is_positive_int(entry.get("id")):
        return [f"entry number {position}: id must be a positive integer, got {entry.get('id')!r}"]
    who = f"equation ({entry['id']})"
    problems = [f"{who}: unknown field {key!r}" for key in entry if key not in ("id", *_TEXT_FIELDS, *_OPTIONAL_FIELDS)]
    for key in (*_TEXT_FIELDS, *_OPTIONAL_FIELDS):
        if key not in entry:
            if key in _TEXT_FIELDS:
                problems.append(f"{who}: field {key!r} is missing")
        elif _blank(entry[key]):
            problems.append(f"{who}: field {key!r} must be a non-empty string, got {entry[key]!r}")
    status, source = entry.get("status"), entry.get("source")
    if isinstance(status, str) and status not in STATUSES:
        problems.append(f"{who}: unknown status {status!r}, expected one of {', '.join(STATUSES)}")
    if isinstance(source, str) and source not in SOURCES:
        problems.append(f"{who}: unknown source {source!r}, expected one of {', '.join(SOURCES)}")
    if status in CLAIMS and "check" not in entry:
        problems.append(f"{who}: status {status!r} claims a check and names none")
    if status in STATUSES and status not in CLAIMS:
        if "check" in entry:
            problems.append(f"{who}: status {status!r} contradicts its check; call it proved or checked")
        if "reason" not in entry:
            problems.append(f"{who}: status {status!r} needs a reason, a sentence on why there is nothing to prove")
    if status in CLAIMS and "reason" in entry:
        problems.append(f"{who}: status {status!r} contradicts its reason; say what is checked in the note")
    check = entry.get("check")
    if isinstance(check, str) and ":" not in check:
        problems.append(f"{who}: check must be written 'module:function', got {check!r}")
    return problems


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
            elif _blank(entry[key]):
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
