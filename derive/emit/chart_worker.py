"""A process that derives one chart: ``python -P -m attnlimits.derive.emit.chart_worker``.

It reads one JSON object, ``{"layers", "tokens", "ranks", "activation", "tied", "heads", "output", "noisy"}``, and
prints the source of the chart. Where there is no chart it ends with status 3, the reason in the last line of stderr.
"""

import json
import sys

from ..architecture import Architecture
from ..links.activation import read_activation
from .chart_source import source_of_chart

__all__ = ["main"]


def main() -> int:
    """Answer one request."""
    asked = json.loads(sys.stdin.read())
    try:
        noisy, activation = asked.pop("noisy"), read_activation(asked["activation"])
        model = Architecture(**(asked | {"ranks": tuple(asked["ranks"]), "activation": activation}))
        sys.stdout.write(source_of_chart(model, noisy))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
