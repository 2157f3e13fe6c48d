"""The error of a result that did not converge covers the fixed point that more evaluations come to."""

from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.fixed_point.unconverged import COVERED, distances
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network


@pytest.mark.parametrize(
    ("model", "alpha", "settings"),
    [
        (Network(1), 0.3, {}),
        (Network(1), 0.3, {"start": "informed"}),
        (Network(1), 0.2, {}),
        (Network(1), 0.2, {"start": [[0.3]]}),
        (Network(2), 0.8, {"accuracy": 1e-2}),
        (Network(1, 2, 2), 0.9, {"samples": 32}),
    ],
    ids=["up", "down", "past it", "from a matrix", "a layer joins", "sampled"],
)
def test_the_error_covers_the_fixed_point(model: Network, alpha: float, settings: dict[str, Any]) -> None:
    fixed = evolve(model, alpha, **settings)
    assert fixed.converged
    seen = 0
    for most in (1, 3, 9):
        found = evolve(model, alpha, max_iter=most, **settings)
        if found.converged:
            continue
        seen += 1
        assert COVERED in found.status
        off, error = np.abs(found.overlap - fixed.overlap), found.overlap_error
        assert (off <= error + 3 * fixed.overlap_error).all(), most
        assert error.max() <= 1
        off = abs(found.estimation_error.value - fixed.estimation_error.value)
        assert off <= found.estimation_error.error + 3 * fixed.estimation_error.error
        off = abs(found.prediction_error.value - fixed.prediction_error.value)
        assert off <= found.prediction_error.error + 3 * fixed.prediction_error.error
    assert seen >= 2


def test_a_link_next_to_recovery() -> None:
    """1 - q = sqrt(noise) at alpha = 1: plain steps from further away are shorter than any tolerance."""
    noise = 1e-4
    found = evolve_link(kernel_of("h[1]", noise="1e-4"), 1.0, max_iter=5)
    # (1 - q)^2 + (1 - q) noise = noise.
    left = 0.5 * (np.sqrt(noise**2 + 4 * noise) - noise)
    assert not found.converged
    off = abs(found.overlap[0, 0] - (1 - left))
    assert 1e-4 < off <= found.overlap_error[0, 0] < 0.5
    assert "> 1e-05" not in found.status  # the tolerance is relative to 1 - q


def test_a_link_whose_directions_may_still_join() -> None:
    """Overlaps of directions that have not been reached are not known to be zero."""
    kernel = kernel_of("h[1] * h[2]")
    found, fixed = (evolve_link(kernel, 1.2, samples=64, max_iter=most) for most in (2, 200))
    assert not found.converged
    assert (np.abs(found.overlap - fixed.overlap) <= found.overlap_error + 3 * fixed.overlap_error).all()


def test_distances_hold_between_zero_and_the_identity() -> None:
    """Random matrices above, below, or anywhere; and bounds that some of them come close to."""
    rng = np.random.default_rng(0)

    def root(values: np.ndarray) -> np.ndarray:
        vectors = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    closest = {1: 0.0, 0: 0.0, -1: 0.0}
    for _ in range(1500):
        a, b = root(rng.uniform(0, 1, 2)), root(rng.beta(0.3, 0.3, 2))
        q = a @ a
        above = np.eye(2) - q
        rest = np.linalg.cholesky(above + 1e-12 * np.eye(2))
        for direction, other in ((1, q + rest @ b @ b @ rest.T), (-1, a @ b @ b @ a), (0, b @ b)):
            off, bound = np.abs(other - q), distances(q, direction)
            assert (off <= bound + 1e-9).all()
            closest[direction] = max(closest[direction], float((off / bound).min()))
    assert min(closest.values()) > 0.5
