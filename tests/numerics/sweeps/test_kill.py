"""kill -9 at any moment loses at most the points in flight, and the sweep goes on as if nothing had been."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from attnlimits.numerics.sweeps import open_sweep, sweep
from attnlimits.numerics.sweeps.tasks import TASKS

from ...waiting import wait_for

SCRIPT = Path(__file__).with_name("killed.py")
KILLS = 20


@pytest.fixture
def killed():
    """The module of the script."""
    spec = importlib.util.spec_from_file_location("attnlimits_killed_sweep", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    TASKS.pop("killed", None)


def processes(log):
    """Number of processes that have finished a point."""
    return len({path.read_text(encoding="utf-8") for path in log.iterdir()} - {""})


def kill_at(out, log, workers, records, delay, *, all_processes):
    """Start the sweep as a process of its own, and kill it `delay` seconds after it has that many records."""
    process = subprocess.Popen(
        [sys.executable, SCRIPT, out, log, str(workers)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"ATTNLIMITS_TEST": str(out)},
        start_new_session=True,
    )
    wait_for(lambda: len(list((out / "points").glob("*.json"))) >= records, process, 0.002)
    time.sleep(delay)
    (os.killpg if all_processes else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    return {path.name: path.read_bytes() for path in (out / "points").glob("*.json")}


@pytest.mark.slow
def test_after_twenty_kills_the_store_is_that_of_an_undisturbed_sweep(tmp_path, killed, records, rng):
    log = tmp_path / "log"
    log.mkdir()
    grid = killed.grid(str(log))
    whole = sweep(grid, tmp_path / "whole", workers=1)
    assert (whole.done, whole.failed) == (36, 4)
    wanted = records(tmp_path / "whole")
    view = open_sweep(tmp_path / "whole").drop_vars("seconds")
    in_the_middle = 0
    for number in range(KILLS):
        # All processes at once, as when a machine goes down, or the first one alone: its workers live on for a moment,
        # and the next run does not wait for them.
        workers, all_processes = 1 + number % 2, number % 4 < 2
        out = tmp_path / f"killed_{number}"
        for path in log.iterdir():
            path.unlink()
        # Any number of records, and then any moment of the next points.
        least, delay = int(rng.integers(0, killed.POINTS)), float(rng.uniform(0, 0.04))
        stored = kill_at(out, log, workers, least, delay, all_processes=all_processes)
        in_the_middle += 0 < len(stored) < killed.POINTS
        if all_processes:
            assert len(list(log.iterdir())) - len(stored) <= workers
        report = sweep(grid, out, workers=1)
        assert report.computed <= killed.POINTS - len(stored)
        assert report.computed == killed.POINTS - len(stored) or not all_processes
        assert {name: (out / "points" / name).read_bytes() for name in stored} == stored
        assert records(out) == wanted
        assert open_sweep(out).drop_vars("seconds").identical(view)
        assert sorted(path.name for path in out.iterdir()) == [".lock", "points", "sweep.json", "sweep.nc"]
        with xarray.open_dataset(out / "sweep.nc") as file:
            assert file.load().drop_vars("seconds").identical(view)
    assert in_the_middle >= KILLS // 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
def test_the_workers_of_a_killed_sweep_end(tmp_path, killed):
    log = tmp_path / "log"
    log.mkdir()
    # Late enough that both workers have begun.
    kill_at(tmp_path / "out", log, 2, killed.POINTS // 2, 0.0, all_processes=False)
    assert processes(log) == 2

    def orphans():
        """Processes that have the mark of the killed one in their environment."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if b"ATTNLIMITS_TEST=" + str(tmp_path / "out").encode() in (entry / "environ").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
        return found

    deadline = time.monotonic() + 30
    while orphans() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert orphans() == []


def test_one_kill(tmp_path, killed, records):
    """The quick one of the twenty."""
    log = tmp_path / "log"
    log.mkdir()
    grid = killed.grid(str(log))
    stored = kill_at(tmp_path / "out", log, 1, 5, 0.01, all_processes=True)
    assert 5 <= len(stored) < killed.POINTS
    assert len(list(log.iterdir())) - len(stored) <= 1
    report = sweep(grid, tmp_path / "out", workers=1)
    assert report.computed == killed.POINTS - len(stored)
    found = open_sweep(tmp_path / "out")
    expected = np.arange(killed.POINTS) / 3
    failed = np.arange(killed.POINTS) % 10 == 3
    assert (found.status.values == np.where(failed, "failed", "done")).all()
    assert (found.value.values[~failed] == expected[~failed]).all()
