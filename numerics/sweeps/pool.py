"""Points computed on this machine: in this process, or in processes of joblib."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterable

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from ..core.interrupts import without_interrupts
from ..core.kernel_cache import settle
from .grid import Point
from .records import Stored, compute, failure
from .store import Store
from .tasks import Task

__all__ = ["in_processes"]


def in_processes(task: Task, points: Iterable[Point], store: Store, workers: int | None = None) -> Stored:
    """Compute in as many processes, which store the records; a point that ends its process fails alone.

    Parameters
    ----------
    task : Task
    points : iterable of Point
        They start in this order.
    store : Store
    workers : int, optional
        All cores by default. With one, all happens in this process.

    Yields
    ------
    Point
        As soon as its record is stored.
    """
    workers = cpu_count() if workers is None else workers
    if workers == 1:
        for point in points:
            store.write(point.key, compute(task, point))
            yield point
        return
    settle()
    rest = {point.key: point for point in points}
    while rest:
        try:
            for point in _pool(task, list(rest.values()), store, workers):
                del rest[point.key]
                yield point
        except TerminatedWorkerError:
            # It is not said which point ended its process (for want of memory, say), but those that were being computed
            # are the first of the rest: each gets another try, alone.
            for point in list(rest.values())[:workers]:
                del rest[point.key]
                begin = time.perf_counter()
                try:
                    list(_pool(task, [point], store, 2))
                except TerminatedWorkerError:
                    ended = RuntimeError("the process that computed the point was ended, perhaps for want of memory")
                    store.write(point.key, failure(task, point, ended, begin))
                yield point


def _pool(task: Task, points: list[Point], store: Store, workers: int) -> Stored:
    # The variables that set the threads of BLAS, OpenMP and numba reach the processes before these load.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        # With one worker joblib would compute in this process.
        workers = max(2, min(workers, len(points)))
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    # A batch system sends SIGTERM to all processes of a job. They ignore both by themselves when this is loaded.
    with without_interrupts(signal.SIGTERM):
        numbers = parallel(
            delayed(_computed)(number, task, point, store, os.getpid()) for number, point in enumerate(points)
        )
    with warnings.catch_warnings():
        # On Ctrl-C: that points in flight are given up is meant.
        warnings.filterwarnings("ignore", r".*tasks which were still being processed", UserWarning)
        try:
            for number in numbers:
                yield points[number]
        finally:
            numbers.close()


def _computed(number: int, task: Task, point: Point, store: Store, parent: int) -> int:
    """Compute and store in a process of the pool: what is finished is kept, even if the first process is killed."""
    _end_with(parent)
    store.write(point.key, compute(task, point))
    return number


_watched: list[threading.Thread] = []


def _end_with(parent: int) -> None:
    """Let this process end soon after the one that started it, however that ends; signals are for that one as well."""
    if _watched:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            # Seconds after which an orphan is gone.
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)

    _watched.append(threading.Thread(target=watch, daemon=True))
    _watched[0].start()
