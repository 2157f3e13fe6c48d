"""The store: records whole or not at all, damage that is seen, one writer at a time."""

import json
import os
from pathlib import Path

import pytest

from attnlimits.numerics.sweeps.store import DONE, SCHEMA, CorruptRecordError, Store, key_of

GRID = {"task": "threshold", "fixed": {"layers": 2}, "axes": {"skip": [0.5, 1.0]}}
RECORD = {
    "task": "threshold",
    "parameters": {"skip": 0.1},
    "state": DONE,
    "reason": None,
    "result": {"value": "0.25", "x": [1e-300]},
    "seconds": 0.5,
    "versions": {"numpy": "2.0"},
}


@pytest.fixture
def held(tmp_path):
    """A store with one record."""
    store = Store(tmp_path / "store")
    with store.writing(GRID, ["aa", "bb"]):
        store.write("aa", RECORD)
    return store


def test_what_is_written_is_read(held):
    assert held.read("aa") == {"schema": SCHEMA, "key": "aa", **RECORD}
    assert held.read("bb") is None
    assert held.manifest() == {"schema": SCHEMA, **GRID, "keys": ["aa", "bb"]}


def test_every_truncation_is_seen(held):
    path = held.points / "aa.json"
    whole = path.read_bytes()
    # Without the closing brace and newline; without the newline alone, nothing is lost.
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptRecordError, match=r"damaged|checksum"):
            held.read("aa")


def test_every_changed_byte_is_seen(held):
    path = held.points / "aa.json"
    whole = path.read_bytes()
    expected, seen = held.read("aa"), 0
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            assert held.read("aa") == expected  # white space, or 1e-300 as 1E-300
        except CorruptRecordError:
            seen += 1
    assert seen > 0.9 * len(whole.replace(b" ", b"").replace(b"\n", b""))


def test_a_record_under_another_name_is_seen(held):
    (held.points / "bb.json").write_bytes((held.points / "aa.json").read_bytes())
    with pytest.raises(CorruptRecordError, match="not the record of its name"):
        held.read("bb")


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_changes_nothing(held, monkeypatch, broken):
    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if broken == "fsync" else (Path, "replace")), fails)
        with pytest.raises(OSError, match="No space"):
            held.write("aa", RECORD | {"result": {"value": "0.75"}})
    assert held.read("aa")["result"]["value"] == "0.25"


def test_a_record_is_on_the_disk_before_it_has_its_name(held, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace

    def flushed(descriptor):
        steps.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def renamed(path, target):
        steps.append((str(path), str(target)))
        return replace(path, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("names of open files are read from /proc")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    held.write("bb", RECORD)
    part, target = steps[0], str(held.points / "bb.json")
    assert Path(part).parent == held.points and part.startswith(f"{target}.") and part.endswith(".part")
    assert steps == [part, (part, target), str(held.points)]


def test_what_a_killed_writer_left_is_removed(held):
    strays = [held.points / "bb.json.71.part", held.folder / "sweep.nc.71.part"]
    for stray in strays:
        stray.write_text("{", encoding="utf-8")
    with held.writing(GRID, ["aa", "bb"]):
        assert not any(stray.exists() for stray in strays)
    assert held.read("aa") is not None


def test_what_a_process_left_that_the_writer_has_ended_is_removed(held):
    stray = held.points / "bb.json.71.part"
    with pytest.raises(KeyboardInterrupt), held.writing(GRID, ["aa", "bb"]):
        stray.write_text("{", encoding="utf-8")
        raise KeyboardInterrupt
    assert not stray.exists()
    assert held.read("aa") is not None


def test_one_writer_at_a_time(held):
    other = Store(held.folder)
    with held.writing(GRID, ["aa"]):
        with pytest.raises(ValueError, match="another sweep is writing to"), other.writing(GRID, ["aa"]):
            pass
    with other.writing(GRID, ["aa"]):
        assert other.read("aa") is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "evolve"}, "with task threshold, where this one has evolve"),
        ({"axes": {"beta": [1.0]}}, "with axes skip, where this one has beta"),
        ({"axes": {"skip": [1.0], "beta": [1.0]}}, "with axes skip, where this one has beta, skip"),
    ],
)
def test_the_store_of_another_grid_is_refused(held, change, words):
    before = held.manifest()
    with pytest.raises(ValueError, match=f"holds the sweep of another grid, {words}"), held.writing(GRID | change, []):
        pass
    assert held.manifest() == before


@pytest.mark.parametrize("change", [{"axes": {"skip": [3.0]}}, {"fixed": {"layers": 3}}])
def test_an_edited_grid_is_not_another_one(held, change):
    keys = ["cc"] if "axes" in change else ["cc", "dd"]
    with held.writing(GRID | change, keys):
        pass
    assert held.manifest()["keys"] == keys
    assert held.read("aa") is not None


def test_a_damaged_description_is_written_again(held):
    (held.folder / "sweep.json").write_text("{", encoding="utf-8")
    with pytest.raises(CorruptRecordError):
        held.manifest()
    with held.writing(GRID, ["aa", "bb"]):
        pass
    assert held.manifest()["keys"] == ["aa", "bb"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="holds other files and no sweep"), Store(tmp_path).writing(GRID, []):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_without_a_sweep(tmp_path):
    with pytest.raises(ValueError, match="there is no sweep in"):
        Store(tmp_path / "nowhere").manifest()


def test_numbers_keep_all_their_digits(tmp_path):
    numbers = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2**60 + 1]
    store = Store(tmp_path / "store")
    with store.writing(GRID, ["aa"]):
        store.write("aa", RECORD | {"result": {"x": numbers}})
    assert repr(store.read("aa")["result"]["x"]) == repr(numbers)
    # A key tells neighbouring floats apart, and takes no number that JSON cannot hold.
    assert key_of("t", {"x": 0.1}, "") != key_of("t", {"x": 0.10000000000000002}, "")
    with pytest.raises(ValueError, match="JSON"):
        key_of("t", {"x": float("nan")}, "")
    assert json.loads((store.points / "aa.json").read_text(encoding="utf-8"))["key"] == "aa"
