"""The parser of all verbs, and what becomes of the outcome of one."""

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial

from ..core.interrupts import INTERRUPTED
from ..core.notes import noted
from ..core.results import as_dict
from . import (
    aim,
    cite,
    committee,
    completion,
    curve,
    denoise,
    descend,
    evolve,
    figure,
    free_energy,
    gamp,
    landscape,
    make_data,
    multihead,
    report,
    spectrum,
    sweep,
    symbolic,
    threshold,
    trec,
)
from .guard import fail, say
from .notices import Notices
from .verbs import command_line

__all__ = ["parser", "run"]

# In the order of the help.
_VERBS = {
    "what can be learned": (threshold, evolve, curve, free_energy, landscape, committee, denoise),
    "learning from data": (gamp, descend, make_data, spectrum, trec),
    "other models of attention": (aim, multihead),
    "derivations and their checks": (symbolic,),
    "many points, figures and reports": (sweep, figure, report),
}
# Modules by the verbs that they add; all but one have the name of theirs.
_ADDED_BY = {
    module.__name__.rpartition(".")[2].replace("_", "-"): module
    for modules in _VERBS.values()
    for module in modules
    if module is not symbolic
} | dict.fromkeys(("models", "derive", "explain", "verify"), symbolic)


def parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all verbs; where `verb` is one of them, of those alone that its module adds.

    The flags of all verbs are some five hundred, which take as long as many a short run.
    """
    if verb in _ADDED_BY:
        return command_line({"": [_ADDED_BY[verb].add]})[0]
    groups = {title: [each.add for each in verbs] for title, verbs in _VERBS.items()}
    return command_line(groups | {"the command itself": [cite.add, partial(completion.add, command=parser)]})[0]


def run(words: Sequence[str]) -> int:
    """Run the verb that these words ask for; return the exit status."""
    args = parser(words[0] if words else None).parse_args(words)
    begin = time.perf_counter()
    with Notices(args), noted(not args.quiet):
        record, text, ok = args.run(args)
    record["seconds"] = round(time.perf_counter() - begin, 3)
    say(json.dumps(as_dict(record), allow_nan=False) if args.json else text)
    return 0 if ok else fail(str(record.get("status", "failed")), INTERRUPTED if record.get("interrupted") else 1)
