"""Runs: the numbers are those of the functions behind the verbs, and nothing known is computed twice."""

import contextlib
import os
from fractions import Fraction

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.sweeps import Function, open_sweep, store, sweep
from attnlimits.numerics.sweeps import grid as grid_module
from attnlimits.numerics.sweeps.grid import Point
from attnlimits.numerics.sweeps.records import compute
from attnlimits.numerics.sweeps.store import FAILED, Store
from attnlimits.numerics.sweeps.tasks import TASKS
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer

TOY = 'task = "toy"\n[axes]\na = [1, 2, 3]\nb = [0, 1]\n'
FAILING = 'task = "toy"\n[axes]\na = [1, 2]\nfail = [false, true]\n'


def test_thresholds_of_one_layer_are_the_exact_ones(grid_of, tmp_path):
    grid = grid_of('task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3, 5]\noutput = ["last", "sequence"]')
    report = sweep(grid, tmp_path / "out", workers=1)
    assert (report.points, report.done, report.failed, report.missing, report.computed) == (6, 6, 0, 0, 6)
    found = open_sweep(tmp_path / "out")
    for tokens in (2, 3, 5):
        here = found.sel(tokens=tokens)
        # 1 / (M (M + 1)), the closed form; the error is that of the twelve digits.
        assert np.all(np.abs(here.value - float(Fraction(1, tokens * (tokens + 1)))) <= here.error + 1e-16)
        assert set(here.exact.values) == {f"1/{tokens * (tokens + 1)}"}


def test_records_hold_what_the_functions_return(grid_of, tmp_path):
    model = Network(skip=2.0)
    grid = grid_of(
        'task = "evolve"\n[fixed]\nskip = 2\nsamples = 32\nreplicas = 4\ntol = 1e-3\n'
        "[axes]\nalpha = [0.1, 0.6]\nseed = [3]"
    )
    sweep(grid, tmp_path / "evolve", workers=1)
    found = open_sweep(tmp_path / "evolve").isel(seed=0)
    for alpha in (0.1, 0.6):
        direct = evolve(model, alpha, samples=32, replicas=4, tol=1e-3, rng=3)
        here = found.sel(alpha=alpha)
        # Same points and same arithmetic; threads may change the order of a sum.
        np.testing.assert_allclose(here.overlap, direct.overlap, rtol=0, atol=1e-9)
        np.testing.assert_allclose(here.prediction_error, direct.prediction_error.value, rtol=1e-6)
        assert here.prediction_error_how == "monte-carlo"
    grid = grid_of('task = "threshold"\n[fixed]\ndigits = 6\n[axes]\nskip = [1.0, 2.0]')
    sweep(grid, tmp_path / "last", workers=1)
    found = open_sweep(tmp_path / "last").sel(skip=2.0)
    assert found.value_decimal == last_layer(model, digits=6).value
    assert found.kernel_hash == model.kernel_hash
    grid = grid_of('task = "threshold"\n[fixed]\nlayer = 1\n[axes]\nskip = [2.0]\ngiven = ["perfect"]')
    sweep(grid, tmp_path / "first", workers=1)
    found = open_sweep(tmp_path / "first").isel(skip=0, given=0)
    assert found.value_decimal == first_layer(model, given="perfect").value


def test_a_record_says_where_it_comes_from(grid_of, tmp_path, attnlimits_in_process):
    grid = grid_of('task = "threshold"\n[fixed]\nlayers = 1\nseed = 5\n[axes]\ntokens = [3]')
    sweep(grid, tmp_path / "out", workers=1)
    record = Store(tmp_path / "out").read(grid.points[0].key)
    assert (record["task"], record["state"], record["reason"], record["seed"]) == ("threshold", "done", None, 5)
    assert record["parameters"]["tokens"] == 3
    assert record["parameters"]["skip"] == 1.0
    assert set(record["versions"]) == {"attnlimits", "numpy", "scipy", "numba"}
    assert record["seconds"] >= 0
    result = record["result"]
    assert {"value", "error", "how", "converged", "status"} <= set(result)
    printed = attnlimits_in_process(record["command"])
    assert {k: printed[k] for k in ("value", "error", "exact")} == {k: result[k] for k in ("value", "error", "exact")}


def test_a_second_run_computes_nothing(grid_of, toy, tmp_path, records):
    out = tmp_path / "out"
    first = sweep(grid_of(TOY), out, workers=1)
    before = records(out)
    second = sweep(grid_of(TOY), out, workers=1)
    assert (first.computed, second.computed, second.done) == (6, 0, 6)
    assert records(out) == before


def test_limit_and_progress(grid_of, toy, tmp_path):
    seen = []
    report = sweep(grid_of(TOY), tmp_path / "out", workers=1, limit=4, progress=lambda *at: seen.append(at))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (report.done, report.missing) == (4, 2)
    assert "2 missing: the same command goes on" in report.status
    assert report.ok
    report = sweep(grid_of(TOY), tmp_path / "out", workers=1, limit=4)
    assert (report.computed, report.done, report.missing) == (2, 6, 0)


def test_an_edited_grid_keeps_what_is_known(grid_of, toy, tmp_path):
    out = tmp_path / "out"
    sweep(grid_of(TOY), out, workers=1)
    report = sweep(grid_of(TOY.replace("[1, 2, 3]", "[5, 3, 2]")), out, workers=1)
    assert (report.computed, report.done) == (2, 6)
    found = open_sweep(out)
    assert found.a.values.tolist() == [5, 3, 2]
    assert found.value.values.tolist() == [[5, 15], [3, 13], [2, 12]]


def test_a_changed_task_makes_old_points_stale(grid_of, toy, tmp_path, monkeypatch):
    sweep(grid_of(TOY), tmp_path / "out", workers=1)
    monkeypatch.setitem(TASKS, "toy", Function("toy", toy.call, version="2"))
    assert sweep(grid_of(TOY), tmp_path / "out", workers=1).computed == 6


def test_edited_numerics_make_old_points_stale(grid_of, tmp_path, edited):
    text = 'task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3]'
    sweep(grid_of(text), tmp_path / "out", workers=1)
    assert sweep(grid_of(text), tmp_path / "out", workers=1).computed == 0
    with edited("attnlimits.numerics.thresholds.exact"):
        assert sweep(grid_of(text), tmp_path / "out", workers=1).computed == 2
    # What was edited back is known as before.
    assert len(list((tmp_path / "out" / "points").iterdir())) == 4
    assert sweep(grid_of(text), tmp_path / "out", workers=1).computed == 0


def test_a_store_of_an_earlier_layout_is_kept_and_not_used(grid_of, toy, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        for module in (store, grid_module):
            patch.setattr(module, "key_of", lambda task, parameters, identity: f"{parameters['a']}{parameters['b']}")
        patch.setattr(store, "SCHEMA", 1)
        sweep(grid_of(TOY), out, workers=1)
    old = {path.name: path.read_bytes() for path in (out / "points").iterdir()}
    assert capsys.readouterr().err == ""
    found = open_sweep(out)
    assert set(found.status.values.ravel()) == {"missing"}
    assert all("has the layout 1, and this version reads 2" in text for text in found.message.values.ravel())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"attnlimits: {out} holds a sweep of layout 1, and this version reads 2: ")
    assert sweep(grid_of(TOY), out, workers=1).computed == 6
    assert capsys.readouterr().err.splitlines() == [line]
    assert sweep(grid_of(TOY), out, workers=1).computed == 0
    assert capsys.readouterr().err == ""
    assert old.items() <= {path.name: path.read_bytes() for path in (out / "points").iterdir()}.items()


def test_failures_are_records(grid_of, toy, tmp_path, monkeypatch):
    out = tmp_path / "out"
    report = sweep(grid_of(FAILING), out, workers=1)
    assert (report.done, report.failed, report.ok) == (2, 2, False)
    assert report.failures[0] == {
        "parameters": {"a": 1, "b": 0, "fail": True},
        "reason": "ArithmeticError: a point that fails",
    }
    assert sweep(grid_of(FAILING), out, workers=1).computed == 0
    again = sweep(grid_of(FAILING), out, workers=1, retry_failed=True)
    assert (again.computed, again.failed) == (2, 2)
    # What made them fail is gone; the version, and so the keys, are the same.
    mended = Function("toy", lambda a, b=0, fail=False: {"value": a, "error": 0.0, "how": "rigorous"})
    monkeypatch.setitem(TASKS, "toy", mended)
    mended_report = sweep(grid_of(FAILING), out, workers=1, retry_failed=True)
    assert (mended_report.computed, mended_report.failed, mended_report.ok) == (2, 0, True)


def test_a_model_that_is_not_served_is_a_failure(grid_of, tmp_path):
    grid = grid_of('task = "threshold"\n[axes]\nlayers = [1, 2]\nrank = [1, 2]\nskip = [-1.0]')
    report = sweep(grid, tmp_path / "out", workers=1)
    assert [entry["reason"][:10] for entry in report.failures] == ["ValueError"] * 4
    assert all("skip must be finite and > 0" in entry["reason"] for entry in report.failures)


def test_points_that_do_not_converge_count(grid_of, toy, tmp_path):
    report = sweep(grid_of('task = "toy"\n[axes]\na = [98, 99]'), tmp_path / "out", workers=1)
    assert (report.done, report.not_converged, report.ok) == (2, 1, False)
    assert report.status == "2 of 2 points done, 1 of them not converged"


def test_a_damaged_record_is_computed_again_and_said(grid_of, toy, tmp_path, records):
    out, said = tmp_path / "out", []
    sweep(grid_of(TOY), out, workers=1)
    whole = records(out)
    path = sorted((out / "points").iterdir())[2]
    path.write_bytes(path.read_bytes()[:-20])
    assert open_sweep(out).status.values.ravel().tolist().count("corrupt") == 1
    report = sweep(grid_of(TOY), out, workers=1, say=said.append)
    assert report.computed == 1
    assert len(said) == 1
    assert path.name in said[0]
    assert "computed again" in said[0]
    assert records(out) == whole


def test_dear_points_start_first(grid_of, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(Store, "write", lambda _, key, record: written.append(record["parameters"]))
    grid = grid_of('task = "threshold"\n[axes]\nlayers = [1, 2]\ndigits = [2, 6, 4]')
    sweep(grid, tmp_path / "out", workers=1)
    assert [(p["layers"], p["digits"]) for p in written][:3] == [(2, 6), (2, 4), (2, 2)]
    assert all(p["layers"] == 1 for p in written[3:])


def test_an_interrupt_keeps_what_is_known(grid_of, tmp_path, monkeypatch, toy):
    def interrupted(a, b=0):
        if (a, b) == (2, 0):
            raise KeyboardInterrupt
        return {"value": a}

    monkeypatch.setitem(TASKS, "toy", Function("toy", interrupted))
    with pytest.raises(KeyboardInterrupt, match="has 2 of 6 points done, 4 missing: the same command goes on"):
        sweep(grid_of(TOY), tmp_path / "out", workers=1)
    assert (tmp_path / "out" / "sweep.nc").is_file()
    monkeypatch.setitem(TASKS, "toy", Function("toy", lambda a, b=0: {"value": a}))
    assert sweep(grid_of(TOY), tmp_path / "out", workers=1).computed == 4


@pytest.mark.parametrize(
    ("returned", "words"),
    [({"value": {1, 2}}, "TypeError: Object of type set"), ([1, 2], "TypeError: cannot convert dictionary")],
)
def test_a_result_that_cannot_be_stored_is_a_failure(returned, words):
    record = compute(Function("t", lambda: returned), Point("aa", {}, "1"))
    assert record["state"] == FAILED
    assert record["reason"].startswith(words)


def test_other_kernels_on_a_worker_are_a_failure():
    parameters = TASKS["threshold"].canonical({"layers": 1})
    reason = compute(TASKS["threshold"], Point("aa", parameters, "another hash"))["reason"]
    assert reason == (
        "ValueError: this worker has other numerics, kernels or derivations than the machine that runs the sweep"
    )


def test_a_full_disk_is_said(grid_of, toy, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        sweep(grid_of(TOY), tmp_path / "out", workers=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
        ({"workers": 1.5}, "workers must be an integer >= 1"),
        ({"limit": 0}, "limit must be an integer >= 1"),
        ({"limit": True}, "limit must be an integer >= 1"),
    ],
)
def test_bad_arguments(grid_of, toy, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        sweep(grid_of(TOY), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_several_processes_give_the_same_records(grid_of, toy, tmp_path, records):
    text = TOY.replace("[1, 2, 3]", "[1, 2, 3, 4, 5]")
    sweep(grid_of(text), tmp_path / "one", workers=1)
    report = sweep(grid_of(text), tmp_path / "two", workers=2)
    assert report.computed == 10
    assert records(tmp_path / "two") == records(tmp_path / "one")


def test_a_relative_folder_is_that_of_this_process(grid_of, toy, tmp_path, monkeypatch):
    """The processes of the first sweep serve the second one, and stay where they were started."""
    grid = grid_of(TOY)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert sweep(grid, "out", workers=2).done == 6
        assert len(list((tmp_path / name / "out" / "points").iterdir())) == 6


def test_every_process_has_one_thread(grid_of, tmp_path, monkeypatch):
    def threads(a):
        import os

        import numba
        import numpy
        from threadpoolctl import threadpool_info

        numpy.ones((2, 2)) @ numpy.ones((2, 2))
        return {
            "value": max(pool["num_threads"] for pool in threadpool_info()),
            "numba": numba.get_num_threads(),
            "pid": os.getpid(),
        }

    monkeypatch.setitem(TASKS, "threads", Function("threads", threads))
    sweep(grid_of('task = "threads"\n[axes]\na = [1, 2, 3, 4]'), tmp_path / "out", workers=2)
    found = open_sweep(tmp_path / "out")
    assert set(found.value.values) == {1}
    assert set(found.numba.values) == {1}
    assert os.getpid() not in found.pid.values


def test_a_point_that_ends_its_process_fails_alone(grid_of, tmp_path, monkeypatch):
    def deadly(a):
        import os
        import time

        time.sleep(0.05)
        if a == 3:
            os._exit(1)
        return {"value": a}

    monkeypatch.setitem(TASKS, "deadly", Function("deadly", deadly))
    report = sweep(grid_of('task = "deadly"\n[axes]\na = [1, 2, 3, 4, 5, 6]'), tmp_path / "out", workers=2)
    assert (report.done, report.failed) == (5, 1)
    assert report.failures[0]["parameters"] == {"a": 3}
    assert report.failures[0]["reason"].startswith("RuntimeError: the process that computed the point was ended")


@pytest.fixture
def attnlimits_in_process():
    """Return a function that runs a command and gives its JSON object."""
    import io
    import json
    import shlex

    from attnlimits.numerics.cli import main as cli

    def run(command):
        words = shlex.split(command)
        assert words[0] == "attnlimits"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert cli.main(words[1:]) == 0
        return json.loads(out.getvalue())

    return run
