"""What the tests of faults share: processes without the superuser's rights, full disks, read-only installations."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Capabilities by which the superuser reads and writes whatever the mode of a file says (capabilities(7)), and the
# request of prctl(2) that takes one away.
_DAC_OVERRIDE, _DAC_READ_SEARCH, _PR_CAPBSET_DROP = 1, 2, 24


@dataclass(frozen=True)
class Done:
    """Exit status, standard output, and the lines of standard error without progress bars."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip() and "%|" not in line]


def as_others() -> None:
    """Let the modes of files bind a child process, also that of the superuser."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture(scope="session")
def modes_bind() -> None:
    """Skip where a child process can write whatever the modes of files say."""
    if os.name != "posix":
        pytest.skip("files have no modes")
    try:
        done = subprocess.run(["sh", "-c", "! test -w /proc/1/mem"], preexec_fn=as_others, check=False)
    except subprocess.SubprocessError:
        pytest.skip("the rights of the superuser cannot be taken from a child process")
    assert done.returncode == 0 or os.geteuid() == 0


@pytest.fixture
def child() -> Callable[..., Done]:
    """Return a function that runs a command without numba's variables; None for a variable removes it."""

    def run(*command: str, cwd: Path | str = "/", timeout: float = 600, **variables: str | None) -> Done:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")} | variables
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=as_others,
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


def read_only(folder: Path, *, locked: bool) -> None:
    """Take or give back the right to write to all folders and files under one."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode & ~0o222 if locked else mode | stat.S_IWUSR)


@pytest.fixture(scope="session")
def installation(repository: Path, tmp_path_factory: pytest.TempPathFactory, modes_bind: None) -> Iterator[Path]:
    """Return a copy of the package, to stand first on the path, that cannot be written and has no compiled kernels."""
    site = tmp_path_factory.mktemp("site")
    leave_out = shutil.ignore_patterns("__pycache__", "*.md", "*.png", "*.bib")
    for folder in ("derive", "generated", "numerics", "papers"):
        shutil.copytree(repository / folder, site / "attnlimits" / folder, ignore=leave_out)
    read_only(site, locked=True)
    yield site
    read_only(site, locked=False)


COMMAND = (sys.executable, "-m", "attnlimits.numerics.cli")
