"""What the processes that derive modules of an architecture share: one request is read, its answer printed.

A request is one JSON object with the fields of `Architecture` and what else `source` takes. Where there is nothing to
derive the process ends with status 3, the reason in the last line of stderr.
"""

import json
import sys
from collections.abc import Callable

from ..architecture import Architecture
from ..links.activation import read_activation

__all__ = ["answer"]

_FIELDS = ("layers", "tokens", "ranks", "activation", "tied", "heads", "output")


def answer(source: Callable[..., str]) -> int:
    """Answer one request by a function of the architecture; return the exit status."""
    asked = json.loads(sys.stdin.read())
    told = {name: asked.pop(name) for name in _FIELDS}
    try:
        told |= {"ranks": tuple(told["ranks"]), "activation": read_activation(told["activation"])}
        sys.stdout.write(source(Architecture(**told), **asked))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 3
    return 0
