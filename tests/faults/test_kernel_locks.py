"""Processes that start together compile a kernel once: one does, the others wait and load it."""

import contextlib
import sys
import threading
import time

import pytest

from attnlimits.numerics.core import kernel_locks
from attnlimits.numerics.core.kernel_locks import first_to_compile

fcntl = pytest.importorskip("fcntl", reason="files have no such locks")

CHILD = (
    "from attnlimits.numerics.posterior import ranges; "
    "print(sum(sum(f.stats.cache_misses.values()) for f in vars(ranges).values() if hasattr(f, 'stats')))"
)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.py"
    path.write_text("")
    return path


@contextlib.contextmanager
def compiling_elsewhere(path):
    """Hold the lock of a source file, as another process would; yield a function that ends it."""
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(stream, fcntl.LOCK_UN)


def is_free(path):
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_the_first_keeps_others_waiting_until_it_ends(source):
    with pytest.raises(ZeroDivisionError), first_to_compile(str(source)):
        assert not is_free(source)
        with first_to_compile(str(source)):  # what a kernel calls may stand in the same file
            assert not is_free(source)
        assert not is_free(source)
        raise ZeroDivisionError
    assert is_free(source)


def test_who_has_waited_keeps_nobody_waiting(source):
    with compiling_elsewhere(source) as end:
        ended = []
        timer = threading.Timer(0.2, lambda: (ended.append(time.monotonic()), end()))
        timer.start()
        with first_to_compile(str(source)):
            assert ended and ended[0] <= time.monotonic()
            assert is_free(source)
        timer.join()


def test_the_wait_has_an_end(source, monkeypatch):
    monkeypatch.setattr(kernel_locks, "_PATIENCE", 0.1)
    with compiling_elsewhere(source):
        begin = time.monotonic()
        with first_to_compile(str(source)):
            assert time.monotonic() - begin >= 0.1


def test_without_a_file_or_locks_nobody_waits(source, monkeypatch):
    with first_to_compile(str(source.with_name("missing.py"))):
        pass
    monkeypatch.setattr(kernel_locks, "fcntl", None)
    with compiling_elsewhere(source), first_to_compile(str(source)):
        assert not is_free(source)


def test_processes_that_start_together_compile_once(child, tmp_path):
    def start(found):
        found.append(child(sys.executable, "-c", CHILD, NUMBA_CACHE_DIR=str(tmp_path / "kernels")))

    done = []
    threads = [threading.Thread(target=start, args=(done,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.status for one in done] == [0, 0], [one.err for one in done]
    both = sum(int(one.out) for one in done)
    alone = child(sys.executable, "-c", CHILD, NUMBA_CACHE_DIR=str(tmp_path / "others"))
    assert both == int(alone.out) > 0
