"""Points computed on a Dask cluster; the client alone writes records, so the workers need no common disk."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from joblib import cpu_count

from ..core.errors import ConvergenceError
from ..core.interrupts import without_interrupts
from ..core.kernel_cache import settle
from .grid import Point
from .records import Stored, compute, failure
from .store import Store
from .tasks import Task

__all__ = ["ClusterError", "on_cluster"]

# Seconds that a scheduler has to answer.
_PATIENCE = 60.0
# Seconds between looks at what is finished, and between questions for the number of workers.
_POLL, _ASK = 0.01, 1.0
# Every worker process computes one point at a time, on one thread.
_ENVIRONMENT = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
# Without an address the scheduler's web server takes port 8787, and warns where another one has it.
_NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


class ClusterError(ConvergenceError):
    """The cluster cannot be reached, cannot run the points, or was lost before the end."""


def on_cluster(task: Task, points: Sequence[Point], store: Store, where: str, workers: int | None = None) -> Stored:
    """Compute on a Dask cluster.

    Parameters
    ----------
    task : Task
    points : sequence of Point
        They start in this order.
    store : Store
    where : str
        Address of a scheduler such as tcp://node1:8786, path of a scheduler file, or "local" for a cluster on this
        machine that ends with the sweep.
    workers : int, optional
        Processes of a local cluster, all cores by default.

    Yields
    ------
    Point
        As soon as its record is stored.

    Raises
    ------
    ValueError
        Dask is not installed; `workers` is given for a cluster that has its own.
    ClusterError
        The cluster cannot be reached, cannot run the points, or was lost.
    """
    if where != "local" and workers is not None:
        raise ValueError(f"workers is for a local cluster; {where} has its own")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ValueError("dask needs the package distributed: pip install 'attnlimits[cluster]'") from None
    return _stored(task, points, store, where, workers)


def _stored(task: Task, points: Sequence[Point], store: Store, where: str, workers: int | None) -> Stored:
    from distributed import KilledWorker

    begin = time.perf_counter()
    waiting = deque(points)
    running: dict[Any, Point] = {}
    with _client(where, workers) as client:
        asked, threads = -math.inf, 0
        while waiting or running:
            if time.perf_counter() > asked + _ASK:  # workers come and go
                threads, asked = _threads(client, where), time.perf_counter()
            # One point for each thread: a worker that is ended by its point takes no other one with it, and a kill
            # loses one point of each thread at most.
            while waiting and len(running) < max(1, threads):
                point = waiting.popleft()
                running[client.submit(compute, task, point, key=f"sweep-{point.key}", pure=False)] = point
            finished = [future for future in running if future.done()]
            for future in finished:
                point = running.pop(future)
                try:
                    record = future.result()
                except KilledWorker as error:  # it ended its worker several times
                    record = failure(task, point, error, begin)
                except Exception as error:  # `compute` itself raises nothing
                    raise ClusterError(f"the cluster at {where} did not compute a point: {_sentence(error)}") from error
                store.write(point.key, record)
                future.release()
                yield point
            if not finished:
                time.sleep(_POLL)


def _threads(client: Any, where: str) -> int:
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise ClusterError(f"the cluster at {where} was lost: {_sentence(error)}") from None


@contextmanager
def _client(where: str, workers: int | None) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        # As the default it would be asked for locks by whatever writes netCDF, also when it is gone.
        options: dict[str, Any] = {"timeout": _PATIENCE, "set_as_default": False}
        try:
            if where == "local":
                settle()
                with without_interrupts():
                    cluster = LocalCluster(
                        n_workers=cpu_count() if workers is None else workers,
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
            raise ClusterError(f"no Dask scheduler at {where}: {_sentence(error)}") from None
        yield stack.enter_context(client)


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


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
