"""Message passing with every prior at D = 2000 ends where state evolution does: four instances, three sigma."""

import math

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.priors import Informed, Laplace, Rows, prior_named

from .test_template import PRIORS

SIGN, LAYER = al.Link("sign(h[1])"), al.Network(layers=1, tokens=2)
D, COUNT = 2000, 4


def overlaps(model, alpha, prior, side=None, **settings):
    """Means and standard errors over instances."""
    found = []
    for seed in range(COUNT):
        weights = al.teacher(model, D, rng=seed, prior=prior)
        X, Y = al.make_data(model, weights, alpha, rng=seed)
        known = {} if side is None else al.learning.side_information(weights, rng=seed + 50, **side)
        run = al.gamp(model, X, Y, teacher=weights, prior=prior, rng=seed, **known, **settings)
        found.append(run.overlap)
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(COUNT)


@pytest.mark.slow_for("network-prior of density exp(", "network-binary prior")
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.describe())
@pytest.mark.parametrize(("model", "alpha"), [(SIGN, 1.0), (LAYER, 0.3)], ids=["link", "network"])
def test_of_every_prior(model, alpha, prior):
    mean, error = overlaps(model, alpha, prior)
    expected = al.evolve(model, alpha, prior=prior).overlap
    assert abs(mean - expected)[0, 0] <= 3 * error[0, 0] + 1 / D


@pytest.mark.parametrize(
    ("prior", "side"),
    [
        (prior_named("gaussian"), {"known": 0.3}),
        (Laplace(), {"known": 0.2, "strength": 0.3}),
        (prior_named("binary"), {"strength": 0.5}),
    ],
    ids=["known", "both", "seen"],
)
@pytest.mark.parametrize(("model", "alpha"), [(SIGN, 1.0), (LAYER, 0.1)], ids=["link", "network"])
def test_with_known_weights(model, alpha, prior, side):
    """From no overlap an iteration would end at none at alpha = 0.1: what is known leads to another fixed point."""
    mean, error = overlaps(model, alpha, prior, side)
    found = al.evolve(model, alpha, prior=Informed(prior, **side))
    assert found.converged and abs(mean - found.overlap)[0, 0] <= 3 * error[0, 0] + 1 / D
    # Recovery of binary weights may be better, and is not found.
    points = al.free_energy.answer(model, alpha, prior=Informed(prior, **side)).points
    assert min(abs(point.overlap - found.overlap)[0, 0] for point in points) <= 1e-6
    assert all(point.overlap[0, 0] >= 0.3 - 0.1 * bool(side.get("strength")) for point in points)


@pytest.mark.slow
def test_two_layers_of_laplace_weights():
    """Finite D couples the layers: the posterior of pairs, with an off-diagonal precision."""
    model = al.Network(layers=2, tokens=2)
    mean, error = overlaps(model, 0.25, Laplace())
    found = al.evolve(model, 0.25, prior=Laplace())
    assert (abs(mean - found.overlap).diagonal() <= 3 * (error + found.overlap_error).diagonal() + 1 / D).all()


def test_rows_of_a_covariance():
    """Two signs that are seen apart, of rows that are correlated: each says of the other, too."""
    link, rows = al.Link("sign(h[1]);sign(h[2])"), Rows([[1.0, 0.6], [0.6, 1.0]])
    mean, error = overlaps(link, 1.0, rows, max_iter=40)
    found = al.evolve(link, 1.0, prior=rows)
    assert (abs(mean - found.overlap) <= 3 * error + 1 / D).all()
    alone = al.evolve(SIGN, 1.0).overlap[0, 0]
    assert found.overlap[0, 0] > alone + 0.01 and found.overlap[0, 1] < 0.6


def test_known_weights_stay_what_they_are():
    weights = al.teacher(SIGN, 200, rng=0)
    X, Y = al.make_data(SIGN, weights, 1.0, rng=0)
    known = np.where(np.arange(200) < 60, weights, np.nan)
    run = al.gamp(SIGN, X, Y, known=known, rng=0)
    assert np.allclose(run.weights[:, :60], weights[:, :60], rtol=1e-14) and run.origin.settings["known"] == [0.3]
    for wrong, message in (
        (known[:, :10], "known must have shape"),
        (weights, "known has all weights"),
        (np.where(np.isnan(known), math.inf, known), "got infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            al.gamp(SIGN, X, Y, known=wrong)


@pytest.mark.parametrize(
    "call",
    [
        lambda prior: al.curve(SIGN, [1.0], prior=prior),
        lambda prior: al.curve(LAYER, [0.1], prior=prior),
        lambda prior: al.staircase(al.Link("sign(h[1])*abs(h[2])"), prior=prior),
    ],
)
def test_what_begins_without_overlap_refuses_known_weights(call):
    with pytest.raises(ValueError, match="from zero overlap"):
        call(Informed(known=0.2))


def test_rows_of_a_covariance_of_networks_are_refused():
    rows, two = Rows([[1.0, 0.6], [0.6, 1.0]]), al.Network(layers=2, tokens=2)
    for call in (al.evolve, lambda model, alpha, prior: al.curve(model, [alpha], prior=prior)):
        with pytest.raises(ValueError, match="are served with a link"):
            call(two, 0.3, prior=rows)
    weights = al.teacher(two, 50, prior=rows, rng=0)
    with pytest.raises(ValueError, match="are served with a link"):
        al.gamp(two, *al.make_data(two, weights, 1.0, rng=0), prior=rows)
