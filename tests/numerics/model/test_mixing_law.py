"""The law of (S, T) against sampled mixing matrices, and the convergence of its levels."""

import math

import numpy as np
import pytest

from attnlimits.numerics.model.mixing_law import mixing_law
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)


def sampled(model: Network, layers: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(S, T) of the product of `layers` layers, from the forward pass in token space."""
    deep = Network(layers + 1, 2, 1, model.skip, model.beta)
    h = normal_qmc(2 * layers, 11, rng).reshape(-1, layers, 2)
    modes = ROTATION @ deep.mixing(np.concatenate([h, np.zeros((len(h), 1, 2))], axis=1)) @ ROTATION
    assert np.abs(modes[:, 1, 0]).max() < 1e-12 * modes[:, 0, 0].max()  # upper triangular
    np.testing.assert_allclose(modes[:, 0, 0], (1 + model.skip) ** layers, rtol=1e-12)
    return modes[:, 0, 1] / modes[:, 0, 0], modes[:, 1, 1] / modes[:, 0, 0]


FUNCTIONS = [
    lambda s, t: t,
    lambda s, t: np.log(t),
    lambda s, t: s * s,
    lambda s, t: s**4 * t,
    lambda s, t: np.exp(-((1 + s) ** 2) - 2 * t) / t,
]


def scalars(vp: np.ndarray, vm: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(s, tau) = (sinh w, sinh u)/(cosh u + cosh w), u = beta vm^2, w = beta vp vm, without overflow."""
    u, w = beta * vm**2, beta * vp * vm
    top = np.maximum(u, np.abs(w))
    up, um, wp, wm = (np.exp(z - top) for z in (u, -u, w, -w))
    return (wp - wm) / (up + um + wp + wm), (up - um) / (up + um + wp + wm)


def normal_grid(step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two standard normal variables on a trapezoidal grid, with its weights."""
    x = step * np.arange(-math.ceil(8.6 / step), math.ceil(8.6 / step) + 1)
    p, m = (a.ravel() for a in np.meshgrid(x, x, indexing="ij"))
    return p, m, step**2 * np.exp(-0.5 * (p * p + m * m)) / (2 * math.pi)


@pytest.mark.parametrize(
    ("skip", "beta", "step"), [(1.0, 1.0, 0.1), (0.3, 3.0, 0.05), (0.05, 5.0, 0.02), (10.0, 0.2, 0.2)]
)
def test_one_layer_against_the_plain_trapezoid(skip: float, beta: float, step: float) -> None:
    law = mixing_law(Network(skip=skip, beta=beta), 1, 0)
    p, m, weight = normal_grid(step)
    s, tau = scalars(p, m, beta)
    for f in FUNCTIONS:
        value = float((law.weights * f(law.s[:, None], law.t[None, :])).sum())
        exact = float((weight * f(s / (1 + skip), (skip + tau) / (1 + skip))).sum())
        # the lowest level has ten digits and more
        assert value == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    ("layers", "skip", "beta"),
    [
        (2, 1.0, 1.0),
        pytest.param(2, 0.3, 3.0, marks=pytest.mark.slow),
        pytest.param(3, 1.0, 1.0, marks=pytest.mark.slow),
    ],
)
def test_averages_are_those_of_sampled_mixing_matrices(layers: int, skip: float, beta: float) -> None:
    model = Network(layers + 1, skip=skip, beta=beta)
    law = mixing_law(model, layers, 0)
    draws = [sampled(model, layers, stream) for stream in np.random.default_rng(layers).spawn(16)]
    for f in FUNCTIONS:
        exact = float((law.weights * f(law.s[:, None], law.t[None, :])).sum())
        means = np.array([f(s, t).mean() for s, t in draws])
        sigma = means.std(ddof=1) / 4
        # Student with 15 degrees: five sigma have probability 2e-4
        assert abs(means.mean() - exact) < 5 * sigma + 1e-9
        assert sigma < 0.01 * abs(exact)
    assert law.log_k == pytest.approx(layers * math.log1p(skip), rel=1e-14)


@pytest.mark.parametrize(
    ("layers", "skip", "beta"),
    [
        (1, 1.0, 1.0),
        (1, 0.05, 5.0),
        (1, 10.0, 0.2),
        # log(c + tau) has branch points 1e-3 from the real axis
        (1, 1e-6, 1.0),
        pytest.param(2, 1.0, 1.0, marks=pytest.mark.slow),
        pytest.param(2, 0.05, 5.0, marks=pytest.mark.slow),
    ],
)
def test_levels_converge_and_weights_sum_to_one(layers: int, skip: float, beta: float) -> None:
    model = Network(skip=skip, beta=beta)
    laws = [mixing_law(model, layers, level) for level in (0, 1)]
    for law in laws:
        assert law.weights.shape == (law.s.size, law.t.size)
        assert law.weights.sum() == pytest.approx(1.0, abs=1e-12)
        least = (skip / (1 + skip)) ** layers
        assert (law.t > least * (1 - 1e-12)).all() and (law.t <= 1).all()
        assert (np.abs(law.s) <= layers / (1 + skip)).all()
        # odd moments of S vanish: exchanging the tokens turns S into -S
        assert abs((law.weights * law.s[:, None]).sum()) < 1e-12
    for f in FUNCTIONS[:4]:
        values = [(law.weights * f(law.s[:, None], law.t[None, :])).sum() for law in laws]
        # the lowest level carries some eight digits at least
        assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_no_layer_is_the_identity() -> None:
    law = mixing_law(Network(), 0, 0)
    assert (law.s.tolist(), law.t.tolist(), law.weights.tolist(), law.log_k) == ([0.0], [1.0], [[1.0]], 0.0)


def test_two_layers_are_one_layer_after_another() -> None:
    """E T_2 by conditioning by hand: T_2 = T_1 (c + tau(v_2))/(1 + c) with v_2 = h_2 B_1^T, h_2 standard normal."""
    model = Network(skip=0.7, beta=1.4)
    one, two = mixing_law(model, 1, 0), mixing_law(model, 2, 0)
    hp, hm, weight = normal_grid(0.15)
    keep = (hm >= 0) & (weight > 1e-15)
    hp, hm, weight = hp[keep], hm[keep], np.where(hm > 0, 2.0, 1.0)[keep] * weight[keep]
    k = 1 + model.skip
    total = 0.0
    for i, s in enumerate(one.s):
        for j, t in enumerate(one.t):
            _, tau = scalars(k * (hp + s * hm), k * t * hm, model.beta)
            total += one.weights[i, j] * t * (weight @ (model.skip + tau)) / k
    # tau has poles at a distance pi/(beta k^2 |h_-|) in h_+; at |h_-| = 4 the grid errs by exp(-2 pi 0.2/0.15) = 2e-4,
    # times the probability 6e-5 of such h_-
    assert (two.weights * two.t).sum() == pytest.approx(total, rel=1e-7)
