"""Single outputs of one layer of rank 2 and 3 or with untied weights, by the integral over their fibre."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.denoiser import denoise_sampled
from attnlimits.numerics.posterior.fibre_denoiser import denoise_fibre

LAYERS = [
    Network(1, 2, 2),
    Network(1, 3, 2),
    Network(1, 4, 2, beta=3.0),
    Network(1, 2, tied=False),
    Network(1, 3, tied=False),
    Network(1, 2, 2, activation="linear"),
]


def drawn(layer, rng, spread=1.0):
    """An output, and the mean and covariance of the prior of its indices."""
    p, m = layer.indices, layer.tokens
    root = spread * rng.standard_normal((p, p))
    v = 0.05 * np.eye(p) + root @ root.T
    omega = 0.6 * rng.standard_normal((p, m))
    return layer.link(omega + np.linalg.cholesky(v) @ rng.standard_normal((p, m))), omega, v


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.describe())
def test_order_of_tokens_changes_nothing_beyond_the_errors(layer, rng):
    """What rounding leaves, up to priors a hundred times as wide one way as another."""
    for _ in range(8):
        y, omega, v = drawn(layer, rng, 10 ** rng.uniform(-1, 0.5))
        order = np.roll(np.arange(layer.tokens), 1)
        one = denoise_fibre(layer, y, omega, v)
        other = denoise_fibre(layer, y[np.ix_(order, order)], omega[:, order], v)
        assert (np.abs(one.g_out[:, order] - other.g_out) <= one.g_error[:, order] + other.g_error).all()
        moved = one.dg_out[:, order][:, :, :, order]
        assert (np.abs(moved - other.dg_out) <= one.dg_error[:, order][:, :, :, order] + other.dg_error).all()
        assert one.error <= 1e-6 and one.how == "estimated"


@pytest.mark.parametrize("layer", LAYERS[:4], ids=lambda layer: layer.describe())
def test_samples_on_a_chart_agree(layer, rng):
    """Of up to 90 entries the largest, in standard errors of 8 randomisations."""
    y, omega, v = drawn(layer, rng)
    exact, found = al.denoise(layer, y, omega, v), denoise_sampled(layer, y, omega, v)
    assert abs(found.log_z - exact.log_z) < 3 * found.log_z_error
    assert np.abs((found.g_out - exact.g_out) / found.g_error).max() < 4
    assert np.abs((found.dg_out - exact.dg_out) / found.dg_error).max() < 4


def test_scores_are_slopes_of_log_z(rng):
    layer = Network(1, 3, 2)
    y, omega, v = drawn(layer, rng)
    made = denoise_fibre(layer, y, omega, v, accuracy=1e-11)
    step = 1e-3
    for place in np.ndindex(omega.shape):
        shift = np.zeros_like(omega)
        shift[place] = step
        up, down = (denoise_fibre(layer, y, omega + sign * shift, v, accuracy=1e-11) for sign in (1, -1))
        size = 1 + np.abs(made.dg_out).max()
        assert abs((up.log_z - down.log_z) / (2 * step) - made.g_out[place]) < size**2 * step**2
        assert np.abs((up.g_out - down.g_out) / (2 * step) - made.dg_out[place]).max() < size**3 * step**2


def test_batches_are_broadcast_and_accuracy_is_met_or_refused(rng):
    layer = Network(1, 2, 2)
    y, omega, v = drawn(layer, rng)
    many = al.denoise(layer, np.array([y, y]), np.array([[omega], [0 * omega]]), v, accuracy=1e-10)
    assert many.g_out.shape == (2, 2, 2, 2) and (many.error <= 1e-10).all()
    assert (many.g_out[0, 1] == denoise_fibre(layer, y, omega, v, accuracy=1e-10).g_out).all()
    with pytest.raises(ConvergenceError):
        al.denoise(layer, y, omega, 1e-9 * v + np.diag([0, 1e3]), accuracy=1e-13)
