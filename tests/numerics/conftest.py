"""What the tests of the numerics share: sources that have been edited, and a small cluster."""

import logging
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnlimits.numerics.core import identity


@pytest.fixture(scope="module")
def few_means() -> Iterator[None]:
    """Take means of linearised controls over 2^11 points instead of 2^16: half a second less for each average there.

    Each randomisation has its own, so that what they are off by is in the standard error.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in ("sampled", "two_layers.sampled"):
            patch.setattr(f"attnlimits.numerics.channel.{module}.MANY", 1 << 11)
        yield


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], AbstractContextManager[None]]:
    """Return a context in which the source of a module has one more line, on the disk and not in this process."""

    @contextmanager
    def edit(module: str) -> Iterator[None]:
        files = identity._files
        place = files(".".join(module.split(".")[:2]))[module]
        copy = tmp_path / place.name
        copy.write_bytes(place.read_bytes() + b"# edited\n")
        with monkeypatch.context() as patch:
            patch.setattr(identity, "_files", lambda package: files(package) | {module: copy})
            identity._read.cache_clear()
            identity.source_hash.cache_clear()
            yield
        identity._read.cache_clear()
        identity.source_hash.cache_clear()

    return edit


@contextmanager
def clients(workers: int, *, processes: bool) -> Iterator[Any]:
    """Give a client of a local cluster of its own."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")
    quiet = {
        "dashboard_address": None,
        # A port that is free: the default one may be in use.
        "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        "silence_logs": logging.CRITICAL,
    }
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=processes, **quiet) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers, threads of this process: quick to start."""
    with clients(2, processes=False) as made:
        yield made


@contextmanager
def watched(client: Any, killed: str | None = None) -> Iterator[Any]:
    """Give what the workers of a client's cluster complete: by functions, keys of tasks with their workers, in order.

    The worker process is killed that completes the first task of the function `killed` in its third round.
    """
    import distributed

    class Completed(distributed.SchedulerPlugin):
        name = "completed"

        def __init__(self) -> None:
            self.found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
            self.processes = {} if killed is None else client.run(os.getpid)
            self.dead: str | None = None

        def transition(self, key: str, start: str, finish: str, *_: object, worker: str = "", **__: object) -> None:
            if not (start == "processing" and finish == "memory"):
                return
            function, _, number, _ = key.rsplit("-", 3)
            self.found[function][key].append(worker)
            if self.dead is None and (function, number) == (killed, "3"):
                self.dead = worker
                os.kill(self.processes[worker], signal.SIGKILL)

        def count(self, function: str) -> int:
            return len(self.found.get(function, {}))

    plugin = Completed()
    client.cluster.scheduler.add_plugin(plugin)
    try:
        yield plugin
    finally:
        client.cluster.scheduler.remove_plugin(plugin.name)


@pytest.fixture
def completed(client: Any) -> Iterator[Any]:
    """Return what the workers of `client` complete during a test, see `watched`."""
    with watched(client) as plugin:
        yield plugin


@pytest.fixture
def small_clusters() -> Callable[..., AbstractContextManager[Any]]:
    """Return `clients`."""
    return clients


@pytest.fixture
def watching() -> Callable[..., AbstractContextManager[Any]]:
    """Return `watched`."""
    return watched
