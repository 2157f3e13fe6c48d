"""The verb `multihead`: a multi-head layer learned from examples, with a verb of its own in each file."""

import argparse

from ..verbs import Outcome, Verbs, add_nested, add_verb
from . import demo, figure, fit, hardness

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb with its own verbs, each with its flags."""
    parser = add_verb(
        verbs,
        "multihead",
        run,
        "a multi-head layer learned from examples: restarts, sculpting, certificates, hardness",
        "attnlimits multihead demo --heads 2 --seq 2 --dim 8 --samples 1000",
    )
    own = add_nested(parser, "multihead")
    for verb in (demo, fit, hardness, figure):
        verb.add(own)


def run(args: argparse.Namespace) -> Outcome:
    """Say which verbs there are: the parser asks for one, and each has its own function."""
    raise ValueError("multihead needs a verb: demo, fit, hardness or figure")
