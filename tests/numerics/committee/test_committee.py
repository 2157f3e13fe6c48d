"""Deep attention with strong skips: the expansion against sampled posteriors of the network, and both limits."""

import dataclasses
import json
import math

import numpy as np
import pytest
import sympy as sp

from attnlimits.numerics.cli import committee as cli_committee
from attnlimits.numerics.cli.verbs import command_line
from attnlimits.numerics.committee import (
    GaussianCommittee,
    committee_evolution,
    committee_threshold,
    last_layer_threshold,
    limit_threshold,
)
from attnlimits.numerics.committee.features import features, stability
from attnlimits.numerics.committee.gaussian import _seen, _unseen
from attnlimits.numerics.committee.noise import NoisySum
from attnlimits.numerics.core.results import as_dict
from attnlimits.numerics.model import mixing_law
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import gauss_legendre_panels, normal_qmc
from attnlimits.numerics.thresholds import last_layer_sums as thresholds

ROTATION = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class Sampled:
    """Posteriors of the hidden layers by importance sampling of the network (46)-(47), or of its limit c -> infinity.

    The points are the same for every c, so that differences between two c have little noise in them.
    """

    def __init__(self, hidden, outer=9, inner=11, seed=0):
        rng = np.random.default_rng(seed)
        points = normal_qmc(4 * hidden + 4, outer, rng)
        self.xi, self.zeta = (points[:, k * 2 * hidden : (k + 1) * 2 * hidden].reshape(-1, hidden, 2) for k in (0, 1))
        self.last, self.noise = points[:, -4:-2], points[:, -2:]
        # Two independent sets of nodes: products of both have no variance in them.
        self.nodes = [normal_qmc(2 * hidden, inner, rng).reshape(-1, hidden, 2) for _ in range(2)]

    def __call__(self, q, rho, c=math.inf):
        """Return E[g g^T] and E[T T'] of the hidden layers, T = E[h h^T - I | y], and E|E[z | y]|^2 of the last."""
        scores, moments, noises = [], [], []
        omega = math.sqrt(q) * self.xi
        truth = omega + math.sqrt(1 - q) * self.zeta
        for nodes in self.nodes:
            parts = []
            for start in range(0, len(omega), 64):
                part = slice(start, start + 64)
                h = omega[part, None] + math.sqrt(1 - q) * nodes
                z, log_weight = self._noise(truth[part], h, self.last[part], self.noise[part], rho, c)
                weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
                weight /= weight.sum(axis=1, keepdims=True)
                a, b = h[..., 0], h[..., 1]
                moment = np.stack([a**2 - 1, b**2 - 1, math.sqrt(2) * a * b], axis=-1)
                mean = np.einsum("nk,nkla->nla", weight, h)
                parts.append((mean, np.einsum("nk,nkla->nla", weight, moment), np.einsum("nk,nka->na", weight, z)))
            mean, moment, noise = (np.concatenate(x) for x in zip(*parts, strict=True))
            scores.append((mean - omega) / (1 - q))
            moments.append(moment)
            noises.append(noise)
        n = len(omega)
        return (
            np.einsum("nla,nma->lm", *scores) / n,
            np.einsum("nla,nma->lm", *moments) / n,
            float(np.einsum("na,na->", *noises) / n),
        )

    def _noise(self, truth, h, last, noise, rho, c):
        """Noise z of the last layer that each node asks for, and the log of its weight."""
        if c == math.inf:
            here, there = (np.stack(features(x[..., 0], x[..., 1], 1.0), axis=-1).sum(axis=-2) for x in (truth, h))
            z = noise[:, None] + last[:, None, 1:] * (here[:, None] - there) / math.sqrt(rho)
            return z, -0.5 * (z**2).sum(axis=-1)
        width = math.sqrt(rho) / c
        omega = math.sqrt(1 - width**2) * last
        scale, shear, shrink = self._mixing(truth, c)
        a, b = (omega + width * noise).T
        plus, minus = scale * a + shear * b, shrink * b
        scale, shear, shrink = self._mixing(h, c)
        b = minus[:, None] / shrink
        a = (plus[:, None] - shear * b) / scale
        z = (np.stack([a, b], axis=-1) - omega[:, None]) / width
        return z, -0.5 * (z**2).sum(axis=-1) - np.log(shrink)

    @staticmethod
    def _mixing(h, c):
        """B of (47) in token modes: [[scale, shear], [0, shrink]]."""
        scale, shear, shrink = 1.0, 0.0, 1.0
        for layer in range(h.shape[-2]):
            a, b = h[..., layer, 0], h[..., layer, 1]
            s, t = features(scale * a + shear * b, shrink * b, 1.0)
            scale, shear, shrink = scale * (1 + 1 / c), shear * (1 + 1 / c) + s * shrink / c, shrink * (1 + t / c)
        return scale, shear, shrink


def test_features_are_the_attention_matrix_in_modes():
    rng = np.random.default_rng(0)
    for beta in (0.3, 1.0, 2.5):
        h = rng.standard_normal((50, 2))
        modes = ROTATION @ softmax(beta * h[:, :, None] * h[:, None, :]) @ ROTATION
        s, t = features(*(h @ ROTATION).T, beta)
        # A few roundings each.
        np.testing.assert_allclose(modes[:, 0, 0], 1.0, atol=1e-14)
        np.testing.assert_allclose(modes[:, 1, 0], 0.0, atol=1e-14)
        np.testing.assert_allclose(modes[:, 0, 1], s, atol=1e-14)
        np.testing.assert_allclose(modes[:, 1, 1], t, atol=1e-14)


def test_mixing_of_the_samples_is_that_of_the_network():
    rng = np.random.default_rng(1)
    c, h = 3.0, rng.standard_normal((20, 2, 2))
    b = np.broadcast_to(np.eye(2), (20, 2, 2))
    for layer in range(2):
        v = np.einsum("nij,nj->ni", b, h[:, layer])
        b = (np.eye(2) + softmax(v[:, :, None] * v[:, None, :]) / c) @ b
    modes = ROTATION @ b @ ROTATION
    scale, shear, shrink = Sampled._mixing(h @ ROTATION, c)
    np.testing.assert_allclose(modes[:, 0, 0], scale, rtol=1e-14)
    np.testing.assert_allclose(modes[:, 0, 1], shear, atol=1e-14)
    np.testing.assert_allclose(modes[:, 1, 1], shrink, rtol=1e-14)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_stability_against_correlated_samples(beta):
    told = stability(beta)
    assert told.left_out < 1e-7
    x = normal_qmc(4, 15, np.random.default_rng(2))
    for q in (0.0, 0.4, 0.9, 1.0):
        first, second = x[:, :2], q * x[:, :2] + math.sqrt(1 - q * q) * x[:, 2:]
        pair = np.stack([np.stack(features(*h.T, beta)) for h in (first, second)])
        # Quasi-Monte Carlo of 2^15 points of a smooth bounded function.
        np.testing.assert_allclose((pair[0] * pair[1]).mean(axis=1), told.known(q), atol=2e-4)
    step = 1e-5
    # A central difference of a polynomial with coefficients of order 0.1.
    np.testing.assert_allclose(
        (told.known(0.6 + step) - told.known(0.6 - step)) / (2 * step), told.slope(0.6), rtol=1e-8
    )
    np.testing.assert_allclose(told.slope(step) / step, told.curvature, rtol=1e-8)


def test_average_over_the_amplitude():
    rule = gauss_legendre_panels(np.concatenate([[0.0], np.geomspace(1e-6, 9.0, 40)]), 16)
    weights = rule.weights * np.exp(-0.5 * rule.nodes**2) * math.sqrt(2 / math.pi)
    for u in (1e-6, 0.01, 1.0, 50.0):
        exact = weights @ (u / (u + rule.nodes**2))
        assert _unseen(np.array(u)) == pytest.approx(exact, rel=1e-9)
        assert _seen(np.array(u)) == pytest.approx(weights @ (rule.nodes**2 / (u + rule.nodes**2)), rel=1e-9)
    # Both forms meet where one takes over.
    assert _seen(np.array(1e4 * (1 + 1e-12))) == pytest.approx(float(_seen(np.array(1e4))), rel=1e-9)


def test_two_layers_are_the_limit_of_the_two_layer_thresholds():
    """`attnlimits threshold --layer 1 --skip c`, by nested quadratures at finite c: alpha, and (1 - q_22) c^2 there."""
    found = committee_threshold(2)
    assert found.alpha.error < 1e-5 and found.remainder.error < 1e-5
    products = []
    for c, alpha, rest in ((4.0, 0.720944, 0.054), (10.0, 0.72104, 0.065), (25.0, 0.72101, 0.0705)):
        # alpha is off by less than 0.002/c, and rho by 0.1/c: what is left out is of relative order 1/c.
        assert abs(alpha - found.alpha.value) < 0.002 / c
        products.append((found.remainder.value - rest) * c)
    assert max(products) < 0.11 and products == sorted(products)


def test_three_layers_against_sampled_posteriors():
    """At zero overlap: the Fourier sums against the sampled limit, and the network at c = 20, 40 against that."""
    rho = 0.043
    sampled = Sampled(2)
    _, growth, share = sampled(0.0, rho)
    averages = NoisySum(2, 1.0, 0.03, 1)
    # 512 outer points: 3 % of each average.
    assert share == pytest.approx(averages.share(rho), rel=0.05)
    assert growth.diagonal().mean() == pytest.approx(averages.growth(rho), rel=0.05)
    # Exchangeable posteriors: off the diagonal the operator is the same.
    np.testing.assert_allclose(growth, growth.mean(), rtol=0.06)
    gaps = []
    for c in (20.0, 40.0):
        _, full, full_share = sampled(0.0, rho, c)
        gaps.append([full_share - share, full.diagonal().mean() - growth.diagonal().mean()])
    ratios = np.array(gaps[:-1]) / np.array(gaps[1:])
    # First order in 1/c: both halve, up to the second order, which is 1/c of it and more.
    np.testing.assert_allclose(ratios, 2.0, atol=0.5)
    assert abs(gaps[-1][0]) < 0.1 * share


@pytest.mark.parametrize("c", [10.0, math.inf])
def test_parity_keeps_overlaps_diagonal(c):
    """Turn the sign of all that belongs to one layer: its mean turns, and E g_1 g_2^T with it, so that it is zero."""
    sampled = Sampled(2, outer=6, inner=8)
    before, _, _ = sampled(0.3, 0.05, c)
    for points in (sampled.xi, sampled.zeta):
        points[:, 0] *= -1
    for nodes in sampled.nodes:
        nodes[:, 0] *= -1
    after, _, _ = sampled(0.3, 0.05, c)
    sign = np.array([[1, -1], [-1, 1]])
    # Rounding only.
    np.testing.assert_allclose(after, sign * before, atol=1e-11)


def test_spread_of_the_last_layer():
    """10 and 14 of the last layer's threshold: the mean variance of h h^T if h moves by -b (dS, dT)."""
    a, b, shear, shrink = sp.symbols("a b dS dT")
    h = sp.Matrix([a - b * shear, b - b * shrink])
    slopes = [(h * h.T).diff(x).subs({shear: 0, shrink: 0}) for x in (shear, shrink)]
    moments = {0: 1, 2: 1, 4: 3}
    for slope, stated in zip(slopes, (10, 14), strict=True):
        square = sp.Poly(sum(entry**2 for entry in slope), a, b)
        assert sum(c * moments[i] * moments[j] for (i, j), c in square.terms()) == stated


@pytest.mark.parametrize("c", [10.0, 40.0])
def test_last_layer_of_two_layers(c):
    full = 1 / thresholds.softmax(Network(skip=c), 1)
    stated = last_layer_threshold(2, c)
    assert abs(full - stated.value) < stated.error < 0.2 * (full - 1 / 6)


def test_last_layer_of_three_layers(monkeypatch):
    """Against the law of (S, T) of the rescaled network (46), whose layers all have one inverse temperature."""

    def rescaled(model, layers, level):
        law = mixing_law.MixingLaw(np.zeros(1), np.ones(1), np.ones((1, 1)), 0.0)
        for done in range(layers):
            law = mixing_law._advance(
                model, dataclasses.replace(law, log_k=done * math.log1p(1 / model.skip)), done, level
            )
        return law

    monkeypatch.setattr(thresholds, "mixing_law", rescaled)
    gaps = []
    for c in (10.0, 20.0):
        full = 1 / thresholds.softmax(Network(layers=3, skip=c), 0)
        stated = last_layer_threshold(3, c)
        assert abs(full - stated.value) < stated.error
        gaps.append(full - stated.value)
    # Terms of order c^-3.
    assert 4.0 < gaps[0] / gaps[1] < 16.0


def test_many_layers_become_gaussian():
    limit = limit_threshold().value
    gaps = []
    for layers in (101, 1001):
        found = committee_threshold(layers)
        assert found.alpha.error < 1e-5 * found.alpha.value
        # The Gaussian sum is off by less than a layer's worth.
        assert abs(found.alpha.value - found.gaussian) < limit
        gaps.append(found.alpha.value / (layers - 1) - limit)
    # Of order 1/L.
    assert gaps[0] / gaps[1] == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize(("layers", "alpha"), [(3, 1.3), (21, 8.0)])
def test_free_entropy_is_stationary_at_the_fixed_points(layers, alpha):
    model = GaussianCommittee(layers)
    zero, point = model.points(alpha)
    assert zero.stability > 1 > point.stability > 0
    assert point.free_entropy > 0 and point.kind == "stable"
    q, rho = point.overlap, point.remainder

    def phi(dq, log_rho):
        return model.free_entropy(alpha, q + dq, rho * math.exp(log_rho))

    step = 1e-4
    # Central differences of an analytic function: 1e-8 times its third derivative, of order n.
    assert phi(step, 0.0) - phi(-step, 0.0) == pytest.approx(0.0, abs=2 * step * 1e-5 * layers)
    assert phi(0.0, step) - phi(0.0, -step) == pytest.approx(0.0, abs=2 * step * 1e-5 * layers)
    # A maximum along q with rho at rest.
    sides = [model.free_entropy(alpha, x, model.remainder(alpha, x)) for x in (0.97 * q, q, 1.03 * q)]
    assert sides[1] > max(sides[0], sides[2])


def test_free_entropy_is_the_integral_of_its_gradient():
    """The I-MMSE route: d Phi/dq = n (qhat(q) - q/(1 - q))/2 along the rest of the last layer."""
    model, alpha = GaussianCommittee(11), 4.5
    point = model.points(alpha)[-1]
    rule = gauss_legendre_panels(np.array([0.0, 0.5, 1.0]) * point.overlap, 12)
    slopes = np.array([model.conjugate(alpha, q) - q / (1 - q) for q in rule.nodes])
    assert 0.5 * model.hidden * rule.weights @ slopes == pytest.approx(point.free_entropy, rel=1e-8)


def test_evolution_against_sampled_state_evolution():
    """Three layers at alpha = 1.3: iterate (14) with sampled posteriors; Gaussian sums are off by less than stated."""
    alpha = 1.3
    told = committee_evolution(3, alpha)
    sampled = Sampled(2, outer=7, inner=9)
    q, rho = told.hidden_overlap.value, told.remainder.value
    # Each step goes half of the way.
    for _ in range(7):
        conjugate, _, share = sampled(q, rho)
        conjugate = alpha * float(conjugate.diagonal().mean())
        q = 0.5 * (q + conjugate / (1 + conjugate))
        # share rises with rho, slower than its root.
        rho *= (1 / (alpha * share)) ** 1.5
    assert 0.2 < q < 0.4
    assert abs(q - told.hidden_overlap.value) < told.hidden_overlap.error
    assert abs(rho - told.remainder.value) < told.remainder.error
    assert not told.recovered and "Gaussian" in told.status


def test_evolution_below_the_threshold_and_beyond_recovery():
    below = committee_evolution(3, 0.9)
    assert (below.hidden_overlap.value, below.hidden_overlap.error) == (0.0, 0.0)
    # Less is known of the last layer at smaller alpha; and it is at rest, at another resolution.
    assert below.remainder.value > below.threshold.remainder.value
    assert 0.9 * NoisySum(2, 1.0, 0.05).share(below.remainder.value) == pytest.approx(1.0, abs=1e-5)
    beyond = committee_evolution(31, 17.5)
    assert beyond.recovered and beyond.hidden_overlap.value == 1.0
    assert not any(math.isnan(x.error) for x in (beyond.hidden_overlap, beyond.remainder, beyond.free_entropy))


def test_limit_at_weak_attention():
    # x = beta (a b, b^2)/2 at small beta: N_s = (beta q/2)^2, N_t = (beta/2)^2 (1 + 2 q^2): 1/(2/1 + 4/2) = 1/4.
    found = limit_threshold(1e-3)
    assert found.value == pytest.approx(0.25, abs=1e-6)
    assert 0 < limit_threshold(10.0).error < 1e-5


def test_recovery_is_where_equations_are_as_many_as_unknowns():
    # qhat/(q/(1 - q)) -> 2 alpha/n as q -> 1, where the noise no longer counts.
    model = GaussianCommittee(1001)
    q = 1 - 1e-4
    ratios = [model.conjugate(alpha, q) * (1 - q) / q for alpha in (450.0, 550.0)]
    # Slope of N_i near one, and a noise of order (L (1 - q))^-1 of the rest.
    np.testing.assert_allclose(ratios, [0.9, 1.1], rtol=0.02)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: committee_threshold(1), "layers"),
        (lambda: committee_threshold(3, beta=0.0), "beta"),
        (lambda: committee_evolution(3, 0.5), "alpha must be > 1/2"),
        (lambda: committee_evolution(3, math.nan), "alpha"),
        (lambda: last_layer_threshold(5, 4.0), r"skip must be > L - 1"),
        (lambda: last_layer_threshold(2, -1.0), "skip"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_verb_prints_what_the_functions_return():
    parser, _ = command_line({"": [cli_committee.add]})
    words = ["committee", "--layers", "101", "--skip", "400", "--alpha", "40"]
    record, text, ok = cli_committee.run(parser.parse_args(words))
    assert ok and record["committee"] == committee_threshold(101)
    threshold = committee_threshold(101).alpha
    assert float(record["value"]) == pytest.approx(threshold.value, rel=1e-9)
    assert (record["error"], record["how"]) == (threshold.error, threshold.how)
    assert record["last_layer"] == last_layer_threshold(101, 400.0)
    assert record["state"].hidden_overlap == committee_evolution(101, 40.0).hidden_overlap
    plain = json.loads(json.dumps(as_dict(record)))
    assert plain["committee"]["alpha"]["value"] == committee_threshold(101).alpha.value
    assert f"{committee_threshold(101).alpha.value:.7g}" in text and "Gaussian" in text
