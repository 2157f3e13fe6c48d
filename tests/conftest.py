"""What every test shares: few threads, a headless plot backend, hypothesis settings, a seeded generator, processes."""

import gc
import importlib
import os
import stat
import subprocess
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

# Set before numpy and numba load: where test processes share the cores, threads in each only compete.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Results that SymPy keeps of each of its functions: a thousand by default, of which tests that derive forget most.
os.environ.setdefault("SYMPY_CACHE_SIZE", "200000")

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from .launch import AS_OTHERS, REFUSED

# Thousands of tests and compiled kernels stay: looking through them at Python's own pace takes a tenth of the time.
gc.set_threshold(4_000_000)

# A first example may compile a kernel, so no deadline per example. Under CI the examples never vary.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


# Modules whose functions are compiled when they are imported, or by their function `compiled`.
COMPILED = (
    "generated.attention_tied_linear_m2.posterior64",
    "generated.attention_tied_softmax_m2.posterior64",
    "numerics.arithmetic.digit_runs",
    "numerics.learning.products",
    "numerics.posterior.lattice.moments",
    "numerics.posterior.ranges",
    "numerics.posterior.two_layers",
    "numerics.posterior.two_layers_rounding",
    "numerics.thresholds.digits.quotient",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Let the test processes, which start together, collect one after another: the others find all modules compiled.

    No search for garbage looks through what was loaded and collected: it stays to the end.
    """
    with open(__file__, encoding="utf-8") as lock:
        if fcntl is not None and hasattr(session.config, "workerinput"):
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in COMPILED:
                getattr(importlib.import_module(f"attnlimits.{name}"), "compiled", lambda: None)()
        collected = yield
    gc.freeze()
    return collected


def pytest_sessionfinish() -> None:
    """Search once for garbage whose end fails; the ten searches that pytest adds have nothing left to look through."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Mark those instances of a test as slow whose ids, or the beginnings of them, its marker `slow_for` names."""
    found = yield
    named: set[str] = set()
    met: set[str] = set()
    for item in found if isinstance(found, list) else []:
        for marker in item.iter_markers("slow_for") if isinstance(item, pytest.Function) else ():
            named.update(marker.args)
            matching = {one for one in marker.args if f"{item.callspec.id}-".startswith(f"{one}-")}
            met |= matching
            if matching:
                item.add_marker(pytest.mark.slow)
    if named != met:
        raise collector.CollectError(
            f"{found[0].originalname} has no instances {sorted(named - met)}, named by slow_for"
        )
    return found


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's name: order and selection do not change its numbers."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root folder of the source tree under test."""
    return Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Done:
    """Exit status, standard output, and the lines of standard error without progress bars."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip() and "%|" not in line]


@pytest.fixture(scope="session")
def modes_bind() -> None:
    """Skip where a child process can write whatever the modes of files say."""
    if os.name != "posix":
        pytest.skip("files have no modes")
    done = subprocess.run([*AS_OTHERS, "sh", "-c", "! test -w /proc/1/mem"], check=False)
    if done.returncode == REFUSED:
        pytest.skip("the rights of the superuser cannot be taken from a child process")
    assert done.returncode == 0 or os.geteuid() == 0


# Of numba's variables, those by which a child compiles for the processor that its parent compiles for.
PROCESSOR = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
# Variables that choose a folder for caches before the home folder does.
CACHES = ("XDG_CACHE_HOME", "ATTNLIMITS_CACHE", "ATTNLIMITS_PRIVATE_KERNELS")


@pytest.fixture
def child() -> Callable[..., Done]:
    """Return a function that runs a command without numba's choice of folders; None for a variable removes it.

    Where it is given another home, no other choice of a folder for caches goes to the command.
    """

    def run(*command: str, cwd: Path | str = "/", timeout: float = 600, **variables: str | None) -> Done:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA") or k in PROCESSOR}
        if "HOME" in variables:
            variables = dict.fromkeys(CACHES) | variables
        environment = kept | variables
        done = subprocess.run(
            [*AS_OTHERS, *map(str, command)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={k: v for k, v in environment.items() if v is not None},
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that cannot be written."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.fixture(scope="session")
def read_only() -> Callable[..., None]:
    """Return a function that takes or gives back the right to write to all folders and files under one."""

    def change(folder: Path, *, locked: bool) -> None:
        for path in [folder, *folder.rglob("*")]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode & ~0o222 if locked else mode | stat.S_IWUSR)

    return change
