"""Outputs that finitely many indices give: their branches, the sums over them, and what follows for averages."""

import math

import numpy as np
import pytest
from scipy.optimize import root

import attnlimits as al
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.core.errors import UnreachableOutputError
from attnlimits.numerics.model.kinds import branched
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.branches.posterior import Branches, Preimages

THREE = Network(2, 3, output="sequence")
FOUR = Network(2, 4, output="sequence")


@pytest.fixture(scope="module")
def indices():
    return np.random.default_rng(7).standard_normal((40, 2, 3))


@pytest.fixture(scope="module")
def found(indices):
    return Preimages(THREE, np.random.default_rng(1)).of_outputs(THREE.link(indices))


def test_which_models_leave_finitely_many_indices():
    assert branched(THREE) and not THREE.unique_preimage
    assert branched(FOUR) and FOUR.unique_preimage and branched(Network(3, 5, output="sequence"))
    for model in (
        Network(2, 2, output="sequence"),
        Network(3, 3, output="sequence"),
        Network(3, 4, output="sequence"),
        Network(2, 3),
        Network(2, 3, output="sequence", activation="linear"),
        Network(2, 3, output="sequence", tied=False),
        Network(2, 3, 2, output="sequence"),
        Network(2, 3, output="sequence", noise=0.1),
        Network(1, 3, output="sequence"),
    ):
        assert not branched(model)


def test_every_branch_gives_the_output_and_none_occurs_twice(indices, found):
    y = THREE.link(indices)
    assert len(set(np.isfinite(found.log_weight).sum(axis=1))) > 2  # one to six of them
    for n, (points, log_weight) in enumerate(zip(*found, strict=True)):
        there = points[np.isfinite(log_weight)]
        assert np.abs(THREE.link(there) - y[n]).max() < 1e-9
        sizes = np.sort(np.abs(there).sum(axis=(1, 2)))
        assert (np.diff(sizes) > 1e-7).all()


def test_the_indices_that_gave_an_output_are_among_its_branches(indices, found):
    apart = np.abs(np.abs(found.points) - np.abs(indices[:, None])).max(axis=(2, 3))
    assert (apart.min(axis=1) < 1e-6).mean() >= 0.95


def test_another_solver_finds_no_branch_that_is_not_there(indices, found):
    y, rng, known = THREE.link(indices[:6]), np.random.default_rng(3), 0
    for n in range(len(y)):
        for start in rng.standard_normal((20, 6)):
            end = root(lambda x, n=n: (THREE.link(x.reshape(2, 3)) - y[n])[:, :2].ravel(), start, tol=1e-13)
            if not end.success or np.abs(end.fun).max() > 1e-11:
                continue
            known += 1
            apart = np.abs(np.abs(found.points[n]) - np.abs(end.x.reshape(2, 3))).max(axis=(1, 2))
            assert apart.min() < 1e-5
    assert known > 20


def test_weights_are_the_inverse_slopes(indices, found):
    """|dy/dh| by differences of the entries that fix y, outside its last column."""
    step = 1e-6
    for n in range(5):
        h = found.points[n, 0]
        slopes = np.empty((6, 6))
        for k in range(6):
            away = np.zeros(6)
            away[k] = step
            up, down = (THREE.link(h + sign * away.reshape(2, 3)) for sign in (1, -1))
            slopes[:, k] = ((up - down) / (2 * step))[:, :2].ravel()
        assert math.isclose(-math.log(abs(np.linalg.det(slopes))), found.log_weight[n, 0], abs_tol=1e-6)


def test_the_sum_over_branches_and_signs_is_the_posterior(indices, found):
    """Term by term, with a covariance that couples the layers."""
    preimages = Preimages(THREE, np.random.default_rng(1), 1, 8)
    rng = np.random.default_rng(4)
    omega, v = 0.5 * rng.standard_normal((3, 2, 3)), np.array([[0.7, 0.2], [0.2, 0.5]])
    some = Branches(found.points[:3], found.log_weight[:3])
    made, precision = preimages.summed(some, omega, v), np.linalg.inv(v)
    for n in range(3):
        mass, first, second = 0.0, np.zeros(6), np.zeros((6, 6))
        for point, log_weight in zip(some.points[n], some.log_weight[n], strict=True):
            for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                h = np.array(signs)[:, None] * point
                away = h - omega[n]
                density = math.exp(-0.5 * np.sum(away * (precision @ away))) / (2 * math.pi) ** 3
                weight = math.exp(log_weight) * density * np.linalg.det(precision) ** 1.5
                mass, first, second = mass + weight, first + weight * h.ravel(), second + weight * np.outer(h, h)
        assert math.isclose(made.log_z[n], math.log(mass), rel_tol=1e-12)
        assert np.allclose(made.mean[n].ravel(), first / mass, rtol=0, atol=1e-12)
        assert np.allclose(made.second[n], second / mass, rtol=0, atol=1e-12)


def test_nishimori_holds_of_the_averages():
    """E g g^T = E g u^T, u = V^{-1} (h - omega), only for the true posterior: weights and all branches in it."""
    q = np.diag([0.3, 0.6])
    averages = channel(THREE, samples=128, replicas=8, rng=np.random.default_rng(2))
    averages(q)
    at = averages._moments(q)
    g, u = at.precision @ (at.moments.mean[0] - at.omega), at.precision @ (at.h - at.omega)
    off = (g * (g - u)).sum(axis=2)
    error = off.std(axis=0, ddof=1) / math.sqrt(len(off))
    allowed = 4 * error + averages._missed * 3 / (1 - q.diagonal())
    assert (np.abs(off.mean(axis=0)) <= allowed).all()
    assert (allowed < 0.15 * (g**2).sum(axis=2).mean(axis=0)).all()


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.2, 0.7), (0.9, 0.95)])
def test_each_layer_is_as_one_layer_where_the_output_fixes_all(q):
    averages = channel(FOUR, samples=128, replicas=8, rng=np.random.default_rng(1))(np.diag(q))
    one = channel(Network(1, 4), samples=16, replicas=2, rng=np.random.default_rng(0))
    for layer, x in enumerate(q):
        alone = one(np.array([[x]]))
        if x == 0:
            assert abs(averages.growth[:, layer].mean() - 20) < 1e-9  # M (M + 1)
            continue
        values = averages.g[:, layer, layer]
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - alone.g.mean()) <= 5 * error < 0.1 * alone.g.mean()


def test_thresholds():
    """Of four tokens 1/(M (M + 1)), as of one layer; of three more, as branches are not told apart."""
    found = al.threshold(FOUR, samples=64)
    assert abs(float(found.value) - 1 / 20) <= 3 * found.error + 1e-9
    three = al.threshold(THREE, samples=64)
    assert 1 / 12 < float(three.value) < 0.12 and three.how == "monte-carlo"


def test_what_the_search_misses_is_stated(indices):
    sloppy = Preimages(THREE, np.random.default_rng(5), 1, 2)
    found, missed = sloppy.of_indices(indices)
    assert 0.2 < missed < 1
    apart = np.abs(np.abs(found.points) - np.abs(indices[:, None])).max(axis=(2, 3))
    assert (apart.min(axis=1) < 1e-6).all()  # what gave the output is there in any case


def test_an_output_that_no_indices_give_is_refused():
    y = THREE.link(np.zeros((2, 3)))
    y[0] = [1.0, 0.5, 2.5]
    with pytest.raises(UnreachableOutputError, match="no indices of tied softmax attention"):
        Preimages(THREE, np.random.default_rng(0), 1, 16).of_outputs(y[None])


def test_denoise():
    """Two searches agree, and the posterior mean is that of a fine sum of the noisy network's, as noise vanishes."""
    h = np.array([[0.3, -1.1, 0.8], [1.2, 0.4, -0.5]])
    y, omega, v = THREE.link(h), 0.6 * h, 0.3 * np.eye(2)
    made = al.denoise(THREE, y, omega, v)
    assert made.how == "estimated" and made.error < 1e-5
    noisy = Network(2, 3, output="sequence", noise=1e-4)
    near = al.denoise(noisy, y, omega, v, accuracy=0.05, rng=1)
    assert np.abs(made.g_out - near.g_out).max() <= 4 * near.g_error.max() + 0.05
