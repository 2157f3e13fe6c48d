"""A Dask cluster: found by an address or a file or started on this machine, and what is said of one that is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from .errors import ClusterError, ConvergenceError
from .interrupts import without_interrupts
from .kernel_cache import settle

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = [
    "LARGE_GRAPHS",
    "PATIENCE",
    "ClusterError",
    "await_future",
    "check_cluster",
    "cluster_failures",
    "open_client",
    "sentence",
]

#: Seconds that a scheduler has to answer, and that a cluster may be without workers.
PATIENCE = 60.0
#: Settings of Dask under which it does not warn of arguments of many bytes.
LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}
# Every worker process computes one task at a time, on one thread.
_ENVIRONMENT = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
# Without an address the scheduler's web server takes port 8787, and warns where another one has it.
_NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


def check_cluster(where: str | Client, workers: int | None) -> None:
    """Refuse what no cluster can serve, before anything is started.

    Parameters
    ----------
    where : str or distributed.Client
        Address of a scheduler such as tcp://node1:8786, path of a scheduler file, or "local"; or a client.
    workers : int, optional
        Processes of a local cluster.

    Raises
    ------
    ValueError
        Dask is not installed; `workers` is given for a cluster that has its own.
    """
    if where != "local" and workers is not None:
        raise ValueError(f"workers is for a local cluster; {where} has its own")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ValueError("dask needs the package distributed: pip install 'attnlimits[cluster]'") from None


@contextmanager
def open_client(where: str | Client, workers: int | None = None) -> Iterator[Client]:
    """Give a client of a Dask cluster, which is closed at the end, and with it the cluster if it is local.

    Parameters
    ----------
    where : str or distributed.Client
        Address of a scheduler, path of a scheduler file, or "local" for a cluster on this machine; or a client, which
        is given as it is and stays open.
    workers : int, optional
        Processes of a local cluster, all cores by default.

    Raises
    ------
    ClusterError
        There is no scheduler.
    """
    from distributed import Client, LocalCluster

    if isinstance(where, Client):
        yield where
        return
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        # As the default it would be asked for locks by whatever writes netCDF, also when it is gone.
        options: dict[str, float | bool] = {"timeout": PATIENCE, "set_as_default": False}
        try:
            if where == "local":
                settle()
                resource_tracker.ensure_running()  # which lets signals through when it starts
                with without_interrupts():
                    cluster = LocalCluster(
                        n_workers=workers,  # as many as there are cores where it is None
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address=None,
                        scheduler_kwargs=_NO_DASHBOARD,
                        env=_ENVIRONMENT,
                        silence_logs=logging.CRITICAL,
                    )
                client = Client(stack.enter_context(cluster), **options)
            elif Path(where).is_file():
                client = Client(scheduler_file=where, **options)
            else:
                client = Client(where, **options)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler at {where}: {sentence(error)}") from None
        yield stack.enter_context(client)


def await_future(client: Client, future: Future) -> None:
    """Wait for a future of a client.

    Raises
    ------
    ClusterError
        There have been no workers for some time.
    """
    finished, since = Event(), time.monotonic()
    future.add_done_callback(lambda _: finished.set())
    # Seconds between questions whether the cluster still has workers.
    ask = 1.0
    while not finished.wait(ask):
        if client.nthreads():
            since = time.monotonic()
        elif time.monotonic() > since + PATIENCE:
            raise ClusterError(f"the cluster has had no workers for {PATIENCE:g} s; start some")


@contextmanager
def cluster_failures(what: str) -> Iterator[None]:
    """Raise ClusterError for what fails on the cluster, and errors of the arguments or the computation as they are.

    Parameters
    ----------
    what : str
        What the cluster is to complete.
    """
    import asyncio

    try:
        yield
    except (ValueError, ArithmeticError, ClusterError, ConvergenceError, MemoryError):
        raise
    except (Exception, asyncio.CancelledError, CancelledError) as error:
        raise ClusterError(f"the cluster did not complete {what}: {sentence(error)}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask logs about a lost connection off stderr: the exception says it in one line."""
    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "nanny", "core", "scheduler", "worker")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def sentence(error: BaseException) -> str:
    """Kind and message of an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
