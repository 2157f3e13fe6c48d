"""Points computed on a Dask cluster; the client alone writes records, so the workers need no common disk."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.cluster import ClusterError, check_cluster, open_client, sentence
from .grid import Point
from .records import Stored, compute, failure
from .store import Store
from .tasks import Task

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["ClusterError", "on_cluster"]


def on_cluster(
    task: Task, points: Sequence[Point], store: Store, where: str | Client, workers: int | None = None
) -> Stored:
    """Compute on a Dask cluster.

    Parameters
    ----------
    task : Task
    points : sequence of Point
        They start in this order.
    store : Store
    where : str or distributed.Client
        Address of a scheduler such as tcp://node1:8786, path of a scheduler file, or "local" for a cluster on this
        machine that ends with the sweep; or a client, which stays open.
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
    check_cluster(where, workers)
    return _stored(task, points, store, where, workers)


def _stored(task: Task, points: Sequence[Point], store: Store, where: str | Client, workers: int | None) -> Stored:
    from distributed import KilledWorker

    begin = time.perf_counter()
    waiting = deque(points)
    running: dict[Future, Point] = {}
    # Seconds between looks at what is finished, and between questions for the number of workers.
    poll, ask = 0.01, 1.0
    with open_client(where, workers) as client:
        asked, threads = -math.inf, 0
        while waiting or running:
            if time.perf_counter() > asked + ask:  # workers come and go
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
                    raise ClusterError(f"the cluster at {where} did not compute a point: {sentence(error)}") from error
                store.write(point.key, record)
                future.release()
                yield point
            if not finished:
                time.sleep(poll)


def _threads(client: Client, where: str | Client) -> int:
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise ClusterError(f"the cluster at {where} was lost: {sentence(error)}") from None
