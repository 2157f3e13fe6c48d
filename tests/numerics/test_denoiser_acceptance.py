"""The float64 denoiser against its arbitrary-precision reference, its identities, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.denoiser import denoise, denoise_readout
from attnlimits.numerics.errors import KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.models import Attention

REFERENCE = Path(__file__).parent / "data" / "denoiser_reference.json"


def cases() -> list[dict[str, Any]]:
    return list(json.loads(REFERENCE.read_text(encoding="utf-8")))


def test_two_hundred_samples_to_ten_digits() -> None:
    """Relative to the largest entry of each sample; at omega = 0 the reference is exactly zero by parity."""
    worst: dict[str, float] = {}
    entries = cases()
    assert len(entries) >= 200
    for case in entries:
        model = Attention(2, 2, 1, case["skip"], case["beta"], case["activation"])
        made = denoise(model, np.array(case["y"]), np.array(case["omega"]), np.array(case["V"]))
        g, dg = (np.array([float(x) for x in case[name]]) for name in ("g_out", "dg_out"))
        # An odd function at its zero: compare with the scale of the prior instead.
        scale = max(float(np.abs(g).max()), 1e-2 if not np.any(case["omega"]) else 0.0)
        error = max(
            float(np.abs(made.g_out.ravel() - g).max()) / scale,
            float(np.abs(made.dg_out.ravel() - dg).max() / np.abs(dg).max()),
            abs(float(made.log_z) - float(case["log_z"])),
        )
        worst[case["category"]] = max(worst.get(case["category"], 0.0), error)
    print({name: f"{value:.1e}" for name, value in worst.items()})
    assert max(worst.values()) <= 1e-10, worst


def draw(model: Attention, q: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p, m = model.indices, model.tokens
    v = np.eye(p) - q
    omega = np.linalg.cholesky(q + 1e-14 * np.eye(p)) @ rng.standard_normal((n, p, m))
    h = omega + np.linalg.cholesky(v) @ rng.standard_normal((n, p, m))
    return model.link(h), omega, v


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_nishimori_identities(activation: str) -> None:
    """E g = 0, E g g^T = -E dg and E (h - omega) g^T V^-1 = E g g^T, within five standard errors."""
    model = Attention(activation=activation)
    y, omega, v = draw(model, np.array([[0.4, 0.1], [0.1, 0.6]]), 20000, 1)
    post = denoise(model, y, omega, v, tol=1e-6)
    g = post.g_out
    squares = np.einsum("nam,nbm->nab", g, g) + np.einsum("nambm->nab", post.dg_out)
    for values in (g, squares):
        mean, sigma = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(mean) <= 5 * sigma).all()


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("layers", [1, 2])
def test_density_of_the_readout_integrates_to_one(activation: str, layers: int) -> None:
    """Over the half plane of v, where log_z is its density up to the sign; Gauss-Hermite far wider than the law."""
    model = Attention(layers, activation=activation, skip=0.7)
    rng = np.random.default_rng(layers)
    omega = 0.5 * rng.standard_normal((layers, 2))
    v = np.eye(layers) * 0.8 if layers == 1 else np.array([[0.8, 0.2], [0.2, 0.5]])
    # v = t R with R a direction; the density falls off no slower than exp(-|v|^{2/3}) for linear, two layers.
    x = np.linspace(-9.0, 9.0, 181) if activation == "softmax" or layers == 1 else np.linspace(-11.0, 11.0, 221)
    if activation == "linear" and layers == 2:
        points, jacobian = np.sinh(x), np.cosh(x)
        keep = np.abs(points) < 400
        points, jacobian = points[keep], jacobian[keep]
        step = x[1] - x[0]
    else:
        points, jacobian, step = x, np.ones_like(x), x[1] - x[0]
    a, b = np.meshgrid(points, points, indexing="ij")
    weight = np.outer(jacobian, jacobian) * step**2
    rows = np.stack([a, b], axis=-1)
    half = (a > 0) | ((a == 0) & (b > 0))
    log_z = denoise_readout(model, rows[half], omega, v, tol=1e-8).log_z
    assert float((np.exp(log_z) * weight[half]).sum()) == pytest.approx(1.0, abs=2e-3)


def test_zero_at_zero_field() -> None:
    for activation in ("softmax", "linear"):
        model = Attention(activation=activation)
        y, _, _ = draw(model, np.zeros((2, 2)), 50, 3)
        assert np.abs(denoise(model, y, np.zeros((2, 2)), np.eye(2)).g_out).max() < 1e-13


def test_symmetries_and_batching() -> None:
    model = Attention(skip=0.6, beta=1.7)
    y, omega, v = draw(model, np.array([[0.3, 0.1], [0.1, 0.5]]), 60, 4)
    post = denoise(model, y, omega, v)
    flipped = denoise(model, y, omega * np.array([[1.0], [-1.0]]), v * np.array([[1, -1], [-1, 1]]))
    np.testing.assert_allclose(flipped.g_out, post.g_out * np.array([[1.0], [-1.0]]), rtol=0, atol=1e-9)
    swapped = denoise(model, y[:, ::-1, ::-1], omega[:, :, ::-1], v)
    np.testing.assert_allclose(swapped.g_out, post.g_out[:, :, ::-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(swapped.log_z, post.log_z, atol=1e-9)
    one = denoise(model, y[7], omega[7], v, workers=1)
    np.testing.assert_array_equal(one.g_out, post.g_out[7])
    assert post.dg_out.shape == (60, 2, 2, 2, 2)
    np.testing.assert_allclose(post.dg_out, np.transpose(post.dg_out, (0, 3, 4, 1, 2)), atol=1e-9)


def test_derivative_is_that_of_the_denoiser() -> None:
    """Central differences in omega: error h^2 and rounding 1e-12/h, together below 1e-7 at h = 1e-4."""
    model = Attention()
    y, omega, v = draw(model, np.array([[0.4, 0.2], [0.2, 0.6]]), 6, 5)
    post = denoise(model, y, omega, v)
    step = 1e-4
    for p in range(2):
        for m in range(2):
            move = np.zeros((2, 2))
            move[p, m] = step
            up, down = denoise(model, y, omega + move, v), denoise(model, y, omega - move, v)
            slope = (up.g_out - down.g_out) / (2 * step)
            np.testing.assert_allclose(slope, post.dg_out[:, :, :, p, m], atol=1e-6 * np.abs(post.dg_out).max())
            np.testing.assert_allclose((up.log_z - down.log_z) / (2 * step), post.g_out[:, p, m], atol=1e-5)


def test_one_layer_in_closed_form() -> None:
    """Depth 1, three tokens: posterior of h = +-v by direct weights."""
    model = Attention(1, 3)
    v = np.array([[0.6]])
    # y fixes h up to its sign, so h is +-v with weights exp(+-omega.v/V).
    rng = np.random.default_rng(6)
    omega = np.sqrt(0.4) * rng.standard_normal((40, 1, 3))
    h = omega + np.sqrt(0.6) * rng.standard_normal((40, 1, 3))
    post = denoise(model, model.link(h), omega, v)
    field = (omega * h).sum(axis=(1, 2)) / 0.6
    up = 1 / (1 + np.exp(-2 * field))
    mean = (2 * up - 1)[:, None, None] * h
    np.testing.assert_allclose(post.g_out, (mean - omega) / 0.6, atol=1e-9)
    spread = np.einsum("nam,nbr->nambr", h, h) - np.einsum("nam,nbr->nambr", mean, mean)
    prior = np.eye(3)[None, :, None, :] / 0.6
    np.testing.assert_allclose(post.dg_out, spread / 0.36 - prior, atol=1e-8)


GOOD = np.array([[0.7, 0.3], [0.2, 0.8]])
ZERO = np.zeros((2, 2))


def refusals() -> Iterator[Any]:
    nan = GOOD.copy()
    nan[0, 0] = np.nan
    yield pytest.param(np.array([[0.3, 0.7], [0.6, 0.4]]), ZERO, np.eye(2), UnreachableOutputError, "177", id="sum > 1")
    yield pytest.param(
        np.array([[0.7, 0.2], [0.2, 0.8]]), ZERO, np.eye(2), UnreachableOutputError, "sum to 1", id="rows"
    )
    yield pytest.param(nan, ZERO, np.eye(2), UnreachableOutputError, "finite", id="nan")
    yield pytest.param(np.array([[1.0, 0.0], [0.2, 0.8]]), ZERO, np.eye(2), UnreachableOutputError, "range", id="zero")
    yield pytest.param(np.ones((3, 3)) / 3, ZERO, np.eye(2), ValueError, "shape", id="y shape")
    yield pytest.param(GOOD, np.zeros((2, 3)), np.eye(2), ValueError, "omega", id="omega shape")
    yield pytest.param(GOOD, np.full((2, 2), np.inf), np.eye(2), ValueError, "omega", id="omega inf")
    yield pytest.param(GOOD, ZERO, np.eye(3), ValueError, "V must have shape", id="V shape")
    yield pytest.param(GOOD, ZERO, np.array([[1.0, 2.0], [2.0, 1.0]]), ValueError, "semi-definite", id="V not PSD")
    yield pytest.param(GOOD, ZERO, np.array([[1.0, 1.0], [1.0, 1.0]]), ValueError, "rank deficient", id="V singular")
    yield pytest.param(GOOD, ZERO, np.array([[1.0, 0.1], [0.0, 1.0]]), ValueError, "symmetric", id="V not symmetric")
    yield pytest.param(GOOD, ZERO, np.full((2, 2), np.nan), ValueError, "finite", id="V nan")


@pytest.mark.parametrize(("y", "omega", "v", "error", "word"), list(refusals()))
def test_bad_input(y: np.ndarray, omega: np.ndarray, v: np.ndarray, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        denoise(Attention(), y, omega, v)


def test_bad_input_of_other_kinds() -> None:
    with pytest.raises(UnreachableOutputError, match="violated"):
        denoise(Attention(activation="linear"), np.array([[1.0, 0.5], [0.5, 1.0]]), ZERO, np.eye(2))
    with pytest.raises(UnreachableOutputError, match="rank one"):
        denoise(Attention(activation="linear"), np.zeros((2, 2)), ZERO, np.eye(2))
    with pytest.raises(ValueError, match="tol"):
        denoise(Attention(), GOOD, ZERO, np.eye(2), tol=1.0)
    with pytest.raises(KernelNotFoundError, match="depth"):
        denoise(Attention(3), GOOD, np.zeros((3, 2)), np.eye(3))
