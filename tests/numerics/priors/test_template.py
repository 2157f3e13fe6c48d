"""What every prior of the registry has to do: a new one is a line of `PRIORS`."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from attnlimits.numerics.priors import NAMES, Density, GaussBernoulli, Informed, Laplace, Rows, prior_named
from attnlimits.numerics.priors.slopes import responses

PRIORS = [
    *(prior_named(name) for name in NAMES if name != "sparse"),
    GaussBernoulli(0.3),
    Density("exp(-w**4)"),
    # A jump, a kink, no symmetry; and two bumps.
    Density("w*exp(-w)*step(w) + exp(-abs(w+2))"),
    Density("exp(-8*(w-1)**2) + exp(-8*(w+1)**2)"),
]
WEAK = [Informed(Laplace(), 0.2, 0.5), Informed(prior_named("binary"), 0.4), Informed(strength=0.7)]
TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])
PAIR = np.array([[1.5, 0.6], [0.6, 0.9]])
# Strengths of a channel, from where nothing is known to where all is.
QHATS = [1e-8, 1e-3, 0.3, 1.0, 1.7, 20.0, 1e3]


def named(prior):
    return prior.describe()


@pytest.fixture(params=PRIORS, ids=named)
def prior(request):
    return request.param


def one(value):
    return np.array([[float(value)]])


def scalar(prior, qhat):
    return float(prior.overlap(one(qhat))[0, 0])


@pytest.mark.parametrize("law", [*PRIORS, *WEAK], ids=named)
def test_the_overlap_rises_from_what_is_known_to_one(law):
    values = [scalar(law, qhat) for qhat in QHATS]
    # Of a binary entry 1 - F falls exponentially, below rounding.
    assert all(0 < low < high <= 1 + 1e-14 for low, high in pairwise(values))
    left = [float(law.mmse(one(qhat))[0, 0]) for qhat in QHATS]
    assert np.array(values) + left == pytest.approx(np.ones(len(values)), abs=1e-12)
    if law in PRIORS:
        # Small overlaps of all priors are alike: F = qhat + O(qhat^2) where E w^4 is finite.
        assert abs(values[0] / 1e-8 - 1) < 1e-8 * (1 + law.fourth_moment)


@pytest.mark.parametrize("law", [*PRIORS, *WEAK], ids=named)
@pytest.mark.parametrize("qhat", [1e-3, 0.3, 0.999, 1.7, 20.0])
def test_half_the_overlap_is_the_slope_of_psi(law, qhat):
    """By Richardson's extrapolation, up to the rounding of psi over the step."""
    step = 0.02 * qhat

    def slope(h):
        return (law.psi(one(qhat + h)) - law.psi(one(qhat - h))) / (2 * h)

    found = (4 * slope(step) - slope(2 * step)) / 3
    # The fifth derivative is of the order of F/qhat^4.
    assert found == pytest.approx(0.5 * scalar(law, qhat), abs=1e-6 * scalar(law, qhat) + 1e-14 / step)


def test_the_slope_of_psi_of_two_coupled_entries(prior):
    way, step = np.array([[0.3, -0.2], [-0.2, 0.5]]), 1e-3
    found = (prior.psi(PAIR + step * way) - prior.psi(PAIR - step * way)) / (2 * step)
    assert found == pytest.approx(0.5 * np.trace(prior.overlap(PAIR) @ way), abs=1e-6)
    both = prior.overlap(PAIR) + prior.mmse(PAIR)
    assert both == pytest.approx(np.eye(2), abs=1e-6)
    values = np.linalg.eigvalsh(prior.overlap(PAIR))
    assert values[0] > 0 and values[1] < 1


def test_the_slope_of_the_overlap_is_that_of_differences(prior):
    rng, step = np.random.default_rng(0), 1e-5
    for qhat in (one(0.7), np.diag([0.2, 3.0]), PAIR):
        moved = rng.standard_normal(qhat.shape)
        moved = np.where(qhat != 0, moved + moved.T, 0.0)
        found = (prior.overlap(qhat + step * moved) - prior.overlap(qhat - step * moved)) / (2 * step)
        assert np.abs(prior.slope(qhat, moved) - found).max() < 1e-6


@pytest.mark.parametrize("law", [*PRIORS, *WEAK], ids=named)
def test_the_inverse_inverts(law):
    for qhat in (0.01, 0.5, 3.0, 60.0):
        if law.mmse(one(qhat))[0, 0] < 1e-9:
            continue
        found = law.inverse(law.overlap(one(qhat)))[0, 0]
        assert found == pytest.approx(qhat, rel=1e-9)
        q, step = scalar(law, qhat), 1e-4 * (1 - scalar(law, qhat)) * scalar(law, qhat)
        response = (law.inverse(one(q + step)) - law.inverse(one(q - step)))[0, 0] / (2 * step)
        assert responses(law, one(q))[0] == pytest.approx(response, rel=1e-4)


def test_the_inverse_of_two_coupled_entries(prior):
    q = TURN.T @ np.diag([0.2, 0.5]) @ TURN
    assert prior.overlap(prior.inverse(q)) == pytest.approx(q, abs=1e-6)


@pytest.mark.parametrize("law", [*PRIORS, *WEAK], ids=named)
def test_the_potential_is_the_infimum(law):
    for qhat in (0.2, 4.0):
        q = scalar(law, qhat)
        at = law.potential(one(q))
        assert at == pytest.approx(law.psi(one(qhat)) - 0.5 * q * qhat, abs=law.rounding(one(q)) + 1e-13)
        for other in (0.5 * qhat, 0.98 * qhat, 1.02 * qhat, 3 * qhat):
            assert at <= law.psi(one(other)) - 0.5 * q * other + 1e-13


def test_towards_recovery_the_potential_goes_as_the_dimension_says(prior):
    near, nearer = (prior.potential(one(1 - v)) for v in (1e-6, 1e-7))
    assert (near - nearer) / (0.5 * math.log(10)) == pytest.approx(prior.dimension, abs=0.01)


def test_draws_have_their_moments(prior):
    """Mean 0, covariance I and fourth moment, each within four standard deviations."""
    w = prior.draw((2, 40_000), np.random.default_rng(3))
    assert w.shape == (2, 40_000)
    for values, truth in ((w[0], 0.0), (w[0] ** 2, 1.0), (w[0] * w[1], 0.0), (w[1] ** 4, prior.fourth_moment)):
        assert abs(values.mean() - truth) <= 4 * values.std() / math.sqrt(values.size) + 1e-12


@pytest.mark.parametrize("qhat", [one(0.05), one(3.0), PAIR], ids=["weak", "strong", "coupled"])
def test_posterior_means_of_draws_have_the_overlap(prior, qhat):
    """b = qhat w + qhat^{1/2} z: E <w> w^T = E <w><w>^T = F within four standard deviations, and E Cov = I - F."""
    rng, n = np.random.default_rng(4), 40_000
    w = prior.draw((len(qhat), n), rng)
    b = qhat @ w + np.linalg.cholesky(qhat) @ rng.standard_normal(w.shape)
    mean, covariance = prior.posterior(qhat, b)
    overlap = prior.overlap(qhat)
    for left, right in ((mean, w), (mean, mean)):
        products = left[:, None] * right[None]
        off = np.abs(products.mean(axis=2) - overlap)
        assert (off <= 4 * products.std(axis=2) / math.sqrt(n)).all()
    assert np.abs(covariance + overlap - np.eye(len(qhat))).max() < 0.03


DENSITIES = {
    "Laplace prior": (lambda w: math.exp(-math.sqrt(2) * abs(w)), [0.0]),
    "exp(-w**4)": (lambda v: math.exp(-(v**4)), []),
}


@pytest.mark.parametrize("prior", [Laplace(), Density("exp(-w**4)")], ids=["Laplace prior", "exp(-w**4)"])
@pytest.mark.parametrize(("qhat", "field"), [(0.01, 0.05), (0.5, -1.3), (7.0, 4.0), (300.0, 400.0), (1e4, -9e3)])
def test_posteriors_of_densities_are_the_integrals(prior, qhat, field):
    """Mean and variance by QUADPACK, in the variable of the text."""
    density, kinks = DENSITIES["Laplace prior" if isinstance(prior, Laplace) else prior.text]
    scale = math.sqrt(2 * quad(lambda v: v * v * density(v), 0, 40)[0] / (2 * quad(density, 0, 40)[0]))
    centre = min(max(field / qhat, -8.0), 8.0)

    def weight(w):
        return density(scale * w) * math.exp(-0.5 * qhat * (w - centre) ** 2 + (field - qhat * centre) * (w - centre))

    width = 12 / math.sqrt(qhat)
    ends = sorted(
        {max(centre - width, -40), *(k for k in kinks if abs(k - centre) < width), centre, min(centre + width, 40)}
    )
    moments = [
        sum(
            quad(lambda w, k=k: (w - centre) ** k * weight(w), a, b, epsabs=0, epsrel=1e-12, limit=400)[0]
            for a, b in pairwise(ends)
        )
        for k in range(3)
    ]
    mean = moments[1] / moments[0]
    found, covariance = prior.posterior(one(qhat), one(field))
    assert found[0, 0] == pytest.approx(centre + mean, abs=1e-10 / math.sqrt(1 + qhat))
    assert covariance[0, 0] == pytest.approx(moments[2] / moments[0] - mean**2, rel=1e-9)


def test_every_prior_is_described(prior):
    assert prior.describe() and "\n" not in prior.describe()


def test_rows_of_a_covariance():
    """F = T - (T^{-1} + qhat)^{-1}, and the same of draws, slopes and the potential."""
    T = np.array([[1.0, 0.6], [0.6, 1.0]])
    rows, rng = Rows(T), np.random.default_rng(5)
    expected = T - np.linalg.inv(np.linalg.inv(T) + PAIR)
    assert rows.overlap(PAIR) == pytest.approx(expected, abs=1e-14)
    assert rows.inverse(expected) == pytest.approx(PAIR, abs=1e-12)
    assert rows.overlap(PAIR) + rows.mmse(PAIR) == pytest.approx(T, abs=1e-14)
    way, step = np.array([[0.3, -0.2], [-0.2, 0.5]]), 1e-4
    slope = (rows.psi(PAIR + step * way) - rows.psi(PAIR - step * way)) / (2 * step)
    assert slope == pytest.approx(0.5 * np.trace(expected @ way), abs=1e-8)
    assert rows.potential(expected) == pytest.approx(rows.psi(PAIR) - 0.5 * np.trace(expected @ PAIR), abs=1e-13)
    w = rows.draw((2, 100_000), rng)
    assert np.cov(w) == pytest.approx(T, abs=0.02)
    b = PAIR @ w + np.linalg.cholesky(PAIR) @ rng.standard_normal(w.shape)
    mean, covariance = rows.posterior(PAIR, b)
    assert mean @ w.T / w.shape[1] == pytest.approx(expected, abs=0.02)
    assert covariance == pytest.approx(T - expected, abs=1e-14)


def test_known_weights_of_coupled_rows():
    """The mean over what is known of a coordinate, by sums over all patterns written out."""
    base, qhat = prior_named("binary"), PAIR
    law = Informed(base, [0.3, 0.1], 0.4)
    found = np.diag([0.3, 0.1])
    side = 0.4 * np.eye(2)
    found = found + 0.7 * 0.9 * base.overlap(qhat + side)
    found[0, 0] += 0.7 * 0.1 * scalar(base, 1.5 + 0.4)
    found[1, 1] += 0.3 * 0.9 * scalar(base, 0.9 + 0.4)
    assert law.overlap(qhat) == pytest.approx(found, abs=1e-14)
    assert law.inverse(found) == pytest.approx(qhat, abs=1e-5)
    way, step = np.array([[0.3, -0.2], [-0.2, 0.5]]), 1e-4
    slope = (law.psi(qhat + step * way) - law.psi(qhat - step * way)) / (2 * step)
    assert slope == pytest.approx(0.5 * np.trace(found @ way), abs=1e-7)
    moved = (law.overlap(qhat + step * way) - law.overlap(qhat - step * way)) / (2 * step)
    assert law.slope(qhat, way) == pytest.approx(moved, abs=1e-6)
    # Where the side information alone has more than q, no qhat >= 0 has it, and the infimum is at none.
    assert law.potential(np.diag([0.1, 0.05])) == 0.0 and law.inverse(np.diag([0.1, 0.05])).max() < 1e-200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-w**2", "must be >= 0 everywhere"),
        ("1/(1+w**2)", "diverges, or nearly"),
        ("1/(1+w**4)", "fourth moment diverges"),
        ("1/w**2", "not resolved near 0"),
        ("w", "prior must be"),
        ("exp(-h[1]**2)*w", "function of one entry w"),
        ("exp(-w**4", "with h for w: link: expected"),
        ("__import__('os')*w", "density"),
        ("exp(w)", "must be finite everywhere"),
        ("[exp(-w**2), w]", "one function of one entry"),
    ],
)
def test_what_is_no_density_is_refused(text, message):
    with pytest.raises(ValueError, match=r"prior|densit") as refused:
        prior_named(text)
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Informed(known=1.0), "known must be a share in"),
        (lambda: Informed(known=-0.1), "known must be a share in"),
        (lambda: Informed(known=math.nan), "known must be a share in"),
        (lambda: Informed(strength=-1.0), "strength must be finite and >= 0"),
        (lambda: Informed(known=[0.1, 0.2]).overlap(one(1.0)), "one share for each of the P = 1 rows"),
        (lambda: Informed().posterior(one(1.0), one(1.0)), "message passing takes what is known"),
        (lambda: Rows([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Rows([[2.0, 0.0], [0.0, 1.0]]), "ones on its diagonal"),
        (lambda: Rows([[1.0, 0.5]]), "shape (P, P)"),
        (lambda: Rows([[1.0, math.nan], [0.0, 1.0]]), "finite"),
        (lambda: Laplace().psi(np.eye(3) + 0.1), "up to 2 entries"),
        (lambda: Laplace().posterior(np.eye(3) + 0.1, np.zeros((3, 2))), "up to 2 coupled entries"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError) as refused:
        make()
    assert message in str(refused.value) and "\n" not in str(refused.value)
