"""Run the command in this process, and read back what it said."""

import contextlib
import io
import logging
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from attnlimits.numerics.cli import main as cli


@dataclass(frozen=True)
class Said:
    """Exit status, standard output and standard error of one command."""

    status: int
    out: str
    err: str

    @property
    def lines_of_error(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]


def say(command: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(shlex.split(command))
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return Said(status, out.getvalue(), err.getvalue())


@pytest.fixture
def attnlimits() -> Callable[[str], Said]:
    """Return a function that runs `attnlimits <command>` in this process."""
    return say


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str], None]:
    """Return a function after which one of a module computes once; later commands of the test have the same result."""

    def keep(module: ModuleType, name: str) -> None:
        plain, found = getattr(module, name), []

        def first(*arguments: Any, **options: Any) -> Any:
            if not found:
                found.append(plain(*arguments, **options))
            return found[0]

        monkeypatch.setattr(module, name, first)

    return keep


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    """The scheduler file of a cluster of one worker, a thread of this process."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")
    where = tmp_path_factory.mktemp("cluster") / "scheduler.json"
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            dashboard_address=None,
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.write_scheduler_file(str(where))
        yield where
