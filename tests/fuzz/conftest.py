"""The modules beside the tests of this folder, which also run as scripts; and the command in this process."""

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnlimits.numerics.cli import main as cli

sys.path.insert(0, str(Path(__file__).parent))


@dataclass(frozen=True)
class Spoken:
    """Exit status and streams of one command."""

    status: int
    out: str
    err: str


def _say(words: Sequence[str]) -> Spoken:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(words)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return Spoken(status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def say() -> Callable[[Sequence[str]], Spoken]:
    """Return a function that runs the command with these words."""
    return _say
