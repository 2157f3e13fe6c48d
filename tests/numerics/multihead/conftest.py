"""The families of layers are imported by name: `acceptance.py`, which is run by itself, imports them, too."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlimits.numerics.core.blas import one_blas_thread

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As `learn_multihead` sets it: the matrices are small, and threads would only wait for each other."""
    with one_blas_thread():
        yield
