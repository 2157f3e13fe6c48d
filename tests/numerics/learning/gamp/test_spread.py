"""GAMP on the workers of a cluster: the same bits as here, refusals in a sentence, and a worker that dies."""

import logging
import os
import pickle
import signal
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.core import cluster as core_cluster
from attnlimits.numerics.core.cluster import ClusterError
from attnlimits.numerics.core.errors import UnreachableOutputError
from attnlimits.numerics.learning import placement
from attnlimits.numerics.learning.gamp import GAMP, gamp, make_data, teacher
from attnlimits.numerics.learning.gamp.course import Course
from attnlimits.numerics.learning.made_files import write_data
from attnlimits.numerics.learning.spread_tasks import prepared
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")
array = pytest.importorskip("dask.array")

MODEL, D, ROWS = Network(2, 2), 60, 16
WEIGHTS = teacher(MODEL, D, 0)
# Iterations, enough for an error in one of them to show.
FEW = {"max_iter": 4}
QUIET = {
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    "silence_logs": logging.CRITICAL,
}


@contextmanager
def clients(workers, **settings):
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, **QUIET, **settings) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """Two workers, threads of this process: quick to start."""
    with clients(2, processes=False) as made:
        yield made


@pytest.fixture(scope="module")
def data():
    return make_data(MODEL, WEIGHTS, 2.0, 1, dtype=np.float64)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_data(MODEL, WEIGHTS, 2.0, folder, 1, rows=ROWS, dtype=np.float64)


@pytest.fixture(scope="module")
def wanted(data):
    """The run on the same blocks in memory."""
    x, y = data
    return gamp(lambda: ((x[k : k + ROWS], y[k : k + ROWS]) for k in range(0, len(x), ROWS)), None, MODEL, **FEW)


def same(found, wanted):
    assert (found.weights == wanted.weights).all() and (found.covariance == wanted.covariance).all()
    assert (found.n_iter, found.status, found.alpha) == (wanted.n_iter, wanted.status, wanted.alpha)


def test_files_give_the_same_bits_with_and_without_a_cluster(client, files, wanted):
    assert wanted.n_iter == 4 and len(files.blocks) == 8
    same(gamp(files, None, MODEL, **FEW), wanted)
    same(gamp(files, None, MODEL, client=client, **FEW), wanted)
    x, y = (path.parent for path in files.blocks[0])
    same(gamp(x, str(y), MODEL, client=client, **FEW), wanted)


def test_two_loops_give_the_same_bits(client, files, monkeypatch):
    """From the third iteration on, with Anderson's method at the end; and a direction that is given a size before."""
    monkeypatch.setattr(Course, "turns", lambda course: len(course.changes) == 3)
    monkeypatch.setattr(Course, "restart", lambda course, tol: 2 * np.eye(2) if len(course.changes) == 2 else None)
    settings = {"max_iter": 9, "tol": 0.0, "solver": "double-loop"}
    wanted = gamp(files, None, MODEL, **settings)
    assert "the last 6 of them in two loops" in wanted.status and "after 2 having" in wanted.status
    same(gamp(files, None, MODEL, client=client, **settings), wanted)


def test_one_worker_and_several_threads_give_the_same_bits(files, wanted):
    with clients(1, processes=False) as client:
        same(gamp(files, None, MODEL, client=client, **FEW), wanted)


def test_the_estimator_takes_a_cluster(client, files):
    found = GAMP(MODEL, max_iter=2).fit(files, client=client)
    assert (found.weights_ == gamp(files, None, MODEL, max_iter=2).weights).all()


@pytest.mark.parametrize("outputs", [None, (50, 1, 2)])
def test_chunks_of_a_dask_array_give_the_same_bits(client, data, wanted, outputs):
    """Those of other axes do not matter, nor those of Y."""
    x, y = array.from_array(data[0], chunks=(ROWS, 2, 7)), data[1]
    y = y if outputs is None else array.from_array(y, chunks=outputs)
    same(gamp(x, y, MODEL, client=client, **FEW), wanted)


def test_whole_data_in_memory_agree_to_rounding(client, data, files):
    """Sums in another order: the rounding of 120 terms, which the iteration does not let grow."""
    found, here = gamp(files, None, MODEL, client=client, **FEW), gamp(*data, MODEL, **FEW)
    assert found.n_iter == here.n_iter and found.weights == pytest.approx(here.weights, abs=1e-12)


@pytest.mark.slow_for("heads")
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(Network(2, 2, activation="linear", heads=2, readouts=(((1.0, 0.3), (-0.2, 0.8)),)), id="heads"),
        pytest.param(Network(1, 2, 2), id="tied of rank two"),
        pytest.param(Link("h[1]*h[2]").kernel, id="link"),
        pytest.param(Network(2, 2, tied=False), id="sampled on a chart"),
    ],
)
def test_every_kind_of_posterior_travels(client, tmp_path, model):
    """With side information, damping that adapts, and a start; sampled scores have their noise."""
    weights = teacher(model, D, 0)
    files = write_data(model, weights, 0.25, tmp_path, 1, rows=8)
    settings = {"max_iter": 2, "damping": "adaptive", "side_information": weights, "side_strength": 1.0}
    same(gamp(files, None, model, client=client, **settings), gamp(files, None, model, **settings))


@pytest.mark.parametrize("model", [MODEL, Link("abs(h[1])").kernel], ids=["network", "link"])
def test_what_is_prepared_travels_as_what_it_is_prepared_from(tmp_path, model):
    """And a link as its text: compiled functions have no place in another process."""
    [(x, y)] = write_data(model, teacher(model, D, 0), 1.0, tmp_path, 1).blocks
    block = prepared(x, y, model, partial(posterior, model))
    again = pickle.loads(pickle.dumps(block))
    assert again.shape == block.shape and again.output is not block.output
    at = np.zeros((D, model.indices, model.tokens)), np.eye(model.indices), slice(0, D)
    assert (again.output(*at)[0] == block.output(*at)[0]).all()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list what is mapped")
def test_between_passes_a_worker_holds_no_rows(client, files):
    """No file is mapped, and what the workers keep is less than X, of which it does not depend."""
    kept = []
    size = sum(path.stat().st_size for path, _ in files.blocks)

    def look(step):
        assert str(files.blocks[0][0].parent) not in Path("/proc/self/maps").read_text()
        kept.append(sum(each["metrics"]["managed_bytes"] for each in client.scheduler_info()["workers"].values()))
        return step.iteration == 3

    gamp(files, None, MODEL, client=client, callback=look)
    assert len(kept) == 3 and max(kept) < size


def test_nothing_stays_on_the_cluster(client, files):
    gamp(files, None, MODEL, client=client, max_iter=2)
    deadline = time.monotonic() + 10  # Dask lets go of results in the background
    while held := [key for key in client.who_has() if key.startswith("gamp_")]:
        assert time.monotonic() < deadline, held
        time.sleep(0.02)


def test_data_that_do_not_fit_are_refused(client, data, files, tmp_path, monkeypatch):
    x, y = data
    chunked = array.from_array(x, chunks=(ROWS, -1, -1))
    bad = [
        ((x, y), "X must be a dask array or a folder"),
        ((chunked, None), "one output per sample"),
        ((chunked, y[1:]), "one output per sample of X .*: 119 for 120"),
        ((chunked[:, 0], y), r"X must have shape \(N, M, D\)"),
        ((chunked[chunked[:, 0, 0] > 0], y), "compute_chunk_sizes"),
        ((chunked.astype(int), y), "X_block must be float32 or float64"),
        ((array.where(chunked > 3, np.nan, chunked), y), "X must be finite"),
        (("nowhere", y), "Y must be a folder"),
    ]
    for given, words in bad:
        with pytest.raises(ValueError, match=words):
            gamp(*given, MODEL, client=client)
    with pytest.raises(UnreachableOutputError):
        gamp(chunked, 0.5 - y, MODEL, client=client)


def test_files_that_do_not_fit_are_refused(client, tmp_path):
    made = write_data(MODEL, WEIGHTS, 1.0, tmp_path / "a", 1, rows=15)
    other = write_data(MODEL, teacher(MODEL, 2 * D, 0), 0.25, tmp_path / "b", 1)
    x, y = (path.parent for path in made.blocks[0])
    os.replace(other.blocks[0][0], made.blocks[0][0])
    os.replace(other.blocks[0][1], made.blocks[0][1])
    with pytest.raises(ValueError, match="one dimension, got D = 120 and 60"):
        gamp(x, y, MODEL, client=client)
    made.blocks[1][0].write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"000001\.npy is no \.npy file"):
        gamp(x, y, MODEL, client=client)
    made.blocks[2][1].unlink()
    with pytest.raises(ValueError, match=r"Y has no 000002\.npy, which .*X has"):
        gamp(x, y, MODEL, client=client)
    for path in x.iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"X has no \.npy files"):
        gamp(x, y, MODEL, client=client)


def test_a_file_that_a_worker_does_not_see(client, files, monkeypatch, tmp_path):
    """It was looked for where this process would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "blocks", (files.blocks[0], (Path("nowhere/x.npy"), files.blocks[1][1])))
    with pytest.raises(ClusterError, match="did not complete a pass over X: FileNotFoundError") as found:
        gamp(files, None, MODEL, client=client)
    assert str(tmp_path / "nowhere" / "x.npy") in str(found.value)


def test_workers_that_are_waited_for(files, wanted, monkeypatch):
    """Blocks are shared among all of them, and a run that goes on without any ends."""
    shared = set()

    def look(step):
        for key, where in client.who_has().items():
            shared.update(where if key.startswith("gamp_prepare") else ())

    def leave(step):
        client.cluster.scale(0)

    with clients(0, processes=False) as client:
        timer = threading.Timer(0.3, client.cluster.scale, (3,))
        timer.start()
        same(gamp(files, None, MODEL, client=client, workers=3, callback=look, **FEW), wanted)
        timer.join()
        assert len(shared) == 3
        monkeypatch.setattr(placement, "COMING", 0.1)
        with pytest.raises(ClusterError, match=r"3 of 4 workers came to the cluster within 0\.1 s; start more"):
            gamp(files, None, MODEL, client=client, workers=4)
        monkeypatch.setattr(core_cluster, "PATIENCE", 0.1)
        with pytest.raises(ClusterError, match=r"had no workers for 0\.1 s; start some"):
            gamp(files, None, MODEL, client=client, callback=leave)


def test_no_cluster_there(files, monkeypatch):
    monkeypatch.setattr(core_cluster, "PATIENCE", 0.5)
    with pytest.raises(ClusterError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        gamp(files, None, MODEL, client="tcp://127.0.0.1:9")


class Watch(distributed.SchedulerPlugin):
    """Which worker has completed each task, and an end of the first one that completes a task of the third pass."""

    def __init__(self, processes):
        self.processes, self.completed, self.killed = processes, defaultdict(list), None

    def transition(self, key, start, finish, *args, worker=None, **kwargs):
        if not (start == "processing" and finish == "memory" and key.startswith("gamp_")):
            return
        self.completed[key].append(worker)
        what, _, number, _ = key.split("-")
        if self.killed is None and (what, number) == ("gamp_pass", "3"):
            self.killed = worker
            os.kill(self.processes[worker], signal.SIGKILL)


@pytest.mark.slow  # processes that import the package, one of them twice
@pytest.mark.parametrize("kind", ["files", "array"])
def test_a_worker_that_dies_costs_its_blocks_alone(kind, data, files, wanted):
    """In the middle of a pass: what others completed is not done again, and no bit of the result changes."""
    x, y = (files, None) if kind == "files" else (array.from_array(data[0], chunks=(ROWS, -1, -1)), data[1])
    with clients(2, processes=True) as client:
        watch = Watch(client.run(os.getpid))
        client.cluster.scheduler.add_plugin(watch)
        same(gamp(x, y, MODEL, client=client, **FEW), wanted)
    assert watch.killed is not None
    repeated = {key: where for key, where in watch.completed.items() if len(where) > 1}
    assert any(key.startswith("gamp_prepare") for key in repeated)
    assert {where[0] for where in repeated.values()} == {watch.killed}
    assert {len(where) for where in repeated.values()} == {2}
