"""A process that derives the output of a model (`worker`): ``python -P -m attnlimits.derive.emit.outputs_worker``."""

import sys

from .outputs_source import source_of_outputs
from .worker import answer

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(answer(source_of_outputs))
