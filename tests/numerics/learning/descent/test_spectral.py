"""Spectral start: its matrix written out, moments by other routes, overlaps above and below the threshold."""

import numpy as np
import pytest

from attnlimits.numerics.learning.descent import cosines, descend, spectral_method, spectral_start
from attnlimits.numerics.learning.descent.moments import prior_moments
from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.learning.symmetry import symmetry
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.data.deep import DeepPosterior
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.protocol import Settings

ONE, TWO = Network(1, 2), Network(2, 2)


def instance(model, dimension, alpha, seed=0):
    weights = teacher(model, dimension, seed)
    return weights, *make_data(model, weights, alpha, seed)


def squared_cosines(model, weights, estimate):
    dimension = weights.shape[1]
    overlap = symmetry(model).align(weights @ estimate.T / dimension)
    return cosines(model, overlap, estimate @ estimate.T / dimension, weights @ weights.T / dimension) ** 2


@pytest.mark.parametrize(
    "layer",
    [
        Network(1, 3, 2),
        Network(1, 2, 2),
        Network(1, 2, 3),
        Network(1, 3, 2, activation="linear"),
        Network(1, 2, 1, activation="softmax", tied=False),
        Network(1, 3, 1, activation="linear", tied=False),
    ],
    ids=lambda layer: layer.describe(),
)
def test_moments_of_one_layer_are_the_integrals_over_the_fibre(layer, rng):
    y = layer.link(rng.standard_normal((4, layer.indices, layer.tokens)))
    wanted = fibre_moments(layer, y, tol=1e-10).second
    model = layer if not layer.tied else Network(1, layer.tokens, layer.rank, activation=layer.activation)
    mean, (covariance,) = prior_moments(model, posterior(model, y))
    assert (mean == 0).all()
    size = layer.tokens if layer.tied else 2 * layer.tokens
    # Rows of a tied layer are alike and uncoupled.
    for row in range(layer.rank if layer.tied else 1):
        rows = slice(row, row + 1) if layer.tied else slice(0, 2)
        assert covariance == pytest.approx(wanted[:, rows, :, rows].reshape(4, size, size), abs=1e-7)
    if layer.tied and layer.rank > 1:
        assert np.abs(wanted[:, 0, :, 1]).max() < 1e-7


def test_moments_of_two_layers_are_those_of_the_denoiser(rng):
    y = TWO.link(rng.standard_normal((6, 2, 2)))
    _, covariances = prior_moments(TWO, posterior(TWO, y))
    slopes = denoise(TWO, y, np.zeros((2, 2)), np.eye(2)).dg_out
    for layer, covariance in enumerate(covariances):
        assert covariance - np.eye(2) == pytest.approx(slopes[:, layer, :, layer], abs=1e-5)
    # Sampled posteriors: 8192 nodes, entries of order one.
    _, sampled = prior_moments(TWO, DeepPosterior(TWO, y, Settings(1e-5, 8192, rng)))
    for ours, exact in zip(sampled, covariances, strict=True):
        assert np.sqrt(((ours - exact) ** 2).mean()) < 0.15


def test_moments_of_links():
    """E[h | y] = y sqrt(2/pi) of sign(h), E[h_1 h_2 | y] = 2 y/pi of sign(h_1 h_2); the last link fixes h_1 h."""
    kernel = kernel_of("sign(h[1])")
    mean, (covariance,) = prior_moments(kernel, posterior(kernel, [1.0, -1.0]))
    assert mean.ravel() == pytest.approx([np.sqrt(2 / np.pi), -np.sqrt(2 / np.pi)], abs=1e-9)
    assert covariance.ravel() == pytest.approx([1 - 2 / np.pi] * 2, abs=1e-9)
    kernel = kernel_of("sign(h[1]*h[2])")
    mean, (covariance,) = prior_moments(kernel, posterior(kernel, [1.0, -1.0]))
    assert np.abs(mean).max() < 1e-9
    assert covariance[:, 0, 1] == pytest.approx([2 / np.pi, -2 / np.pi], abs=1e-9)
    kernel = kernel_of("h[1,1]**2; h[1,1]*h[1,2]")
    _, (covariance,) = prior_moments(kernel, posterior(kernel, [[4.0, 3.0]]))
    assert covariance[0] == pytest.approx(np.array([[4.0, 3.0], [3.0, 2.25]]), abs=1e-9)


def test_the_matrix_written_out():
    """All of it at D = 80: eigenvalues and vectors by a dense solver, from denoiser slopes sample by sample."""
    _, x, y = instance(TWO, 80, 1.5)
    found = spectral_method(x, y, TWO, tol=1e-8)
    slopes = denoise(TWO, y, np.zeros((2, 2)), np.eye(2)).dg_out
    for layer in (0, 1):
        matrix = np.zeros((80, 80))
        for sample, slope in zip(x.astype(float), slopes[:, layer, :, layer], strict=True):
            matrix += sample.T @ slope @ np.linalg.inv(np.eye(2) + slope / 1.1) @ sample / 80
        values, vectors = np.linalg.eigh(matrix)
        # float32 samples.
        assert found.eigenvalues[layer] == pytest.approx(values[-1:], rel=1e-5)
        cosine = abs(vectors[:, -1] @ found.weights[layer]) / np.linalg.norm(found.weights[layer])
        assert cosine == pytest.approx(1.0, abs=1e-5)
        growth = np.linalg.norm(slopes[:, layer, :, layer], axis=(1, 2)) ** 2
        assert found.growth[layer] == pytest.approx(growth.sum() / 80, rel=1e-5)
    assert (found.weights**2).sum(axis=1) / 80 == pytest.approx(found.overlap, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "alpha"),
    [(ONE, 0.6), (TWO, 1.2), (Network(1, 3, 2), 0.6), (kernel_of("h[1]**2"), 1.2)],
    ids=["one layer", "two layers", "rank 2", "link"],
)
def test_overlaps_are_those_of_the_law_above_the_threshold(model, alpha):
    """Means of 4 instances; the squared cosines of instances scatter by about 0.05 at D = 600."""
    measured, expected = [], []
    for seed in range(4):
        weights, x, y = instance(model, 600, alpha, seed)
        found = spectral_method(x, y, model)
        measured.append(squared_cosines(model, weights, found.weights)[-1])
        expected.append(found.overlap[-1])
        assert found.growth[-1] > 1
    assert np.mean(measured) > 0.2
    # Three standard errors of the difference.
    assert np.mean(measured) == pytest.approx(np.mean(expected), abs=0.07)


def test_the_law_of_one_index_by_its_integral():
    """y = |h|, alpha = 1.2: averages over y by quadrature, instead of over samples."""
    kernel = kernel_of("abs(h[1])")
    # A trapezoidal rule, which is exact to rounding for these.
    nodes = np.linspace(-9, 9, 400)
    weight = np.exp(-0.5 * nodes**2)
    weight = weight / weight.sum()
    values, alpha, growth = nodes**2 - 1, 1.2, 1.1
    grid = np.linspace(1e-4, 1 / growth + 1 / values.max() - 1e-6, 1001)
    k = values[None] / (1 + (1 / growth - grid[:, None]) * values[None])
    sums = [alpha * (k**2 * factor) @ weight for factor in (np.ones(400), values)]
    r = int(np.argmin(np.abs(grid * alpha * ((values * k) @ weight) - 1)))
    wanted = (1 / grid[r] ** 2 - sums[0][r]) / (1 / grid[r] ** 2 + sums[1][r])
    weights, x, y = instance(kernel, 1500, alpha)
    found = spectral_method(x, y, kernel)
    # One instance: the averages over 1800 samples of h^4 and more scatter by some per cent.
    assert found.overlap[0] == pytest.approx(wanted, abs=0.06)
    assert squared_cosines(kernel, weights, found.weights)[0] == pytest.approx(wanted, abs=0.06)


def test_nothing_is_found_below_the_threshold():
    """alpha = 0.05 < 1/6, and the first layer at 1.2: squared cosines of order 1/D."""
    for model, alpha, layer in ((ONE, 0.05, 0), (TWO, 1.2, 0)):
        values = []
        for seed in range(4):
            weights, x, y = instance(model, 500, alpha, seed)
            found = spectral_method(x, y, model)
            values.append(squared_cosines(model, weights, found.weights)[layer])
            assert found.growth[layer] < 1 and found.overlap[layer] == pytest.approx(1 / 500)
        # Chance has 1/D in the mean, the edge of a bulk near the threshold some times that.
        assert np.mean(values) < 15 / 500


@pytest.mark.parametrize(
    ("model", "alpha"),
    # Exact thresholds of the operator (15), 1/4.236 and pi^2/4; the second one has the same G for every sample.
    [(Network(1, 2, 1, activation="softmax", tied=False), 1.2), (kernel_of("sign(h[1]*h[2])"), 6.0)],
    ids=["untied", "two signs"],
)
def test_coupled_indices(model, alpha):
    weights, x, y = instance(model, 300, alpha)
    found = spectral_method(x, y, model)
    assert (squared_cosines(model, weights, found.weights) > 0.2).all()
    assert (found.overlap > 0.1).all()
    if isinstance(model, Network):
        assert found.growth[0] == pytest.approx(alpha / (np.sqrt(5) - 2), rel=0.25)
    else:
        assert found.growth[0] == pytest.approx(alpha * 4 / np.pi**2, rel=1e-9)


def test_an_index_that_is_seen_without_its_square(rng):
    """h_2 enters with its sign: one iteration of GAMP from zero gives its row, an eigenvector that of h_1."""
    kernel = kernel_of("h[1]**2; h[2]**3")
    weights, x, y = instance(kernel, 300, 1.5)
    found = spectral_method(x, y, kernel)
    assert (squared_cosines(kernel, weights, found.weights) > 0.3).all()
    first = gamp(x, y, kernel, start=np.zeros_like(weights), max_iter=1, damping=0.0, tol=0.0)
    assert found.weights[1] == pytest.approx(first.weights[1], abs=1e-4)


def test_deeper_models():
    model = Network(3, 2)
    weights, x, y = instance(model, 150, 2.0)
    found = spectral_method(x, y, model, nodes=512)
    assert squared_cosines(model, weights, found.weights)[2] > 0.3
    assert found.growth[2] > 1 > found.growth[0]


def test_gamp_needs_fewer_iterations_from_it():
    """Above the threshold of the last layer, where most of them find the direction."""
    weights, x, y = instance(TWO, 300, 0.6, 0)
    runs = [gamp(x, y, TWO, start=start, teacher=weights, rng=0) for start in (None, spectral_start(x, y, TWO))]
    assert all(run.converged for run in runs)
    assert runs[0].overlap[1, 1] == pytest.approx(runs[1].overlap[1, 1], abs=0.02)
    # Until nine tenths are found: both wait alike for the first layer to die out.
    plain, spectral = (int(np.argmax(run.history[:, 1, 1] > 0.9 * run.overlap[1, 1])) for run in runs)
    assert spectral < plain - 3


def test_descent_begins_with_it():
    weights, x, y = instance(TWO, 300, 3.0)
    found = descend(x, y, TWO, start=spectral_start(x, y, TWO), teacher=weights, epochs=5)
    plain = descend(x, y, TWO, teacher=weights, epochs=5)
    assert found.cosines[0, 1] > 0.9 > plain.cosines[0, 1]


def test_storage_does_not_matter_and_seeds_do():
    _, x, y = instance(ONE, 100, 1.0)
    # A gap between eigenvalues divides rounding; that of float32 is of the size asked for.
    x = x.astype(np.float64)
    wanted = spectral_start(x, y, ONE, tol=1e-10)
    blocks = spectral_start(lambda: [(x[:30], y[:30]), (x[30:], y[30:])], None, ONE, tol=1e-10)
    assert abs(blocks) == pytest.approx(abs(wanted), abs=1e-5)
    assert (spectral_start(x, y, ONE) == spectral_start(x, y, ONE)).all()
    small = x[:, :, :20].copy()
    # Written out as a matrix there.
    assert np.isfinite(spectral_start(small, y, ONE)).all()


def test_bad_arguments():
    _, x, y = instance(ONE, 50, 1.0)
    with pytest.raises(ValueError, match="tol must be finite and > 0"):
        spectral_start(x, y, ONE, tol=0.0)
    with pytest.raises(ValueError, match="one output per sample"):
        spectral_start(x, y[:3], ONE)
