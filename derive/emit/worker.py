"""What the processes that derive modules of an architecture share: one request is read, its answer printed.

A request is one JSON object: the fields of `Architecture`, or tokens and blocks, and what else `source` takes. Where
there is nothing to derive the process ends with status 3, the reason in the last line of stderr.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from ..architecture import Architecture
from ..blocks import composition_of
from ..links.activation import read_activation
from ..straightline import Described

__all__ = ["answer"]

_FIELDS = ("layers", "tokens", "ranks", "activation", "tied", "heads", "output")


def _model(asked: dict[str, Any]) -> Described:
    """Take what describes the model from a request: blocks, or the fields of an architecture."""
    if "blocks" in asked:
        return composition_of(asked.pop("tokens"), asked.pop("blocks"))
    told = {name: asked.pop(name) for name in _FIELDS}
    told |= {"ranks": tuple(told["ranks"]), "activation": read_activation(told["activation"])}
    return Architecture(**told)


def answer(source: Callable[..., str]) -> int:
    """Answer one request by a function of the architecture; return the exit status."""
    asked = json.loads(sys.stdin.read())
    try:
        model = _model(asked)
        sys.stdout.write(source(model, **asked))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 3
    return 0
