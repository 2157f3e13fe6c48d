"""The law of (S, T) against sampled mixing matrices, and the convergence of its levels."""

import math

import numpy as np
import pytest

from attnlimits.numerics.mixing_law import mixing_law
from attnlimits.numerics.models import Attention
from attnlimits.numerics.quadrature import normal_qmc

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)


def sampled(model: Attention, layers: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(S, T) of the product of `layers` layers, from the forward pass in token space."""
    deep = Attention(layers + 1, 2, 1, model.skip, model.beta)
    h = normal_qmc(2 * layers, 12, rng).reshape(-1, layers, 2)
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


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.3, 3.0)])
def test_averages_are_those_of_sampled_mixing_matrices(layers: int, skip: float, beta: float) -> None:
    model = Attention(skip=skip, beta=beta)
    law = mixing_law(model, layers, 0)
    streams = np.random.default_rng(layers).spawn(8)
    draws = [sampled(model, layers, stream) for stream in streams]
    for f in FUNCTIONS:
        exact = float((law.weights * f(law.s[:, None], law.t[None, :])).sum())
        means = np.array([f(s, t).mean() for s, t in draws])
        sigma = means.std(ddof=1) / math.sqrt(8)
        # Student with 7 degrees, 30 comparisons: five sigma are exceeded by chance in 1 of 20 runs of all seeds
        assert abs(means.mean() - exact) < 5 * sigma + 1e-9
    assert law.log_k == pytest.approx(layers * math.log1p(skip), rel=1e-14)


@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.05, 5.0), (10.0, 0.2)])
@pytest.mark.parametrize("layers", [1, 2])
def test_levels_converge_and_weights_sum_to_one(layers: int, skip: float, beta: float) -> None:
    model = Attention(skip=skip, beta=beta)
    laws = [mixing_law(model, layers, level) for level in (0, 1)]
    for law in laws:
        assert law.weights.shape == (law.s.size, law.t.size)
        assert law.weights.sum() == pytest.approx(1.0, abs=1e-10)
        least = (skip / (1 + skip)) ** layers
        assert (law.t > least * (1 - 1e-12)).all() and (law.t <= 1).all()
        assert (np.abs(law.s) <= layers / (1 + skip)).all()
        # odd moments of S vanish: exchanging the tokens turns S into -S
        assert abs((law.weights * law.s[:, None]).sum()) < 1e-12
    for f in FUNCTIONS[:4]:
        values = [(law.weights * f(law.s[:, None], law.t[None, :])).sum() for law in laws]
        # the lowest level carries some eight digits at least
        assert values[0] == pytest.approx(values[1], rel=1e-8, abs=1e-10)


def test_no_layer_is_the_identity() -> None:
    law = mixing_law(Attention(), 0, 0)
    assert (law.s.tolist(), law.t.tolist(), law.weights.tolist(), law.log_k) == ([0.0], [1.0], [[1.0]], 0.0)


def test_two_layers_are_one_layer_after_another() -> None:
    """E T_2 by conditioning by hand: T_2 = T_1 (c + tau(v_2))/(1 + c) with v_2 = h_2 B_1^T, h_2 standard normal."""
    model = Attention(skip=0.7, beta=1.4)
    one, two = mixing_law(model, 1, 1), mixing_law(model, 2, 1)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    hp, hm = (a.ravel() for a in np.meshgrid(x, x, indexing="ij"))
    weight = np.outer(w, w).ravel()
    k = 1 + model.skip
    total = 0.0
    for i, s in enumerate(one.s):
        for j, t in enumerate(one.t):
            vp, vm = k * (hp + s * hm), k * t * hm
            u, z = model.beta * vm**2, model.beta * vp * vm
            # tau = sinh u/(cosh u + cosh z), without overflow
            top = np.maximum(u, np.abs(z))
            tau = (np.exp(u - top) - np.exp(-u - top)) / (
                np.exp(u - top) + np.exp(-u - top) + np.exp(z - top) + np.exp(-z - top)
            )
            total += one.weights[i, j] * t * (weight * (model.skip + tau)).sum() / k
    # Gauss-Hermite with 60 nodes against the poles of tau at a distance of about 1/2: five digits
    assert (two.weights * two.t).sum() == pytest.approx(total, rel=1e-5)
