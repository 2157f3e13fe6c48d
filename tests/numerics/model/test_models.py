"""The model object: its link against the symbolic one and a forward pass at finite D, its symmetries, its errors."""

import math
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import mixing as symbolic
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.primitives import elementary
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.core.identity import source_hash, sources
from attnlimits.numerics.model.kernels import available_kernels, load_package
from attnlimits.numerics.model.network import ACTIVATIONS, CHART_WORKER, Network, kernel
from attnlimits.numerics.thresholds.last_layer import one_layer

CASES = [
    (1, 2, 1, "softmax"),
    (2, 2, 1, "softmax"),
    (2, 2, 1, "linear"),
    (3, 2, 1, "softmax"),
    (2, 3, (1, 2), "softmax"),
    (3, 4, (2, 1, 2), "linear"),
]


def direct(x: np.ndarray, weights: list[np.ndarray], model: Network) -> np.ndarray:
    """Forward pass (2)-(3) on tokens as rows, entry by entry, without the mixing matrices."""
    state, d = x.T.copy(), x.shape[0]
    for number, w in enumerate(weights):
        scores = np.array([[(w @ a) @ (w @ b) / d for b in state] for a in state]) * model.beta
        if model.activation == "softmax":
            attention = np.array(
                [[1 / sum(math.exp(z - row[j]) for z in row) for j in range(len(row))] for row in scores]
            )
        else:
            attention = scores
        if number == len(weights) - 1:
            return attention
        state = model.skip * state + attention @ state
    raise AssertionError


@pytest.mark.parametrize(("layers", "tokens", "rank", "activation"), CASES)
@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.3, 2.5)])
def test_link_is_the_forward_pass_at_finite_dimension(layers, tokens, rank, activation, skip, beta, rng) -> None:
    model = Network(layers, tokens, rank, skip, beta, activation)
    d = 30
    x = rng.standard_normal((d, tokens))
    weights = [rng.standard_normal((r, d)) for r in model.ranks]
    h = np.concatenate(weights) @ x / math.sqrt(d)
    expected = direct(x, weights, model)
    # sums of 30 products, a few layers: some hundred roundings relative to the largest entry
    np.testing.assert_allclose(model.link(h), expected, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.slow_for("3-2-1-softmax")
@pytest.mark.parametrize(("layers", "tokens", "rank", "activation"), [c for c in CASES if c[0] < 3 or c[3] != "linear"])
def test_link_is_the_symbolic_link(layers, tokens, rank, activation, rng) -> None:
    model = Network(layers, tokens, rank, 0.5, 2.0, activation)
    h = rng.standard_normal((model.indices, tokens)).round(3)
    exact = Architecture(layers, tokens, rank, activation, skip=sp.Rational(1, 2), beta=sp.Integer(2))
    rows, start = [], 0
    for r in exact.rank_vector:
        rows.append(sp.Matrix(r, tokens, lambda i, j, s=start: sp.Float(str(h[s + i, j]), 30)))
        start += r
    value = np.array(elementary(symbolic.link(exact, tuple(rows))).evalf(20), dtype=float)
    np.testing.assert_allclose(model.link(h), value, rtol=1e-12)  # some hundred roundings


def test_mixing_matrix_and_link_agree_and_batches_broadcast(rng) -> None:
    model = Network(3, 2, (1, 2, 1), 0.7, 1.3)
    h = rng.standard_normal((5, 4, model.indices, 2))
    v = h[..., -1:, :] @ np.swapaxes(model.mixing(h), -1, -2)
    scores = model.beta * np.swapaxes(v, -1, -2) @ v
    weights = np.exp(scores)
    np.testing.assert_allclose(model.link(h), weights / weights.sum(axis=-1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(model.link(h)[2, 3], model.link(h[2, 3]))
    moved = h.copy()
    moved[..., -1, :] += 1.0  # the last layer's indices are no part of the mixing
    np.testing.assert_array_equal(model.mixing(moved), model.mixing(h))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_symmetries_of_the_link(activation, rng) -> None:
    model = Network(3, 3, (2, 1, 1), 0.8, 1.1, activation)
    h = rng.standard_normal((model.indices, 3))
    y = model.link(h)
    scale = np.abs(y).max()
    for layer in range(3):
        flipped = h.copy()
        flipped[[[0, 1], [2], [3]][layer]] *= -1
        np.testing.assert_allclose(model.link(flipped), y, atol=1e-12 * scale)
    turn, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    turned = h.copy()
    turned[:2] = turn @ h[:2]
    np.testing.assert_allclose(model.link(turned), y, atol=1e-12 * scale)
    order = [2, 0, 1]
    np.testing.assert_allclose(model.link(h[:, order]), y[np.ix_(order, order)], atol=1e-12 * scale)


def test_softmax_rows_sum_to_one_without_overflow() -> None:
    y = Network(2).link(np.array([[300.0, -200.0], [1e3, 1e-3]]))
    assert np.isfinite(y).all()
    np.testing.assert_allclose(y.sum(axis=1), 1.0, rtol=1e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_first_layer_of_the_compiled_kernel_is_that_of_the_model(activation, rng) -> None:
    model = Network(2, 2, 1, 0.4, 1.7, activation)
    h = rng.standard_normal((50, 2, 2))
    rotation = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    modes = rotation @ model.mixing(h) @ rotation
    vp, vm = (h[:, 0] @ rotation).T
    a = kernel(model, "numpy64").layer(vp, vm, model.skip, model.beta)
    for entry, value in zip(a, modes.reshape(50, 4).T, strict=True):
        np.testing.assert_allclose(entry * np.ones(50), value, atol=1e-13 * np.abs(modes).max())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"layers": 0}, "layers"),
        ({"layers": -1}, "layers"),
        ({"layers": True}, "layers"),
        ({"layers": 2.0}, "layers"),
        ({"tokens": 1}, "tokens"),
        ({"tokens": True}, "tokens"),
        ({"tokens": "2"}, "tokens"),
        ({"rank": 0}, "rank"),
        ({"rank": True}, "rank"),
        ({"rank": (1,)}, "rank"),
        ({"rank": (1, 0)}, "rank"),
        ({"rank": (1, 1, 1)}, "rank"),
        ({"skip": 0.0}, "skip"),
        ({"skip": -1.0}, "skip"),
        ({"skip": math.nan}, "skip"),
        ({"skip": math.inf}, "skip"),
        ({"skip": True}, "skip"),
        ({"skip": "1"}, "skip"),
        ({"beta": 0.0}, "beta"),
        ({"beta": -2}, "beta"),
        ({"beta": math.nan}, "beta"),
        ({"beta": False}, "beta"),
        ({"beta": None}, "beta"),
        ({"activation": "relu"}, "activation"),
        ({"activation": ""}, "activation"),
    ],
)
def test_bad_arguments_are_named(arguments, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Network(**arguments)


@pytest.mark.parametrize(
    "h", [np.zeros(2), np.zeros((1, 2)), np.zeros((2, 3)), np.full((2, 2), math.nan), np.full((2, 2), math.inf)]
)
def test_bad_indices_are_named(h) -> None:
    for method in (Network().link, Network().mixing):
        with pytest.raises(ValueError, match="h must"):
            method(h)


def test_fields_are_normalised() -> None:
    model = Network(np.int64(3), 2, (1, 1, 1), 1, np.float32(2))
    assert (model.layers, model.rank, model.ranks, model.indices) == (3, 1, (1, 1, 1), 3)
    assert isinstance(model.skip, float) and isinstance(model.beta, float) and isinstance(model.layers, int)
    assert Network(3, 2, (1, 2, 1)).ranks == (1, 2, 1)
    assert "L=3" in model.describe() and "beta=2" in model.describe()
    assert model == Network(3, beta=2.0)


def test_kernels_are_listed_and_missing_ones_say_what_exists() -> None:
    families = [k for k in available_kernels() if str(k["name"]).startswith("attention_")]
    listed = {(k["activation"], k["tokens"]): k for k in families}
    assert set(listed) == {("softmax", 2), ("linear", 2)}
    for activation in ACTIVATIONS:
        model = Network(activation=activation)
        assert model.kernel_hash == listed[activation, 2]["hash"] and len(model.kernel_hash) == 64
        for printer in ("numpy64", "numba64", "mp", "posterior64"):
            assert kernel(model, printer).__name__.endswith(printer)
    for model in (Network(2, 3), Network(2, 2, 2)):
        with pytest.raises(KernelNotFoundError, match="generated so far: softmax, M=2"):
            kernel(model, "numpy64")


def test_models_without_a_generated_kernel_have_an_identity() -> None:
    """Of the link and the posterior: one for each route, and not that of a kernel that does not serve them."""
    one, several = Network(1, 3).kernel_hash, Network(2, 3).kernel_hash
    served = {Network(activation=activation).kernel_hash for activation in ACTIVATIONS}
    assert len(one) == len(several) == 64
    assert one != several and not {one, several} & served
    assert Network(1, 3, beta=2.0, activation="linear").kernel_hash == one
    # The generated kernels are those of rank 1.
    assert Network(1, 2, 2).kernel_hash == one
    numerics = ("model.network", "posterior.charts.posterior", "posterior.data.chart")
    charts = source_hash(*(f"attnlimits.numerics.{name}" for name in numerics), CHART_WORKER)
    assert Network(2, 2, 2).kernel_hash == Network(2, 2, tied=False).kernel_hash == charts != several
    assert Network(1, 3, 4).kernel_hash == Network(1, 3, 2, tied=False).kernel_hash == charts
    # What derives a chart has a part in its numbers.
    assert "attnlimits.derive.charts" in sources(CHART_WORKER)
    assert Network(1, 3).kernel_hash == source_hash("attnlimits.numerics.posterior.fibres")
    assert one_layer(3).kernel_hash == source_hash("attnlimits.numerics.thresholds.exact")


def test_packages_load_by_name_and_what_is_missing_is_named(tmp_path: Path) -> None:
    assert load_package("attention_tied_linear_m2", "numpy64").link is not None
    for name, printer in (("nothing", "numpy64"), ("attention_tied_linear_m2", "fortran")):
        with pytest.raises(KernelNotFoundError, match="generated packages: aim_channels, attention_tied_linear_m2"):
            load_package(name, printer)
    # Folders hold what `attnlimits derive` wrote: see tests/derive/test_links.py.
    (tmp_path / "mp.py").write_text("raise SystemExit('executed')\n", encoding="utf-8")
    with pytest.raises(KernelNotFoundError, match="its name must end with the hash of its files"):
        load_package(tmp_path, "mp")
