"""A process that derives one chart (`worker`): ``python -P -m attnlimits.derive.emit.chart_worker``."""

import sys

from .chart_source import source_of_chart
from .worker import answer

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(answer(source_of_chart))
