"""A process that derives the slopes of one square loss: ``python -P -m attnlimits.derive.emit.loss_worker``.

It reads one JSON object, ``{"layers", "tokens", "ranks", "activation", "tied", "heads", "output"}``, and prints the
source of the loss. Where there is none it ends with status 3, the reason in the last line of stderr.
"""

import json
import sys

from ..architecture import Architecture
from .loss_source import source_of_loss

__all__ = ["main"]


def main() -> int:
    """Answer one request."""
    asked = json.loads(sys.stdin.read())
    try:
        sys.stdout.write(source_of_loss(Architecture(**(asked | {"ranks": tuple(asked["ranks"])}))))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
