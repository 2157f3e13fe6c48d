"""The pruned lattice: ranges that enclose, a certificate that holds, faint lobes, and the even fast path."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlimits.generated import lanes
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior import lattice
from attnlimits.numerics.posterior.denoiser import denoise, denoise_readout
from attnlimits.numerics.posterior.lattice import cosets
from attnlimits.numerics.posterior.ranges import RANGES, inverse_determinant_bound

FAMILIES = ("softmax", "linear")
UNDO = {
    name: importlib.import_module(f"attnlimits.generated.attention_tied_{name}_m2.numba64").undo for name in FAMILIES
}
EPS = np.finfo(float).eps

length = st.floats(1e-6, 60.0)
corner = st.one_of(st.floats(-30.0, 30.0), st.just(0.0))
fraction = st.floats(0.0, 1.0)


@pytest.mark.parametrize("activation", FAMILIES)
@given(
    left=corner,
    bottom=corner,
    width=length,
    height=length,
    points=st.lists(st.tuples(fraction, fraction), min_size=1, max_size=8),
    v=st.tuples(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0)),
    c=st.floats(0.05, 10.0),
    beta=st.floats(0.2, 5.0),
)
@example(
    left=-1.0, bottom=-1.0, width=2.0, height=2.0, points=[(0.5, 0.5), (0.9, 0.6)], v=(1.0, -2.0), c=0.05, beta=5.0
)
@example(left=3.0, bottom=0.0, width=1.0, height=1e-3, points=[(0.0, 0.5)], v=(0.5, 0.5), c=1.0, beta=1.0)
def test_ranges_enclose(activation: str, left: Any, bottom: Any, width: Any, height: Any, **rest: Any) -> None:
    """Every point of a box, its corners too, has h_2 inside the range of the box, up to rounding."""
    (vp, vm), c, beta = rest["v"], rest["c"], rest["beta"]
    right, top = left + width, bottom + height
    a0, a1, b0, b1 = RANGES[activation](np.array([vp, vm, c, beta]), left, right, bottom, top)
    assert a0 <= a1 and b0 <= b1
    # The factors are at most 1/c^2; rounding of the exponents u and w counts for softmax.
    spread = beta * (abs(right) + abs(left)) * (abs(top) + abs(bottom)) if activation == "softmax" else 0.0
    slack = 64 * EPS * (1 + spread) * (abs(vp) + abs(vm)) / min(c, c * c) + 1e-300
    for s, t in [*rest["points"], (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]:
        xp, xm = min(left + s * width, right), min(bottom + t * height, top)
        a, b, inv_det = UNDO[activation](xp, xm, vp, vm, c, beta)
        assert a0 - slack <= a <= a1 + slack, (a0, a, a1)
        assert b0 - slack <= b <= b1 + slack, (b0, b, b1)
        assert inv_det <= inverse_determinant_bound(activation, c) * (1 + 8 * EPS)


@pytest.mark.parametrize("activation", FAMILIES)
def test_ranges_shrink_to_the_point(activation: str, rng: np.random.Generator) -> None:
    """Useful, not only true: over ever smaller boxes the range closes in on the value."""
    for _ in range(50):
        xp, xm, vp, vm = rng.normal(scale=2.0, size=4)
        c, beta = rng.uniform(0.1, 3.0, 2)
        widths = []
        for size in (1e-2, 1e-4, 1e-6):
            a0, a1, b0, b1 = RANGES[activation](np.array([vp, vm, c, beta]), xp, xp + size, xm, xm + size)
            widths.append(max(a1 - a0, b1 - b0))
        scale = (abs(vp) + abs(vm)) * (1 + beta * (xp * xp + xm * xm)) * (1 + beta) / (c * c)
        assert widths[2] <= 1e-3 * widths[0] + 1e-12 * scale
        assert widths[2] <= 1e-4 * scale


def channel(model: Network, V: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and means of n samples at q = I - V."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(np.eye(2) - V)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    omega = np.einsum("pq,nqm->npm", root, rng.standard_normal((n, 2, 2)))
    h = omega + np.einsum("pq,nqm->npm", np.linalg.cholesky(V), rng.standard_normal((n, 2, 2)))
    return model.link(h), omega


@pytest.mark.parametrize(
    ("activation", "samples"),
    [
        ("softmax", (11977, 6794, 11038, 6471, 10818, 39)),
        ("linear", (721, 10791, 2432, 9111, 260, 8757)),
    ],
)
def test_faint_narrow_lobes(activation: str, samples: tuple[int, ...]) -> None:
    """A second lobe of 1e-7 of the mass and a tenth of the first one's width.

    The differences of the cosets see only the wide lobe, so the rule that the error is squared when the step is halved
    does not hold. Without steps set by the slopes of z these samples have errors up to 3e-7 at tol = 1e-10.
    """
    model = Network(activation=activation)
    V = np.array([[0.5, -0.4999], [-0.4999, 0.5]])
    y, omega = channel(model, V, 12000, 1)
    chosen = list(samples)
    made, fine = (denoise(model, y[chosen], omega[chosen], V, tol=tol) for tol in (1e-10, 1e-14))
    size = np.abs(fine.g_out).max(axis=(1, 2))
    assert (np.abs(made.g_out - fine.g_out).max(axis=(1, 2)) < 1e-10 * size).all()
    assert np.abs(made.log_z - fine.log_z).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("activation", FAMILIES)
def test_no_faint_lobe_in_many_samples(activation: str) -> None:
    model = Network(activation=activation)
    V = np.array([[0.5, -0.4999], [-0.4999, 0.5]])
    y, omega = channel(model, V, 6000, 2)
    made, fine = (denoise(model, y, omega, V, tol=tol) for tol in (1e-10, 1e-14))
    size = np.abs(fine.g_out).max(axis=(1, 2))
    assert (np.abs(made.g_out - fine.g_out).max(axis=(1, 2)) < 1e-10 * size).all()
    assert np.abs(made.log_z - fine.log_z).max() < 1e-10


@pytest.mark.parametrize("activation", FAMILIES)
@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("V", [[[1.0, 0.0], [0.0, 0.5]], [[0.7, 0.0], [0.0, 0.01]], [[0.6, 0.3], [0.3, 0.5]]], ids=str)
def test_certificate(activation: str, tol: float, V: list[list[float]]) -> None:
    """Every sample is as close as it says, in whitened indices: E[h] - omega = V g_out."""
    model = Network(activation=activation)
    covariance = np.array(V)
    y, omega = channel(model, covariance, 300, 3)
    made = denoise(model, y, omega, covariance, tol=tol)
    fine = denoise(model, y, omega, covariance, tol=1e-14)
    assert (made.error <= tol).all()
    whitened = np.linalg.cholesky(covariance).T @ (made.g_out - fine.g_out)
    # The mean is a ratio of two sums, each off by tol relative to itself or to the mass.
    scale = 1 + np.abs(np.linalg.cholesky(covariance).T @ fine.g_out).max(axis=(1, 2))
    assert (np.abs(whitened).max(axis=(1, 2)) <= 2 * tol * scale).all()
    assert np.abs(made.log_z - fine.log_z).max() <= 2 * tol


@pytest.mark.parametrize("activation", FAMILIES)
def test_even_path(activation: str, rng: np.random.Generator) -> None:
    """With omega_1 = 0 and V_12 = 0 half the plane is summed; omega_1 = 1e-300 takes the whole one."""
    model = Network(skip=0.5, beta=1.5, activation=activation)
    V = np.diag([0.9, 0.3])
    omega = rng.standard_normal((100, 2, 2))
    omega[:, 0] = 0.0
    y = model.link(omega + np.linalg.cholesky(V) @ rng.standard_normal((100, 2, 2)))
    half = denoise(model, y, omega, V)
    whole = denoise(model, y, omega + np.array([[1e-300], [0.0]]), V)
    np.testing.assert_allclose(half.log_z, whole.log_z, rtol=0, atol=3e-11)
    # Both are within the default tolerance of 1e-11 of the moments; d g_out takes V^{-1} with it.
    np.testing.assert_allclose(half.g_out, whole.g_out, rtol=0, atol=1e-10)
    np.testing.assert_allclose(half.dg_out, whole.dg_out, rtol=0, atol=1e-9)
    assert (half.g_out[:, 0] == 0).all()


def test_sums_against_a_plain_rule(rng: np.random.Generator) -> None:
    """A dense trapezoidal rule on the whole disc, nothing pruned, in token space."""
    model = Network(skip=0.8)
    V, omega = np.array([[0.5, 0.2], [0.2, 0.6]]), rng.standard_normal((2, 2))
    v = rng.standard_normal(2)
    # Step 0.05: the kernel's singularities are a unit away, so e^{-2 pi/0.05} is nothing.
    x = np.arange(-7.0, 7.0, 0.05)
    h1 = omega[0] + np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    mixing = model.mixing(np.stack([h1, np.zeros_like(h1)], axis=1))
    inverse = np.linalg.inv(V)
    mass, mean = 0.0, np.zeros((2, 2))
    for sign in (1.0, -1.0):
        h2 = np.linalg.solve(mixing, np.broadcast_to(sign * v[:, None], (len(h1), 2, 1)))[:, :, 0]
        off = np.stack([h1, h2], axis=1) - omega
        weight = np.exp(-0.5 * np.einsum("npm,pq,nqm->n", off, inverse, off)) / np.abs(np.linalg.det(mixing))
        mass += weight.sum()
        mean += np.einsum("n,npm->pm", weight, off)
    log_z = math.log(mass * 0.05**2) - 2 * math.log(2 * math.pi) - math.log(np.linalg.det(V))
    made = denoise_readout(model, v, omega, V)
    assert float(made.log_z) == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(made.g_out, inverse @ mean / mass, rtol=0, atol=1e-9)


def test_status_sentences_cover_the_codes() -> None:
    assert sorted(lattice.STATUS) == [0, 1, 2, 3, 4]
    assert all(lattice.STATUS.values())


def test_the_loops_and_what_fills_their_memory_have_the_same_sizes():
    for name in FAMILIES:
        posterior = importlib.import_module(f"attnlimits.generated.attention_tied_{name}_m2.posterior64")
        assert cosets._LANES == lanes.LANES and cosets._LONGEST == posterior.LONGEST
        assert cosets._ROWS >= posterior.PIECE_ROWS
