"""The equation registry: what a paper states, what implements it, and what checks it.

Every ``papers/<citekey>/equations.toml`` is read, validated and run from here: its numbered equations, and the
errata that were found in the paper. A *check* is a callable without arguments that returns a `CheckOutcome`; it
lives beside the paper, is imported only when it runs, and a check that raises has failed. Nothing heavy is
imported at load: reading and validating the structure of a registry needs neither SymPy nor the numerics.
"""

from .entries import ERRATUM, SOURCES, STATUSES, CheckOutcome, CheckResult, Entry, Equation, Erratum, RegistryError
from .reading import load, load_errata, papers, parse, parse_errata
from .report import coverage, summary, table
from .running import resolve, run, run_entries, unresolved

__all__ = [
    "ERRATUM",
    "SOURCES",
    "STATUSES",
    "CheckOutcome",
    "CheckResult",
    "Entry",
    "Equation",
    "Erratum",
    "RegistryError",
    "coverage",
    "load",
    "load_errata",
    "papers",
    "parse",
    "parse_errata",
    "resolve",
    "run",
    "run_entries",
    "summary",
    "table",
    "unresolved",
]
