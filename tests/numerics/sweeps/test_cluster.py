"""Sweeps on a Dask cluster: the same records, and sentences where there is no cluster."""

import logging
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from attnlimits.numerics.core import cluster
from attnlimits.numerics.sweeps import Function, open_sweep, sweep
from attnlimits.numerics.sweeps.tasks import TASKS

from ...waiting import wait_for

# A port that is free: the default one may be in use.
QUIET = {
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    "silence_logs": logging.CRITICAL,
}
TEXT = 'task = "toy"\n[axes]\na = [1, 2, 3]\nfail = [false, true]\n'


@pytest.fixture
def distributed():
    """The package, or a reason to skip."""
    return pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")


def test_a_local_cluster_gives_the_same_records(distributed, grid_of, toy, tmp_path, records):
    """Where the usual port is taken: warnings are errors here, and Dask would warn, were it to ask for that port."""
    here = sweep(grid_of(TEXT), tmp_path / "here", workers=1)
    seen = []
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # someone else has it: as good
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        there = sweep(
            grid_of(TEXT), tmp_path / "there", client="local", workers=1, progress=lambda *at: seen.append(at)
        )
    assert (there.done, there.failed, there.computed) == (here.done, here.failed, here.computed) == (3, 3, 6)
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert seen == [(k, 6) for k in range(1, 7)]
    # With nothing left to compute no cluster is started.
    assert sweep(grid_of(TEXT), tmp_path / "there", client="tcp://nowhere:1").computed == 0


def test_a_cluster_of_ones_own_computes_thresholds(distributed, grid_of, tmp_path, records, monkeypatch):
    """By the scheduler file, as on a batch system; workers are processes that import the package themselves."""
    grid = grid_of('task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3]\nuntied = [false, true]')
    sweep(grid, tmp_path / "here", workers=1)
    where = tmp_path / "scheduler.json"
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **QUIET) as made:
        with distributed.Client(made) as client:
            client.write_scheduler_file(str(where))
        with pytest.raises(ValueError, match="workers is for a local cluster"):
            sweep(grid, tmp_path / "there", client=str(where), workers=2)
        report = sweep(grid, tmp_path / "there", client=str(where))
    assert (report.done, report.failed) == (4, 0)
    assert records(tmp_path / "there") == records(tmp_path / "here")


def test_a_client_of_ones_own(distributed, grid_of, toy, tmp_path, records):
    """It stays open, for the next sweep and for whatever else."""
    here = sweep(grid_of(TEXT), tmp_path / "here", workers=1)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **QUIET) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        for folder in ("there", "again"):
            there = sweep(grid_of(TEXT), tmp_path / folder, client=client)
            assert (there.done, there.failed, there.computed) == (here.done, here.failed, here.computed)
            assert records(tmp_path / folder) == records(tmp_path / "here")
        with pytest.raises(ValueError, match="workers is for a local cluster"):
            sweep(grid_of(TEXT), tmp_path / "more", client=client, workers=2)
        assert client.submit(len, "open").result() == 4


def test_workers_that_come_later_get_points(distributed, grid_of, tmp_path, monkeypatch):
    """Three points wait for each other to begin: they must run side by side, on workers that join late."""

    def meet(a, folder):
        import time
        from pathlib import Path

        (Path(folder) / str(a)).touch()
        deadline = time.monotonic() + 60
        while len(list(Path(folder).iterdir())) < 3:
            if time.monotonic() > deadline:
                raise TimeoutError("the others did not begin")
            time.sleep(0.02)
        return {"value": a}

    monkeypatch.setitem(TASKS, "meet", Function("meet", meet))
    folder, where = tmp_path / "met", tmp_path / "scheduler.json"
    folder.mkdir()
    grid = grid_of(f'task = "meet"\n[fixed]\nfolder = "{folder}"\n[axes]\na = [1, 2, 3]')
    # Threads of this process: quick to start, and the waiting leaves it alone.
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", **QUIET) as made:
        with distributed.Client(made, set_as_default=False) as client:
            client.write_scheduler_file(str(where))
        timer = threading.Timer(1.0, lambda: made.scale(3))
        timer.start()
        report = sweep(grid, tmp_path / "out", client=str(where))
        timer.join()
    assert (report.done, report.failed) == (3, 0)


@pytest.mark.slow  # Dask tries such a point on four workers, which start again each time
def test_a_point_that_ends_its_workers_fails_alone(distributed, grid_of, tmp_path, monkeypatch):
    def deadly(a):
        import os

        if a == 2:
            os._exit(1)
        return {"value": a}

    monkeypatch.setitem(TASKS, "deadly", Function("deadly", deadly))
    grid = grid_of('task = "deadly"\n[axes]\na = [1, 2, 3]')
    report = sweep(grid, tmp_path / "out", client="local", workers=1)
    assert (report.done, report.failed) == (2, 1)
    assert report.failures[0]["parameters"] == {"a": 2}
    assert report.failures[0]["reason"].startswith("KilledWorker: ")


def test_no_cluster_there(distributed, grid_of, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with pytest.raises(cluster.ClusterError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9: "):
        sweep(grid_of(TEXT), tmp_path / "out", client="tcp://127.0.0.1:9")
    with pytest.raises(cluster.ClusterError, match="no Dask scheduler at somewhere: "):
        sweep(grid_of(TEXT), tmp_path / "out", client="somewhere")


def test_a_cluster_that_is_lost(distributed, grid_of, tmp_path, monkeypatch):
    def slow(a):
        import time

        time.sleep(0.2 if a == 1 else 60)
        return {"value": a}

    monkeypatch.setitem(TASKS, "slow", Function("slow", slow))
    where = tmp_path / "scheduler.json"

    def dask(*words):
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--scheduler-file", str(where), "--no-dashboard"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    processes = [dask("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0")]
    try:
        wait_for(where.is_file, processes[0])
        assert processes[0].poll() is None
        processes.append(dask("worker", "--nthreads", "1", "--death-timeout", "30"))
        grid = grid_of('task = "slow"\n[axes]\na = [1, 2]')
        with pytest.raises(cluster.ClusterError, match=r"did not compute a point: FutureCancelledError|was lost"):
            sweep(grid, tmp_path / "out", client=str(where), progress=lambda *_: processes[0].kill())
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert open_sweep(tmp_path / "out").status.values.tolist() == ["done", "missing"]


def test_without_dask(grid_of, toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'attnlimits\[cluster\]'"):
        sweep(grid_of(TEXT), tmp_path / "out", client="local")
