"""Disks that are full, and folders that cannot be written: status 1, one line that names the file, nothing lost."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.sweeps import open_sweep, sweep
from attnlimits.numerics.sweeps.store import Store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, modes and mounts are those of POSIX")

COMMAND = (sys.executable, "-m", "attnlimits.numerics.cli.main")
GRID = 'task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = {tokens}'
ONE = "denoise --layers 1 --y [[0.7,0.3],[0.2,0.8]] --omega [[0.1,0.2]] --V [[1]]"


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID.format(tokens=[*range(2, 7)]), encoding="utf-8")
    return path


def strays(folder):
    return list(folder.rglob("*.part"))


@pytest.fixture
def limited(monkeypatch):
    """Return a function that runs the command here, where no file may be larger than `most` bytes.

    Each file is then a full disk of its own. Python ignores the signal of that, so that a write fails as on a full
    disk, with another number.
    """
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(most, line):
        usual, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, highest))
            try:
                status = cli.main(line.split(" "))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (usual, highest))
        lines = [text for text in err.getvalue().splitlines() if text.strip() and "%|" not in text]
        return status, out.getvalue(), lines

    return run


def test_no_room_for_a_record(limited, grid, tmp_path):
    out = tmp_path / "out"
    line = f"sweep {grid} --out {out} --workers 1"
    sweep(grid, out, workers=1, limit=2)
    stored = {path: path.read_bytes() for path in (out / "points").iterdir()}
    status, said, lines = limited(600, line)
    assert (status, said, len(lines)) == (1, "", 1)
    assert lines[0].startswith("attnlimits: File too large: ")
    assert Path(lines[0].split(" ")[-1]).parent == out / "points"
    assert not strays(out)
    assert {path: path.read_bytes() for path in (out / "points").iterdir()} == stored
    report = sweep(grid, out, workers=1)
    assert (report.computed, report.done) == (3, 5)


def test_no_room_for_the_data_set(limited, grid, tmp_path):
    """The records are the truth: they are kept, and the file is made of them next time."""
    out = tmp_path / "out"
    line = f"sweep {grid} --out {out} --workers 1"
    status, said, lines = limited(4000, line)
    assert (status, said, len(lines)) == (1, "", 1)
    assert "all records are kept, and the same command makes this file of them" in lines[0]
    assert lines[0].endswith(f": {out / 'sweep.nc'}")
    assert not strays(out)
    assert (open_sweep(out).status.values == "done").all()
    assert sweep(grid, out, workers=1).computed == 0
    assert (out / "sweep.nc").is_file()


RESULTS = {
    "denoise": (f"{ONE} --out {{out}}/result.jsonl", "result.jsonl"),
    "curve": ("curve --layers 1 --tokens 3 --from 0 --to 0.2 --points 3 --out {out}/result.json", "result.json"),
    "derive": ("derive --link h[1]*h[2] --out {out}", ".py"),
    "landscape": ("landscape --layers 1 --alpha 0.2 --points 5 --out {out}/result.png", "result.json"),
    "figure": ("figure troiani2025-3 --out {out}", "troiani2025-3.json"),
}


@pytest.mark.parametrize(
    "verb", [pytest.param(v, marks=[pytest.mark.slow] if v not in ("denoise", "derive") else []) for v in RESULTS]
)
def test_no_room_for_a_result(limited, tmp_path, verb):
    line, name = RESULTS[verb]
    if verb in ("curve", "landscape"):  # compiles, and would have no room for that either
        (tmp_path / "before").mkdir()
        assert cli.main(line.format(out=tmp_path / "before").split(" ")) == 0
    status, said, lines = limited(100, line.format(out=tmp_path))
    assert (status, said, len(lines)) == (1, "", 1)
    assert lines[0].startswith(f"attnlimits: File too large: {tmp_path}")
    assert lines[0].endswith(name)
    assert not strays(tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a file system of 96 KiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_sweep_that_fills_the_disk(child, grid, small_disk, workers):
    grid.write_text(GRID.format(tokens=[*range(2, 32)]), encoding="utf-8")
    out, ballast = small_disk / "out", small_disk / "ballast"
    ballast.write_bytes(bytes(40_000))
    line = ("sweep", grid, "--out", out, "--workers", workers)
    done = child(*COMMAND, *line)
    assert (done.status, done.out, len(done.lines)) == (1, "", 1)
    assert done.lines[0].startswith(f"attnlimits: No space left on device: {out / 'points'}")
    assert not strays(out)
    stored = {path: path.read_bytes() for path in (out / "points").iterdir()}
    assert 0 < len(stored) < 30
    assert all(Store(out).read(path.stem) for path in stored)
    # Where there is room again, the same command goes on; here on another disk.
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    assert sweep(grid, out, workers=1).computed == 30 - len(stored)
    assert {path: path.read_bytes() for path in stored} == stored


def test_folders_that_cannot_be_written(child, grid, locked, tmp_path, modes_bind):
    out = tmp_path / "out"
    line = f"sweep {grid} --workers 1 --out"
    done = child(*COMMAND, *line.split(" "), locked / "new")
    assert (done.status, done.out, len(done.lines)) == (1, "", 1)
    assert done.lines[0].endswith(f": {locked}")
    sweep(grid, out, workers=1)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for path in (out, out / "points", *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = child(*COMMAND, *line.split(" "), out)
    assert (done.status, done.out, len(done.lines)) == (1, "", 1)
    assert done.lines[0].endswith(f": {out}")
    for path in (out, out / "points"):
        path.chmod(0o755)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_second_writer_is_refused(child, grid, tmp_path):
    out = tmp_path / "out"
    line = ("sweep", grid, "--out", out, "--workers", "1")
    sweep(grid, out, workers=1, limit=1)
    there = Store(out).manifest()
    names = ("task", "fixed", "axes")
    with Store(out).writing({name: there[name] for name in names}, there["keys"]):
        done = child(*COMMAND, *line)
        assert (done.status, done.out, len(done.lines)) == (2, "", 1)
        assert f"another sweep is writing to {out}" in done.lines[0]
    assert sweep(grid, out, workers=1).computed == 4


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/proc", "{locked}", "{locked}/nobody"])
@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("threshold", 0),
        ("evolve --layers 1 --alpha 0.3 --samples 64 --replicas 4", 0),
        (ONE, 0),
        ("threshold --link h[1]*h[2]*h[1]", 1),
        ("landscape --layers 1 --alpha 0.2 --points 5 --out {out}/l.png", 0),
        ("sweep {grid} --out {out}/sweep --workers 2", 0),
    ],
)
def test_a_home_that_cannot_be_written(child, grid, locked, tmp_path, modes_bind, home, line, lines):
    """Nothing but the cache of derived links wants one, and says so in its line."""
    home = home.format(locked=locked)
    words = line.format(out=tmp_path, grid=grid).split(" ")
    done = child(*COMMAND, *words, HOME=home, cwd=locked)
    assert done.status == 0, done.err
    assert len(done.lines) <= lines
    assert not [path for path in Path(locked).iterdir()]
