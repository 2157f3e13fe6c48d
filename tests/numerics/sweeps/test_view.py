"""The data set of a sweep: axes, masks, matrices of several sizes, and its copy as netCDF."""

import json

import numpy as np
import pytest
import xarray

from attnlimits.numerics.sweeps import Function, open_sweep, sweep
from attnlimits.numerics.sweeps.store import SCHEMA
from attnlimits.numerics.sweeps.tasks import TASKS


@pytest.fixture
def mixed(grid_of, toy, tmp_path):
    """A store with points that are done, failed, missing and damaged."""
    out = tmp_path / "out"
    sweep(grid_of('task = "toy"\n[fixed]\nb = 1\n[axes]\na = [1, 2, 3]\nfail = [false, true]'), out, workers=1, limit=5)
    damaged = out / "points" / f"{open_sweep(out).key.values[1, 0]}.json"
    damaged.write_text("{}", encoding="utf-8")
    return out


def test_every_point_has_a_status(mixed):
    found = open_sweep(mixed)
    assert dict(found.sizes) == {"a": 3, "fail": 2, "matrix_1": 1, "matrix_2": 2}
    assert found.status.values.tolist() == [["done", "failed"], ["corrupt", "failed"], ["done", "missing"]]
    assert found.message.values[0, 1] == "ArithmeticError: a point that fails"
    assert "checksum" in found.message.values[1, 0]
    done = found.status == "done"
    assert found.value.where(done).values[0, 0] == 11.0
    assert found.value.values[2, 0] == 13.0
    assert not np.isnan(found.value.values[done]).any()
    assert np.isnan(found.value.values[~done]).all()
    assert found.matrix.values[2, 0].tolist() == [[3.0, 1.0]]
    assert found.converged.values.tolist() == [[True, False], [False, False], [True, False]]
    assert found.how.values.tolist() == [["estimated", ""], ["", ""], ["estimated", ""]]
    assert found.value_decimal.values[0, 0] == "11"


def test_it_describes_itself(mixed):
    found = open_sweep(mixed)
    assert (found.task, json.loads(found.fixed), found.schema) == ("toy", {"b": 1}, SCHEMA)
    assert json.loads(found.versions)[0].keys() == {"attnlimits", "numpy", "scipy", "numba"}
    for name in ("status", "message", "key", "seconds", "value", "error", "how", "converged"):
        assert found[name].description


def test_the_netcdf_file_holds_the_same(grid_of, toy, mixed):
    sweep(grid_of('task = "toy"\n[fixed]\nb = 1\n[axes]\na = [1, 2, 3]\nfail = [false, true]'), mixed, workers=1)
    with xarray.open_dataset(mixed / "sweep.nc") as file:
        assert file.load().identical(open_sweep(mixed))
        assert file.status.values.tolist() == [["done", "failed"]] * 3


def test_coordinates_that_are_no_numbers(grid_of, tmp_path, monkeypatch):
    """A rank of every layer, and yes or no."""

    def threshold(rank, untied):
        size = (1 + untied) * (rank if isinstance(rank, int) else sum(rank))
        return {"value": "0.5", "error": 0.0, "how": "rigorous", "eigenvector": np.eye(size).tolist()}

    monkeypatch.setitem(TASKS, "sizes", Function("sizes", threshold))
    grid = grid_of('task = "sizes"\n[axes]\nrank = [1, [2]]\nuntied = [false, true]')
    sweep(grid, tmp_path / "out", workers=1)
    found = open_sweep(tmp_path / "out")
    assert found["rank"].values.tolist() == ["1", "2"]
    assert found.untied.values.tolist() == ["False", "True"]
    assert found.status.values.tolist() == [["done", "done"], ["done", "done"]]
    # Matrices of P = 1, 2, 2 and 4: padded to the largest.
    assert found.eigenvector.shape == (2, 2, 4, 4)
    assert np.isnan(found.eigenvector.values[0, 0]).sum() == 15
    with xarray.open_dataset(tmp_path / "out" / "sweep.nc") as file:
        assert file.load().identical(found)


def test_what_fits_no_array_is_named(grid_of, tmp_path, monkeypatch):
    def odd(a):
        return {
            "value": None if a == 1 else "oo",
            "count": a if a == 1 else None,
            "whole": a,
            "flag": a == 1,
            "estimate": {"value": 0.5, "error": 0.25, "how": "estimated"},
            "steps": [{"x": 1}],
            "mixed": "text" if a == 1 else 3,
            "ragged": [[1], [2, 3]],
            "depth": [1.0] if a == 1 else [[1.0]],
            "a": "hidden by the axis",
        }

    monkeypatch.setitem(TASKS, "odd", Function("odd", odd))
    sweep(grid_of('task = "odd"\n[axes]\na = [1, 2]'), tmp_path / "out", workers=1)
    found = open_sweep(tmp_path / "out")
    assert found.left_out.split(", ") == ["steps", "mixed", "ragged", "depth"]
    assert found.value_decimal.values.tolist() == ["", "oo"]
    assert np.isnan(found.value.values).all()
    assert found["count"].values[0] == 1.0
    assert np.isnan(found["count"].values[1])
    assert found.whole.dtype.kind == "i"
    assert found.flag.values.tolist() == [True, False]
    assert found.estimate_error.values.tolist() == [0.25, 0.25]
    assert found.estimate_how.values.tolist() == ["estimated"] * 2
    assert found.a.values.tolist() == [1, 2]


def test_before_the_first_point(grid_of, tmp_path, monkeypatch):
    def fails(a):
        raise RuntimeError("no")

    monkeypatch.setitem(TASKS, "fails", Function("fails", fails))
    sweep(grid_of('task = "fails"\n[axes]\na = [1, 2]'), tmp_path / "out", workers=1, limit=1)
    found = open_sweep(tmp_path / "out")
    assert found.status.values.tolist() == ["failed", "missing"]
    assert set(found.data_vars) == {"status", "message", "key", "seconds"}
