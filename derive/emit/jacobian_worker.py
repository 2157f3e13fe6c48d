"""A process that derives a Jacobian (`worker`): ``python -P -m attnlimits.derive.emit.jacobian_worker``."""

import sys

from .jacobian_source import source_of_jacobian
from .worker import answer

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(answer(source_of_jacobian))
