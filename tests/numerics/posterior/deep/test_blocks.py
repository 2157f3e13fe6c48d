"""Blocks of nodes of deep attention: linear algebra next to numpy's, and moments that do not depend on the blocks."""

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior import sampled
from attnlimits.numerics.posterior.deep.mixing import block_of, solve
from attnlimits.numerics.posterior.deep.sampled import SampledPosterior

Array = NDArray[np.float64]
MODELS = [Network(3), Network(2, 3), Network(2, 3, activation="linear")]


@njit(error_model="numpy")
def _solve(matrix: Array, rhs: Array, det: Array) -> None:
    solve(matrix, rhs, len(det), det)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_systems_are_solved_as_by_numpy(size: int) -> None:
    rng = np.random.default_rng(size)
    matrices, rhs = rng.standard_normal((size, size, 19)), rng.standard_normal((2, size, 19))
    # A pivot of zero, and no other order of the rows than that of the elimination.
    matrices[0, 0, 3] = 0.0
    by_numpy = np.linalg.solve(np.moveaxis(matrices, 2, 0), np.moveaxis(rhs, (0, 1, 2), (2, 1, 0)))
    expected = np.abs(np.linalg.det(np.moveaxis(matrices, 2, 0)))
    det = np.full(19, 2.0)
    _solve(matrices, rhs, det)
    np.testing.assert_allclose(np.moveaxis(rhs, (0, 1, 2), (2, 1, 0)), by_numpy, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(det, 2 * expected, rtol=1e-11)


def test_a_singular_matrix_spoils_no_other_node() -> None:
    rng = np.random.default_rng(0)
    matrices, rhs = rng.standard_normal((3, 3, 9)), rng.standard_normal((1, 3, 9))
    matrices[:, :, 4] = 0.0
    matrices[0, 1, 6] = np.nan
    others = [0, 1, 2, 3, 5, 7, 8]
    expected = np.linalg.solve(np.moveaxis(matrices, 2, 0)[others], np.moveaxis(rhs[0], 1, 0)[others][..., None])
    det = np.ones(9)
    _solve(matrices, rhs, det)
    assert det[4] == 0.0 and np.isnan(det[6])
    np.testing.assert_allclose(rhs[0][:, others].T, expected[..., 0], rtol=1e-9, atol=1e-9)


def test_blocks_hold_few_nodes_of_many_tokens() -> None:
    assert [block_of(size) for size in (2, 3, 11, 20, 400)] == [128, 128, 128, 40, 8]


def _moments(model: Network, q: float, n: int = 6) -> tuple[SampledPosterior, Array, Array, Array]:
    overlap = q * np.eye(model.layers)
    normals = np.random.default_rng(2).standard_normal((2, n, model.layers, model.tokens))
    omega = matrix_root(overlap) @ normals[0]
    v = np.eye(model.layers) - overlap
    h = omega + np.linalg.cholesky(v) @ normals[1]
    return SampledPosterior(model, 256, 4, 2, np.random.default_rng(0), 1), h, omega, v


@pytest.mark.parametrize("q", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_moments_do_not_depend_on_the_blocks(model: Network, q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to rounding, which the differences that place the peaks multiply by a million."""
    posterior, h, omega, v = _moments(model, q)
    large, lost = posterior.part(h, omega, v)
    assert lost == 0 and np.isfinite(large).all()
    alone = np.concatenate([posterior.part(h[i : i + 1], omega[i : i + 1], v, i)[0] for i in range(len(h))])
    monkeypatch.setattr(sampled, "block_of", lambda size: 8)
    small, _ = posterior.part(h, omega, v)
    np.testing.assert_allclose(small, large, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(alone, large, rtol=1e-6, atol=1e-6)
