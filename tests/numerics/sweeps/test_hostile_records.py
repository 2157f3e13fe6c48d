"""Records that nobody should have written: computed again, or refused in a sentence, and never the end of a sweep."""

import json
import os
from pathlib import Path

import pytest

from attnlimits.numerics.sweeps import open_sweep, store, sweep
from attnlimits.numerics.sweeps import records as making
from attnlimits.numerics.sweeps.store import CorruptRecordError, Store, _hash

TOY = 'task = "toy"\n[axes]\na = [1, 2, 3]'


@pytest.fixture
def swept(grid_of, toy, tmp_path):
    """A grid, the folder of its finished sweep, and its records."""
    grid, out = grid_of(TOY), tmp_path / "out"
    sweep(grid, out, workers=1)
    return grid, out, sorted((out / "points").iterdir())


def whole(record):
    """Text of a record with its checksum: damage that only its meaning shows."""
    record = {k: v for k, v in record.items() if k != "checksum"}
    return json.dumps(record | {"checksum": _hash(record)})


def changed(path, **changes):
    return whole(json.loads(path.read_bytes()) | changes)


def without(path, name):
    record = json.loads(path.read_bytes())
    del record[name]
    return whole(record)


TEXTS = {
    "NaN": lambda path: path.read_text().replace('"error": 0.5', '"error": NaN'),
    "infinity": lambda path: path.read_text().replace('"error": 0.5', '"error": 1e999'),
    "nested": lambda path: "[" * 100_000,
    "nested objects": lambda path: '{"a":' * 100_000,
    "digits": lambda path: "9" * 10_000,
    "no object": lambda path: "[1, 2]",
    "bytes": lambda path: "\x00\xff",
    "result is a list": lambda path: changed(path, result=[1]),
    "result is missing": lambda path: without(path, "result"),
    "seconds are a word": lambda path: changed(path, seconds="long"),
    "seconds are huge": lambda path: changed(path, seconds=10**400),
    "seconds are missing": lambda path: without(path, "seconds"),
    "versions are a word": lambda path: changed(path, versions="all"),
    "parameters are null": lambda path: changed(path, parameters=None),
    "reason is a list": lambda path: changed(path, reason=["why"]),
    "failed without a reason": lambda path: changed(path, state="failed"),
    "state is an object": lambda path: changed(path, state={"done": True}),
    "another layout": lambda path: changed(path, schema=99),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_it_is_computed_again(swept, records, kind):
    grid, out, paths = swept
    before = records(out)
    paths[0].write_text(TEXTS[kind](paths[0]), encoding="latin-1")
    assert list(open_sweep(out).status.values).count("corrupt") == 1
    said = []
    report = sweep(grid, out, workers=1, say=said.append)
    assert (report.computed, report.done) == (1, 3)
    assert len(said) == 1
    assert "\n" not in said[0]
    assert said[0].startswith(str(paths[0]))
    assert said[0].endswith("; the point is computed again")
    assert records(out) == before


def test_numbers_that_fit_no_array_are_left_out(swept):
    """The checksum of these is right: they are kept, and the view leaves out what it cannot hold."""
    grid, out, paths = swept
    result = json.loads(paths[0].read_bytes())["result"]
    for value in (10**400, 2**70, [[1.0] * 4, [1.0]], {"a": 1}):
        for path in paths:
            path.write_text(changed(path, result=result | {"more": value}), encoding="utf-8")
        report = sweep(grid, out, workers=1)
        assert (report.computed, report.done) == (0, 3)
        assert open_sweep(out).attrs["left_out"] == "more"
    rows, columns = [[1.0] * 20_000], [[1.0]] * 20_000
    paths[0].write_text(changed(paths[0], result=result | {"more": rows}), encoding="utf-8")
    paths[1].write_text(changed(paths[1], result=result | {"more": columns}), encoding="utf-8")
    assert open_sweep(out).attrs["left_out"] == "more"  # 3 x 20 000 x 20 000 numbers, nearly all of them filling


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "dangling", "elsewhere", "unreadable", "huge"])
def test_no_record_at_all(swept, records, tmp_path, monkeypatch, kind):
    grid, out, paths = swept
    before, path, elsewhere = records(out), paths[0], tmp_path / "elsewhere"
    elsewhere.write_text("thesis", encoding="utf-8")
    if kind == "huge":
        monkeypatch.setattr(store, "MAX_BYTES", 2**20)
        path.write_bytes(b" " * (2**20 + 1))
    elif kind == "unreadable":
        # As the superuser reads everything, the refusal is put in the place of the file's mode.
        def refused(self):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_bytes", refused)
        with pytest.raises(CorruptRecordError, match=r"cannot be read \(Permission denied\)"):
            Store(out).read(path.stem)
        return
    else:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        else:
            target = {"endless": "/dev/zero", "loop": path, "dangling": tmp_path / "gone", "elsewhere": elsewhere}
            path.symlink_to(target[kind])
    said = []
    report = sweep(grid, out, workers=1, say=said.append)
    assert (report.computed, report.done, len(said)) == (1, 3, kind != "dangling")
    assert path.is_file()
    assert not path.is_symlink()
    assert records(out) == before
    assert elsewhere.read_text(encoding="utf-8") == "thesis"


def test_a_folder_in_the_place_of_a_record_is_refused_before_anything_is_computed(swept):
    grid, out, paths = swept
    for path in paths:
        path.unlink()
    paths[-1].mkdir()
    with pytest.raises(IsADirectoryError, match="a folder has the name of a record; move it away"):
        sweep(grid, out, workers=1)
    assert [path for path in paths if path.exists()] == paths[-1:]


MANIFESTS = {
    "nested": "[" * 100_000,
    "no keys": whole({"schema": store.SCHEMA, "task": "toy", "fixed": {}, "axes": {"a": [1, 2, 3]}}),
    "axes are a list": whole(
        {"schema": store.SCHEMA, "task": "toy", "fixed": {}, "axes": [1, 2, 3], "keys": ["a", "b", "c"]}
    ),
    "one key": whole({"schema": store.SCHEMA, "task": "toy", "fixed": {}, "axes": {"a": [1, 2, 3]}, "keys": ["a"]}),
    "keys are paths": whole(
        {"schema": store.SCHEMA, "task": "toy", "fixed": {}, "axes": {"a": [1, 2, 3]}, "keys": ["../a", "/etc/b", "c"]}
    ),
    "an axis is a number": whole({"schema": store.SCHEMA, "task": "toy", "fixed": {}, "axes": {"a": 3}, "keys": ["a"]}),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_description_that_is_none_is_written_again(swept, kind):
    grid, out, _ = swept
    there = Store(out).manifest()
    (out / "sweep.json").write_text(MANIFESTS[kind], encoding="utf-8")
    with pytest.raises(CorruptRecordError):
        open_sweep(out)
    report = sweep(grid, out, workers=1)
    assert (report.computed, report.done) == (0, 3)
    assert Store(out).manifest() == there


def test_a_lock_that_is_a_link_leaves_its_target_alone(swept, tmp_path):
    grid, out, _ = swept
    (tmp_path / "thesis").write_text("of years", encoding="utf-8")
    (out / ".lock").unlink()
    (out / ".lock").symlink_to(tmp_path / "thesis")
    sweep(grid, out, workers=1)
    assert (tmp_path / "thesis").read_text(encoding="utf-8") == "of years"


def test_a_result_too_large_for_a_record_fails_alone(grid_of, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "MAX_RESULT", 50)
    report = sweep(grid_of(TOY), tmp_path / "out", workers=1)
    assert (report.done, report.failed) == (0, 3)
    assert "and a record holds at most 50" in report.failures[0]["reason"]


def test_long_records_are_not_indented(tmp_path):
    """Indented, a table of many short rows takes several times the room of its numbers."""
    there = Store(tmp_path)
    there.points.mkdir()
    there.write("aa", {"result": [[0]] * 100_000})
    assert (there.points / "aa.json").stat().st_size < 4.5e5
