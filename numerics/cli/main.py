"""The command `attnlimits`.

Every verb takes `--json` and then prints one JSON object. Exit status: 0 on success, 1 if a computation failed or did
not converge, 2 on bad arguments, 130 if it was interrupted; a failure prints one line on stderr that says what to do.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial

from ..core.interrupts import INTERRUPTED, leave_signals
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
    multihead,
    report,
    sweep,
    symbolic,
    threshold,
    trec,
)
from .guard import fail, guarded, say
from .notices import Notices
from .verbs import command_line

__all__ = ["main", "parser"]

# In the order of the help.
_VERBS = {
    "what can be learned": (threshold, evolve, curve, free_energy, landscape, committee, denoise),
    "learning from data": (gamp, descend, trec),
    "other models of attention": (aim, multihead),
    "derivations and their checks": (symbolic,),
    "many points, figures and reports": (sweep, figure, report),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    status = guarded(lambda: _main(argv))
    if argv is None:  # the process ends with the command
        leave_signals(status)
    return status


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    groups = {title: [verb.add for verb in verbs] for title, verbs in _VERBS.items()}
    return command_line(groups | {"the command itself": [cite.add, partial(completion.add, command=parser)]})[0]


def _main(argv: Sequence[str] | None) -> int:
    args = parser().parse_args(argv)
    begin = time.perf_counter()
    with Notices(args):
        record, text, ok = args.run(args)
    record["seconds"] = round(time.perf_counter() - begin, 3)
    say(json.dumps(as_dict(record), allow_nan=False) if args.json else text)
    return 0 if ok else fail(str(record.get("status", "failed")), INTERRUPTED if record.get("interrupted") else 1)


if __name__ == "__main__":
    sys.exit(main())
