"""The directive `command-line`: every verb of the command with its flags, from the parser itself."""

import argparse
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnlimits.numerics.cli.command import parser
from attnlimits.numerics.cli.parser import Parser

__all__ = ["CommandLine", "setup"]


def leaves(found: Parser) -> Iterator[Parser]:
    """Verbs, and the verbs of verbs, in the order of the help."""
    if not found.verbs:
        yield found
    for each in found.verbs.values():
        yield from leaves(each)


def layout(prog: str) -> argparse.HelpFormatter:
    """Help with each flag on one line, and what it does on the next."""
    return argparse.HelpFormatter(prog, max_help_position=4, width=10**5)


def flags(verb: Parser) -> dict[str, list[tuple[str, str]]]:
    """Flags of a verb and what they do, by the headings of its help."""
    verb.formatter_class, verb.color = layout, False  # Python 3.14 paints the help on terminals
    found: dict[str, list[tuple[str, str]]] = {}
    for block in verb.format_help().split("\n\n"):
        title, *rows = block.splitlines()
        if rows and title.endswith(":"):
            found[title[:-1]] = shown = []
            for row in rows:
                if row.startswith("    "):
                    shown[-1] = (shown[-1][0], row.strip())
                else:
                    shown.append((row.strip(), ""))
    return {title: kept for title, rows in found.items() if (kept := [r for r in rows if not r[0].startswith("-h")])}


def option(flag: str, about: str) -> nodes.definition_list_item:
    """One flag and what it does."""
    item = nodes.definition_list_item()
    item += nodes.term("", "", nodes.literal("", flag))
    item += nodes.definition("", nodes.paragraph("", about))
    return item


class CommandLine(SphinxDirective):
    """A section for each verb."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        sections: list[nodes.Node] = []
        for verb in leaves(parser()):
            title = verb.prog.removeprefix("attnlimits ")
            section = nodes.section(ids=[nodes.make_id(f"verb-{title}")], names=[title])
            section += nodes.title("", title)
            section += nodes.paragraph("", verb.description or "")
            for heading, rows in flags(verb).items():
                section += nodes.rubric("", heading)
                section += nodes.definition_list("", *(option(*row) for row in rows))
            if verb.epilog:
                section += nodes.literal_block(verb.epilog, verb.epilog, language="text")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
