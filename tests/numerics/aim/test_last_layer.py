"""The last of several layers given the others: its functionals, its score by brute force, message passing, limits."""

import math

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import indices, teacher
from attnlimits.numerics.aim.entries import pairs, variances
from attnlimits.numerics.aim.last_layer import LastLayer, unmixed
from attnlimits.numerics.aim.layers import deep_outputs, network_matrix
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.aim.thresholds import perfect_recovery, weak_recovery
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.papers.boncoraglio2025.figures import size_runs


def scores(rng, layers, n, tokens):
    h = rng.standard_normal((layers, n, tokens, tokens))
    return h + h.swapaxes(2, 3)


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("logarithms", [False, True])
def test_outputs_fix_the_scores_but_for_one_direction(rng, tokens, logarithms):
    h = scores(rng, 3, 20, tokens)
    mixing, y = network_matrix(h[:2], 1.0, 0.4), deep_outputs(h, 1.0, 0.4)
    seen = unmixed(np.log(y) if logarithms else y, mixing, 0.4, logarithms=logarithms)
    v = seen[:, -1]
    assert np.allclose(np.einsum("nab,nb->na", mixing, v), 1, atol=1e-10)
    free = v[:, :, None] * v[:, None]
    off = seen[:, :-1] - h[2]
    s = (off * free).sum(axis=(1, 2)) / (free**2).sum(axis=(1, 2))
    assert np.abs(off - s[:, None, None] * free).max() < 1e-8 and np.abs(s).max() > 0.1


def test_without_layers_before_it_is_softmax(rng):
    h = scores(rng, 1, 30, 3)[0]
    plain, last = channel("softmax", 3), LastLayer(3)
    y = plain.observe(h)
    seen = unmixed(y, np.broadcast_to(np.eye(3), h.shape))
    omega = 0.5 * h[:, *pairs(3)]
    ours, theirs = last.prepare(last.check(seen)), plain.prepare(y)
    assert np.allclose(last.score(ours, omega, 0.3), plain.score(theirs, omega, 0.3), atol=1e-10)
    apart = last.log_evidence(ours, omega, 0.3) - plain.log_evidence(theirs, omega, 0.3)
    assert np.allclose(apart, 0, atol=1e-9)
    assert evolve(0.05, 0.5, last).mmse == evolve(0.05, 0.5, channel("softmax", 3)).mmse


@pytest.mark.parametrize("own", [False, True])
def test_score_is_that_of_the_posterior_mean(rng, own):
    """g = (V Sigma)^{-1} (E[h | y] - omega), with E[h | y] by conditioning on the functionals that y fixes."""
    tokens, V = 3, 0.4
    h = scores(rng, 2, 5, tokens)
    last = LastLayer(tokens)
    y = unmixed(deep_outputs(h, 0.8), network_matrix(h[:1], 0.8))
    seen = last.prepare(last.check(y))
    size = seen.shape[2]
    root = rng.standard_normal((5, size, size)) / 4
    sigma = np.diag(variances(tokens)) + (root @ root.swapaxes(1, 2) if own else np.zeros((5, size, size)))
    omega = rng.standard_normal((5, size))
    found = last.score(seen, omega, V, sigma if own else None)
    for number in range(5):
        # Functionals without the free direction, by the complement of w.
        w = seen[number, 1]
        A = np.linalg.svd(w[None])[2][1:]
        C = V * sigma[number]
        g = A.T @ np.linalg.solve(A @ C @ A.T, A @ (h[1, number][pairs(tokens)] - omega[number]))
        assert np.allclose(found[number], g, atol=1e-8)


def instance(d, rho, alpha, seed, skip=1.0):
    """Tokens, scores of the last of two layers, and its S."""
    first, last = teacher(d, 0.5, 100 + seed), teacher(d, rho, seed)
    x = np.random.default_rng([7, seed]).standard_normal((round(alpha * d * d), 2, d))
    h = np.stack([indices(x, first), indices(x, last)])
    return x, unmixed(deep_outputs(h, skip), network_matrix(h[:1], skip)), last


def errors(d, alpha, count):
    """Of the last layer, and of one layer of softmax on the same teachers and tokens."""
    found = []
    for seed in range(count):
        x, seen, S = instance(d, 0.5, alpha, seed)
        plain = channel("softmax")
        y = plain.observe(indices(x, S))
        runs = (amp(x, seen, LastLayer(2), 0.5, teacher=S), amp(x, y, plain, 0.5, teacher=S))
        found.append([run.mmse for run in runs])
    return np.array(found)


def agree(found):
    """Whether the errors are those of one layer, by the differences on the same teachers and tokens."""
    difference = found[:, 0] - found[:, 1]
    return abs(difference.mean()) < 3 * standard_error(difference)


def test_message_passing_at_16_dimensions():
    found = errors(16, 0.1, 4)
    # 1 before there are data, and 0.39 in the limit.
    assert agree(found) and found.max() < 0.7


@pytest.mark.slow
def test_message_passing_at_200_dimensions():
    """The mean of ten instances has the limit, and the excess over it that one layer has at d, within three errors."""
    limit = evolve(0.1, 0.5, LastLayer(2)).mmse.value
    found = errors(200, 0.1, 10)
    stored = dict(size_runs.excess([run for run in size_runs.stored() if run["heads"] == 2]))[200]
    excess = found[:, 0] / limit - 1
    assert agree(found)
    assert abs(excess.mean() - stored.value) < 3 * math.hypot(standard_error(excess), stored.error)


def test_an_exact_sample_count_recovers_it():
    """Counted as for one layer: twice the threshold of perfect recovery leaves nothing but rounding."""
    alpha = 2 * float(perfect_recovery(0.5, LastLayer(2)).value)
    x, seen, S = instance(24, 0.5, alpha, 3)
    assert amp(x, seen, LastLayer(2), 0.5, teacher=S, max_iter=400).mmse < 1e-4


def test_small_width_is_the_limit_of_large_rank():
    """n/(r d) of a layer of finite rank, r/(2 (2 r + 1)), tends to alpha/rho of weak recovery, 1/(2 K) = 1/4."""
    weak = float(weak_recovery(channel("softmax")).value)
    one = [float(al.threshold(al.Network(layers=1, tokens=2, rank=r), layer=1).value) / r for r in (16, 32)]
    assert weak == 0.25 and [weak - value for value in one] == pytest.approx([1 / 132, 1 / 260], rel=1e-9)
    assert float(weak_recovery(LastLayer(2)).value) == weak


def test_refusals(rng):
    h = scores(rng, 2, 4, 2)
    y, mixing = deep_outputs(h, 1.0), network_matrix(h[:1], 1.0)
    with pytest.raises(ValueError, match="mixing must be of full rank"):
        unmixed(y, np.ones((4, 2, 2)))
    with pytest.raises(ValueError, match="as many samples"):
        unmixed(y[:3], mixing)
    with pytest.raises(ValueError, match=r"as unmixed\(y, B\) gives it"):
        LastLayer(2).check(y)
    with pytest.raises(ValueError, match="h must be finite"):
        deep_outputs(h * math.nan, 1.0)
    for refused in (lambda: LastLayer(2).observe(h[0]), lambda: LastLayer(2).prediction_errors(0.1, 1.0)):
        with pytest.raises(KernelNotFoundError, match="depend on"):
            refused()
