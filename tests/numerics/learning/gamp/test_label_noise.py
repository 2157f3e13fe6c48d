"""Data whose labels are replaced by others, and message passing on them against the state evolution."""

import math

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.posterior.data.link import LinkPosterior
from attnlimits.numerics.posterior.protocol import Settings

# Three sigma of Student's law, by instances.
_STUDENT = {4: 9.2, 6: 5.5, 8: 4.5}


@pytest.mark.parametrize(
    ("link", "replaced", "alpha", "dimension", "seeds"),
    [
        ("sign(h[1])", 0.1, 5.0, 2000, 8),
        ("Piecewise((0, h[1] < -1), (1, h[1] < 1/2), (5, True))", 0.3, 4.0, 2000, 8),
        # Some minutes each: posteriors of two entries are sampled.
        pytest.param("sign(h[1]*h[2])", 0.1, 8.0, 500, 6, marks=pytest.mark.slow),
        pytest.param("sign(h[1]); sign(h[2])", 0.2, 3.0, 500, 6, marks=pytest.mark.slow),
    ],
)
def test_overlaps_are_those_of_state_evolution(link, replaced, alpha, dimension, seeds):
    model = al.Link(link, label_noise=replaced)
    theory = al.evolve(model, alpha)
    found = []
    for seed in range(seeds):
        # Teachers of unit norm and orthogonal, which theory has.
        drawn = al.teacher(model, dimension, rng=seed)
        weights = np.linalg.qr(drawn.T)[0].T * math.sqrt(dimension)
        x, y = al.make_data(model, weights, alpha, rng=seed)
        result = al.gamp(model, x, y, teacher=weights, rng=seed)
        assert result.converged
        found.append(result.overlap.diagonal())
    mean, sigma = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(seeds)
    # Finite sizes move overlaps by O(1/D).
    assert (np.abs(mean - theory.overlap.diagonal()) < _STUDENT[seeds] * sigma + 2 / dimension).all()


def test_shares_of_the_labels_that_are_seen():
    link, rows = al.Link("Piecewise((0, h[1] < -1), (1, h[1] < 1/2), (5, True))", label_noise=0.3), 40_000
    kernel = link.kernel
    h = np.random.default_rng(0).standard_normal((rows, 1, 1))
    y = kernel.link(h)
    seen = kernel.observed(y, np.random.default_rng(1).standard_normal(y.shape))[:, 0]
    for label in (0, 1, 5):
        own = seen[y[:, 0] == label]
        shares = [np.mean(own == other) for other in (0, 1, 5)]
        expected = [0.7 if other == label else 0.15 for other in (0, 1, 5)]
        assert np.abs(np.array(shares) - expected).max() < 4 * 0.5 / math.sqrt(len(own))


def test_data_of_a_link_have_its_label_noise():
    link = al.Link("sign(h[1])", label_noise="1/4")
    weights = al.teacher(link, 20, rng=0)
    x, y = al.make_data(link, weights, 200.0, rng=0)
    flipped = np.mean(np.sign(x[:, 0] @ weights[0]) != y[:, 0])
    assert abs(flipped - 0.25) < 4 * math.sqrt(0.25 * 0.75 / len(y))


def test_scores_are_those_of_the_likelihood():
    """A grid over h of two entries, with the probability of the label that is seen."""
    kernel = al.Link("sign(h[1]*h[2])", label_noise=0.2).kernel
    settings = Settings(1e-4, 4096, np.random.default_rng(0))
    omega, V = np.array([0.3, -0.4]), np.array([[0.6, 0.2], [0.2, 0.5]])
    y = np.array([[1.0], [-1.0]])
    g, _ = LinkPosterior(kernel, y, settings)(np.tile(omega[:, None], (2, 1, 1)), V, slice(0, 2))
    axis = np.linspace(-5, 5, 1000)
    h = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    inverse = np.linalg.inv(V)
    prior = np.exp(-0.5 * np.einsum("na,ab,nb->n", h - omega, inverse, h - omega))
    for label, score in zip((1, -1), g[:, :, 0], strict=True):
        weight = prior * np.where(h[:, 0] * h[:, 1] * label > 0, 0.8, 0.2)
        assert np.abs(score - inverse @ (weight @ (h - omega) / weight.sum())).max() < 5e-3
