"""Anderson's method: what it combines, and that a long memory pays where the iteration is ill-conditioned."""

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import anderson
from attnlimits.numerics.learning.gamp.anderson import Anderson

# Slopes of the residual of a map with real multipliers up to 0.9995.
SLOPES = np.geomspace(5e-4, 1.0, 300)


def residuals(steps, method=None, start=1.0):
    """Norms of the residuals -SLOPES x of an iteration towards zero."""
    x, sizes = np.full(len(SLOPES), start), []
    for _ in range(steps):
        residual = -SLOPES * x
        sizes.append(np.linalg.norm(residual))
        x = x + residual if method is None else method(x, residual)
    return sizes


def test_a_flat_valley_takes_a_memory_of_the_root_of_its_condition(monkeypatch):
    """The root is 45: in 200 steps ten differences leave fifty times as much as sixty."""
    long = residuals(200, Anderson(len(SLOPES)))
    monkeypatch.setattr(anderson, "_BYTES", 0)
    short = residuals(200, Anderson(len(SLOPES)))
    assert long[-1] < 1e-6 * long[0]
    assert short[-1] > 50 * long[-1]
    assert residuals(200)[-1] > 20 * short[-1]


def test_the_next_point_is_that_of_least_squares_over_the_latest_differences(monkeypatch):
    """Here of a map that is not linear, after the oldest differences have given their places to others."""
    monkeypatch.setattr(anderson, "_BYTES", 0)
    method, rng = Anderson(30), np.random.default_rng(1)
    matrix = 0.03 * rng.standard_normal((30, 30))
    x, points, found = rng.standard_normal(30), [], []
    for step in range(25):
        r = np.tanh(matrix @ x) - 0.3 * x + 0.1
        points.append(x)
        found.append(r)
        wanted = x + r
        if step >= 5:
            moved, turned = (np.diff(np.array(each[-11:]), axis=0).T for each in (points, found))
            wanted = wanted - (moved + turned) @ np.linalg.lstsq(turned, r)[0]
        x = method(x, r)
        # What is left of the ridge of 1e-12 where differences are nearly dependent.
        assert x == pytest.approx(wanted, abs=1e-4 * np.linalg.norm(r))
    assert np.linalg.norm(found[-1]) < 1e-3 * np.linalg.norm(found[0])


def test_it_starts_anew_where_the_residual_grows():
    method = Anderson(len(SLOPES))
    residuals(20, method)
    x = np.full(len(SLOPES), 1e3)
    assert method(x, -SLOPES * x) == pytest.approx(x - SLOPES * x), "a plain step"
    assert min(residuals(200, method)) < 1e-4


@pytest.mark.parametrize("memory", [60, 10])
def test_it_starts_anew_where_residuals_do_not_fall(monkeypatch, memory):
    """The fourth residual is half of the others: once thirty have not been below it the steps are plain ones again."""
    monkeypatch.setattr(anderson, "_BYTES", memory * 16 * 30)
    method, rng, plain = Anderson(30), np.random.default_rng(2), []
    for step in range(40):
        x, residual = rng.standard_normal((2, 30))
        residual *= (0.5 if step == 3 else 1.0) / np.linalg.norm(residual)
        plain.append(np.allclose(method(x, residual), x + residual))
    assert np.flatnonzero(plain).tolist() == [0, 1, 2, 3, 4, 34, 35]
