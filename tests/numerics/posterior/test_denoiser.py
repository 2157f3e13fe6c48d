"""The float64 denoiser: reference values, exact identities by quadrature over y, derivatives, shapes, extremes."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.core.validation import softmax_rows
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise, denoise_readout
from attnlimits.numerics.posterior.readout import invert_readout

EPS = np.finfo(float).eps
REFERENCE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "denoiser_reference.json").read_text(encoding="utf-8")
)


def draw(model: Network, V: np.ndarray, omega: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One output of the channel for each omega."""
    return model.link(omega + np.linalg.cholesky(V) @ rng.standard_normal(omega.shape))


@pytest.mark.parametrize("category", sorted({case["category"] for case in REFERENCE}))
def test_reference(category: str) -> None:
    """1e-10 with the default tolerance; V^{-1} also magnifies the rounding of the nodes, in d g_out twice."""
    cases = [case for case in REFERENCE if case["category"] == category]
    assert len(cases) == 24  # two activations, four c, three beta
    worst = np.zeros(3)
    for case in cases:
        model = Network(2, 2, 1, case["skip"], case["beta"], case["activation"])
        made = denoise(model, case["y"], case["omega"], case["V"])
        g, dg = np.array(case["g_out"], float), np.array(case["dg_out"], float)
        # g_out = 0 exactly where omega = 0: measured against the prior's own scale.
        size = max(np.abs(g).max(), 1.0) if not np.any(case["omega"]) else np.abs(g).max()
        errors = np.array(
            [
                abs(made.log_z - float(case["log_z"])),
                np.abs(made.g_out.ravel() - g).max() / size,
                np.abs(made.dg_out.ravel() - dg).max() / np.abs(dg).max(),
            ]
        )
        allowed = 1e-10 + EPS * np.array([1.0, 1.0, 50 * np.linalg.cond(np.array(case["V"]))])
        if category != "near-singular":
            allowed[:] = 1e-10
        assert (errors <= allowed).all(), (case, errors)
        worst = np.maximum(worst, errors)
    print(f"{category}: log_z {worst[0]:.1e}, g_out {worst[1]:.1e}, d g_out {worst[2]:.1e}")


def test_reference_is_precise() -> None:
    """Every entry states its error: 21 digits of `denoise_mp`, or 1e-15 of extended precision."""
    assert len(REFERENCE) >= 200
    exact = [case for case in REFERENCE if case["how"] == "mp"]
    assert len(exact) >= 100
    for case in REFERENCE:
        assert case["error"] <= (1e-21 if case["how"] == "mp" else 1e-15)
    # Two independent computations; V^{-1} magnifies what the extended one leaves.
    for case in exact:
        assert case["check"] <= 1e-15 * max(1e3, 10 * np.linalg.cond(np.array(case["V"])))


# Nodes and steps of a trapezoidal rule over half of the plane of v: y is the same at -v.
def plane(activation: str, layers: int) -> tuple[np.ndarray, np.ndarray]:
    if activation == "linear" and layers == 2:
        # |v| grows as |h|^3, so tails fall as exp(-|v|^(2/3)): a sinh map.
        x = 0.115 * (np.arange(-40, 40) + 0.5)
        points, weights = np.sinh(x), 0.115 * np.cosh(x)
    else:
        count = 32 if layers == 1 else 50
        points = 0.22 * (np.arange(-count, count) + 0.5)
        weights = np.full_like(points, 0.22)
    half = points > 0
    rows = np.stack(np.meshgrid(points[half], points, indexing="ij"), axis=-1).reshape(-1, 2)
    return rows, np.outer(weights[half], weights).ravel()


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("layers", [1, 2])
def test_exact_identities(activation: str, layers: int) -> None:
    """Z_out integrates to one, E g_out = 0, E[g g^T] = -E[d g_out]: no sampling, so to the accuracy of the rule."""
    model = Network(layers, skip=0.9, beta=0.8, activation=activation)
    omega = np.array([[0.3, -0.2], [0.4, 0.1]])[-layers:]
    V = np.array([[0.45, 0.1], [0.1, 0.4]])[-layers:, -layers:]
    rows, weights = plane(activation, layers)
    post = denoise_readout(model, rows, omega, V, tol=1e-9)
    law = weights * np.exp(post.log_z)
    assert law.sum() == pytest.approx(1.0, abs=1e-7)
    mean = np.einsum("n,nam->am", law, post.g_out)
    assert np.abs(mean).max() < 1e-7
    squares = np.einsum("n,nam,nbr->ambr", law, post.g_out, post.g_out)
    slopes = np.einsum("n,nambr->ambr", law, post.dg_out)
    assert np.abs(squares).max() > 0.1
    assert np.abs(squares + slopes).max() < 1e-6 * np.abs(slopes).max()


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_measure_of_y(activation: str, rng: np.random.Generator) -> None:
    """log_z of y and of v differ by the logarithm of |d y/d v|, here by central differences of the link."""
    model, one = Network(activation=activation, beta=1.4), Network(1, activation=activation, beta=1.4)
    V, omega = np.array([[0.6, 0.2], [0.2, 0.5]]), np.zeros((2, 2))
    entries = ((0, 1), (1, 0)) if activation == "softmax" else ((0, 0), (0, 1))
    for v in rng.standard_normal((20, 2)):
        jacobian = np.empty((2, 2))
        for k in range(2):
            step = 1e-5 * np.eye(2)[k]
            change = one.link((v + step)[None]) - one.link((v - step)[None])
            jacobian[:, k] = [change[entry] / 2e-5 for entry in entries]
        expected = denoise_readout(model, v, omega, V).log_z - math.log(abs(np.linalg.det(jacobian)))
        # Differences of order 1e-10, larger where the determinant is small.
        assert denoise(model, one.link(v[None]), omega, V).log_z == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_derivatives(activation: str, rng: np.random.Generator) -> None:
    """d log_z = g_out and d g_out by five-point differences in omega: truncation and rounding are below 1e-9."""
    model = Network(skip=0.7, activation=activation)
    V = np.array([[0.6, 0.15], [0.15, 0.4]])
    omega = rng.standard_normal((12, 2, 2))
    y = draw(model, V, omega, rng)
    post = denoise(model, y, omega, V, tol=1e-14)
    step = 4e-3
    for p in range(2):
        for m in range(2):
            move = np.zeros((2, 2))
            move[p, m] = step
            at = {k: denoise(model, y, omega + k * move, V, tol=1e-14) for k in (-3, -2, -1, 1, 2, 3)}
            weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}

            def slope(name: str, at: dict[int, DenoiserResult] = at, weights: dict[int, float] = weights) -> Any:
                return sum(w * (getattr(at[k], name) - getattr(at[-k], name)) for k, w in weights.items()) / step

            scale = np.abs(post.dg_out).max(axis=(1, 2, 3, 4))
            assert (np.abs(slope("log_z") - post.g_out[:, p, m]) < 1e-8 * (1 + scale)).all()
            off = np.abs(slope("g_out") - post.dg_out[:, :, :, p, m]).max(axis=(1, 2))
            assert (off < 1e-8 * (1 + scale)).all(), (off, scale)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_symmetries(activation: str, rng: np.random.Generator) -> None:
    """A sign per layer, a swap of the tokens, and no field at omega = 0."""
    model = Network(skip=0.4, beta=2.0, activation=activation)
    V = np.array([[0.7, -0.2], [-0.2, 0.3]])
    omega = rng.standard_normal((40, 2, 2))
    y = draw(model, V, omega, rng)
    post = denoise(model, y, omega, V)
    size = np.abs(post.g_out).max(axis=(1, 2), keepdims=True)
    for signs in (np.array([1.0, -1.0]), np.array([-1.0, 1.0]), np.array([-1.0, -1.0])):
        other = denoise(model, y, signs[:, None] * omega, np.outer(signs, signs) * V)
        assert (np.abs(other.g_out - signs[:, None] * post.g_out) <= 1e-10 * size).all()
        np.testing.assert_allclose(other.log_z, post.log_z, rtol=0, atol=1e-10)
    swapped = denoise(model, y[:, ::-1, ::-1], omega[:, :, ::-1], V)
    assert (np.abs(swapped.g_out[:, :, ::-1] - post.g_out) <= 1e-10 * size).all()
    still = denoise(model, y, np.zeros((2, 2)), V)
    assert np.abs(still.g_out).max() < 1e-9 * np.abs(np.linalg.inv(V)).max()


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_batches_threads_and_broadcasting(activation: str, rng: np.random.Generator) -> None:
    model = Network(activation=activation)
    V = np.stack([np.eye(2) * 0.5, np.array([[0.6, 0.3], [0.3, 0.4]])])
    omega = rng.standard_normal((70, 1, 2, 2))
    y = draw(model, V[0], omega[:, 0], rng)[:, None]
    whole = denoise(model, y, omega, V, workers=1)
    assert whole.log_z.shape == whole.error.shape == (70, 2)
    assert whole.g_out.shape == (70, 2, 2, 2) and whole.dg_out.shape == (70, 2, 2, 2, 2, 2)
    assert (whole.error <= 1e-11).all()
    threads = denoise(model, y, omega, V, workers=3)
    for name in ("log_z", "g_out", "dg_out", "error"):
        np.testing.assert_array_equal(getattr(threads, name), getattr(whole, name))
    for n, k in ((0, 0), (13, 1), (69, 0)):
        one = denoise(model, y[n, 0], omega[n, 0], V[k])
        assert one.log_z.shape == () and one.g_out.shape == (2, 2)
        np.testing.assert_array_equal(one.g_out, whole.g_out[n, k])
        np.testing.assert_array_equal(one.dg_out, whole.dg_out[n, k])
    symmetric = np.transpose(whole.dg_out, (0, 1, 4, 5, 2, 3))
    np.testing.assert_allclose(whole.dg_out, symmetric, rtol=0, atol=1e-13 * np.abs(whole.dg_out).max())
    none = denoise(model, y[:0], omega[:0], V)
    assert none.g_out.shape == (0, 2, 2, 2)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("size", [30.0, 1e3])
def test_extremes(activation: str, size: float, rng: np.random.Generator) -> None:
    """Large means, large readout rows, unlikely ones: finite numbers, or an error that says why."""
    model = Network(activation=activation, skip=0.5)
    V = np.array([[0.5, 0.1], [0.1, 0.5]])
    finite = 0
    for n in range(12):
        omega = size * rng.uniform(-1, 1, (2, 2)) * (n % 3 != 0)
        v = size * rng.uniform(-1, 1, 2) * (n % 4 != 0) + rng.standard_normal(2)
        try:
            post = denoise_readout(model, v, omega, V, tol=1e-6)
        except ConvergenceError as refusal:
            assert "narrow" in str(refusal) or "underflows" in str(refusal) or "tolerance" in str(refusal)
            continue
        finite += 1
        assert np.isfinite(post.log_z) and np.isfinite(post.g_out).all() and np.isfinite(post.dg_out).all()
    assert finite >= 3


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_likely_readouts_of_large_means(activation: str, rng: np.random.Generator) -> None:
    """|omega| = 1e3 and v drawn from it; the answer does not depend on the tolerance."""
    model = Network(activation=activation, beta=1e-3)
    V = np.diag([0.5, 0.4])
    for _ in range(5):
        omega = 1e3 * rng.choice([-1.0, 1.0], (2, 2)) + rng.standard_normal((2, 2))
        h = omega + np.linalg.cholesky(V) @ rng.standard_normal((2, 2))
        v = h[1] @ model.mixing(h).T
        coarse, fine = (denoise_readout(model, v, omega, V, tol=tol) for tol in (1e-8, 1e-13))
        size = np.abs(np.linalg.inv(V)).max()
        assert np.abs(coarse.g_out - fine.g_out).max() < 1e-6 * size
        assert abs(coarse.log_z - fine.log_z) < 1e-6


GOOD = [[0.7, 0.3], [0.2, 0.8]]
ZERO, EYE = np.zeros((2, 2)), np.eye(2)
SOFTMAX, LINEAR = Network(), Network(activation="linear")


@pytest.mark.parametrize(
    ("model", "y", "omega", "V", "tol", "error", "word"),
    [
        (SOFTMAX, [[0.4, 0.6], [0.5, 0.5]], ZERO, EYE, 1e-9, UnreachableOutputError, "y_12 [+] y_21"),
        (SOFTMAX, [[0.7, 0.31], [0.2, 0.8]], ZERO, EYE, 1e-9, UnreachableOutputError, "sum to 1"),
        (SOFTMAX, [[np.nan, 0.3], [0.2, 0.8]], ZERO, EYE, 1e-9, UnreachableOutputError, "finite"),
        (SOFTMAX, [[1.0, 0.0], [0.2, 0.8]], ZERO, EYE, 1e-9, UnreachableOutputError, "entries"),
        (SOFTMAX, [[1.2, -0.2], [0.2, 0.8]], ZERO, EYE, 1e-9, UnreachableOutputError, "entries"),
        (SOFTMAX, [[0.5, 0.5], [0.5, 0.5]], ZERO, EYE, 1e-9, UnreachableOutputError, "edge"),
        (LINEAR, [[1.0, 0.5], [0.5, 1.0]], ZERO, EYE, 1e-9, UnreachableOutputError, "violated"),
        (LINEAR, [[-1.0, 0.0], [0.0, 0.0]], ZERO, EYE, 1e-9, UnreachableOutputError, "rank one"),
        (SOFTMAX, GOOD, ZERO, [[1.0, 2.0], [2.0, 1.0]], 1e-9, ValueError, "semi-definite"),
        (SOFTMAX, GOOD, ZERO, [[1.0, 1.0], [1.0, 1.0]], 1e-9, ValueError, "rank deficient"),
        (SOFTMAX, GOOD, ZERO, [[1.0, 0.0], [0.0, 0.0]], 1e-9, ValueError, "rank deficient"),
        (SOFTMAX, GOOD, ZERO, [[1.0, 0.2], [0.0, 1.0]], 1e-9, ValueError, "symmetric"),
        (SOFTMAX, GOOD, ZERO, np.eye(3), 1e-9, ValueError, "V must have shape"),
        (SOFTMAX, GOOD, ZERO, 0.5, 1e-9, ValueError, "V must have shape"),
        (SOFTMAX, GOOD, np.zeros((2, 3)), EYE, 1e-9, ValueError, "omega must have shape"),
        (SOFTMAX, GOOD, [[np.inf, 0.0], [0.0, 0.0]], EYE, 1e-9, ValueError, "omega must be finite"),
        (SOFTMAX, np.full((3, 3), 1 / 3), ZERO, EYE, 1e-9, ValueError, "y must have shape"),
        (SOFTMAX, GOOD, ZERO, EYE, 1e-15, ValueError, "tol"),
        (SOFTMAX, GOOD, ZERO, EYE, 0.1, ValueError, "tol"),
        (SOFTMAX, GOOD, ZERO, EYE, 1, ValueError, "tol"),
        (SOFTMAX, GOOD, ZERO, EYE, math.nan, ValueError, "tol"),
        (Network(3), GOOD, np.zeros((3, 2)), np.eye(3), 1e-9, KernelNotFoundError, "depth"),
        (Network(rank=2), GOOD, np.zeros((4, 2)), np.eye(4), 1e-9, ValueError, "rank 1"),
    ],
)
def test_bad_input(model: Any, y: Any, omega: Any, V: Any, tol: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        denoise(model, y, omega, V, tol=tol)


def test_readout_row_is_checked() -> None:
    for bad in ([1.0, 2.0, 3.0], [np.nan, 1.0], 1.0):
        with pytest.raises(ValueError, match="v must be finite"):
            denoise_readout(SOFTMAX, bad, ZERO, EYE)


@pytest.mark.parametrize("tokens", [2, 3])
def test_rows_of_single_precision(tokens, rng):
    """They sum to one within 1e-7 only, are divided by their sum, and keep the posterior to the rounding of log y."""
    model = Network(1, tokens, 1)
    v = np.array([[0.9, -0.4, 0.3], [0.2, 1.1, -0.7]])[:, :tokens]
    y = model.link(v[:, None, :])
    single = y.astype(np.float32)
    assert np.abs(single.astype(np.float64).sum(axis=-1) - 1).max() > 1e-9
    found, wanted = (invert_readout(model, rows)[0] for rows in (single, y))
    assert np.abs(np.abs(found) - np.abs(wanted)).max() < 2e-6
    with pytest.raises(UnreachableOutputError, match="sum to 1"):
        invert_readout(model, single * np.float32(1 + 1e-5))
    # In float64 rows within 1e-9 are as they were.
    assert softmax_rows(y) is y
