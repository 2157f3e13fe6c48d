"""The directive `command-line`: every verb of the command with its flags, from the parser itself."""

import argparse
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnlimits.numerics.cli.main import parser

__all__ = ["CommandLine", "setup"]


def leaves(found: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Verbs, and the verbs of verbs, in the order of the help."""
    inner = [action for action in found._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield found
    for action in inner:
        for each in dict.fromkeys(action.choices.values()):
            yield from leaves(each)


def option(action: argparse.Action, form: argparse.HelpFormatter) -> nodes.definition_list_item:
    """One flag and what it does."""
    item = nodes.definition_list_item()
    item += nodes.term("", "", nodes.literal("", form._format_action_invocation(action)))
    item += nodes.definition("", nodes.paragraph("", form._expand_help(action) if action.help else ""))
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
            form = verb._get_formatter()
            for group in verb._action_groups:
                flags = (a for a in group._group_actions if a.help is not argparse.SUPPRESS)
                shown = [flag for flag in flags if "--help" not in flag.option_strings]
                if shown:
                    section += nodes.rubric("", group.title or "")
                    section += nodes.definition_list("", *(option(action, form) for action in shown))
            if verb.epilog:
                section += nodes.literal_block(verb.epilog, verb.epilog, language="text")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
