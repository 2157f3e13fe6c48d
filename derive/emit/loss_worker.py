"""A process that derives the slopes of a loss (`worker`): ``python -P -m attnlimits.derive.emit.loss_worker``."""

import sys

from .loss_source import source_of_loss
from .worker import answer

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(answer(source_of_loss))
