"""The parser of the command: an error is one line that names what was meant; what is given is checked first."""

import argparse
import difflib
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Protocol

from ..core.validation import within
from .guard import line, say

__all__ = ["Flags", "Parser"]

# How alike a flag or a verb must be to be suggested, and how many are.
_ALIKE, _MOST = 0.6, 3
_WIDEST, _COLUMN = 100, 14


class Flags(Protocol):
    """A parser, or a group of its arguments."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument."""


class _Stored(argparse.Action):
    """Keep the value, as argparse does; shtab completes file names where `complete` says so, and for every path."""

    def __init__(self, *args: Any, complete: str | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if complete or self.type is Path:
            self.complete = complete or "file"

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, _: object = None) -> None:
        """Keep it."""
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    Attributes
    ----------
    about : str
        Its line in the help of the command.
    check : callable, optional
        Refuses by a ValueError what is out of range among the arguments that were given, before missing ones are
        asked for.
    verbs : mapping of str to Parser
        Parsers of its verbs by their names; none for a verb that has none of its own.
    """

    about = ""
    check: Callable[[argparse.Namespace], object] | None = None
    verbs: Mapping[str, "Parser"] = {}

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.register("action", None, _Stored)

    @cached_property
    def groups(self) -> dict[str, list[tuple[str, str]]]:
        """Verbs and their lines of help below the headings of the help; empty for a verb, whose help is argparse's."""
        return {}

    @cached_property
    def _needed(self) -> list[argparse.Action]:
        return []

    def needs(self, *arguments: argparse.Action) -> None:
        """Ask for these arguments, which have been added to the parser, once those given have been checked."""
        self._needed += arguments
        self._ask(True)

    def _ask(self, required: bool) -> None:
        """Let argparse require what is needed, and so show it without brackets, or not."""
        for argument in self._needed:
            argument.required = required
            if not argument.option_strings:
                argument.nargs = None if required else "?"

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; refuse what is unknown first, then what is out of range, then what is missing.

        Without an argument, the command prints its help and ends.
        """
        args = sys.argv[1:] if args is None else args
        if self.groups and not args:
            self.print_help()
            self.exit(0)
        self._ask(False)
        try:
            found, unknown = super().parse_known_args(args, namespace)
        finally:
            self._ask(True)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        self._refuse_ranges(found)
        missing = [(a.option_strings or [a.dest])[0] for a in self._needed if getattr(found, a.dest) is None]
        if missing:
            if self.check is not None:
                self.check(found)
            self.error(f"the following arguments are required: {', '.join(missing)}")
        return found, unknown

    def _refuse_ranges(self, found: argparse.Namespace) -> None:
        """Refuse numbers that are out of any sensible range."""
        for action in self._actions:
            values = getattr(found, action.dest, None)
            for value in values if isinstance(values, list) else [values]:
                # What is below the range, or no number, is refused by the verb, which knows what it needs.
                if isinstance(value, int | float) and 0 < value < math.inf:
                    try:
                        within(action.dest, value, action.option_strings[0] if action.option_strings else action.dest)
                    except ValueError as error:
                        self.error(str(error))

    def error(self, message: str) -> NoReturn:
        """One line, exit status 2."""
        # A flag is named by its long form alone.
        message = re.sub(r"^argument (--[\w-]+)/-\w(?=:)", r"argument \1", message)
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message, re.DOTALL)
        if choice:
            message += _near(choice[1], re.findall(r"[\w.-]+", choice[2]))
        line(f"{self.prog}: error: {message}", f" (see {self.prog} --help)")
        raise SystemExit(2)

    def print_help(self, file: object = None) -> None:
        """Print the help on stdout; the usual parser passes over a full disk."""
        self._ask(True)
        say(self.format_help().rstrip("\n"))

    def format_help(self) -> str:
        """Help; of a parser with groups of verbs, below their headings."""
        if not self.groups:
            return super().format_help()
        width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
        parts = [self.format_usage().rstrip(), textwrap.fill(self.description or "", width)]
        for title, verbs in self.groups.items():
            rows = [f"{title}:"]
            for name, about in verbs:
                begin = f"    {name:{_COLUMN}}"
                rows.append(textwrap.fill(about, width, initial_indent=begin, subsequent_indent=" " * len(begin)))
            parts.append("\n".join(rows))
        parts.append(
            "options:\n    -h, --help    show this help message and exit\n    --version     show the version and end"
        )
        return "\n\n".join([*parts, textwrap.fill(self.epilog or "", width)]) + "\n"

    def _meant(self, unknown: Sequence[str]) -> str:
        """Which flags of this parser the unknown ones are near."""
        own = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", self.format_usage())
        wrong = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        return next((near for word in wrong if (near := _near(word, own))), "")


def _near(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, list(dict.fromkeys(choices)), _MOST, _ALIKE)
    return f"; did you mean {' or '.join(near)}?" if near else ""
