"""The verb `make-data`: the numbers of `al.make_data` in blocks, which `gamp` and `descend` read."""

import json
import tracemalloc

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.learning import data, made_files
from attnlimits.numerics.learning.gamp import gamp

MAKE = "make-data --layers 1 --tokens 2 --alpha 0.8 --dimension 200 --rows 50"


@pytest.fixture
def made(attnlimits, tmp_path):
    said = attnlimits(f"{MAKE} --out {tmp_path / 'data'} --json")
    assert said.status == 0, said.err
    return tmp_path / "data", json.loads(said.out)


def blocks(folder):
    return [np.load(path) for path in sorted(folder.iterdir())]


def test_blocks_of_the_data_of_a_teacher(made):
    folder, found = made
    net = al.Network(layers=1, tokens=2)
    weights = al.teacher(net, 200, rng=0)
    x, y = al.make_data(net, weights, 0.8, rng=0)
    assert found["shape"] == [160, 2, 200] and found["blocks"] == 4 and found["dtype"] == "float32"
    assert [len(block) for block in blocks(folder / "X")] == [50, 50, 50, 10]
    assert (np.concatenate(blocks(folder / "X")) == x).all() and (np.concatenate(blocks(folder / "Y")) == y).all()
    assert (np.load(folder / "teacher.npy") == weights).all()
    assert (found["x"], found["y"]) == (str(folder / "X"), str(folder / "Y"))


def test_noise_and_double_precision(attnlimits, tmp_path):
    said = attnlimits(
        f'make-data --link "h[1]**2" --noise 0.5 --alpha 2 --dimension 50 --rows 30 --seed 3 --dtype float64 '
        f"--out {tmp_path}"
    )
    assert said.status == 0, said.err
    assert said.out.splitlines()[1].startswith("X of shape (100, 1, 50), float64, ") and "in 4 blocks" in said.out
    link = al.Link("h[1]**2", noise="0.5")
    x, y = al.make_data(link, al.teacher(link, 50, rng=3), 2.0, rng=3, dtype=np.float64)
    assert (np.concatenate(blocks(tmp_path / "X")) == x).all() and (np.concatenate(blocks(tmp_path / "Y")) == y).all()


def test_a_folder_with_blocks_is_left_alone(attnlimits, made):
    folder, _ = made
    said = attnlimits(f"{MAKE} --out {folder} --seed 1")
    assert said.status == 2 and "X has .npy files already; give another folder" in said.err
    assert len(blocks(folder / "X")) == 4


def test_a_disk_without_room(attnlimits, tmp_path, monkeypatch):
    monkeypatch.setattr(made_files.shutil, "disk_usage", lambda path: made_files.shutil._ntuple_diskusage(10, 9, 1))
    said = attnlimits(f"{MAKE} --out {tmp_path / 'data'}")
    assert said.status == 1 and "free; take fewer samples or another disk" in said.err
    assert not list((tmp_path / "data").rglob("*.npy"))


def test_memory_is_that_of_a_part(tmp_path, monkeypatch):
    """X takes 8 MB, a part of a block 32 kB, and 100 times as much in double precision and on its way are 0.3 MB."""
    monkeypatch.setattr(data, "_ENTRIES", 8000)
    net = al.Network(layers=1, tokens=2)
    weights = al.teacher(net, 1000, rng=0)
    tracemalloc.start()
    found = al.learning.write_data(net, weights, 1.0, tmp_path, rng=0, rows=200)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.blocks) == 5 and taken < 1 << 20
    monkeypatch.undo()
    x, y = al.make_data(net, weights, 1.0, rng=0)
    assert (np.concatenate(list(found.tokens())) == x).all()
    # Products of other shapes are rounded otherwise.
    assert np.concatenate([labels for _, labels in found()]) == pytest.approx(y, abs=1e-12)


def test_verbs_read_the_blocks(attnlimits, made):
    folder, _ = made
    flags = f"--layers 1 --x {folder / 'X'} --y {folder / 'Y'} --json"
    found = json.loads(attnlimits(f"gamp {flags} --max-iter 4").out)
    there = gamp(folder / "X", folder / "Y", al.Network(layers=1, tokens=2), max_iter=4)
    assert found["weights"] == there.weights.tolist() and found["n_iter"] == 4
    found = json.loads(attnlimits(f"gamp {flags} --start spectral --max-iter 2").out)
    assert found["origin"]["settings"]["start"] == "spectral"
    found = json.loads(attnlimits(f"descend {flags} --epochs 2 --method gd").out)
    x, y = (np.concatenate(blocks(folder / name)) for name in "XY")
    assert float(found["value"]) == pytest.approx(al.descend(al.Network(1, 2), x, y, epochs=2, method="gd").loss)
    assert found["error"] > 0


def test_outputs_that_are_not_there(attnlimits, made):
    folder, _ = made
    for y, words in ((folder / "none", "No such file"), (folder / "teacher.npy", "so --y must be one, too")):
        said = attnlimits(f"gamp --layers 1 --x {folder / 'X'} --y {y}")
        assert said.status == 2 and words in said.err and str(y) in said.err


def test_a_cluster_reads_the_blocks(attnlimits, made, where):
    """By its scheduler file, as on a batch system."""
    folder, _ = made
    flags = f"gamp --layers 1 --x {folder / 'X'} --y {folder / 'Y'} --max-iter 4 --json"
    there = json.loads(attnlimits(f"{flags} --dask {where}").out)
    here = json.loads(attnlimits(flags).out)
    assert there["weights"] == here["weights"] and there["n_iter"] == 4


@pytest.mark.slow  # a process that imports the package
def test_a_local_cluster(attnlimits, made):
    folder, _ = made
    flags = f"gamp --layers 1 --x {folder / 'X'} --y {folder / 'Y'} --max-iter 4 --json"
    there = json.loads(attnlimits(f"{flags} --dask local --workers 1").out)
    assert there["weights"] == json.loads(attnlimits(flags).out)["weights"]
