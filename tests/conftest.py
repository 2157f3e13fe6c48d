"""What every test shares: few threads, a headless plot backend, hypothesis settings, a seeded generator."""

import os

# Set before numpy and numba load: where test processes share the cores, threads in each only compete.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A first example may compile a kernel, so no deadline per example. Under CI the examples never vary.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's name: order and selection do not change its numbers."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root folder of the source tree under test."""
    return Path(__file__).resolve().parent.parent
