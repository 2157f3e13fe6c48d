"""Posteriors of outputs with noise, given the output alone, against sums on a plain grid."""

import numpy as np
import pytest

import attnlimits as al


def _grid(model, y, omega, v):
    """Log-density of (y_12, y_21) and score of one tied layer of two tokens, by a grid over its two indices."""
    axis = np.linspace(-8, 8, 801)
    h = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    shown = (np.log(y[:, 0]) - np.log(y[:, 1])) / np.sqrt(2)
    scores = model.beta * h * (h[:, :1] - h[:, 1:]) / np.sqrt(2)
    log = -((h - omega) ** 2).sum(axis=1) / (2 * v) - ((shown - scores) ** 2).sum(axis=1) / (2 * model.noise)
    weight = np.exp(log)
    area = (axis[1] - axis[0]) ** 2 / (2 * np.pi * v) / (2 * np.pi * model.noise)
    jacobian = 1 / (2 * np.prod(y[:, 0] * y[:, 1]))
    return np.log(weight.sum() * area * jacobian), (weight @ h / weight.sum() - omega) / v


@pytest.mark.parametrize(("noise", "v"), [(0.3, 0.8), (1.2, 0.4)])
def test_denoiser_of_a_noisy_output(noise, v):
    model, rng = al.Network(1, 2, noise=noise), np.random.default_rng(3)
    y = model.observed(model.link(rng.standard_normal((1, 2))), rng.standard_normal((2, 2)))
    omega = np.array([[0.1, 0.3]])
    found = al.denoise(model, y, omega=omega, V=np.array([[v]]), tol=1e-2)
    log_z, g = _grid(model, y, omega[0], v)
    assert abs(float(found.log_z) - log_z) < 5 * float(found.log_z_error)
    assert (np.abs(found.g_out[0] - g) < 5 * found.g_error[0]).all()


def test_message_passing_with_noise_learns():
    model = al.Network(1, 2, noise=0.3)
    teacher = al.teacher(model, 60, rng=1)
    x, y = al.make_data(model, teacher, 2.0, rng=2)
    found = al.gamp(model, x, y, teacher=teacher, rng=1, max_iter=40)
    assert found.converged and abs(found.overlap[0, 0]) > 0.5
