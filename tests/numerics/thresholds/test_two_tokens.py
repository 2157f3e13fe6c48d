"""Thresholds of layers over two tokens that are not tied at rank 1, by sums over the law of the mixing matrix."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import kv

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import CHART_OPERATOR, FLOAT64, SCORES, require
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.charts import chart_threshold
from attnlimits.numerics.thresholds.last_layer import last_layer
from attnlimits.numerics.thresholds.last_layer_sums import softmax
from attnlimits.numerics.thresholds.untied.law import Panel, fineness, pair_law
from attnlimits.numerics.thresholds.untied.operator import last_operator, operator

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
IDENTITY = [Panel(np.ones(1), np.zeros(1), np.array([[[1.0]], [[0.0]]]))]


@pytest.mark.parametrize(
    ("model", "samples"),
    [
        (Network(2, 2, tied=False, skip=2.0, beta=2.0), 128),
        pytest.param(Network(2, 2, tied=False), 256, marks=pytest.mark.slow),
        pytest.param(Network(2, 2, (2, 1), skip=0.5, tied=False), 256, marks=pytest.mark.slow),
        (Network(2, 2, 2), 64),
        pytest.param(Network(2, 2, (1, 3), skip=0.4, beta=2.0), 512, marks=pytest.mark.slow),
        pytest.param(Network(2, 2, (1, 2), skip=2.0, tied=False), 512, marks=pytest.mark.slow),
        pytest.param(Network(3, 2, tied=False, skip=1.5), 512, marks=pytest.mark.slow),
    ],
    ids=lambda value: value.describe() if isinstance(value, Network) else str(value),
)
def test_sums_against_samples_on_charts(model, samples):
    sums, sampled = last_layer(model, digits=4), chart_threshold(model, samples=samples, nodes=2 * samples)
    assert sums.how == "estimated" and sums.converged and sums.error < 2e-4 * float(sums.value)
    assert abs(float(sums.value) - float(sampled.value)) < 3.5 * sampled.error
    np.testing.assert_allclose(np.diag(sums.eigenvector), np.diag(sampled.eigenvector), atol=0.05)
    assert np.linalg.norm(sums.eigenvector) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        (Network(2, 2, tied=False, skip=1e6), math.sqrt(5) - 2),
        pytest.param(Network(3, 2, (2, 1, 1), tied=False, skip=1e6), math.sqrt(5) - 2, marks=pytest.mark.slow),
        (Network(2, 2, (1, 2), skip=1e5), 4 / 10),
        (Network(2, 2, 64, skip=1e5), 64**2 / (4 * 64 + 2)),
    ],
    ids=["untied", "three untied", "rank two", "rank 64"],
)
def test_strong_skip_connections_leave_one_layer(model, limit):
    found = last_layer(model, digits=9)
    # The first order in 1/c vanishes: exchanging what the hidden layers add to the two tokens turns it around.
    assert abs(float(found.value) - limit) < found.error + 10 * limit / model.skip**2


@pytest.mark.parametrize("rank", [1, 2, 3, 6])
def test_one_layer_of_any_rank(rank):
    """E rho^2 = 2 r; E m = r; E m^2 by an integral over rho of Bessel functions."""
    nu = 0.5 * rank - 1
    square = quad(lambda x: x ** (nu + 3) * kv(nu + 1, x) ** 2 / kv(nu, x), 0, 80, epsabs=0, epsrel=1e-11, limit=200)[0]
    square /= 2**nu * math.gamma(nu + 1)
    keys = (square - 2 * (rank - 2) * rank + (rank - 2) ** 2 - 2) / rank**2
    wanted = [[keys, 2 / rank], [2 / rank, square / rank**2 - 1]]
    np.testing.assert_allclose(operator(IDENTITY, rank, fineness(1)), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        (Network(2, 2, 1, 0.3, tied=False), 1),
        (Network(2, 2, 2, 1.0, 3.0, tied=False), 1),
        pytest.param(Network(3, 2, (1, 2, 1), 0.6, tied=False), 2, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_law_is_that_of_sampled_mixing_matrices(model, layers):
    law = pair_law(model, layers, fineness(0)._replace(digits=6.0))
    functions = [lambda s, t: t, lambda s, t: s * s, lambda s, t: np.sqrt(np.abs(t)), lambda s, t: np.exp(s - t) * t]
    draws = []
    for stream in np.random.default_rng(5).spawn(8):
        h = normal_qmc(model.indices * 2, 13, stream).reshape(-1, model.indices, 2)
        modes = ROTATION @ model.mixing(h) @ ROTATION / (1 + model.skip) ** layers
        draws.append([f(modes[:, 0, 1], modes[:, 1, 1]).mean() for f in functions])
    mean, sigma = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / math.sqrt(8)
    for number, f in enumerate(functions):
        value = sum((p.weights[k] * f(p.s, (1 - 2 * k) * p.t[:, None])).sum() for p in law for k in (0, 1))
        # Student with 7 degrees: six sigma have probability 1e-3.
        assert abs(value - mean[number]) < 6 * sigma[number] + 1e-6
        assert sigma[number] < 0.02 * abs(mean[number]) + 1e-3


@pytest.mark.parametrize(
    ("skip", "beta"),
    [(3.0, 8.0), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.8, 0.1), (0.3, 1.0), (1.0, 1.0)))],
)
def test_levels_of_untied_sums_agree(skip, beta):
    model = Network(2, 2, skip=skip, beta=beta, tied=False)
    low, high = (last_operator(model, level) for level in (0, 1))
    np.testing.assert_allclose(low, high, rtol=1e-8)


@pytest.mark.parametrize("rank", [2, 3, (1, 2), (3, 1)])
def test_levels_of_tied_sums_agree(rank):
    model = Network(2, 2, rank, skip=0.7)
    assert softmax(model, 0) == pytest.approx(softmax(model, 1), rel=1e-9)


def test_routes_by_tokens_depth_and_skip():
    assert require("last layer", Network(2, 2, 2)) is FLOAT64
    assert require("last layer", Network(2, 2, 2, tied=False)) is SCORES
    assert require("last layer", Network(2, 3, 2)) is CHART_OPERATOR
    # T may be as small as exp(-40 beta) at c = 1.
    assert require("last layer", Network(2, 2, skip=1.0, beta=20.0, tied=False)) is CHART_OPERATOR
    assert require("last layer", Network(2, 2, skip=0.9, beta=20.0, tied=False)) is SCORES


def test_digits_beyond_the_sums_are_refused():
    with pytest.raises(ValueError, match="digits must be an integer from 1 to 12"):
        last_layer(Network(2, 2, tied=False), digits=13)
