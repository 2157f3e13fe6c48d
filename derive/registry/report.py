"""What a run found: counts, and a table as text."""

import math
from collections.abc import Iterable
from typing import TypedDict

from .entries import (
    ERRATUM,
    STATUSES,
    CheckResult,
    Equation,
)


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


class Counts(TypedDict):
    """How many checks there are, and how many of them passed."""

    total: int
    passed: int


class Summary(TypedDict):
    """What `summary` returns."""

    counts: dict[str, int]
    total: int
    ran: int
    passed: int
    errata: Counts
    failed: list[int | str]
    seconds: float
    ok: bool


def summary(results: Iterable[CheckResult]) -> Summary:
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
