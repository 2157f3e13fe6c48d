"""Links and models that exact algebra does not finish: each ends in one line, and what comes next is served."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model import derivations
from attnlimits.numerics.model.link_kernels import kernel_of

TOWER = "exp(" * 20 + "h" + ")" * 20


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path))
    return tmp_path


def test_a_tower_is_what_it_holds(attnlimits):
    said = attnlimits(f"threshold --json --link '{TOWER}'")
    assert said.status == 0 and json.loads(said.out)["exact"] == "0"


def test_a_derivation_that_takes_too_long_is_stopped(attnlimits, monkeypatch):
    monkeypatch.setenv(derivations.SECONDS, "0.2")
    begin = time.monotonic()
    said = attnlimits(f"threshold --link '{TOWER} + h'")
    assert said.status == 1 and len(said.lines_of_error) == 1
    assert "took more than 0.2 s and was stopped" in said.err and derivations.SECONDS in said.err
    assert time.monotonic() - begin < 30
    # Another process takes over.
    monkeypatch.delenv(derivations.SECONDS)
    assert attnlimits("threshold --link 'abs(h)'").status == 0


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", "inf"])
def test_the_time_is_a_number_of_seconds(attnlimits, monkeypatch, seconds):
    monkeypatch.setenv(derivations.SECONDS, seconds)
    said = attnlimits("threshold --link 'abs(h)'")
    assert said.status == 2 and derivations.SECONDS in said.err


def test_a_process_that_is_killed_is_replaced():
    assert kernel_of("abs(h)").text == ("Abs(h_1_1)",)
    derivations._worker.process.kill()
    derivations._worker.process.wait()
    assert kernel_of("abs(h) + 1", noise="1").noise == 1


def test_a_process_that_ends_in_its_work_is_named(monkeypatch):
    kernel_of("abs(h)")
    worker = derivations._worker.process
    timer = threading.Timer(0.1, worker.kill)
    timer.start()
    with pytest.raises(ConvergenceError, match="ended by itself"):
        kernel_of(f"{TOWER} + h")
    timer.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of memory there")
def test_memory_has_a_limit():
    code = (
        "from attnlimits.derive.links import worker as link_worker\n"
        "import attnlimits.derive.links.reading as module\n"
        "link_worker._limit(60)\n"
        "module.parse = lambda text: [0] * 10**9\n"
        "request = dict(text='h', tokens=None, indices=None, noise='0', axes=(), reduced=True)\n"
        "print(link_worker.answer(request)['failed'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "took 1.5 GiB of memory" in done.stdout


def test_modules_of_the_present_folder_are_not_loaded(tmp_path, monkeypatch):
    (tmp_path / "sympy.py").write_text("raise SystemExit('loaded')")
    derivations._end()
    monkeypatch.chdir(tmp_path)
    assert kernel_of("h**2").exact == "1/2"


@pytest.mark.skipif(os.name != "posix", reason="statuses of processes")
def test_the_process_ends_with_the_command():
    code = (
        "from attnlimits.numerics.model import derivations, link_kernels\n"
        "link_kernels.kernel_of('abs(h)', fresh=True)\n"
        "print(derivations._worker.process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""


@pytest.mark.parametrize("verb", ["explain", "derive"])
@pytest.mark.parametrize("flag", ["tokens", "layers", "rank", "heads"])
@pytest.mark.parametrize("size", [2**31, 10**400])
def test_models_too_large_for_symbols_are_refused_by_their_flag(attnlimits, verb, flag, size):
    begin = time.monotonic()
    said = attnlimits(f"{verb} --{flag} {size}")
    assert said.status == 2 and len(said.lines_of_error) == 1
    assert f"--{flag}" in said.err and time.monotonic() - begin < 5


def test_pages_of_moderate_models_are_derived(attnlimits):
    assert attnlimits("explain --tokens 5 --layers 4 --rank 3 --heads 2").status == 0
