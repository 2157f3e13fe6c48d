"""Links with noise whose noiseless form is simpler: threshold, evolve, curve, free energy and GAMP agree."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import attnlimits as al
from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.learning.data import informed_start

Array = NDArray[np.float64]

#: Links of one entry, and the same as functions.
LINKS: dict[str, Callable[[Array], Array]] = {
    "tanh(h[1])": np.tanh,
    "2*h[1]": lambda u: 2 * u,
    "exp(h[1])": np.exp,
    "h[1]**3": lambda u: u**3,
    "h[1]**4": lambda u: u**4,
    "sqrt(abs(h[1]))": lambda u: np.sqrt(np.abs(u)),
    "relu(h[1])": lambda u: np.maximum(u, 0),
    "step(h[1])": lambda u: np.heaviside(u, 0.5),
}
NOISES = ("0.02", "0.1", "1")
FEW_NODES = [("tanh(h[1])", "0.1"), ("h[1]**3", "1")]
# One link has its fixed point held against sums, and its free energy against the fixed point.
ALL = [pytest.param(t, d, marks=() if (t, d) == FEW_NODES[1] else pytest.mark.slow) for t in LINKS for d in NOISES]
EVEN = ("h[1]**4", "sqrt(abs(h[1]))")
# The largest error of the sums below, from twice as many nodes everywhere.
_SUMS = 2e-4


class _Sums(NamedTuple):
    """Truths with weights, nodes of the posterior, and p(y | node) for outputs y of every truth with weights."""

    truth: Array
    weight: Array
    u: Array
    likelihood: Array
    noise_weight: Array


@cache
def sums(text: str, noise: str) -> _Sums:
    g, delta = LINKS[text], float(noise)
    truth = np.linspace(-5.5, 5.5, 222)
    weight = np.exp(-0.5 * truth**2)
    # Of a jump the posterior's odds change within the noise: its mean is no polynomial in z.
    z, noise_weight = np.polynomial.hermite_e.hermegauss(40 if text == "step(h[1])" else 10)
    # As dense as the noise over the steepest slope asks for; a jump at zero lies half-way between two of them.
    u = np.linspace(-7, 7, 5_000 if (text, noise) in FEW_NODES else 20_000)
    y = g(truth)[:, None] + np.sqrt(delta) * z
    gap = (y[:, :, None] - g(u)) ** 2 / (2 * delta)
    return _Sums(truth, weight / weight.sum(), u, np.exp(-gap).astype(np.float32), noise_weight / noise_weight.sum())


def score_square(text: str, noise: str, q: float) -> float:
    """E g^2 at the overlap q, by trapezoidal sums over the truth, the noise, omega and the posterior."""
    made, v = sums(text, noise), 1 - q
    z, w = np.polynomial.hermite_e.hermegauss(16)
    total = 0.0
    for truth, weight, likelihood in zip(made.truth, made.weight, made.likelihood, strict=True):
        omega = q * truth + np.sqrt(q * v) * z
        shift = made.u[:, None] - omega
        prior = np.exp(-(shift**2) / (2 * v))
        mean = (likelihood @ (prior * shift)) / (likelihood @ prior)
        total += weight * float(made.noise_weight @ mean**2 @ w) / w.sum()
    return total / v**2


@cache
def evolved(text: str, noise: str, alpha: float) -> EvolutionResult:
    """The fixed point that the tests below share."""
    return al.evolve(al.Link(text, noise), alpha)


@pytest.mark.parametrize(("text", "noise"), ALL)
def test_the_fixed_point_against_sums(text: str, noise: str):
    """At the overlap of `evolve`, q/(1 - q) = alpha E g^2."""
    alpha = 1.5
    found = evolved(text, noise, alpha)
    q, error = float(found.overlap[0, 0]), float(found.overlap_error[0, 0])
    assert found.converged
    odds = alpha * score_square(text, noise, q)
    assert abs(odds / (1 + odds) - q) <= error + _SUMS


@pytest.mark.parametrize(("text", "noise"), ALL)
def test_threshold_and_free_energy(text: str, noise: str):
    """Below its threshold a link says nothing, and above it the free energy stands where evolve does."""
    link = al.Link(text, noise)
    found = al.threshold(link)
    assert found.converged and found.value is not None
    critical = float(found.value)
    assert (critical > 0) == (text in EVEN)
    if critical:
        assert al.evolve(link, 0.98 * critical).overlap[0, 0] == 0
        assert al.evolve(link, 1.02 * critical).overlap[0, 0] > 0
    alpha = max(1.5, 1.5 * critical)
    q = evolved(text, noise, alpha).overlap[0, 0]
    # The free entropy is stationary at the fixed point: smaller a little to both sides.
    entropy = al.free_entropy(link, alpha)
    here, *beside = (entropy(np.array([[x]])).value for x in (q, 0.9 * q, q + 0.1 * (1 - q)))
    assert here > max(beside)


@pytest.mark.slow  # a curve asks for nothing but the averages, which are held against sums above
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", LINKS)
def test_a_curve_is_where_evolve_is(text: str, noise: str):
    link = al.Link(text, noise)
    alpha = max(1.5, 1.5 * float(al.threshold(link).value))
    state = evolved(text, noise, alpha)
    point = al.curve(link, [alpha]).points["uninformed"][0]
    off = abs(point.overlap[0, 0] - state.overlap[0, 0])
    assert off <= point.overlap_error[0, 0] + state.overlap_error[0, 0] + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_a_product_of_two_indices(noise: str):
    """tanh(h_1 h_2) is sampled with noise: below its threshold it says nothing, above it does."""
    link = al.Link("tanh(h[1]*h[2])", noise)
    critical = float(al.threshold(link).value)
    assert al.evolve(link, 0.9 * critical, samples=256).overlap.max() == 0
    assert al.evolve(link, 1.2 * critical, samples=256).overlap.max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("text", LINKS)
def test_gamp_finds_the_overlap_of_evolve(text: str):
    link, alpha, dimension = al.Link(text, "0.1"), 3.0, 400
    wanted = float(al.evolve(link, alpha).overlap[0, 0])
    found = []
    for seed in range(4):
        weights = al.teacher(link, dimension, rng=seed)
        x, y = al.make_data(link, weights, alpha, rng=seed)
        # Even links stay at zero overlap from nothing but noise of size 1/sqrt(D).
        start = informed_start(weights, 0.2, seed)
        made = al.gamp(link, x, y, teacher=weights, start=start, rng=seed)
        found.append(float(np.abs(np.ravel(made.overlap)[0])))
    assert np.mean(found) == pytest.approx(wanted, abs=4 * np.std(found) / 2 + 0.01)
