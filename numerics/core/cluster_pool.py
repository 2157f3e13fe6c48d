"""Independent tasks on the workers of a Dask cluster, where threads of this process would compute them otherwise."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from .cluster import LARGE_GRAPHS, await_future, check_cluster, cluster_failures, open_client

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ClusterPool", "Recipe", "Workers", "called", "mapped", "parts_of", "threads_of", "workers_of"]

#: What a function of a row of arguments gives.
Made = TypeVar("Made")


class ClusterPool:
    """The workers of a cluster, which compute functions of plain arguments.

    A worker that dies costs the tasks that it had: others compute these once more, with the same arguments and so the
    same numbers.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Client) -> None:
        self._client, self._name, self._number = client, token_hex(4), 0

    def map(
        self,
        function: Callable[..., Made],
        rows: Iterable[Mapping[str, object]],
        tick: Callable[[], object] | None = None,
        **shared: object,
    ) -> list[Made]:
        """Results of a public function of each row of arguments, in their order.

        Parameters
        ----------
        function : callable
            At the level of its module, from where the workers import it.
        rows : iterable of mappings
            Arguments by their names.
        tick : callable, optional
            Called after each row, in their order.
        shared : optional
            Arguments of every call.

        Raises
        ------
        ClusterError
            The cluster was lost, or cannot run the tasks.
        """
        import dask

        arguments = list(rows)
        self._number += 1
        keys = [f"{function.__name__}-{self._name}-{self._number}-{k}" for k in range(len(arguments))]
        with cluster_failures(f"the tasks of {function.__name__}"), dask.config.set(LARGE_GRAPHS):
            futures = self._client.map(called, arguments, key=keys, pure=False, function=function, shared=shared)
            for future in futures:
                await_future(self._client, future)
                if future.status == "error":
                    future.result()  # raises: of several errors that of the first row
                if tick is not None:
                    tick()
            return list(self._client.gather(futures))


def mapped(
    function: Callable[..., Made],
    rows: Iterable[Mapping[str, object]],
    tick: Callable[[], object],
    pool: ClusterPool | None,
) -> list[Made]:
    """Results of a public function of each row of arguments: on the workers of a cluster where there is one, else here.

    Parameters
    ----------
    function, rows, tick
        As in `ClusterPool.map`.
    pool : ClusterPool, optional
    """
    if pool is not None:
        return pool.map(function, rows, tick)
    found = []
    for row in rows:
        found.append(function(**row))
        tick()
    return found


def called(row: Mapping[str, object], *, function: Callable[..., Made], shared: Mapping[str, object]) -> Made:
    """Call a function with a row of arguments and with those of every call."""
    return function(**row, **shared)


#: Threads of this process (None for all cores), or the workers of a cluster.
Workers: TypeAlias = "int | ClusterPool | None"


def threads_of(workers: Workers) -> int:
    """Threads for what stays in this process: as many as asked for, all cores beside a cluster."""
    return (workers if isinstance(workers, int) else 0) or os.cpu_count() or 1


def parts_of(count: int, size: int) -> list[slice]:
    """Consecutive parts of so many rows, of this size but for the last one."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


@contextmanager
def workers_of(client: str | Client | None, workers: int | None) -> Iterator[Workers]:
    """Give the threads that were asked for, or the workers of the cluster where there is one.

    Parameters
    ----------
    client : str or distributed.Client, optional
        A client, which stays open; or the address of a scheduler, its scheduler file, or "local" for a cluster on this
        machine that ends with the block.
    workers : int, optional
        Threads without a client, all cores by default; processes of a local cluster.

    Raises
    ------
    ValueError
        Dask is not installed; `workers` is given for a cluster that has its own.
    ClusterError
        There is no scheduler.
    """
    if client is None:
        yield workers
        return
    check_cluster(client, workers)
    with open_client(client, workers) as opened:
        yield ClusterPool(opened)


def _own(arguments: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments with generators of their own."""
    return tuple(deepcopy(one) if isinstance(one, np.random.Generator) else one for one in arguments)


_made: OrderedDict[str, object] = OrderedDict()
_LOCK = Lock()


@dataclass(frozen=True)
class Recipe:
    """How a worker makes an object that several of its tasks need: it travels in place of it.

    Attributes
    ----------
    make : callable
        A class or public function.
    arguments : tuple
        Plain ones. A generator is copied, so that the object is the same wherever and whenever it is made.
    key : str
        By which a worker knows what it has made.
    """

    make: Callable[..., object]
    arguments: tuple[object, ...]
    key: str = field(default_factory=token_hex)

    @classmethod
    def of(cls, make: Callable[..., object], *arguments: object) -> Recipe:
        """The recipe of an object by the arguments as they are now."""
        return cls(make, _own(arguments))

    def made(self) -> Any:
        """The object; this process keeps the latest few."""
        # Objects that a worker keeps, by the recipes of which it has made them.
        most = 4
        with _LOCK:
            if self.key not in _made:
                _made[self.key] = self.make(*_own(self.arguments))
                while len(_made) > most:
                    _made.popitem(last=False)
            _made.move_to_end(self.key)
            return _made[self.key]
