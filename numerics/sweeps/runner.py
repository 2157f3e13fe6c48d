"""Computing the points of a grid that are not known yet, each in a process with one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.shown import few_lines
from .cluster import on_cluster
from .grid import Grid, Point, read_grid
from .pool import in_processes
from .records import Stored
from .store import FAILED, CorruptRecordError, Record, Store
from .tasks import Task
from .view import open_sweep, write_netcdf

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["SweepReport", "sweep"]


@few_lines
@dataclass(frozen=True)
class SweepReport:
    """Where a sweep stands after a run.

    Attributes
    ----------
    folder : Path
        The store.
    grid : str
        The grid in one line.
    points : int
        All points of the grid: each is done, failed or missing.
    done, failed, missing : int
    not_converged : int
        How many of those done did not reach the accuracy asked for.
    computed : int
        How many records this run wrote.
    failures : list of dict
        Parameters and reason of each failed point.
    seconds : float
        Of this run.
    """

    folder: Path
    grid: str
    points: int
    done: int
    failed: int
    missing: int
    not_converged: int
    computed: int
    failures: list[Record]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether no point failed and all that are done converged."""
        return not self.failed and not self.not_converged

    @property
    def status(self) -> str:
        """Return one line: how many points are done, failed, not converged, missing."""
        line = f"{self.done} of {self.points} points done"
        if self.not_converged:
            line += f", {self.not_converged} of them not converged"
        if self.failed:
            line += f", {self.failed} failed (--retry-failed runs them again)"
        if self.missing:
            line += f", {self.missing} missing: the same command goes on from there"
        return line


def sweep(
    grid: Grid | str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    client: str | Client | None = None,
    retry_failed: bool = False,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> SweepReport:
    """Compute the points of a grid that the store does not know yet; each is stored as soon as it is known.

    Parameters
    ----------
    grid : Grid, str or path
        A grid, its TOML file, or the name of one that is shipped.
    out : path
        Folder of the store (see `store`); it is made, or continued.
    workers : int, optional
        Points computed at a time; as many as there are cores by default. Each has one thread. One worker computes in
        this process, more in processes of joblib.
    client : str or distributed.Client, optional
        Compute on a Dask cluster instead: the address of its scheduler, its scheduler file, "local", or a client of it.
    retry_failed : bool, optional
        Also compute the points whose record is a failure.
    limit : int, optional
        Compute at most so many points in this run.
    progress : callable, optional
        Called with (done, total).
    say : callable, optional
        Called with a sentence on what is out of the ordinary, such as a damaged record.

    Returns
    -------
    SweepReport

    Raises
    ------
    ValueError
        The grid, the store or an argument is none; see `Grid.of` and `Store.writing`.
    ClusterError
        The Dask cluster does not answer, or was lost; what is stored stays.
    KeyboardInterrupt
        With a sentence on how to go on.
    """
    begin = time.perf_counter()
    for name, value in (("workers", workers), ("limit", limit)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    grid = grid if isinstance(grid, Grid) else read_grid(grid)
    store = Store(out)
    with store.writing(grid.as_record(), [point.key for point in grid.points]):
        states = _states(store, grid.points, say)
        wanted = (None, FAILED) if retry_failed else (None,)
        todo = [point for point in grid.points if states[point.key] in wanted]
        # The costly ones first: at the end no worker waits long for another.
        todo.sort(key=lambda point: -grid.task.cost(point.parameters))
        todo = todo[:limit]
        computed = 0
        with _view_made(store):
            try:
                with closing(_stored(grid.task, todo, store, workers, client)) as stored:
                    for computed, _ in enumerate(stored, 1):
                        if progress is not None:
                            progress(computed, len(todo))
            except KeyboardInterrupt:
                report = _report(store, grid, computed, time.perf_counter() - begin)
                raise KeyboardInterrupt(f"interrupted; {store.folder} has {report.status}") from None
        return _report(store, grid, computed, time.perf_counter() - begin)


@contextmanager
def _view_made(store: Store) -> Iterator[None]:
    """Write the netCDF file at the end, however it comes.

    Where a fault ends the sweep, it is the one that is said, also if it leaves no room for that file.
    """
    try:
        yield
    except BaseException:
        with suppress(OSError):
            write_netcdf(open_sweep(store.folder), store.netcdf)
        raise
    write_netcdf(open_sweep(store.folder), store.netcdf)


def _states(store: Store, points: Iterable[Point], say: Callable[[str], None]) -> dict[str, str | None]:
    """State of each point, by key; None where there is no record, or a damaged one."""
    states: dict[str, str | None] = {}
    for point in points:
        try:
            record = store.read(point.key)
        except CorruptRecordError as error:
            say(f"{error}; the point is computed again")
            record = None
        states[point.key] = None if record is None else record["state"]
    return states


def _stored(task: Task, points: list[Point], store: Store, workers: int | None, client: str | Client | None) -> Stored:
    if client is not None and points:
        return on_cluster(task, points, store, client, workers)
    # Processes that joblib kept from an earlier sweep may have another working folder.
    return in_processes(task, points, Store(store.folder.absolute()), workers)


def _report(store: Store, grid: Grid, computed: int, seconds: float) -> SweepReport:
    records = [record for point in grid.points if (record := store.read(point.key)) is not None]
    failures = [{k: record[k] for k in ("parameters", "reason")} for record in records if record["state"] == FAILED]
    done = len(records) - len(failures)
    return SweepReport(
        folder=store.folder,
        grid=grid.describe(),
        points=len(grid.points),
        done=done,
        failed=len(failures),
        missing=len(grid.points) - len(records),
        not_converged=sum(record["result"].get("converged") is False for record in records),
        computed=computed,
        failures=failures,
        seconds=seconds,
    )
