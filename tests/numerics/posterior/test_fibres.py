"""Fibre integrals against the symbolic fibres, Monte Carlo identities, normalisation and closed forms."""

import itertools

import numpy as np
import pytest
import sympy as sp
from scipy.special import kv

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.fibres import entry_jacobian, fibre
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.readout import invert_readout

from .weak_recovery import threshold_of, weak_recovery_operator, weak_recovery_threshold

# (activation, tied, rank, tokens)
LAYERS = [
    ("softmax", True, 1, 2),
    ("softmax", True, 2, 2),
    ("softmax", True, 3, 2),
    ("softmax", True, 2, 3),
    ("linear", True, 2, 2),
    ("linear", True, 3, 2),
    ("linear", True, 2, 3),
    ("softmax", False, 1, 2),
    ("softmax", False, 1, 3),
    ("linear", False, 1, 2),
    ("linear", False, 1, 3),
]


def _layer(activation, tied, rank, tokens, beta=1.3):
    return Network(1, tokens, rank, activation=activation, tied=tied, beta=beta)


def _prior(layer, rng):
    root = 0.3 * rng.normal(size=(layer.indices, layer.indices))
    return 0.6 * rng.normal(size=(layer.indices, layer.tokens)), root @ root.T + 0.6 * np.eye(layer.indices)


def _draw(rng, omega, covariance, count):
    return omega + np.linalg.cholesky(covariance) @ rng.normal(size=(count, *omega.shape))


def _grid(variable, lower, upper):
    """Nodes and weights of one fibre variable: periodic, Gauss on (0, pi), trapezoid for shifts and scales."""
    if lower == 0 and upper == 2 * sp.pi:
        nodes = 2 * np.pi * np.arange(40) / 40
        return nodes, np.full(40, 2 * np.pi / 40)
    if lower == 0:
        nodes, weights = np.polynomial.legendre.leggauss(24)
        return np.pi * (nodes + 1) / 2, np.pi * weights / 2
    if variable.name.startswith("k"):
        # Scales of keys, |k| from e^-9 to e^3, of both signs.
        x = np.linspace(-9, 3, 1200)
        weights = np.exp(x) * (x[1] - x[0])
        return np.concatenate([np.exp(x), -np.exp(x)]), np.concatenate([weights, weights])
    nodes = np.linspace(-7.0, 7.0, 45)
    return nodes, np.full(45, nodes[1] - nodes[0])


@pytest.mark.slow_for("softmax-True-3-2")
@pytest.mark.parametrize(("activation", "tied", "rank", "tokens"), LAYERS)
def test_against_the_derived_fibre_by_a_plain_sum(activation, tied, rank, tokens, rng):
    """The symbolic readout and measure, summed over a product grid: no closed form of the shift, other pivots."""
    layer = _layer(activation, tied, rank, tokens)
    omega, covariance = _prior(layer, rng)
    y = layer.link(_draw(rng, omega, covariance, 1)[0])
    got = fibre_moments(layer, y, omega, covariance)
    found = fibre(Architecture(1, tokens, rank, activation, tied, beta=sp.Rational(13, 10)))
    names = dict(zip(found.output, y.ravel(), strict=True))
    data = {symbol: float(value.subs(names)) for symbol, value in found.data}
    readout = sp.lambdify([*found.variables, *found.signs], list(found.readout.subs(data)), "numpy", cse=True)
    measure = sp.lambdify([*found.variables, *found.signs], found.log_density.subs(data), "numpy")
    axes = [_grid(v, *r) for v, r in zip(found.variables, found.ranges, strict=True)]
    axes += [(np.array([1.0, -1.0]), np.ones(2)) for _ in found.signs]
    points = np.meshgrid(*[nodes for nodes, _ in axes], indexing="ij")
    log_weight = sum(np.log(w) for w in np.meshgrid(*[weights for _, weights in axes], indexing="ij"))
    shape = points[0].shape
    with np.errstate(divide="ignore"):
        h = np.stack([np.broadcast_to(e, shape).ravel() for e in readout(*points)], axis=-1)
        exponent = (log_weight + measure(*points)).ravel()
    h = h.reshape(-1, layer.indices, tokens)
    off = h - omega
    exponent = exponent - 0.5 * np.einsum("kpm,pq,kqm->k", off, np.linalg.inv(covariance), off, optimize=True)
    exponent -= 0.5 * tokens * np.linalg.slogdet(2 * np.pi * covariance)[1]
    weight = np.exp(exponent - exponent.max())
    log_z = np.log(weight.sum()) + exponent.max()
    if activation == "softmax" and tokens == 2:
        log_z -= float(sp.log(entry_jacobian(found)[1].subs(names)))
    weight /= weight.sum()
    # The plain grids end where the Gaussian is e^-20 and resolve it to about that.
    assert got.log_z == pytest.approx(log_z, abs=1e-7)
    np.testing.assert_allclose(got.mean, np.tensordot(weight, h, 1), atol=1e-6)
    second = np.einsum("k,kpm,kqn->pmqn", weight, h, h, optimize=True)
    np.testing.assert_allclose(got.second, second, atol=1e-6 * (1 + np.abs(second).max()))
    assert got.error <= 1e-10


@pytest.mark.slow_for("linear-True-3-2", "softmax-False-1-3", "linear-False-1-3")
@pytest.mark.parametrize(("activation", "tied", "rank", "tokens"), LAYERS)
def test_moments_are_conditional_expectations(activation, tied, rank, tokens, rng):
    """E[f(y) h h^T] = E[f(y) E[h h^T | y]] and the same for h, for several f, by Monte Carlo."""
    layer = _layer(activation, tied, rank, tokens, beta=0.7)
    omega, covariance = _prior(layer, rng)
    # Rotations of three dimensions take ten times as long; of fewer samples the errors are known as well.
    count = 150 if rank < 3 else 100
    h = _draw(rng, omega, covariance, count)
    y = layer.link(h)
    posterior = fibre_moments(layer, y, omega, covariance, tol=1e-6)
    rest = np.einsum("kpm,kqn->kpmqn", h, h) - posterior.second
    features = np.stack([np.ones(count), np.tanh(y[:, 0, 0]), np.cos(3 * y[:, 0, 1] - y[:, -1, 0]), y[:, 1, 0] > 0.3])
    for feature in features:
        for value in (rest, h - posterior.mean):
            flat = value.reshape(count, -1) * feature[:, None]
            sigma = flat.std(axis=0) / np.sqrt(count)
            # Up to 36 correlated entries and 4 features: 5 sigma; entries that y fixes vanish.
            assert (np.abs(flat.mean(axis=0)) <= 5 * sigma + 1e-6).all()
    # The test has something to see: the fibre leaves variance in every mean.
    assert (h - posterior.mean).std() > 0.05


def _softmax_pair(odds_1, odds_2):
    """Outputs of two tokens by the log-odds of their first columns."""
    entries = [1 / (1 + np.exp(-odds_1)), 1 / (1 + np.exp(odds_1)), 1 / (1 + np.exp(-odds_2)), 1 / (1 + np.exp(odds_2))]
    return np.stack(entries, axis=-1)


@pytest.mark.parametrize("rank", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_density_of_two_tied_tokens_is_normalised(rank, rng):
    layer = _layer("softmax", True, rank, 2, beta=0.25)
    omega, covariance = _prior(layer, rng)
    # C = |v_1 - v_2|^2 = s^2 and X = v_2 (v_1 - v_2) = s z cover the plane of (y_12, y_21).
    nodes, weights = np.polynomial.legendre.leggauss(28)
    s, z = np.meshgrid(5 * (nodes + 1), 8 * nodes, indexing="ij")
    area = np.outer(5 * weights, 8 * weights) * 2 * s**2
    odds_1, odds_2 = layer.beta * (s**2 + s * z), layer.beta * s * z
    # Beyond, an entry of y cannot be told from 1, and |v|^2 > 2 * 36/beta.
    keep = (np.abs(odds_1) < 36) & (np.abs(odds_2) < 36)
    y = _softmax_pair(odds_1, odds_2)[keep]
    got = fibre_moments(layer, y.reshape(-1, 2, 2), omega, covariance, tol=1e-6)
    density = np.exp(got.log_z) * y.prod(axis=-1) * layer.beta**2
    # A product of 28 Gauss nodes for a function with the width of the prior, a tenth of the range.
    assert (density * area[keep]).sum() == pytest.approx(1, abs=2e-4)


def test_density_of_two_untied_tokens_is_normalised(rng):
    layer = _layer("softmax", False, 1, 2, beta=0.25)
    omega, covariance = _prior(layer, rng)
    # T_a = k_a (q_1 - q_2) in polar coordinates with a logarithmic radius.
    x, phi = np.meshgrid(np.arange(-12, 4.6, 0.5), 2 * np.pi * (np.arange(12) + 0.5) / 12, indexing="ij")
    odds_1, odds_2 = layer.beta * np.exp(x) * np.cos(phi), layer.beta * np.exp(x) * np.sin(phi)
    keep = (np.abs(odds_1) < 36) & (np.abs(odds_2) < 36)
    y = _softmax_pair(odds_1, odds_2)[keep]
    got = fibre_moments(layer, y.reshape(-1, 2, 2), omega, covariance, tol=1e-6)
    density = np.exp(got.log_z) * y.prod(axis=-1) * layer.beta**2
    total = (density * np.exp(2 * x[keep])).sum() * 0.5 * 2 * np.pi / 12
    # The density of the radius is finite at zero: e^-12 of it is left out; 12 directions resolve the rest.
    assert total == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("tokens", [2, 3])
def test_rank_one_is_the_denoiser(activation, tokens, rng):
    layer = _layer(activation, True, 1, tokens)
    omega, covariance = _prior(layer, rng)
    y = layer.link(_draw(rng, omega, covariance, 5))
    got = fibre_moments(layer, y, omega, covariance)
    want = denoise(Network(1, tokens, 1, 1.0, 1.3, activation), y, omega, covariance)
    np.testing.assert_allclose((got.mean - omega) / covariance, want.g_out, rtol=1e-9, atol=1e-9)
    if tokens == 2:
        np.testing.assert_allclose(got.log_z, want.log_z, atol=1e-9)


@pytest.mark.parametrize(("rank", "tokens"), [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_closed_form_of_tied_moments_without_a_mean(rank, tokens, activation, rng):
    """At omega = 0, V = I: E[h_m h_n^T|y] = (K_mn + (r - M + 1)_+ /M) I/r, K the least Gram matrix (softmax)."""
    layer = _layer(activation, True, rank, tokens)
    h = rng.normal(size=(rank, tokens))
    gram = h.T @ h
    if activation == "softmax" and rank >= tokens:
        # y does not see a shift of all tokens orthogonal to their differences; it is N(0, I/M) on r - M + 1 dimensions.
        differences = h[:, :-1] - h[:, -1:]
        inside = differences @ np.linalg.pinv(differences) @ h
        gram = inside.T @ inside + (rank - tokens + 1) / tokens
    wanted = np.einsum("mn,pq->pmqn", gram, np.eye(rank)) / rank
    np.testing.assert_allclose(fibre_moments(layer, layer.link(h)).second, wanted, atol=1e-9)


@pytest.mark.parametrize("tokens", [2, 3])
def test_closed_form_of_untied_moments_without_a_mean(tokens, rng):
    """E[t^2|y] = 1 + s (softmax) and s K_1(s)/K_0(s) (linear), where y fixes s = |k||q - mean|, |k||q|."""
    k, q = rng.normal(size=(2, tokens))
    for activation in ("softmax", "linear"):
        layer = _layer(activation, False, 1, tokens)
        seen = q - q.mean() if activation == "softmax" else q
        s = np.linalg.norm(k) * np.linalg.norm(seen)
        scale = 1 + s if activation == "softmax" else s * kv(1, s) / kv(0, s)
        second = fibre_moments(layer, layer.link(np.stack([k, q]))).second
        np.testing.assert_allclose(second[0, :, 0, :], scale * np.outer(k, k) / (k @ k), rtol=1e-9)
        # Keys times queries: y fixes the product but for the shift, which has mean zero.
        np.testing.assert_allclose(second[0, :, 1, :], np.outer(k, seen), rtol=1e-9)


def _tied_threshold(rank, tokens, activation):
    eigenvalue = tokens * (tokens + 1) / rank
    if activation == "softmax" and rank >= tokens:
        # The shift's square length, r - M + 1 squares of variance 2/M^2, is not seen.
        eigenvalue -= 2 * (rank - tokens + 1) / rank**2
    return 1 / eigenvalue


@pytest.mark.slow_for("3-2-softmax", "2-2-softmax", "2-2-linear", "2-3-linear")
@pytest.mark.parametrize(
    ("rank", "tokens", "activation"),
    [(1, 2, "softmax"), (2, 2, "softmax"), (3, 2, "softmax"), (2, 3, "softmax"), (2, 2, "linear"), (2, 3, "linear")],
)
def test_thresholds_of_tied_layers(rank, tokens, activation):
    got = weak_recovery_threshold(
        Network(1, tokens, rank, activation=activation), rng=20, log2_samples=6, replicates=16
    )
    # Products of Gaussians have heavy tails: 16 replicates, 4 sigma.
    assert abs(got.value - _tied_threshold(rank, tokens, activation)) < 4 * got.error
    assert got.error < 0.15 * got.value


def test_threshold_of_an_untied_layer():
    """Two tokens, softmax: the operator is [[3, 2], [2, 1]] on (keys, queries), so alpha_c = sqrt(5) - 2."""
    layer = Network(1, 2, 1, activation="softmax", tied=False)
    samples = weak_recovery_operator(layer, rng=3, log2_samples=4, replicates=16)
    diagonal = samples[:, [0, 1], [0, 1]][:, :, [0, 1], [0, 1]]
    sigma = diagonal.std(axis=0, ddof=1) / 4
    assert (np.abs(diagonal.mean(axis=0) - [[3, 2], [2, 1]]) < 4 * sigma).all()
    got = threshold_of(samples)
    assert abs(got.value - (np.sqrt(5) - 2)) < 4 * got.error


@pytest.mark.parametrize("tokens", [2, 3, 4, 6])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_readout_of_nearly_equal_tokens(tokens, activation, rng):
    """Pairs 1e-6 apart beside one that is not: the solution must come from the pair furthest apart."""
    model = Network(1, tokens, 1, 1.0, 1.3, activation)
    v = rng.normal() + 1e-6 * rng.normal(size=(20, tokens))
    v[:, -1] -= rng.choice([-1, 1], size=20) * rng.uniform(0.3, 2, size=20)
    found, _ = invert_readout(model, model.link(v[:, None, :]))
    found *= np.sign(np.einsum("km,km->k", found, v))[:, None]
    # Rounding of logarithms, 1e-16, over distances of 0.3 and up.
    np.testing.assert_allclose(found, v, rtol=1e-12, atol=1e-13)


def test_readout_outside_the_range_names_the_pair():
    model = Network(1, 3, 1)
    y = model.link(np.array([[0.3, -0.8, 1.1]]))
    bad = y.copy()
    bad[0] = [0.1, 0.8, 0.1]
    with pytest.raises(UnreachableOutputError, match="tokens 1 and 2"):
        invert_readout(model, bad)
    with pytest.raises(UnreachableOutputError, match="violated"):
        invert_readout(model, model.link(np.array([[0.3, -0.8, 1.1]])) @ np.diag([1, 1, 1]) * 0.9 + 0.1 / 3)


@pytest.mark.parametrize(
    ("layer", "y", "message"),
    [
        (Network(1, 2, 2), [[0.4, 0.6], [0.5, 0.5]], "edge"),
        (Network(1, 2, 2), [[0.7, 0.31], [0.2, 0.8]], "sum to 1"),
        (Network(1, 2, 2), [[np.nan, 0.3], [0.2, 0.8]], "finite"),
        (Network(1, 2, 2), [[1.2, -0.2], [0.2, 0.8]], "entries"),
        (Network(1, 2, 2, activation="linear"), [[1.0, 0.2], [0.4, 1.0]], "violated"),
        (Network(1, 2, 2, activation="linear"), [[1.0, 1.0], [1.0, 1.0]], "edge"),
        (Network(1, 2, 1, activation="linear", tied=False), [[1.0, 0.0], [0.0, 1.0]], "violated"),
        (Network(1, 2, 1, activation="linear", tied=False), [[0.0, 0.0], [0.0, 0.0]], "edge"),
        (Network(1, 3, 1), np.full((3, 3), 1 / 3), "edge"),
        (Network(1, 3, 2), [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]], "violated"),
    ],
)
def test_unreachable_outputs(layer, y, message):
    with pytest.raises(UnreachableOutputError, match=message):
        fibre_moments(layer, y)


def test_bad_arguments_and_narrow_posteriors():
    for arguments, message in [
        ({"tokens": 1}, "tokens must be"),
        ({"rank": 0}, "rank must be"),
        ({"activation": "tanh"}, "activation must be"),
        ({"beta": 0.0}, "beta must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            Network(**({"layers": 1} | arguments))
    for rank, tied in ((4, True), (2, False)):
        with pytest.raises(KernelNotFoundError, match=f"no rule for the fibre of rank {rank}"):
            fibre_moments(Network(1, 3, rank, tied=tied), np.full((3, 3), 1 / 3))
    layer = Network(1, 2, 2)
    h = np.array([[1.0, -0.3], [0.2, 0.9]])
    y = layer.link(h)
    eye, zero = np.eye(2), np.zeros((2, 2))
    for arguments, message in [
        ((y[0],), "y must have shape"),
        ((y, np.zeros(2)), "omega must have shape"),
        ((y, zero, np.ones(2)), "V must have shape"),
        ((y, zero, eye + np.eye(2, k=1)), "V must be symmetric"),
        ((y, np.full((2, 2), np.nan)), "omega must be finite"),
        ((y, zero, np.full((2, 2), np.nan)), "V must be finite"),
        (("y",), "y must be an array of numbers"),
        ((y, zero, -eye), "positive definite"),
    ]:
        with pytest.raises(ValueError, match=message):
            fibre_moments(layer, *arguments)
    with pytest.raises(ValueError, match="tol must be"):
        fibre_moments(layer, y, tol=1.0)
    # A prior this narrow pins the rotation to 1e-6 of a turn, beyond the largest rule of rank 3.
    solid = Network(1, 2, 3, activation="linear")
    point = np.array([[1.0, -0.3], [0.2, 0.9], [0.4, 0.1]])
    with pytest.raises(ConvergenceError, match="fibre"):
        fibre_moments(solid, solid.link(point), point, 1e-12 * np.eye(3))
    # And a moderately narrow one recovers the indices.
    got = fibre_moments(layer, y, h, 1e-4 * eye)
    np.testing.assert_allclose(got.mean, h, atol=1e-3)


def test_batches_have_their_shape(rng):
    layer = Network(1, 3, 2)
    h = rng.normal(size=(2, 3, 2, 3))
    got = fibre_moments(layer, layer.link(h))
    assert got.log_z.shape == got.error.shape == (2, 3)
    assert got.mean.shape == (2, 3, 2, 3)
    for i, j in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(got.second[i, j], fibre_moments(layer, layer.link(h[i, j])).second)
