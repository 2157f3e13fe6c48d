"""Single outputs sampled on charts, against the rules of the models that have one, in units of the stated errors."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.denoiser import denoise_sampled
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.entrywise import EntrywiseDenoiserResult
from attnlimits.numerics.posterior.fibres import fibre_moments


def sample(model, rng, n=1):
    """Outputs, and the mean and covariance of the prior of their indices."""
    size = (model.indices, model.tokens)
    root = rng.standard_normal((size[0], size[0]))
    v = 0.4 * np.eye(size[0]) + 0.03 * root @ root.T
    omega = 0.6 * rng.standard_normal((n, *size))
    return model.link(omega + np.linalg.cholesky(v) @ rng.standard_normal((n, *size))), omega, v


@pytest.mark.parametrize("model", [Network(2, 2, skip=0.5, beta=2.0), Network(2, 2, activation="linear")], ids=str)
def test_two_layers_against_the_integral(model, rng):
    y, omega, v = sample(model, rng, 6)
    found, exact = denoise_sampled(model, y, omega, v), denoise(model, y, omega, v)
    # Standard errors of 8 randomisations, the factor of Student's law in them: of 126 entries the largest.
    assert np.abs((found.log_z - exact.log_z) / found.log_z_error).max() < 3
    assert np.abs((found.g_out - exact.g_out) / found.g_error).max() < 3
    assert np.abs((found.dg_out - exact.dg_out) / found.dg_error).max() < 3
    assert (found.error <= 0.01).all() and found.how == "monte-carlo"


@pytest.mark.parametrize(
    "model",
    [Network(1, 2, tied=False), Network(1, 3, tied=False, beta=0.7), Network(1, 3, 2), Network(1, 2, 2)],
    ids=lambda model: model.describe(),
)
def test_one_layer_against_the_integral_over_its_fibre(model, rng):
    """Log Z, too: the unit of the means that softmax queries leave free is counted."""
    y, omega, v = sample(model, rng)
    found, exact = denoise_sampled(model, y[0], omega[0], v), fibre_moments(model, y[0], omega[0], v, tol=1e-9)
    assert abs(found.log_z - exact.log_z) < 3 * found.log_z_error
    assert np.abs((found.g_out - np.linalg.solve(v, exact.mean - omega[0])) / found.g_error).max() < 3


def test_what_no_rule_serves_is_sampled_and_obeys_nishimori(rng):
    """Two untied layers by the front door: E g = 0 over outputs drawn at their prior."""
    model = Network(2, 2, tied=False)
    y, omega, v = sample(model, rng, 12)
    found = al.denoise(model, y, omega, v, tol=0.1)
    assert isinstance(found, EntrywiseDenoiserResult) and found.g_out.shape == omega.shape
    spread = found.g_out.std(axis=0) / np.sqrt(12)
    assert (np.abs(found.g_out.mean(axis=0)) < 4 * spread).all()


def test_what_is_refused(rng):
    model = Network(2, 2, tied=False)
    y, omega, v = sample(model, rng)
    with pytest.raises(UnreachableOutputError, match="no indices of tied softmax"):
        denoise_sampled(Network(2, 2, 2), [[0.2, 0.8], [0.9, 0.1]], omega[0], v)
    with pytest.raises(ConvergenceError, match="raise max_nodes or tol"):
        denoise_sampled(model, y, omega, v, tol=1e-5, max_nodes=20_000)
    with pytest.raises(ValueError, match="omega must be finite"):
        denoise_sampled(model, y, omega[:, :2], v)
    with pytest.raises(KernelNotFoundError, match="no denoiser for"):
        denoise_sampled(Network(3, 3, output="sequence"), y, omega, v)
