"""Ctrl-C and SIGTERM at any moment of any verb: exit status 130, one line, no traceback, and finished parts kept."""

import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.cli.guard import fail, guarded
from attnlimits.numerics.core.interrupts import interruptible

from ..launch import INTERRUPTIBLE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent to a group of processes")

# As the console script of the installed command, with a sign that the command has begun.
MAIN = """
import sys
from attnlimits.numerics.cli.main import main

print("begun", file=sys.stderr, flush=True)
sys.exit(main())
"""
# Each takes longer than the test waits.
LONG = {
    "threshold, many digits": "threshold --digits 50 --skip 0.3",
    "threshold, first layer": "threshold --layer 1 --samples 8192",
    "threshold, proved": "threshold --rigorous --digits 12",
    "threshold, link": "threshold --link tanh(h[1]*h[2]) --noise 0.1 --staircase",
    "evolve": "evolve --alpha 0.5 --samples 1000000",
    "evolve, three layers": "evolve --alpha 0.5 --layers 3 --samples 65536",
    "curve": "curve --from 0.1 --to 0.6 --points 90 --start both --out {out}/curve.json",
    "denoise": "denoise --input {out}/in.npz --digits 20 --out {out}/denoised.jsonl",
    "gamp": "gamp --alpha 2 --dimension 2000 --seeds 8 --max-iter 500",
    "descend": "descend --layers 1 --tokens 2 --alpha 2 --dimension 1000 --seeds 8",
    "multihead": "multihead demo --heads 4 --seq 4 --dim 20 --samples 40000",
    "aim": "aim amp --activation softmax --rho 0.5 --alpha 0.5 --dimension 300 --seeds 20",
    "committee": "committee --layers 3 --skip 400 --beta 0.1 --alpha 4",
    "landscape": "landscape --alpha 0.9 --out {out}/landscape.png",
    "figure": "figure troiani2025-1 --out {out}/figure",
    "sweep": "sweep {out}/grid.toml --out {out}/sweep --workers 1",
    "sweep, workers": "sweep {out}/grid.toml --out {out}/sweep --workers 2",
    "derive": "derive --layers 4 --tokens 4 --untied --out {out}/kernels",
    "verify": "verify --paper troiani2025",
}


def begun(code, *arguments):
    """Start a process in a group of its own, as a terminal does; return it when the command begins."""
    process = subprocess.Popen(
        [*INTERRUPTIBLE, sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert select.select([process.stderr], [], [], 60)[0]
    # Not by a buffer, which `communicate` does not know: what it has read ahead would be lost.
    line = ""
    while not line.endswith("\n") and (byte := os.read(process.stderr.fileno(), 1)):
        line += byte.decode()
    assert line == "begun\n"
    return process


def ended(process):
    """Status, output and lines of error of a process that is about to end; one that is not is killed."""
    with process:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, [line for line in err.splitlines() if line.strip() and "%|" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("verb", LONG)
def test_an_interrupt_at_any_moment(verb, tmp_path, rng):
    np.savez(
        tmp_path / "in.npz",
        y=np.tile([[0.7, 0.3], [0.2, 0.8]], (5000, 1, 1)),
        omega=np.zeros((5000, 2, 2)),
        V=np.tile(np.eye(2), (5000, 1, 1)),
    )
    text = 'task = "threshold"\n[fixed]\ndigits = 14\n[axes]\nskip = { linspace = [0.5, 3, 200] }'
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    for number, delay in zip((signal.SIGINT, signal.SIGINT, signal.SIGTERM), rng.uniform(0.05, 3, 3), strict=True):
        process = begun(MAIN, *LONG[verb].format(out=tmp_path).split(" "))
        time.sleep(delay)
        assert process.poll() is None, "it ended before the signal"
        os.killpg(process.pid, number)
        if verb == "sweep, workers":
            # Signals are ignored for the 0.1 s in which the workers start, as they inherit that.
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, number)
        status, out, lines = ended(process)
        assert (status, len(lines)) == (130, 1), f"{delay} s: {lines}"
        assert lines[0].startswith("attnlimits: interrupted")
        assert list(tmp_path.rglob("*.part")) == []
        if verb == "denoise" and "after" in lines[0]:
            kept = (tmp_path / "denoised.jsonl").read_text(encoding="utf-8").splitlines()
            assert lines[0] == f"attnlimits: interrupted after {len(kept)} of 5000 samples"
            assert all(json.loads(line)["value"] for line in kept)
            (tmp_path / "denoised.jsonl").unlink()
        else:
            assert out == ""


VERB = """
import atexit, os, signal, sys
from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.cli.guard import fail, guarded
from attnlimits.numerics.cli import symbolic

def models(_):
    BODY
    return {}, "done", True

symbolic.models = models
sys.argv = ["attnlimits", "models"]
print("begun", file=sys.stderr, flush=True)
sys.exit(cli.main())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("how", ["{}", "exec({!r})"])
def test_a_signal_in_the_middle(name, how):
    """Also in code compiled from text, after which Python ends itself by the signal though it was caught."""
    body = how.format(f"os.kill(os.getpid(), signal.{name})")
    assert ended(begun(VERB.replace("BODY", body))) == (130, "", ["attnlimits: interrupted"])


FINALISER = """class Last:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGNAL)
            for _ in range(1000):
                pass

    Last()
    import time
    time.sleep(50)"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_a_finaliser(name):
    """Python prints a traceback there, and goes on: the computation would take its hour."""
    process = begun(VERB.replace("BODY", FINALISER.replace("SIGNAL", name)))
    begin = time.monotonic()
    assert ended(process) == (130, "", ["attnlimits: interrupted"])
    assert time.monotonic() - begin < 20


CALLBACK = """found = []

    def compare(*_):
        os.kill(os.getpid(), signal.SIGNAL)
        found.append(1)
        return 0

    import ctypes
    two = (ctypes.c_int * 2)()
    pointer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(compare)
    ctypes.CDLL(None).qsort(two, ctypes.c_size_t(2), ctypes.c_size_t(4), pointer)
    found[0]"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_a_callback(name):
    """What the callback leaves undone raises before the interrupt comes again; that error is not the reason."""
    process = begun(VERB.replace("BODY", CALLBACK.replace("SIGNAL", name)))
    assert ended(process) == (130, "", ["attnlimits: interrupted"])


# Loops of C that end after hours and look for no signal, with what they leave to other threads.
FREE = """import hashlib, pathlib, subprocess
    from attnlimits.numerics.core.files import replace_whole
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    with replace_whole(pathlib.Path(FOLDER) / "result.json"):
        print(child.pid, flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)"""
HELD = """import collections, itertools
    print("", flush=True)
    collections.deque(itertools.repeat(0), maxlen=0)"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("loop", ["free", "held"])
def test_a_signal_in_a_loop_that_looks_for_none(name, loop, tmp_path):
    """The process ends within two seconds, and with it those that it has started; nothing half-written remains.

    A library that lets no other thread run can only be killed: no status of its own then.
    """
    body = FREE.replace("FOLDER", repr(str(tmp_path))) if loop == "free" else HELD
    process = begun(VERB.replace("BODY", body))
    child = process.stdout.readline().strip()
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(getattr(signal, name))
    status, _, lines = ended(process)
    assert time.monotonic() - begin < 3  # 1.8 s, and what other processes take of the machine
    assert (status, lines) == (130 if loop == "free" else -signal.SIGKILL, ["attnlimits: interrupted"])
    assert list(tmp_path.iterdir()) == []
    if child and sys.platform == "linux":
        stat = Path(f"/proc/{child}/stat")
        assert not stat.exists() or stat.read_text().split()[2] == "Z"  # ended, and not yet noticed by who adopted it


@pytest.mark.parametrize("moment", [0.05, 0.15, 0.3, 0.5])
def test_a_signal_while_modules_are_loaded(moment):
    """An import that is cut short may raise anything; that is not the reason."""
    process = begun(MAIN, *"free-energy --layers 17 --tokens 3 --alpha 1".split())
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", ["attnlimits: interrupted"])


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_after_the_result_changes_nothing(name):
    body = f"atexit.register(os.kill, os.getpid(), signal.{name})"
    assert ended(begun(VERB.replace("BODY", body))) == (0, "done\n", [])


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_watch_ends_changes_nothing(name):
    """Between the end of what is interruptible and the last moments SIGTERM ended a run that had its status."""
    code = (
        "import os, signal\n"
        "from attnlimits.numerics.core.interrupts import interruptible\n"
        "wait = os.waitpid\n"
        "def waited(*which):\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "    return wait(*which)\n"
        "os.waitpid = waited\n"
        "with interruptible(print):\n"
        "    pass\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_program_that_calls_the_command_keeps_its_handlers(attnlimits_status):
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGALRM
    before = *map(signal.getsignal, numbers), sys.unraisablehook
    assert attnlimits_status("models") == 0
    assert (*map(signal.getsignal, numbers), sys.unraisablehook) == before
    mine = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, mine)


@pytest.fixture
def attnlimits_status(capsys):
    return lambda *arguments: cli.main(arguments)


def test_an_interrupt_after_a_failure_adds_no_line(capsys):
    """The line of the failure is the one; a signal may come while the process ends."""

    def failing():
        fail("not converged", 1)
        raise KeyboardInterrupt

    assert guarded(failing) == 130
    assert capsys.readouterr().err == "attnlimits: not converged\n"

    def stopped():
        raise KeyboardInterrupt

    assert guarded(stopped) == 130
    assert capsys.readouterr().err == "attnlimits: interrupted\n"


def test_what_an_interrupt_left_half_made_goes_without_a_word(capsys):
    """A constructor of llvmlite that was cut short leaves an object whose finaliser fails."""

    class Half:
        def __init__(self):
            os.kill(os.getpid(), signal.SIGINT)
            self.whole = True

        def __del__(self):
            assert self.whole

    with interruptible():
        with contextlib.suppress(KeyboardInterrupt):
            Half()
        gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signals that can be blocked")
def test_processes_that_are_started_ignore_interrupts_whatever_else_starts():
    """The tracker of multiprocessing, which starts beside the first worker, had unblocked them (Python 3.11)."""
    code = (
        "import signal\n"
        "from multiprocessing import resource_tracker\n"
        "from attnlimits.numerics.core.interrupts import without_interrupts\n"
        "with without_interrupts(signal.SIGTERM):\n"
        "    resource_tracker.ensure_running()\n"
        "    print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))\n"
        "print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.splitlines() == [str(sorted(map(int, (signal.SIGINT, signal.SIGTERM)))), "[]"]
