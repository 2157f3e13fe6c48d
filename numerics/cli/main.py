"""The command `attnlimits`.

Every verb takes `--json` and then prints one JSON object. Exit status: 0 on success, 1 if a computation failed or did
not converge, 2 on bad arguments, 130 if it was interrupted; a failure prints one line on stderr that says what to do.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    try:
        # Not before: what is imported without a guard answers Ctrl-C by a traceback.
        from .process import run
    except KeyboardInterrupt:
        print("attnlimits: interrupted", file=sys.stderr)
        return 130
    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
