"""Last-layer thresholds against closed forms, plain nested quadrature, Monte Carlo, and their own claims."""

import math
import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.last_layer import MAX_DIGITS, last_layer, one_layer, proved_last_layer
from attnlimits.numerics.thresholds.last_layer_sums import linear_mixing, linear_two_layers, softmax

from ..posterior.weak_recovery import weak_recovery_threshold

Array = NDArray[np.float64]


# --- closed forms -----------------------------------------------------------------------------------------------


def test_a_form_is_called_exact_only_where_it_is() -> None:
    closed = one_layer(2)
    assert next(closed.lines()).endswith(" = 1/6 exactly")
    assert next(replace(closed, how="estimated").lines()).endswith(" = 1/6")


@pytest.mark.parametrize("tokens", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_one_layer_is_exact(tokens: int, activation: str) -> None:
    result = last_layer(Network(1, tokens, skip=0.3, beta=4.0, activation=activation), digits=12)
    exact = Fraction(1, tokens * (tokens + 1))
    assert result.exact == str(exact)
    assert result.how == "rigorous" and result.converged
    # the error is that of the rounded decimal, itself a float64 difference
    assert abs(Fraction(result.value) - exact) <= Fraction(result.error + 1e-17)
    assert result.error < 1e-12
    assert result.operator_norm == tokens * (tokens + 1)
    assert result.subspace == "layer 1"
    np.testing.assert_array_equal(result.eigenvector, [[1.0]])


# Against the formulas of their closed forms, tests/numerics/posterior/test_fibres.py samples those marked slow, too.
@pytest.mark.parametrize(
    ("tokens", "rank", "tied"),
    [
        (3, 2, True),
        (3, 1, False),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2, 2, True), (2, 1, False))),
    ],
)
def test_one_layer_against_the_operator_on_its_fibres(tokens: int, rank: int, tied: bool) -> None:
    """The exact form against samples of the operator (15), whose moments are integrals over the fibre of y."""
    result = one_layer(tokens, rank, tied=tied)
    layer = Network(1, tokens, rank, activation="softmax", tied=tied, beta=1.0)
    sampled = weak_recovery_threshold(layer, rng=1, log2_samples=7, tol=1e-6)
    assert sampled.how == "monte-carlo"
    assert abs(sampled.value - float(result.value)) < 4 * sampled.error
    assert sampled.error < 0.05 * sampled.value
    eigenvector = result.eigenvector
    assert np.linalg.norm(eigenvector) == pytest.approx(1.0, abs=1e-15)
    assert (np.diag(eigenvector) > 0).all()


# --- two layers: plain nested quadrature in token space ---------------------------------------------------------


def inner_grid(model: Network, step: float) -> tuple[Array, Array]:
    """First-layer nodes of one half plane: B_1^{-1}, shape (n, 2, 2), and (probability)/|det B_1|, shape (n,)."""
    x = step * np.arange(-math.ceil(8.6 / step), math.ceil(8.6 / step) + 1)
    h = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = step**2 * np.exp(-0.5 * (h**2).sum(axis=1)) / (2 * math.pi)
    # h_1 -> -h_1 leaves B_1 as it is.
    weight *= np.where(h[:, 0] > 0, 2.0, np.where(h[:, 0] < 0, 0.0, 1.0))
    keep = weight > 1e-17
    b = model.mixing(np.stack([h[keep], h[keep]], axis=1))
    return np.linalg.inv(b), weight[keep] / np.abs(np.linalg.det(b))


def integrand(v: Array, inverse: Array, weight: Array) -> float:
    """|| N ||_F^2 / Z with Z the density of v and N = Z (E[h_2 h_2^T | v] - I)."""
    h = inverse @ v
    mass = weight * np.exp(-0.5 * (h**2).sum(axis=1)) / (2 * math.pi)
    z = mass.sum()
    n = (h * mass[:, None]).T @ h - z * np.eye(2)
    return float((n**2).sum() / z) if z > 1e-80 else 0.0


def nested_softmax(model: Network, step: float) -> float:
    """1/threshold by panels in v_1 - v_2, where the scale c appears, and trapezoid in v_1 + v_2."""
    inverse, weight = inner_grid(model, step)
    least = model.skip / (1 + model.skip)
    top = 8.6 * (1 + model.skip)
    edges = [0.0]
    edge = 0.5 * least
    while edge < top:
        edges.append(edge)
        edge *= 2
    nodes, weights = np.polynomial.legendre.leggauss(14)
    total = 0.0
    plus_step = 0.3 * (1 + model.skip)
    for low, high in zip(edges, [*edges[1:], top], strict=True):
        half = 0.5 * (high - low)
        for node, w in zip(nodes, weights, strict=True):
            minus = low + half * (1 + node)
            for k in range(math.ceil(17 * (1 + model.skip) / plus_step)):
                v = np.array([k * plus_step + minus, k * plus_step - minus]) / math.sqrt(2)
                # four quadrants: v -> -v and the exchange of the tokens
                total += (2 if k == 0 else 4) * w * half * plus_step * integrand(v, inverse, weight)
    return total


def nested_linear(model: Network, step: float) -> float:
    """1/threshold: the integrand depends on |v| alone; trapezoid in its logarithm."""
    inverse, weight = inner_grid(model, step)
    log_step = 0.08
    top = math.log(8.6 * (model.skip + model.beta * 8.6**2))
    log_r = np.arange(math.log(model.skip) - 16.0, top, log_step)
    direction = np.array([math.cos(0.3), math.sin(0.3)])
    values = [r * r * integrand(r * direction, inverse, weight) for r in np.exp(log_r)]
    return 2 * math.pi * log_step * float(np.sum(values))


# step of h_1: the kernel's nearest singularity is at a distance of about 1/sqrt(beta) (softmax) or sqrt(c/beta).
@pytest.mark.slow_for("0.05-0.2-0.2")
@pytest.mark.parametrize(("skip", "beta", "step"), [(10.0, 0.2, 0.4), (0.05, 0.2, 0.2)])
def test_softmax_against_plain_nested_quadrature(skip: float, beta: float, step: float) -> None:
    model = Network(skip=skip, beta=beta)
    assert nested_softmax(model, step) == pytest.approx(last_layer(model).operator_norm, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("skip", "beta", "step"),
    [(1.0, 1.0, 0.2), (0.05, 1.0, 0.12), (0.05, 5.0, 0.052), (1.0, 5.0, 0.055), (10.0, 5.0, 0.08)],
)
def test_softmax_against_plain_nested_quadrature_at_the_corners(skip: float, beta: float, step: float) -> None:
    model = Network(skip=skip, beta=beta)
    assert nested_softmax(model, step) == pytest.approx(last_layer(model).operator_norm, rel=1e-9)


@pytest.mark.slow_for("10.0-0.2-0.3", "2.0-5.0-0.1", "0.2-0.2-0.16")
@pytest.mark.parametrize(
    ("skip", "beta", "step"), [(1.0, 1.0, 0.16), (10.0, 0.2, 0.3), (2.0, 5.0, 0.1), (0.2, 0.2, 0.16)]
)
def test_linear_against_plain_nested_quadrature(skip: float, beta: float, step: float) -> None:
    model = Network(skip=skip, beta=beta, activation="linear")
    assert nested_linear(model, step) == pytest.approx(last_layer(model).operator_norm, rel=1e-9)


@pytest.mark.slow_for("0.2-3.0-linear", "0.2-3.0-softmax", "10.0-0.2-linear", "10.0-0.2-softmax")
@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.2, 3.0), (10.0, 0.2)])
def test_against_the_denoiser_at_zero_overlap(activation: str, skip: float, beta: float) -> None:
    """The operator (15) is the mean square of d g_out at omega = 0, V = I: Monte Carlo over the outputs."""
    model = Network(skip=skip, beta=beta, activation=activation)
    means = []
    for stream in np.random.default_rng(20250201).spawn(8):
        h = normal_qmc(4, 7, stream).reshape(-1, 2, 2)
        v = (h[:, 1:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0]
        dg = denoise_readout(model, v, np.zeros((2, 2)), np.eye(2), tol=1e-6, workers=1).dg_out
        means.append((dg[:, 1, :, 1, :] ** 2).sum(axis=(1, 2)).mean())
        # by parity the layers do not mix at first order (184)
        assert np.abs(dg[:, 0, :, 1, :]).max() < 1e-5
    sigma = np.std(means, ddof=1) / math.sqrt(8)
    assert abs(np.mean(means) - last_layer(model).operator_norm) < 4 * sigma  # Student, 7 degrees: p = 0.005
    assert sigma < 0.1 * np.mean(means)


# --- digits, errors, speed --------------------------------------------------------------------------------------


def test_known_digits_of_the_two_layer_threshold() -> None:
    result = last_layer(Network(), digits=12)
    # three independent computations agree on these (nested quadrature above, the denoiser, high precision)
    assert result.value == "0.185477840607"
    assert result.error < 1e-12 and result.converged and result.exact is None
    assert result.how == "estimated" and result.subspace == "layer 2"
    assert result.operator_norm == pytest.approx(1 / 0.185477840607, rel=1e-11)
    np.testing.assert_array_equal(result.eigenvector, np.diag([0.0, 1.0]))
    assert result.kernel_hash == Network().kernel_hash and "attnlimits" in result.versions


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_fewer_digits_are_the_rounded_prefix(activation: str) -> None:
    model = Network(skip=1.0, beta=0.7, activation=activation)
    full = last_layer(model, digits=12)
    assert full.converged and full.error < 1e-12
    for digits in (1, 6):
        result = last_layer(model, digits=digits)
        unit = 10.0 ** (math.floor(math.log10(float(full.value))) - digits + 1)
        assert len(result.value.replace("0.", "", 1).lstrip("0")) == digits
        # half a unit from rounding and what the coarser refinement may be off by
        assert abs(float(result.value) - float(full.value)) <= 0.5 * unit * (1 + 1e-6) + result.error
        assert abs(float(result.value) - float(full.value)) <= result.error + full.error
        if digits == 6:
            assert result.value == f"{float(full.value):#.6g}"
    more = last_layer(model, digits=MAX_DIGITS)
    assert abs(float(more.value) - float(full.value)) <= more.error + full.error


MODULE = "attnlimits.numerics.thresholds.last_layer"
# Much attention beside what is skipped; the test above has some in between, and the other corners are among the slow
# ones.
EASY = [(0.05, 0.2)]
PAIRS = [(c, beta) for c in (0.05, 0.3, 1.0, 3.0, 10.0) for beta in (0.2, 0.7, 2.0, 5.0)]


@pytest.mark.parametrize(
    ("activation", "pairs"),
    [
        ("softmax", EASY),
        pytest.param("linear", EASY, marks=pytest.mark.slow),
        pytest.param("softmax", PAIRS, marks=pytest.mark.slow),
        pytest.param("linear", PAIRS, marks=pytest.mark.slow),
    ],
    ids=["softmax", "linear", "softmax-all", "linear-all"],
)
def test_twelve_digits_across_the_range(activation: str, pairs: list[tuple[float, float]], record_property) -> None:
    seconds = []
    for skip, beta in pairs:
        start = time.perf_counter()
        result = last_layer(Network(skip=skip, beta=beta, activation=activation), digits=12)
        seconds.append(time.perf_counter() - start)
        assert result.converged, (skip, beta, result.status)
        # a threshold above one has its twelfth digit in the eleventh decimal
        limit = 1e-12 if float(result.value) < 1 else 1e-11
        assert result.error < limit, (skip, beta, result.error)
    record_property("seconds", seconds)
    print(f"{activation}: {len(pairs)} thresholds, {max(seconds):.2f} s at most, {sum(seconds):.1f} s together")


def test_skip_and_temperature_scale_out_of_the_linear_model() -> None:
    """B is a multiple of c at fixed beta/c, and a multiple of h does not change what is learned: alpha(beta/c)."""
    # At every level: the rules depend on beta/c as well.
    values = [linear_two_layers(Network(skip=s, beta=b, activation="linear"), 1) for s, b in ((2, 1), (6, 3))]
    assert values[0] == pytest.approx(values[1], rel=1e-11)


# tests/numerics/thresholds/test_strong_skip.py has the next order, too.
@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_many_skips_reach_the_one_layer_threshold(activation: str) -> None:
    """For c -> infinity the hidden layer no longer hides anything: a known matrix to first order in 1/c, undone."""
    gaps = [float(last_layer(Network(skip=skip, activation=activation)).value) - 1 / 6 for skip in (50.0, 200.0)]
    assert 0 < gaps[1] < 0.35 * gaps[0]  # second order in 1/c: a sixteenth


# --- three layers -----------------------------------------------------------------------------------------------


def monte_carlo_norm(model: Network, outer: int, inner: int, rng: np.random.Generator) -> float:
    """E || E[h_L h_L^T | y] - I ||_F^2 with the posterior as two independent weighted means over the hidden layers."""
    h = normal_qmc(2 * model.layers, int(math.log2(outer)), rng).reshape(-1, model.layers, 2)
    v = (h[:, -1:] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0]
    estimates = []
    for _ in range(2):
        hidden = normal_qmc(2 * model.layers - 2, int(math.log2(inner)), rng).reshape(-1, model.layers - 1, 2)
        b = model.mixing(np.concatenate([hidden, np.zeros((inner, 1, 2))], axis=1))
        inverse, det = np.linalg.inv(b), np.abs(np.linalg.det(b))
        parts = []
        for part in np.array_split(v, max(1, outer // 64)):
            x = np.einsum("kij,nj->ink", inverse, part)
            exponent = -0.5 * (x**2).sum(axis=0)
            w = np.exp(exponent - exponent.max(axis=1, keepdims=True)) / det
            w /= w.sum(axis=1, keepdims=True)
            parts.append(np.moveaxis(x * w, 0, 1) @ np.moveaxis(x, 0, 2))
        estimates.append(np.concatenate(parts) - np.eye(2))
    return float((estimates[0] * estimates[1]).sum(axis=(1, 2)).mean())


@pytest.mark.parametrize("layers", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_depth_against_monte_carlo(layers: int) -> None:
    model = Network(layers)
    values = [monte_carlo_norm(model, 512, 1024, s) for s in np.random.default_rng(layers).spawn(8)]
    sigma = np.std(values, ddof=1) / math.sqrt(8)
    assert sigma < 0.02 * np.mean(values)
    # The coarsest level, which has eight digits and more; Student, 7 degrees: p = 0.005
    assert abs(np.mean(values) - softmax(model, 0)) < 4 * sigma


@pytest.mark.slow
def test_three_layers_to_many_digits() -> None:
    result = last_layer(Network(3), digits=10)
    assert result.converged and result.error < 1e-10
    assert float(result.value) == pytest.approx(0.2071772247, abs=2e-10)  # obtained by adaptive recursion at 1e-12
    values = [monte_carlo_norm(Network(3), 4096, 4096, s) for s in np.random.default_rng(3).spawn(16)]
    sigma = np.std(values, ddof=1) / 4
    assert sigma < 0.008 * np.mean(values)
    assert abs(np.mean(values) - 1 / float(result.value)) < 3 * sigma


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of the points, with errors that are stated as so much larger."""
    monkeypatch.setattr(
        "attnlimits.numerics.thresholds.last_layer_sums.normal_qmc",
        lambda dimension, log2_n, rng: normal_qmc(dimension, log2_n - 3, rng),
    )


@pytest.mark.usefixtures("few_points")
def test_linear_depth_four_states_an_honest_error() -> None:
    model = Network(4, skip=2.0, beta=0.1, activation="linear")
    first, second = last_layer(model, digits=2, rng=1), last_layer(model, digits=12, rng=2)
    assert first.how == second.how == "monte-carlo"
    # the stated errors are three standard errors and the bias each
    assert abs(1 / first.operator_norm - 1 / second.operator_norm) < first.error + second.error
    assert not second.converged and "12 digits were not reached" in second.status
    assert second.error < 0.1 * float(second.value)


@pytest.mark.usefixtures("few_points")
def test_linear_depth_four_at_a_small_skip_keeps_the_small_singular_values() -> None:
    """Below the rounding of the large ones some are lost in the matrix itself: its determinant has them."""
    model = Network(4, skip=0.01, activation="linear")
    points = normal_qmc(7, 10, np.random.default_rng(1))
    b, determinant = linear_mixing(model, points)
    stretch = np.linalg.svd(b, compute_uv=False)
    seen = stretch[:, 1] > 1e-6 * stretch[:, 0]
    assert 100 < seen.sum() < len(seen)
    np.testing.assert_allclose(determinant[seen], stretch[seen].prod(axis=1), rtol=1e-8)
    found = last_layer(model, digits=4, rng=1)
    assert not found.converged and 0 < found.operator_norm < math.inf and 0 < found.error < math.inf


@pytest.mark.slow
def test_a_seed_decides_linear_depth_four():
    model = Network(4, skip=2.0, beta=0.1, activation="linear")
    first, again = (last_layer(model, digits=2, rng=1) for _ in range(2))
    assert first.value == again.value


@pytest.mark.slow
def test_linear_depth_three_against_monte_carlo() -> None:
    # a weak attention tames the weights of the plain estimate; no hidden layer at all would give 6
    model = Network(3, beta=0.05, activation="linear")
    values = [monte_carlo_norm(model, 1024, 8192, s) for s in np.random.default_rng(5).spawn(8)]
    sigma = np.std(values, ddof=1) / math.sqrt(8)
    assert sigma < 0.01 * np.mean(values)
    result = last_layer(model, digits=4)
    assert result.converged and result.how == "estimated"
    assert abs(np.mean(values) - result.operator_norm) < 4 * sigma + result.error * result.operator_norm**2


# --- errors -----------------------------------------------------------------------------------------------------


def test_one_layer_without_a_closed_form_is_named() -> None:
    with pytest.raises(KernelNotFoundError, match="untied layer of rank 2"):
        one_layer(3, 2, tied=False)
    with pytest.raises(ValueError, match="activation must be one of"):
        one_layer(3, activation="relu")
    with pytest.raises(ValueError, match="digits must be an integer from 1 to 40"):
        one_layer(3, digits=41)


@pytest.mark.parametrize(
    ("model", "most"),
    [(Network(4, activation="linear"), 13), (Network(3), 22), (Network(2, 3), 22), (Network(2), 50)],
)
@pytest.mark.parametrize("digits", [0, -1, 51, True, 6.0, "6", math.nan])
def test_bad_digits_are_named(model: Network, most: int, digits: object) -> None:
    with pytest.raises(ValueError, match=f"digits must be an integer from 1 to {most} for tied"):
        last_layer(model, digits=digits)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Network(3, 3, output="sequence"), "attention of the last layer as output"),
        (Network(2, activation=np.tanh), "no last-layer threshold for tied tanh"),
        (Network(3, 4, activation="linear"), "linear of two"),
    ],
)
def test_missing_models_are_named(model: Network, words: str) -> None:
    with pytest.raises(KernelNotFoundError, match=words):
        last_layer(model)


@pytest.mark.parametrize(
    ("layers", "value"),
    [(2, "0.1855"), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((3, "0.2072"), (4, "0.2284")))],
)
def test_sums_of_float64_that_miss_their_digits_are_replaced(
    monkeypatch: pytest.MonkeyPatch, layers: int, value: str
) -> None:
    """At every depth that has more precise sums; at three layers the next test needs them, too."""
    monkeypatch.setattr(
        "attnlimits.numerics.thresholds.last_layer.softmax", lambda model, level: 4.8 + 0.01 * (-1) ** level
    )
    result = last_layer(Network(layers), digits=4)
    assert result.converged and result.value == value
    assert result.error < 0.5e-4


def test_a_norm_next_to_a_rounding_boundary_is_decided_at_three_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha = 0.20717722470..: sums with an error of 2e-9 of it may round to 0.20717723."""
    norm = 4.826785383528
    monkeypatch.setattr(
        "attnlimits.numerics.thresholds.last_layer.softmax", lambda model, level: norm * (1 - 2e-9 * level)
    )
    assert last_layer(Network(3), digits=8).value == "0.20717722"


def test_proved_digits_are_those_of_the_estimate() -> None:
    model = Network(skip=5.0)  # where a proof takes a second; the README and its test have c = 1
    proved, enclosure = proved_last_layer(model, digits=5)
    assert proved.how == "rigorous"
    assert proved.value == last_layer(model, digits=5).value
    assert float(enclosure.lower) < last_layer(model, digits=12).operator_norm ** -1 < float(enclosure.upper)
    # The error holds the interval and the rounding.
    worst = max(abs(Fraction(end) - Fraction(proved.value)) for end in (enclosure.lower, enclosure.upper))
    assert float(worst) == proved.error
    assert proved.error < 0.6e-5
    assert enclosure.lower in proved.status


def test_a_straddled_rounding_boundary_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []

    def straddling(model: Network, *, width: float, progress: bool) -> SimpleNamespace:
        made.append(width)
        return SimpleNamespace(lower="0.12345", upper="0.12355")

    monkeypatch.setattr("attnlimits.numerics.thresholds.last_layer.enclose_last_layer", straddling)
    with pytest.raises(ConvergenceError, match=r"4 digits .* not decided by \[0.12345, 0.12355\]"):
        proved_last_layer(Network(), digits=4)
    assert len(made) == 2 and made[1] < made[0]


def test_what_cannot_be_proved_is_refused() -> None:
    with pytest.raises(KernelNotFoundError, match="two softmax layers"):
        proved_last_layer(Network(layers=3), digits=3)
    for digits in (0, 51, True, 2.0):
        with pytest.raises(ValueError, match="digits must be an integer from 1 to 50"):
            proved_last_layer(Network(), digits=digits)
