"""`python -m attnlimits.numerics.cli`: the command without its script."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
