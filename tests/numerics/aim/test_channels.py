"""Scores against finite differences of log Z and Nishimori identities; F against Monte Carlo and its closed forms."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from attnlimits.numerics.aim.bivariate import log_phi2, slopes
from attnlimits.numerics.aim.channels import (
    Hardmax,
    HardmaxMany,
    Linear,
    Noisy,
    Softmax,
    channel,
    pairs,
    variances,
)
from attnlimits.numerics.aim.data import gram, indices, teacher
from attnlimits.numerics.aim.hardmax import information, information_between
from attnlimits.numerics.core.errors import KernelNotFoundError, UnreachableOutputError


def symmetric(entries, tokens):
    rows, columns = pairs(tokens)
    h = np.zeros((len(entries), tokens, tokens))
    h[:, rows, columns] = entries
    h[:, columns, rows] = entries
    return h


def draws(output, n, c, rng, scale=1.0):
    """(omega, V, y, h): omega of variance q (1 + delta), h | omega of variance V (1 + delta)."""
    V = scale / (1 + c)
    spread = np.sqrt(variances(output.tokens))
    omega = math.sqrt(scale - V) * spread * rng.standard_normal((n, len(spread)))
    h = omega + math.sqrt(V) * spread * rng.standard_normal((n, len(spread)))
    return omega, V, output.draw(symmetric(h, output.tokens), rng), h


def named(output):
    return f"{output.name}-{output.tokens}-{output.noise:g}"


OUTPUTS = [
    Linear(2),
    Linear(4),
    Softmax(2),
    Softmax(3, 5.0),
    Softmax(5, 0.3),
    Hardmax(),
    HardmaxMany(3),
    *(Noisy(clean, 0.4) for clean in (Linear(2), Softmax(3, 5.0), Hardmax(), HardmaxMany(3))),
]


@pytest.mark.slow_for("6.0-hardmax-3-0.4", "0.7-hardmax-3-0", "6.0-hardmax-3-0", "0.7-hardmax-3-0.4")
@pytest.mark.parametrize("output", OUTPUTS, ids=named)
@pytest.mark.parametrize("c", [0.0, 0.7, 6.0])
def test_information_is_the_average_of_the_score_and_nishimori_holds(output, c, rng):
    """V sum (1 + delta) E g^2 = F(c), and the same with (h - omega) g, to five standard errors.

    These are 2 to 5 per cent with 20000 draws, 5 to 10 per cent with the 4000 that have labels of three tokens.
    """
    omega, V, y, h = draws(output, 4000 if output.name == "hardmax" and output.tokens > 2 else 20000, c, rng, scale=1.7)
    g = output.score(output.prepare(output.check(y)), omega, V)
    F = output.information(c, V).value
    for terms in (V * (variances(output.tokens) * g**2).sum(axis=1), ((h - omega) * g).sum(axis=1)):
        error = terms.std() / math.sqrt(len(terms))
        assert abs(terms.mean() - F) < 5 * error + 1e-12


def quadratic_log_z(phi, omega, V, sigma):
    """Log Z of softmax up to a constant: the integral over the shift is Gaussian."""
    inverse = np.linalg.inv(sigma) / V
    e, ones = phi - omega, np.ones(len(omega))
    return -0.5 * (e @ inverse @ e - (ones @ inverse @ e) ** 2 / (ones @ inverse @ ones))


def slopes_of(f, omega, h=1e-5):
    return np.array([(f(omega + h * e) - f(omega - h * e)) / (2 * h) for e in np.eye(len(omega))])


@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("sampled", [False, True])
def test_softmax_score_is_the_slope_of_log_z(tokens, sampled, rng):
    output = Softmax(tokens, 2.0)
    omega, V, y, h = draws(output, 3, 1.0, rng)
    sigma = gram(rng.standard_normal((3, tokens, 60))) if sampled else None
    seen = output.prepare(y)
    g = output.score(seen, omega, V, sigma)
    for k in range(3):
        matrix = np.diag(variances(tokens)) if sigma is None else sigma[k]
        wanted = slopes_of(lambda o, k=k, m=matrix: quadratic_log_z(seen[k], o, V, m), omega[k])
        assert np.allclose(g[k], wanted, rtol=1e-7, atol=1e-7)
    # phi is h up to one shift.
    assert np.ptp(h - seen, axis=1).max() < 1e-12


@pytest.mark.parametrize("sampled", [False, True])
def test_score_of_noisy_outputs_is_the_slope_of_log_z(sampled, rng):
    """Z is the density of y ~ N(omega, V Sigma + Delta_n diag(1 + delta)), from SciPy."""
    output = Noisy(Linear(2), 0.3)
    omega, V, y, _ = draws(output, 3, 1.0, rng)
    sigma = gram(rng.standard_normal((3, 2, 60))) if sampled else None
    seen = output.prepare(output.check(y))
    g = output.score(seen, omega, V, sigma)
    for k in range(3):
        matrix = np.diag(variances(2)) if sigma is None else sigma[k]
        law = multivariate_normal(cov=V * matrix + 0.3 * np.diag(variances(2)))
        wanted = slopes_of(lambda o, k=k, law=law: law.logpdf(seen[k] - o), omega[k])
        assert np.allclose(g[k], wanted, rtol=1e-6, atol=1e-6)
    nearly = Noisy(Linear(2), 1e-9).score(seen, omega, V, sigma)
    assert np.allclose(nearly, Linear(2).score(seen, omega, V, sigma), rtol=1e-7)


@pytest.mark.parametrize("sampled", [False, True])
def test_hardmax_score_is_the_slope_of_log_z(sampled, rng):
    """Z from the bivariate normal of SciPy."""
    output = Hardmax()
    omega, V, y, _ = draws(output, 4, 2.0, rng)
    sigma = gram(rng.standard_normal((4, 2, 50))) if sampled else None
    seen = output.prepare(y)
    g = output.score(seen, omega, V, sigma)
    contrast = np.array([[1.0, -1, 0], [0, -1, 1]])
    for k in range(4):
        signs = np.diag(seen[k])
        matrix = np.diag(variances(2)) if sigma is None else sigma[k]
        law = multivariate_normal(cov=V * signs @ contrast @ matrix @ contrast.T @ signs)
        f = lambda o, law=law, signs=signs: math.log(law.cdf(signs @ contrast @ o))  # noqa: E731
        # SciPy's distribution function is good to about 1e-9 there.
        assert np.allclose(g[k], slopes_of(f, omega[k], 1e-3), atol=2e-5)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    "clean", [Linear(3), Softmax(2), Softmax(3, 2.0), Hardmax(), HardmaxMany(3)], ids=lambda o: f"{o.name}-{o.tokens}"
)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_score_is_the_slope_of_the_log_evidence(clean, noise, sampled, rng):
    """By central differences, of which the third derivative leaves 1e-8."""
    output = Noisy(clean, noise) if noise else clean
    omega, V, y, _ = draws(output, 4, 2.0, rng)
    sigma = gram(rng.standard_normal((4, output.tokens, 50))) if sampled else None
    seen = output.prepare(output.check(y))
    g, step = output.score(seen, omega, V, sigma), 1e-4
    for at in range(omega.shape[1]):
        ends = [
            output.log_evidence(seen, omega + s * step * (np.arange(omega.shape[1]) == at), V, sigma) for s in (1, -1)
        ]
        assert np.allclose((ends[0] - ends[1]) / (2 * step), g[:, at], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "output",
    [Linear(2), Softmax(3), Noisy(Softmax(2), 0.3), Noisy(Linear(2), 0.3)],
    ids=named,
)
def test_log_evidence_depends_on_the_variance_as_a_density_does(output, rng):
    """Its slope in V is that of a law that spreads: d log Z/dV = E over h of it; by an average of densities over y.

    The constant that is left out does not depend on V: the mean of exp(log Z(V') - log Z(V)) over y of V is one.
    """
    spread = np.sqrt(variances(output.tokens))
    h = spread * rng.standard_normal((40000, len(spread)))
    seen = output.prepare(output.check(output.draw(symmetric(h, output.tokens), rng)))
    zero = np.zeros_like(h)
    ratio = np.exp(output.log_evidence(seen, zero, 0.8) - output.log_evidence(seen, zero, 1.0))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / 200


def test_noisy_softmax_is_a_gaussian_law_of_its_logarithms(rng):
    """Log Z from SciPy's normal density of phi - phi_TT, of covariance M (V Sigma + Delta_n diag(1 + delta)) M^T."""
    output = Noisy(Softmax(3, 2.0), 0.4)
    omega, V, y, _ = draws(output, 5, 1.0, rng)
    sigma, seen = gram(rng.standard_normal((5, 3, 40))), output.prepare(output.check(y))
    contrast = np.hstack([np.eye(5), -np.ones((5, 1))])
    found = output.log_evidence(seen, omega, V, sigma)
    exact = []
    for k in range(5):
        law = multivariate_normal(cov=contrast @ (V * sigma[k] + 0.4 * np.diag(variances(3))) @ contrast.T)
        exact.append(law.logpdf(contrast @ (seen[k] - omega[k])))
    # Up to a constant.
    assert np.ptp(found - np.array(exact)) < 1e-10


def test_noisy_labels_are_those_of_noisy_scores(rng):
    """Shares of the four labels at omega = 0.3, against Z_out of 10^5 draws; and noise flips some labels."""
    output = Noisy(Hardmax(), 0.5)
    omega, V = np.array([[0.3, -0.2, 0.5]]), 0.4
    h = omega + math.sqrt(V) * np.sqrt(variances(2)) * rng.standard_normal((100000, 3))
    seen = output.prepare(output.check(output.draw(symmetric(h, 2), rng)))
    for label in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        share = (seen == label).all(axis=1).mean()
        p = math.exp(output.log_evidence(np.array([label], float), omega, V)[0])
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 100000)
    clean = Hardmax().prepare(Hardmax().observe(symmetric(h, 2)))
    assert 0.2 < (clean != seen).any(axis=1).mean() < 0.6


def test_hardmax_score_far_from_any_label():
    """At k = -30 and beyond the mean of a truncated Gaussian: finite, and linear in k."""
    output = Hardmax()
    y = np.eye(2)[None]
    for k in (5.0, 30.0, 300.0):
        omega = np.array([[-k, 0.0, -k]])
        g = output.score(output.prepare(y), omega, 1.0)
        assert np.isfinite(g).all()
        # The nearest h with the label has both differences zero; the posterior mean lies within 1/k of it.
        pull = np.linalg.solve([[3.0, 1.0], [1.0, 3.0]], [k, k])
        assert g[0, 0] == pytest.approx(pull[0], rel=8 / k**2)
        assert g[0, 1] == pytest.approx(-(g[0, 0] + g[0, 2]), rel=1e-12)


def test_bivariate_normal_in_its_tails():
    """Against 20 digits, at arguments from -30 to 30."""

    def exact(k1, k2, r):
        with mp.workdps(20):
            k1, k2, root = mp.mpf(k1), mp.mpf(k2), mp.sqrt(1 - mp.mpf(r) ** 2)
            points = {mp.mpf(2) ** j / (1 + abs(k1)) for j in range(-1, 9)} | {mp.mpf(0)}
            points |= {k1 + j for j in (-3, -1, 0, 1, 3, 9) if k1 + j > 0}
            value = mp.quad(lambda t: mp.npdf(k1 - t) * mp.ncdf((k2 - r * k1 + r * t) / root), sorted(points))
            return float(mp.log(value))

    places = [(-30, -25), (-9, -1), (4, -8), (2, 3), (30, -9), (-2, 40)]
    for r, some in ((1 / 3, places), (-1 / 3, places[:2]), (0.6, places[2:3])):
        for k1, k2 in some:
            found = float(log_phi2(np.array(k1), np.array(k2), np.array(r)))
            assert found == pytest.approx(exact(min(k1, k2), max(k1, k2), r), abs=4e-11)
    k = np.array([-30.0, -9, -2, 1, 5])
    assert np.allclose(log_phi2(k, np.full(5, 1e3), np.full(5, 1 / 3)), log_ndtr(k), rtol=0, atol=1e-13)
    # Independent, hence a product.
    assert np.allclose(log_phi2(k, k[::-1], np.zeros(5)), log_ndtr(k) + log_ndtr(k[::-1]), rtol=0, atol=2e-13)


def test_bivariate_slopes():
    k1, k2, r, h = np.array([-3.0, 0.2, 1.0]), np.array([-2.0, 1.1, -4.0]), np.array([1 / 3, -1 / 3, 1 / 3]), 1e-4
    found = slopes(k1, k2, r)
    assert np.allclose(found.first, (log_phi2(k1 + h, k2, r) - log_phi2(k1 - h, k2, r)) / (2 * h), rtol=1e-6)
    assert np.allclose(found.second, (log_phi2(k1, k2 + h, r) - log_phi2(k1, k2 - h, r)) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize(
    ("c", "value", "published"), [(0, 1.2394319, 0.8876777), (1, 0.9376750, None), (10, 0.4247897, None)]
)
def test_hardmax_information(c, value, published):
    assert information(c).value == pytest.approx(value, abs=5.1e-8)
    assert information_between(c).value == pytest.approx(information(c).value, rel=1e-11)
    if published:
        assert information(c, published=True).value == pytest.approx(published, abs=5.1e-8)
        assert information(c, published=True).value / information(c).value == pytest.approx(
            9 / (4 * math.pi), rel=1e-12
        )


def test_hardmax_information_at_large_c():
    assert information(100.0).value == pytest.approx(0.1426449, abs=5.1e-8)
    assert information(1e8).value * 1e4 == pytest.approx(1.4412943, rel=1e-5)
    assert information(1e8, published=True).value * 1e8 == pytest.approx(1.12190, rel=1e-5)
    for c in (0.003, 0.4, 33.0, 5e5):
        assert information_between(c).value == pytest.approx(information(c).value, rel=1e-11)
    # Its own Nishimori: F falls with c, as a posterior that knows more learns less from a label.
    values = [information_between(c).value for c in np.geomspace(1e-3, 1e6, 60)]
    assert (np.diff(values) < 0).all()


@pytest.mark.parametrize("tokens", [2, 3])
def test_indices_and_their_covariance_are_traces(tokens, rng):
    """h_ab = Tr(S Z_ab) and (2/d) Tr(Z_ab Z_cd), with Z as a matrix."""
    d = 12
    x, S = rng.standard_normal((2, tokens, d)), teacher(d, 0.5, rng)
    rows, columns = pairs(tokens)
    for k in range(2):
        Z = [
            (0.5 * (np.outer(x[k, a], x[k, b]) + np.outer(x[k, b], x[k, a])) - (a == b) * np.eye(d)) / math.sqrt(d)
            for a, b in zip(rows, columns, strict=True)
        ]
        assert np.allclose(indices(x, S)[k, rows, columns], [np.trace(S @ z) for z in Z], atol=1e-12)
        assert np.allclose(gram(x)[k], [[2 / d * np.trace(z @ w) for w in Z] for z in Z], atol=1e-12)


def test_logarithms_of_a_softmax_that_underflows(rng):
    h = 30 * symmetric(rng.standard_normal((5, 6)), 3)
    plain, logs = Softmax(3, 100.0), Softmax(3, 100.0, logarithms=True)
    with pytest.raises(UnreachableOutputError, match="logarithms=True"):
        plain.check(plain.observe(h))
    seen = logs.prepare(logs.check(logs.observe(h)))
    assert np.ptp(h[:, *pairs(3)] - seen, axis=1).max() < 1e-10


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: channel("softmax", 1), ValueError, "tokens must be an integer >= 2"),
        (lambda: channel("softmax", 2, 0.0), ValueError, "beta must be finite and > 0"),
        (lambda: channel("relu"), ValueError, "activation must be one of softmax"),
        (lambda: channel("hardmax", 11), KernelNotFoundError, "T = 11"),
        (lambda: channel("hardmax_published", 3), KernelNotFoundError, "no published variant"),
        (lambda: channel("hardmax_published", noise=0.1), ValueError, "the published formula has no noise"),
        (lambda: channel("linear", 2, noise=-0.1), ValueError, "noise must be finite and >= 0"),
        (lambda: Softmax(2).check(np.full((1, 2, 2), 0.4)), UnreachableOutputError, "sum to 1"),
        (lambda: Softmax(2).check(np.array([[[1.5, -0.5], [0.5, 0.5]]])), UnreachableOutputError, "range of a softmax"),
        (lambda: Softmax(2, logarithms=True).check(np.ones((1, 2, 2))), UnreachableOutputError, "log y must be"),
        (lambda: Softmax(2).check(np.full((1, 2, 2), np.nan)), ValueError, "NaN or infinity in sample 0"),
        (lambda: Softmax(2).check(np.full((2, 2), 0.5)), ValueError, "shape"),
        (lambda: Softmax(2).check("no"), ValueError, "array of numbers"),
        (lambda: Hardmax().check(np.full((1, 2, 2), 0.5)), UnreachableOutputError, "one-hot"),
        (lambda: Linear(2).check(np.array([[[1.0, 2.0], [0.0, 1.0]]])), UnreachableOutputError, "symmetric"),
        (
            lambda: Hardmax(published=True).score(np.ones((1, 2)), np.zeros((1, 3)), 1.0),
            KernelNotFoundError,
            "no score of a model",
        ),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
