"""State evolution of lists of blocks against message passing at D = 2000, four instances of each."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.learning.symmetry import symmetry
from attnlimits.numerics.model.network import Network

pytestmark = pytest.mark.slow

DIMENSION, SEEDS = 2000, 4
#: Networks, alpha, and the spectrum of the inputs.
CASES = {
    "a window": (Network(1, 3, mask="window:2"), 0.45, None),
    "two causal tokens": (Network(1, 2, mask="causal"), 0.9, None),
    "causal, then a window": (Network("attention(causal) | residual | attention(window:2)", 4), 0.35, None),
    "causal, then all": (Network("attention(causal) | residual | attention", 3), 0.2, None),
    "norm": (Network("attention | residual | norm | attention", 2), 0.45, None),
    "norm before, readout": (Network("norm | attention | residual(over=2) | readout(mlp, 1, tanh)", 2), 0.4, None),
    "classes": (Network("attention | residual | readout(linear, 2)", 3), 0.6, None),
    "untied, norm": (Network("attention(untied) | residual | norm | attention", 2), 0.45, None),
    "correlated tokens": (Network(2, 2, token_covariance="ar1:0.6"), 0.45, None),
    "correlated, causal": (
        Network("attention(causal) | residual | attention", 3, token_covariance="ar1:0.5"),
        0.2,
        None,
    ),
    "one causal layer": (Network(1, 3, mask="causal"), 0.2, None),
    "masked keys, noise": (
        Network("attention(causal) | residual | attention(untied, causal)", 2, noise=0.05),
        2.5,
        None,
    ),
    "norm, spectrum": (Network("attention | residual | norm | attention", 2), 0.3, "mp:1"),
    "correlated tokens, spectrum": (
        Network("attention(causal) | residual | attention", 3, token_covariance="ar1:0.5"),
        0.15,
        "points:0.4,1.6",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_passing_reaches_the_fixed_point(name):
    model, alpha, spectrum = CASES[name]
    inputs = {} if spectrum is None else {"spectrum": spectrum}
    told = al.evolve(model, alpha, **inputs)
    q, error = told.overlap.diagonal(), told.overlap_error.diagonal()
    found = np.array([_squares(model, alpha, seed, inputs) for seed in range(SEEDS)])
    learned = q > 0
    scatter = found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    off = np.abs(found.mean(axis=0) - q)
    # Two standard errors of four instances, with Student's factor for three, and those of the theory.
    bound = 3.2 * scatter + 3 * error
    assert (off[learned] < bound[learned]).all(), (found, q)
    # Of what is not learned chance leaves squares of 1/D.
    assert (found.mean(axis=0)[~learned] < 20 / DIMENSION).all()


def _squares(model, alpha, seed, inputs):
    """Squared cosines of the rows of a teacher and of the estimate, which tend to the overlap."""
    weights = al.teacher(model, DIMENSION, rng=seed)
    x, y = al.make_data(model, weights, alpha, rng=seed, **inputs)
    estimate = al.gamp(model, x, y, teacher=weights, rng=seed, max_iter=150, **inputs).weights
    if inputs:
        # The overlap is that of the indices: weights times the root of the covariance of the inputs.
        root = np.sqrt(al.free_energy.as_spectrum(inputs["spectrum"]).coordinates(DIMENSION))
        weights, estimate = weights * root, estimate * root
    turned = symmetry(model).rotation(weights @ estimate.T / DIMENSION) @ estimate
    return [(w @ v) ** 2 / ((w @ w) * (v @ v) + 1e-300) for w, v in zip(weights, turned, strict=True)]
