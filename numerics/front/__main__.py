"""`python -m attnlimits`: the command."""

import sys

from attnlimits.numerics.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
