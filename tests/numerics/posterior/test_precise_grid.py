"""The precise denoiser at other depths and numbers of tokens: against rectangles, and against plain quadrature."""

import math
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.precise import denoiser as precise
from attnlimits.numerics.posterior.precise import grid
from attnlimits.numerics.posterior.precise.denoiser import denoise_mp
from attnlimits.numerics.posterior.readout import invert_readout

Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(autouse=True)
def coarse_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for the posterior on a tenth of the nodes: it is as wide as the prior here."""
    monkeypatch.setattr(grid, "_SEARCH", 30_000)


def case(layers: int, tokens: int, activation: str, seed: int) -> tuple[Network, Array, Array, Array]:
    """(model, y, omega, V) with gentle scores and y from a forward pass."""
    rng = np.random.default_rng(seed)
    model = Network(layers, tokens, skip=4.0, beta=0.3, activation=activation)
    half = rng.normal(size=(layers, layers))
    covariance = 0.1 * half @ half.T + np.diag([0.3] * (layers - 1) + [0.9])
    omega = 0.5 * rng.normal(size=(layers, tokens))
    return model, model.link(omega + np.linalg.cholesky(covariance) @ rng.normal(size=omega.shape)), omega, covariance


def plainly(model: Network, y: Array, omega: Array, covariance: Array, points: int) -> tuple[float, Array, Array]:
    """(169) by a Gauss-Hermite product rule over h_1 .. h_{L-1}, with the quadratic form of all indices."""
    layers, tokens = omega.shape
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    axes = (layers - 1) * tokens
    z = np.stack(np.meshgrid(*axes * [nodes], indexing="ij"), axis=-1).reshape(-1, layers - 1, tokens)
    rule = math.prod(np.meshgrid(*axes * [weights], indexing="ij"), start=np.ones(axes * (points,))).ravel()
    root = np.linalg.cholesky(covariance[:-1, :-1])
    precision = np.linalg.inv(covariance)
    h = np.zeros((len(z), layers, tokens))
    h[:, :-1] = omega[:-1] + root @ z
    mixing = model.mixing(h)
    v, log_jacobian = invert_readout(model, y)
    mass, steps = [], []
    for sign in (1.0, -1.0):
        h[:, -1] = np.linalg.solve(mixing, np.broadcast_to(sign * v[:, None], (len(z), tokens, 1)))[..., 0]
        off = h - omega
        step = np.einsum("pq,nqm->npm", precision, off)
        # The rule's own weight e^{-z^2/2} is taken out.
        log_w = 0.5 * (z * z).sum(axis=(1, 2)) - 0.5 * (off * step).sum(axis=(1, 2))
        mass.append(rule * np.exp(log_w) / np.linalg.det(mixing))
        steps.append(step.reshape(len(z), -1))
    weight, all_steps = np.concatenate(mass), np.concatenate(steps)
    total = weight.sum()
    mean = weight @ all_steps / total
    spread = all_steps.T @ (weight[:, None] * all_steps) / total - np.outer(mean, mean)
    norm = 0.5 * tokens * (layers * math.log(2 * math.pi) + math.log(np.linalg.det(covariance)))
    log_z = math.log(total * np.linalg.det(root) ** tokens) - norm - float(log_jacobian)
    return log_z, mean.reshape(omega.shape), spread - np.kron(precision, np.eye(tokens))


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_the_lattice_agrees_with_the_rectangles(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers and two tokens, which are served by Gauss-Legendre rules on rectangles, by the lattice."""
    arguments = case(2, 2, activation, 3)
    exact = denoise_mp(*arguments, digits=12)
    monkeypatch.setattr(precise, "two_layers", precise.more_layers)
    for digits in (6, 8):
        made = denoise_mp(*arguments, digits=digits)
        assert made.nodes != exact.nodes and made.error <= 10.0**-digits
        # The entries are of order one, and those of the inverse of V below ten.
        assert abs(made.log_z - exact.log_z) <= 10 * made.error
        assert abs(made.g_out - exact.g_out).max() <= 10 * made.error
        assert abs(made.dg_out - exact.dg_out).max() <= 100 * made.error


@pytest.mark.parametrize(
    ("layers", "tokens", "activation", "digits", "points", "tolerance"),
    [
        (2, 3, "softmax", 8, 28, 1e-8),
        pytest.param(2, 3, "linear", 7, 28, 1e-7, marks=pytest.mark.slow),
        pytest.param(3, 2, "softmax", 5, 22, 1e-5, marks=pytest.mark.slow),
        pytest.param(3, 2, "linear", 5, 22, 1e-4, marks=pytest.mark.slow),
    ],
)
def test_other_architectures(
    layers: int, tokens: int, activation: str, digits: int, points: int, tolerance: float
) -> None:
    """The tolerance is what the plain rule reaches, by its change from fewer points."""
    arguments = case(layers, tokens, activation, 1 if tokens == 3 else 5)
    made = denoise_mp(*arguments, digits=digits)
    assert made.how == "estimated" and made.error <= 10.0**-digits
    log_z, g, dg = plainly(*arguments, points)
    assert float(made.log_z) == pytest.approx(log_z, abs=tolerance)
    np.testing.assert_allclose(made.g_out.astype(float), g, atol=5 * tolerance)
    np.testing.assert_allclose(made.dg_out.astype(float).reshape(dg.shape), dg, atol=25 * tolerance)
