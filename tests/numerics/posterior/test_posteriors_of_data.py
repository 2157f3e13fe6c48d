"""Scores of data: each kind of output channel beside another way to the same posterior."""

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.core.errors import KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.data.deep import DeepPosterior
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.protocol import Settings


def drawn(model, q, n, rng):
    """(y, omega, V) of n samples of the channel at overlap q."""
    p, m = model.indices, model.tokens
    v = np.eye(p) - q
    omega = matrix_root(q) @ rng.standard_normal((n, p, m))
    h = omega + np.linalg.cholesky(v) @ rng.standard_normal((n, p, m))
    return model.link(h), omega, v


@pytest.mark.parametrize(
    ("model", "q"),
    [
        (Network(1, 3), np.array([[0.4]])),
        (Network(2, 2), np.array([[0.2, 0.05], [0.05, 0.6]])),
        (Network(2, 2, activation="linear"), np.diag([0.1, 0.7])),
    ],
    ids=["L=1", "L=2", "L=2 linear"],
)
def test_scores_and_slopes_are_those_of_the_denoiser(model, q, rng):
    y, omega, v = drawn(model, q, 12, rng)
    wanted = denoise(model, y, omega, v)
    g, curvature = posterior(model, y, tol=1e-10)(omega, v, slice(0, 12))
    assert g == pytest.approx(wanted.g_out, abs=1e-8)
    assert curvature == pytest.approx(-np.einsum("nambm->ab", wanted.dg_out), abs=1e-7)


def test_rows_are_those_asked_for(rng):
    model = Network(2, 2)
    y, omega, v = drawn(model, np.diag([0.1, 0.5]), 20, rng)
    output = posterior(model, y)
    whole, _ = output(omega, v, slice(0, 20))
    part, _ = output(omega[5:9], v, slice(5, 9))
    assert part == pytest.approx(whole[5:9], abs=1e-13)


@pytest.mark.parametrize("tokens", [2, 3])
def test_sampled_posterior_agrees_with_the_rule(tokens, rng):
    """Two layers of two tokens have a rule to compare with; three tokens other nodes."""
    model = Network(2, tokens)
    y, omega, v = drawn(model, np.diag([0.3, 0.6]), 64, rng)
    g, slopes = DeepPosterior(model, y, Settings(1e-5, 8192, rng))(omega, v, slice(0, 64))
    assert slopes is None
    if tokens == 2:
        wanted, _ = posterior(model, y)(omega, v, slice(0, 64))
    else:
        wanted, _ = DeepPosterior(model, y, Settings(1e-5, 8192, np.random.default_rng(1)))(omega, v, slice(0, 64))
    # Random nodes: a typical error of 1/sqrt(8192) standard deviations of h, some times that where weights vary.
    assert np.sqrt(((g - wanted) ** 2).mean()) < 0.1


@pytest.mark.parametrize(
    ("layer", "v"),
    [
        (Network(1, 3, 2), 0.6 * np.eye(2)),
        (Network(1, 2, 2), 0.3 * np.eye(2)),
        (Network(1, 3, 3, activation="linear"), 0.5 * np.eye(3)),
        (Network(1, 2, 1, activation="softmax", tied=False), np.array([[0.5, 0.1], [0.1, 0.8]])),
        (Network(1, 3, 1, activation="linear", tied=False), np.array([[0.5, -0.1], [-0.1, 0.3]])),
        (Network(1, 2, 1, activation="softmax", tied=False, beta=2.0), 0.05 * np.eye(2)),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else "",
)
def test_layers_agree_with_the_integral_over_the_fibre(layer, v, rng):
    y, omega, v = drawn(layer, np.eye(len(v)) - v, 4, rng)
    model = (
        layer if not layer.tied else Network(1, layer.tokens, layer.rank, beta=layer.beta, activation=layer.activation)
    )
    g, _ = posterior(model, y)(omega, v, slice(0, 4))
    for k in range(2):
        wanted = np.linalg.solve(v, fibre_moments(layer, y[k], omega[k], v, tol=1e-9).mean - omega[k])
        # The rules of `fibre_channel` are made for averages: 1e-6 of the scale of the indices.
        assert g[k] == pytest.approx(wanted, abs=3e-5)


def test_a_link_that_is_a_linear_layer(rng):
    """y_11 = h_1^2 and y_12 = h_1 h_2 are all of linear attention with two tokens."""
    kernel = kernel_of("h[1,1]**2; h[1,1]*h[1,2]")
    model = Network(1, 2, activation="linear")
    y, omega, v = drawn(model, np.array([[0.3]]), 50, rng)
    g, curvature = posterior(kernel, np.stack([y[:, 0, 0], y[:, 0, 1]], axis=1))(omega, v, slice(0, 50))
    wanted, slopes = posterior(model, y)(omega, v, slice(0, 50))
    assert g == pytest.approx(wanted, abs=1e-9)
    assert curvature == pytest.approx(slopes, abs=1e-7)


def test_a_discrete_link(rng):
    """y = sign(h): the posterior mean of a truncated Gaussian, omega + s y phi(omega/s)/Phi(y omega/s)."""
    from scipy.stats import norm

    kernel = kernel_of("sign(h[1])")
    y, omega, v = drawn(kernel, np.array([[0.6]]), 100, rng)
    g, _ = posterior(kernel, y[:, 0].astype(int))(omega, v, slice(0, 100))
    s = np.sqrt(v[0, 0])
    ratio = omega[:, 0, 0] / s
    wanted = y[:, 0] * norm.pdf(ratio) / norm.cdf(y[:, 0] * ratio) / s
    assert g[:, 0, 0] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("text", ["h[1]**2 + sign(h[1]*h[2])", "abs(h[1]) + h[2]; sign(h[2])"])
def test_scores_of_links_obey_nishimori(text, rng):
    """E g = 0 and E g g^T = E g (V^{-1}(h - omega))^T, with the true h."""
    kernel = kernel_of(text)
    q = np.array([[0.5, 0.1], [0.1, 0.3]])
    v, n = np.eye(2) - q, 4000
    omega = matrix_root(q) @ rng.standard_normal((n, 2, 1))
    h = omega + np.linalg.cholesky(v) @ rng.standard_normal((n, 2, 1))
    g, _ = posterior(kernel, kernel.link(h))(omega, v, slice(0, n))
    u = np.linalg.solve(v, h - omega)
    products = g[:, :, None, 0] * (g - u)[:, None, :, 0]
    assert (np.abs(g.mean(axis=0)) < 4 * g.std(axis=0) / np.sqrt(n)).all()
    assert (np.abs(products.mean(axis=0)) < 4 * products.std(axis=0) / np.sqrt(n) + 0.02).all()


def test_what_no_indices_give_is_named(rng):
    model = Network(1, 2)
    y = model.link(rng.standard_normal((9, 1, 2)))
    y[5] = [[0.2, 0.8], [0.9, 0.1]]
    with pytest.raises(UnreachableOutputError, match=r"Y, sample 5: y_12 \+ y_21 must be <= 1"):
        posterior(model, y)
    y = model.link(rng.standard_normal((9, 1, 2)))
    y[7, 0, 0] = np.nan
    with pytest.raises(ValueError, match="first is number 7"):
        posterior(model, y)
    with pytest.raises(UnreachableOutputError, match=r"sample 2: .* is no output of this link"):
        posterior(kernel_of("sign(h[1])"), [1.0, -1.0, 0.5])
    with pytest.raises(ValueError, match=r"Y must have shape \(N, 2, 2\)"):
        posterior(model, np.ones((3, 4)))
    with pytest.raises(KernelNotFoundError, match="linear of two layers"):
        posterior(Network(3, 2, 2, activation="linear"), np.ones((3, 2, 2)))
