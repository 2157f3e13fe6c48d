"""What the tests of faults share: an installation that cannot be written."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def installation(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, modes_bind: None, read_only: Callable[..., None]
) -> Iterator[Path]:
    """Return a copy of the package, to stand first on the path, that cannot be written and has no compiled kernels."""
    site = tmp_path_factory.mktemp("site")
    leave_out = shutil.ignore_patterns("__pycache__", "*.md", "*.png", "*.bib")
    for folder in ("derive", "generated", "numerics", "papers"):
        shutil.copytree(repository / folder, site / "attnlimits" / folder, ignore=leave_out)
    read_only(site, locked=True)
    yield site
    read_only(site, locked=False)
