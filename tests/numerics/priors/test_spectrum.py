"""Spectra of the inputs: laws against closed forms, and the prior against sums, derivatives and infima."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.priors import (
    GAUSSIAN,
    Binary,
    as_prior,
    as_setting,
    as_spectrum,
    gain,
    is_standard,
    prior_with,
    responses,
)
from attnlimits.numerics.priors.eigenvalues import Eigenvalues

SPECTRA = ["mp:1", "mp:1/4", "mp:3", "mp:0.999", "power:0.3", "points:0.2,1.8", "power:1.2:300"]
COUPLED = np.array([[1.3, 0.4], [0.4, 0.7]])


def one(value):
    return np.array([[float(value)]])


def transforms(gamma, s):
    """E 1/(1 + s lambda) and E log(1 + s lambda) of Marchenko and Pastur's law in closed form (Tulino and Verdu)."""
    with mpmath.workdps(60):
        gamma, s = mpmath.mpf(gamma), mpmath.mpf(s)
        root = mpmath.sqrt(gamma)
        f = (mpmath.sqrt(s * (1 + root) ** 2 + 1) - mpmath.sqrt(s * (1 - root) ** 2 + 1)) ** 2
        shannon = mpmath.log(1 + s - f / 4) + mpmath.log(1 + gamma * s - f / 4) / gamma - f / (4 * gamma * s)
        return 1 - f / (4 * gamma * s), shannon


@pytest.mark.parametrize("gamma", ["0.001", "0.25", "0.999", "1", "1.001", "3", "10000"])
@pytest.mark.parametrize("s", [1e-8, 1e-2, 1.0, 1e3, 1e7])
def test_marchenko_pastur_is_its_transforms(gamma, s):
    prior = as_spectrum(f"mp:{gamma}")
    eta, shannon = transforms(gamma, s)
    left, psi = (1 - eta) / s, (s - shannon) / 2
    assert prior.mmse(one(s))[0, 0] == pytest.approx(float(left), rel=1e-12)
    # psi is a difference of terms of the size of s, or of its square where that is small
    assert prior.psi(one(s)) == pytest.approx(float(psi), rel=1e-12, abs=1e-15 * s)
    assert prior.overlap_error(one(s))[0, 0] < 1e-13


@pytest.mark.parametrize("name", ["mp:1", "mp:1/4", "mp:3", "power:0.3", "power:0.45", "points:0.2,1.8"])
def test_moments(name):
    law = as_spectrum(name).law
    assert law.fine.weights.sum() == pytest.approx(1, abs=1e-13)
    assert law.fine.weights @ law.fine.nodes == pytest.approx(float(law.square), rel=1e-12)
    assert isinstance(law.square, Fraction)


@pytest.mark.parametrize("name", ["mp:1", "mp:1/4", "mp:3", "power:0.3", "points:0.2@3,1.8"])
def test_coordinates_have_the_law(name):
    prior = as_spectrum(name)
    values = prior.coordinates(4000)
    assert values.mean() == pytest.approx(1, abs=1e-12) and (np.diff(values) <= 0).all()
    # what is left is of the edges of the law, and of the steepest eigenvalues of a power law
    assert (values**2).mean() == pytest.approx(prior.gain, rel=1e-3 if name != "power:0.3" else 2e-2)
    assert (values > 0).mean() == pytest.approx(prior.dimension, abs=1e-3)
    for s in (0.5, 20.0):
        assert (values / (1 + s * values)).mean() == pytest.approx(prior.mmse(one(s))[0, 0], rel=1e-3)


@pytest.mark.parametrize("name", ["mp:1", "mp:3", "power:0.3", "points:0.2,1.8"])
def test_overlap_is_the_posterior_of_the_coordinates(name):
    """F = E u <u>^T and its C by drawing u_i ~ N(0, lambda_i I) and z through qhat^{1/2} u + z."""
    prior, rng, size = as_spectrum(name), np.random.default_rng(3), 400_000
    scale = prior.coordinates(size)
    u = np.sqrt(scale) * rng.standard_normal((2, size))
    root = np.linalg.cholesky(COUPLED)
    field = COUPLED @ u + root @ rng.standard_normal((2, size))
    mean, covariance = prior.posterior(COUPLED, field)
    expected = prior.overlap(COUPLED)
    spread = np.sqrt(4 * prior.gain / size)  # of sums of independent terms, by Cauchy's inequality
    assert np.abs(mean @ mean.T / size - expected).max() < 4 * spread
    assert np.abs(u @ mean.T / size - expected).max() < 4 * spread
    assert np.abs(covariance - prior.mmse(COUPLED)).max() < 1e-3


@pytest.mark.parametrize("name", SPECTRA)
def test_derivatives(name):
    """d psi/d qhat = F/2 along any change, and dF by the slope; both by central differences."""
    prior, step = as_spectrum(name), 1e-4
    for moved in (np.eye(2), np.array([[0.0, 1.0], [1.0, 0.5]])):
        ahead, back = COUPLED + step * moved, COUPLED - step * moved
        rise = (prior.psi(ahead) - prior.psi(back)) / (2 * step)
        assert rise == pytest.approx(0.5 * np.trace(prior.overlap(COUPLED) @ moved), abs=1e-7)
        slope = (prior.overlap(ahead) - prior.overlap(back)) / (2 * step)
        assert np.abs(prior.slope(COUPLED, moved) - slope).max() < 1e-6
    assert np.abs(prior.overlap(COUPLED) + prior.mmse(COUPLED) - np.eye(2)).max() < 1e-13
    assert prior.overlap(np.array([COUPLED, np.eye(2)]))[0] == pytest.approx(prior.overlap(COUPLED), abs=1e-15)


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("q", [1e-12, 1e-3, 0.3, 0.7, 0.99, 1 - 1e-6])
def test_inverse_potential_and_their_errors(name, q):
    prior = as_spectrum(name)
    s = float(prior.inverse(one(q))[0, 0])
    if q < 0.5:
        assert prior.overlap(one(s))[0, 0] == pytest.approx(q, rel=1e-11)
    else:
        assert prior.mmse(one(s))[0, 0] == pytest.approx(1 - q, rel=1e-9)
    assert 0 < prior.uncertainty(one(q))[0, 0] < 1e-8 * s
    step = 1e-4 * min(q, 1 - q)
    other = float(prior.inverse(one(q + step))[0, 0])
    assert responses(prior, one(q))[0] == pytest.approx((other - s) / step, rel=1e-3)
    # psi(qhat) - q qhat/2 is convex in log qhat near its least value
    low = minimize_scalar(
        lambda t: prior.psi(one(np.exp(t))) - 0.5 * q * np.exp(t), bracket=(np.log(s) - 0.3, np.log(s))
    )
    assert prior.potential(one(q)) == pytest.approx(low.fun, abs=1e-9 * max(1.0, abs(low.fun)) + 1e-12 * s)


def test_the_potential_falls_as_the_share_of_eigenvalues_above_zero():
    for name, share in (("mp:4", 0.25), ("points:0,2", 0.5), ("power:0.3", 1.0)):
        prior = as_spectrum(name)
        near = [prior.potential(one(1 - v)) for v in (1e-5, 1e-6)]
        assert (near[1] - near[0]) / np.log(0.1) == pytest.approx(0.5 * share, rel=1e-3)
        assert prior.dimension == pytest.approx(share)


def test_one_eigenvalue_is_the_gaussian_prior():
    prior, q = as_spectrum("points:3"), np.array([[0.4, 0.1], [0.1, 0.6]])
    for method in ("psi", "overlap", "mmse"):
        assert np.abs(getattr(prior, method)(COUPLED) - getattr(GAUSSIAN, method)(COUPLED)).max() < 1e-14
    for method in ("inverse", "potential"):
        assert np.abs(getattr(prior, method)(q) - getattr(GAUSSIAN, method)(q)).max() < 1e-12
    field = np.arange(6.0).reshape(2, 3)
    for ours, theirs in zip(prior.posterior(COUPLED, field), GAUSSIAN.posterior(COUPLED, field), strict=True):
        assert np.abs(ours - theirs).max() < 1e-14


def test_isotropic_is_not_standard():
    prior = as_spectrum("mp:1")
    assert prior.isotropic and not is_standard(prior) and is_standard(GAUSSIAN) and not is_standard(Binary())
    assert (gain(prior), gain(GAUSSIAN), gain(Binary())) == (pytest.approx(2.0, abs=1e-13), 1.0, 1.0)
    assert as_setting(prior) == {"prior": "Marchenko-Pastur spectrum of aspect 1"}
    assert as_prior(prior) is prior and prior_with(None, "mp:1").gain == 2.0


def test_spectra_of_files_and_data(tmp_path):
    values = np.array([4.0, 1.0, 1.0, 0.0])
    np.save(tmp_path / "values.npy", values)
    np.savetxt(tmp_path / "values.txt", values)
    for name in ("values.npy", "values.txt"):
        read = as_spectrum(str(tmp_path / name))
        assert (read.coordinates(4) == values / 1.5).all() and read.gain == pytest.approx(2.0)
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    x = 5 + rng.standard_normal((20_000, 4)) * np.sqrt(values) @ turn.T
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "tokens.npy", x.reshape(5000, 4, 4))
    for name in ("x.npy", "tokens.npy"):
        read = as_spectrum(f"data:{tmp_path / name}")
        assert read.coordinates(4) == pytest.approx(values / 1.5, abs=0.05)
        assert np.abs((read.basis * read.coordinates(4)) @ read.basis.T - turn * (values / 1.5) @ turn.T).max() < 0.05
    assert Eigenvalues.checked([1, 3]).describe() != Eigenvalues.checked([1, 4]).describe()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.0, 0.0], "mean 0"),
        ([1.0, -1.0], "eigenvalues >= 0"),
        ([1.0, np.nan], "NaN"),
        ([[1.0, 2.0]], "shape (D,)"),
        ([], "shape (D,)"),
        (["a"], "real numbers"),
        ("mp:0", "must be in (0, 1e6]"),
        ("mp:one", "needs a number"),
        ("mp:1/0", "needs a number"),
        ("power:0.6", "must be in (0, 0.45]"),
        ("power:1:0", "from 1 to 1000000"),
        ("points:0", "mean 0"),
        ("points:1,-1", "must be >= 0"),
        ("gaussian", "spectrum must be mp:GAMMA"),
    ],
)
def test_refusals(value, words):
    with pytest.raises(ValueError) as refused:
        as_spectrum(value)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_more_refusals(tmp_path):
    with pytest.raises(ValueError, match=r"3 eigenvalues, one for each coordinate, and the data have D = 4"):
        as_spectrum([1.0, 2.0, 3.0]).coordinates(4)
    with pytest.raises(ValueError, match="not so in the eigenbasis"):
        prior_with("binary", "mp:1")
    with pytest.raises(ConvergenceError, match="no finite qhat"):
        as_spectrum("mp:1").inverse(one(1.0))
    with pytest.raises(ConvergenceError, match="eigenvalue"):
        as_spectrum("mp:1").posterior(one(-0.5), np.ones((1, 10)))
    (tmp_path / "words.txt").write_text("one two", encoding="utf-8")
    with pytest.raises(ValueError, match=r"must hold eigenvalues"):
        as_spectrum(str(tmp_path / "words.txt"))
    np.save(tmp_path / "same.npy", np.ones((5, 3)))
    with pytest.raises(ValueError, match="do not vary"):
        as_spectrum(f"data:{tmp_path / 'same.npy'}")
    with pytest.raises(FileNotFoundError):
        as_spectrum("nosuch.npy")
