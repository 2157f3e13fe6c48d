"""Generate the kernels: ``python -m attnlimits.derive [--check] [--out DIR]``."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sympy.core.cache import clear_cache

from .emit.writer import generate, stale, write
from .kernels.packages import PACKAGES, derived

__all__ = ["main"]


def _default_folder() -> Path:
    return Path(__file__).resolve().parent.parent / "generated"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the generator and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command-line arguments; default ``sys.argv[1:]``.

    Returns
    -------
    int
        0, or 1 where ``--check`` finds files that are stale; they are named on standard error.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attnlimits.derive",
        description="Prove the derivations and print the numeric kernels.",
        epilog="example: python -m attnlimits.derive --check",
    )
    parser.add_argument("--check", action="store_true", help="only compare with what is there; exit 1 if it is stale")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="folder to write (default: generated/)")
    options = parser.parse_args(arguments)
    folder = _default_folder() if options.out is None else options.out
    # SymPy's answers may depend on what it remembers of other work in this process; the files must not.
    clear_cache()
    files, elsewhere = generate(PACKAGES, derived(), progress=lambda line: print(line, file=sys.stderr))
    if not options.check:
        changed = write(files, folder)
        print(f"{len(changed)} of {len(files)} files changed in {folder.name}/")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        write(files, Path(scratch))
        fresh = {name: (Path(scratch) / name).read_text(encoding="utf-8") for name in files}
    wrong = stale(fresh, folder)
    for name in wrong:
        print(f"stale: {folder.name}/{name}", file=sys.stderr)
    if wrong:
        print("run `make derive` and commit the result", file=sys.stderr)
        return 1
    print(f"{len(files)} generated files are fresh, and the hashes of {len(elsewhere)} that the tests derive")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
