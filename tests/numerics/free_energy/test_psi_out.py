"""Psi_out: direct against the integral of its gradient, closed forms, the operator, and its behaviour near recovery."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.linear import LinearChannel, linear_map
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.free_energy import output_entropy
from attnlimits.numerics.free_energy.integral import along_path
from attnlimits.numerics.free_energy.solved import generic_rank, solved_entries
from attnlimits.numerics.free_energy.two_layers import TwoLayerEntropy
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.quadrature.rules import normal_qmc

LINKS = [("h[1]**2", "0"), ("sign(h[1])", "0"), ("max(h[1],0)", "0"), ("h[1]**3-h[1]", "0"), ("h[1]**2", "0.3")]


def one(value):
    return np.array([[float(value)]])


def slope(function, q, step):
    """Derivative along the last overlap, by differences of fourth order."""

    def at(shift):
        moved = q.copy()
        moved[-1, -1] += shift * step
        return function(moved)[-1]

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


# --- the gradient ---------------------------------------------------------------------------------------------------


# Direct values under noise are also those of a noisy line, below.
@pytest.mark.slow_for("h[1]**2-0.3")
@pytest.mark.parametrize(
    ("text", "noise", "q"), [(*link, q) for link in LINKS for q in ((0.2, 0.7, 0.95) if link[1] == "0" else (0.6,))]
)
def test_the_derivative_of_direct_values_is_half_of_g(text, noise, q):
    output = output_entropy(kernel_of(text, noise=noise))
    assert output.route == "direct"
    if noise == "0":
        found = slope(output.channel.log_density, one(q), 2e-3 * (1 - q))
    else:
        # A value takes a second: differences of second order, which are off by 1e-7 of it at this step.
        low, high = (output.channel.log_density(one(q + shift))[-1] for shift in (-1e-4, 1e-4))
        found = (high - low) / 2e-4
    gradient = 0.5 * output.averages(one(q)).g[:, 0, 0].mean()
    assert found == pytest.approx(gradient, rel=1e-6)


@pytest.mark.parametrize("tokens", [2, 3, 5])
@pytest.mark.parametrize("q", [0.1, 0.6, 0.99])
def test_the_same_for_one_layer(tokens, q):
    output = output_entropy(Network(1, tokens))
    found = slope(output.channel.log_density, one(q), 1e-3 * (1 - q))
    assert found == pytest.approx(output.gradient(one(q))[0][0, 0], rel=1e-6)


@pytest.mark.slow_for("0.0-0.9")
@pytest.mark.parametrize(("q1", "q2"), [(0.0, 0.3), (0.0, 0.9)])
def test_the_same_for_two_layers(q1, q2):
    model, q = Network(), np.diag([q1, q2])
    entropy, averages = TwoLayerEntropy(model, 1e-9, 1), TwoLayerQuadrature(model, 1e-8, 1)
    found = slope(entropy.log_density, q, 0.02 * (1 - q2))
    assert found == pytest.approx(0.5 * averages.refinements(q)[0, 1], abs=1e-6 / (1 - q2))


# --- two routes -----------------------------------------------------------------------------------------------------


# Of the others the derivative, above, takes a tenth of the time.
@pytest.mark.parametrize(
    ("text", "noise"), [*LINKS[:3], *(pytest.param(*link, marks=pytest.mark.slow) for link in LINKS[3:])]
)
def test_the_integral_of_the_gradient_is_the_direct_value(text, noise):
    output = output_entropy(kernel_of(text, noise=noise))
    for q in (0.3, 0.999) if noise == "0" else (0.6,):
        direct, path = output.value(one(q)), along_path(output.channel, one(q), order=8 if noise == "0" else 6)
        allowed = direct.error + np.ptp(path.values) + 2 * path.rule + 1e-9
        assert direct.value == pytest.approx(path.values.mean(), abs=allowed)
        # the rule over a few nodes under noise is the loosest
        assert allowed < 5e-4


@pytest.mark.parametrize("q", [(0.0, 0.5), (0.4, 0.7)])
def test_the_same_over_two_layers(q):
    output = output_entropy(Network(skip=0.7), accuracy=1e-3, workers=1)
    direct, path = output.value(np.diag(q)), along_path(output.channel, np.diag(q), order=5)
    allowed = direct.error + 0.5 * np.ptp(path.values) + path.rule
    assert direct.value == pytest.approx(path.values.mean(), abs=allowed)
    assert allowed < 1e-2  # what is asked for: the averages are good to 1e-3 of values of one to ten


def test_routes_are_told_and_may_be_chosen():
    kernel = kernel_of("h[1]**2")
    other = output_entropy(kernel, route="integral of the gradient")
    assert other.route == "integral of the gradient"
    assert other.value(one(0.5)).value == pytest.approx(output_entropy(kernel).value(one(0.5)).value, abs=1e-6)
    untied = Network(1, 2, 1, activation="softmax", tied=False)
    assert output_entropy(untied, samples=64).route == "integral of the gradient"
    with pytest.raises(ValueError, match="no direct log Z_out"):
        output_entropy(untied, samples=64, route="direct")


# --- closed forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.0, 0.4, 0.99])
def test_a_sign_is_the_known_integral(q):
    """Psi_out = 2 E H(a z) log H(a z), a = sqrt(q/(1 - q))."""
    a = math.sqrt(q / (1 - q))
    density = lambda z: math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)  # noqa: E731
    expected = 2 * quad(lambda z: density(z) * ndtr(a * z) * log_ndtr(a * z), -9, 9, epsabs=1e-13, points=[0])[0]
    channel_ = output_entropy(kernel_of("sign(h[1])")).channel
    assert channel_.log_density(one(q))[-1] == pytest.approx(expected, abs=1e-9)


def test_a_noisy_line_has_its_closed_form_by_quadrature_and_exactly():
    kernel = kernel_of("h[1]", noise="0.5")
    output = output_entropy(kernel)
    assert isinstance(output.channel, LinearChannel)
    general = LinkChannel(kernel, samples=16, replicas=2, rng=np.random.default_rng(0))
    for q in (0.0, 0.9):
        expected = -0.5 * (math.log(2 * math.pi * (1 - q + 0.5)) + 1)
        assert output.channel.log_density(one(q))[0] == pytest.approx(expected, abs=1e-14)
        # the ball that the three normals are averaged over leaves out 1e-9
        assert general.log_density(one(q))[-1] == pytest.approx(expected, abs=1e-8)


def test_many_noisy_lines_are_a_gaussian_channel(rng):
    kernel = kernel_of("h[1,1] + 2*h[2,1] - h[1,2]; h[2,1] - h[2,2]", noise="0.3")
    b = linear_map(kernel)
    assert b is not None
    line = LinearChannel(kernel, b)
    root = rng.standard_normal((2, 2))
    q = 0.9 * root @ root.T / np.linalg.norm(root @ root.T, 2)
    step, way = 1e-4, np.array([[0.2, 0.3], [0.3, -0.1]])
    change = (line.log_density(q + step * way)[0] - line.log_density(q - step * way)[0]) / (2 * step)
    assert change == pytest.approx(0.5 * np.trace(line(q).g[0] @ way), rel=1e-6)
    change = (line(q + step * way).g[0] - line(q - step * way).g[0]) / (2 * step)
    assert np.einsum("ijkl,kl->ij", line.operator(q)[1][0], way) == pytest.approx(change, rel=1e-5)


@pytest.mark.parametrize("text", ["h[1]**2", "abs(h[1])", "max(h[1],0)", "h[1]*h[2]"])
def test_other_links_are_no_lines(text):
    assert linear_map(kernel_of(text)) is None


def test_a_line_without_noise_is_no_linear_channel():
    kernel = kernel_of("h[1]")
    with pytest.raises(ValueError, match="needs noise > 0"):
        LinearChannel(kernel, np.ones((1, 1, 1)))
    with pytest.raises(ValueError, match="needs noise > 0"):
        LinearChannel(replace(kernel, noise=0.0), np.ones((1, 1, 1)))


# --- recovery -------------------------------------------------------------------------------------------------------


def test_phase_retrieval_diverges_as_one_equation():
    """Psi_out(q) - Psi_out(0) = -log(1 - q)/2 - log 2 + o(1): the sign is all that is lost at q = 0."""
    output = output_entropy(kernel_of("h[1]**2"))
    for v in (1e-4, 1e-6):
        rest = output.value(one(1 - v)).value + 0.5 * math.log(v)
        # the sign is in doubt on a share sqrt(v) of the samples
        assert rest == pytest.approx(-math.log(2), abs=3 * math.sqrt(v))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Network(1, 3), 3),
        (Network(2, 2), 2),
        (Network(3, 2), 2),
        (Network(1, 3, 2), 5),
        (Network(1, 2, 2), 2),
        (Network(1, 2, 1, activation="softmax", tied=False), 2),
        (Network(1, 2, 1, activation="linear", tied=False), 3),
        (Network(1, 3, 1, activation="softmax", tied=False), 4),
    ],
)
def test_solved_entries_are_the_rank_of_the_jacobian(model, expected, rng):
    """P M less the dimension of the fibre, against the rank of the link itself."""
    averages = channel(model, samples=16, replicas=2, rng=rng) if not model.tied else None
    if averages is None:
        averages = type("Named", (), {"model": model, "solved": None})()
    assert solved_entries(averages) == expected
    h = rng.standard_normal((model.indices, model.tokens))
    columns = []
    for k in range(h.size):
        step = np.zeros(h.size)
        step[k] = 1e-6
        moved = step.reshape(h.shape)
        columns.append((model.link(h + moved) - model.link(h - moved)).ravel() / 2e-6)
    assert np.linalg.matrix_rank(np.array(columns).T, tol=1e-6) == expected


@pytest.mark.parametrize(
    ("text", "noise", "expected"),
    [("h[1]*h[2]", "0", 1.0), ("sign(h[1]*h[2])", "0", 0.0), ("h[1]**2; h[2]", "0", 2.0), ("h[1]*h[2]", "1", 0.0)],
)
def test_the_rank_of_a_link(text, noise, expected):
    assert generic_rank(kernel_of(text, noise=noise)) == expected


def test_half_of_a_rectified_line_is_solved():
    assert output_entropy(kernel_of("max(h[1],0)")).solved == pytest.approx(0.5, abs=1e-12)


# --- the Hessian ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "noise"), LINKS[:4])
def test_the_hessian_is_the_operator_at_q(text, noise):
    output = output_entropy(kernel_of(text, noise=noise))
    for q in (0.15, 0.8):
        second = slope(lambda at: 0.5 * output.averages(at).g[:, 0, 0].mean(keepdims=True), one(q), 3e-3 * (1 - q))
        assert output.hessian(np.array([q]))[0, 0] == pytest.approx(second, rel=1e-5)


def test_differences_of_g_agree_with_second_differences_of_log_z():
    output = output_entropy(Network(1, 3))
    q, step = 0.4, 2e-3
    values = [output.value(one(q + k * step)).value for k in (-1, 0, 1)]
    second = (values[0] - 2 * values[1] + values[2]) / step**2
    assert output.hessian(np.array([q]))[0, 0] == pytest.approx(second, rel=1e-4)
    assert output.hessian(np.zeros(1))[0, 0] == pytest.approx(0.5 * 12, rel=1e-12)


def test_over_two_layers_the_hessian_is_that_of_posterior_covariances(rng):
    """E sum dg dg^T by the denoiser over random outputs, against differences of the quadrature."""
    model, q = Network(), np.diag([0.3, 0.6])
    normals = normal_qmc(8, 10, rng).reshape(-1, 2, 2, 2)
    omega = matrix_root(q) @ normals[:, 0]
    h = omega + matrix_root(np.eye(2) - q) @ normals[:, 1]
    row = (h[:, 1:2] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0]
    dg = denoise_readout(model, row, omega, np.eye(2) - q, tol=1e-4, workers=1).dg_out
    each = 0.5 * np.einsum("nambk,nambk->nab", dg, dg)
    sigma = each.std(axis=0) / math.sqrt(len(each))
    found = output_entropy(model, accuracy=1e-4, workers=1).hessian(np.array([0.3, 0.6]))
    assert (np.abs(found - each.mean(axis=0)) <= 5 * sigma + 1e-3).all()


# --- properties -----------------------------------------------------------------------------------------------------

SQUARE, SIGN = (output_entropy(kernel_of(text)) for text in ("h[1]**2", "sign(h[1])"))


@settings(max_examples=15)
@given(a=st.floats(0, 0.99), b=st.floats(0, 0.99), share=st.floats(0, 1), square=st.booleans())
def test_psi_out_rises_and_is_convex(a, b, share, square):
    output = SQUARE if square else SIGN
    at, low, high = (output.value(one(q)).value for q in (share * a + (1 - share) * b, a, b))
    assert at <= share * low + (1 - share) * high + 1e-9
    assert (high - low) * (b - a) >= -1e-12
