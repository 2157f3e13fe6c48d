"""How a verb enters the command line, and what its function returns."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import attnlimits as al

from .guard import STATUSES
from .parser import Parser

__all__ = ["Outcome", "Record", "Verbs", "add_nested", "add_verb", "command_line", "shown"]

#: One JSON object, before arrays and results in it become plain.
Record: TypeAlias = dict[str, object]
#: What a verb returns: the record of `--json`, the text without it, and whether it succeeded.
Outcome: TypeAlias = tuple[Record, str, bool]


class Verbs(Protocol):
    """The verbs of a parser, as argparse keeps them."""

    @property
    def choices(self) -> Any:
        """Parsers of the verbs by their names."""
        ...

    def add_parser(self, name: str, **settings: Any) -> Parser:
        """Add the parser of a verb."""
        ...


class _Version(argparse.Action):
    """Print the version and end; the metadata are read only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it."""
        print(f"attnlimits {al.__version__}")
        parser.exit()


def command_line(groups: Mapping[str, Iterable[Callable[[Verbs], None]]]) -> tuple[Parser, Verbs]:
    """Return the parser of the command with the verbs that these functions add, and its verbs.

    Parameters
    ----------
    groups : mapping of str to iterable of callable
        Functions that add verbs, by the headings of the help.
    """
    parser = Parser(
        prog="attnlimits",
        description="What attention networks can learn, to high precision: thresholds, state evolution, kernels. "
        f"{STATUSES}.",
        epilog="example: attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="show the version and end"
    )
    verbs: Verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)
    parser.verbs = verbs.choices
    for title, group in groups.items():
        before = set(verbs.choices)
        for each in group:
            each(verbs)
        parser.groups[title] = [(name, sub.about) for name, sub in verbs.choices.items() if name not in before]
    return parser, verbs


def add_verb(
    verbs: Verbs,
    name: str,
    run: Callable[[argparse.Namespace], Outcome],
    help_: str,
    example: str,
    *,
    nested: bool = False,
) -> Parser:
    """Add a verb: its name, the function that runs it, a line of help and an example."""
    sub = verbs.add_parser(
        name, help=help_, description=help_[0].upper() + help_[1:] + ".", epilog=f"example: {example}"
    )
    sub.about = help_
    # A verb of a verb has no default of its own, so that it leaves alone what was given before it.
    default = argparse.SUPPRESS if nested else False
    sub.add_argument("--json", action="store_true", default=default, help="print one JSON object")
    sub.add_argument("--quiet", "-q", action="store_true", default=default, help="nothing on stderr but a failure")
    sub.set_defaults(run=run)
    return sub


def add_nested(parser: Parser, name: str) -> Verbs:
    """Give a verb verbs of its own; `name` is that of the verb."""
    found: Verbs = parser.add_subparsers(dest=f"{name}_verb", required=True, metavar="VERB", parser_class=Parser)
    parser.verbs = found.choices
    return found


def shown(args: argparse.Namespace) -> bool:
    """Whether a progress bar is drawn: on terminals, and neither with --json nor with --quiet."""
    return sys.stderr.isatty() and not (args.json or args.quiet)
