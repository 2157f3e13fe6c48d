"""Arrays from files and to files: what is read is what was written, and what was there stays until all is written."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.core import memory
from attnlimits.numerics.core.array_files import read_array, read_arrays, read_named, write_array, write_arrays

ARRAYS = {
    "float64": np.arange(24.0).reshape(2, 3, 4),
    "float32": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "float16": np.arange(24, dtype=np.float16),
    "big-endian": np.arange(24.0).reshape(4, 6).astype(">f8"),
    "Fortran order": np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    "integers": np.arange(24, dtype=np.uint8),
    "no entries": np.zeros((0, 3)),
    "no axes": np.array(2.5),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_are_read_as_they_were_written(tmp_path, what):
    array = ARRAYS[what]
    write_array(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", a=array, b=array)
    write_arrays(tmp_path / "b.npz", a=array)
    found = [
        read_array("--x", tmp_path / "a.npy"),
        read_array("--x", tmp_path / "a.npy", mapped=False),
        read_arrays("--x", tmp_path / "a.npz", ("a", "b"))["b"],
        read_named("--x", tmp_path / "b.npz", "a"),
        read_named("--x", tmp_path / "a.npy", "a"),
    ]
    for one in found:
        assert one.dtype == array.dtype and one.shape == array.shape
        assert np.array_equal(one, array)
    assert isinstance(found[0], np.memmap) == bool(array.size)
    assert found[1].flags.writeable and found[2].flags.f_contiguous == array.flags.f_contiguous


def test_what_does_not_fit_into_memory_is_not_inflated(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(1 << 20))
    np.save(tmp_path / "a.npy", np.zeros(1 << 20))
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 22)
    for read in (
        lambda: read_arrays("--x", tmp_path / "a.npz", ("a",)),
        lambda: read_array("--x", tmp_path / "a.npy", mapped=False),
    ):
        with pytest.raises(MemoryError, match=r"--x .* would take 8 MiB of memory"):
            read()
    # A map takes none.
    assert read_array("--x", tmp_path / "a.npy").shape == (1 << 20,)


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    write_array(tmp_path / "a.npy", np.arange(3.0))

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device", "a.npy")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="No space left"):
        write_array(tmp_path / "a.npy", np.arange(4.0))
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.arange(3.0))


def test_places_that_are_no_file(tmp_path):
    for read in (read_array, lambda flag, path: read_named(flag, path, "a")):
        with pytest.raises(ValueError, match="--x /dev/zero is no regular file"):
            read("--x", Path("/dev/zero"))
        with pytest.raises(ValueError, match="is a folder"):
            read("--x", tmp_path)
        with pytest.raises(FileNotFoundError):
            read("--x", tmp_path / "none.npy")


def test_damaged_bytes(tmp_path):
    """Bits that flip, and ends that are lost: an array, or ValueError; never another error, and no more memory."""
    whole = np.arange(48.0).reshape(6, 2, 4)
    np.save(tmp_path / "whole.npy", whole)
    np.savez_compressed(tmp_path / "whole.npz", X=whole, Y=whole[:2])
    np.savez(tmp_path / "stored.npz", X=whole, Y=whole[:2])
    generator = np.random.default_rng(0)
    refused = 0
    for number in range(450):
        content = bytearray((tmp_path / ("whole.npy", "whole.npz", "stored.npz")[number % 3]).read_bytes())
        for _ in range(generator.integers(1, 4)):
            place = int(generator.integers(len(content) if number % 2 else min(len(content), 160)))
            content[place] = int(generator.choice([0, 1, 40, 45, 57, 127, 255, content[place] ^ 1]))
        if number % 5 == 0:
            del content[int(generator.integers(len(content))) :]
        bad = tmp_path / "bad"
        bad.write_bytes(content)
        for read in (read_array, lambda flag, path: list(read_arrays(flag, path, ("X", "Y")).values())):
            try:
                found = read("", bad)
            except (ValueError, MemoryError):
                refused += 1
            else:
                arrays = found if isinstance(found, list) else [found]
                assert sum(array.nbytes for array in arrays) <= 2 * whole.nbytes
    assert refused > 450


def test_threads_read_at_once(tmp_path):
    # Threads at different depths, and change places in the middle of whatever allocates: Python 3.11.7 could not parse
    # headers so.
    path = tmp_path / "a.npy"
    write_array(path, np.eye(3))

    def read(depth: int) -> float:
        return read(depth - 1) if depth else float(sum(read_array("--x", path, mapped=False).sum() for _ in range(100)))

    def change_places(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0)

    often = gc.get_threshold()
    gc.freeze()  # what there was before is not looked through
    gc.callbacks.append(change_places)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(read, (0, 7, 14, 21)))
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(change_places)
    assert found == [300.0] * 4
