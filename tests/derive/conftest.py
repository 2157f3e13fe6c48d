"""Fixtures of the derivation tests: packages they derive, a private mpmath context, a seeded grid with corners."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import sympy as sp
from mpmath.ctx_mp import MPContext

from attnlimits.derive.kernels import packages as known
from attnlimits.numerics.core.cache import private_folder


@pytest.fixture(scope="session")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a package that is not committed to the folder it is derived into.

    They are not proved here: `test_generator` proves them all, and compares what is written here with it. The folder is
    that of `attnlimits derive`: processes share it, and what it holds of the same hash is left as it is, with its
    compiled kernels.
    """
    folder = private_folder("links") or tmp_path_factory.mktemp("derived")

    @functools.cache
    def derive(name: str) -> Path:
        package = next(package for package in (*known.PACKAGES, *known.derived()) if package.name == name)
        return known.write_package(dataclasses.replace(package, prove=lambda: None), folder)

    return derive


@pytest.fixture(scope="module")
def once() -> Iterator[Callable[..., None]]:
    """Return a function after which those of a module, pure ones, compute once for each arguments in this file."""

    def fixed(value: object) -> object:
        return value.as_immutable() if isinstance(value, sp.MatrixBase) else value

    def keep(module: ModuleType, *names: str) -> None:
        for name in names:
            found = functools.cache(getattr(module, name))
            patch.setattr(module, name, lambda *arguments, found=found: found(*map(fixed, arguments)))

    with pytest.MonkeyPatch.context() as patch:
        yield keep


@pytest.fixture
def context() -> Callable[[int], MPContext]:
    """Return a maker of mpmath contexts of a given number of digits; the global one is never touched."""

    def make(digits: int) -> MPContext:
        ctx = MPContext()
        ctx.dps = digits
        return ctx

    return make


_CORNERS = [0.0, 1e-300, -1e-300, 1e-8, -1e-8, 1.0, -1.0, 30.0, -30.0, 1e3, -1e3]


@pytest.fixture
def grid() -> Callable[[int, int], np.ndarray]:
    """Return a maker of points: a third from the corners, a third of order one, a third mixed per entry."""

    def make(count: int, columns: int) -> np.ndarray:
        rng = np.random.default_rng(20250201)
        corners = rng.choice(_CORNERS, size=(count, columns))
        plain = rng.normal(scale=2.0, size=(count, columns))
        mixed = np.where(rng.random((count, columns)) < 0.5, corners, plain)
        return np.concatenate([corners, plain, mixed])

    return make


@pytest.fixture
def parameters() -> list[tuple[float, float]]:
    """Return pairs (c, beta) over the range the kernels are made for."""
    return [(1e-3, 0.2), (1e-3, 5.0), (0.05, 1.0), (1.0, 1.0), (1.0, 5.0), (10.0, 0.2), (10.0, 1.0)]
