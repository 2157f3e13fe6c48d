"""State evolution of links: closed forms, known thresholds, other routes to the same averages, and what is refused."""

import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import i0e, i1e, ndtr

import attnlimits as al
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.channel.link.scalar_noise import scalar_link
from attnlimits.numerics.channel.link.scores import SampledGroup, Sizes
from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.fixed_point.link import evolve
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.link_symmetry import couplings, exchanges
from attnlimits.numerics.posterior.link.cells import Nodes
from attnlimits.numerics.posterior.link.moments import Group
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds.link.thresholds import threshold

Array = NDArray[np.float64]


def channel(text: str, noise: str = "0", samples: int = 512, seed: int = 0, **more: object) -> LinkChannel:
    """Averages of a link, without use of permutations."""
    kernel = kernel_of(text, noise=noise)
    noiseless = kernel_of(text) if kernel.noise else None
    return LinkChannel(
        kernel, samples=samples, replicas=8, rng=np.random.default_rng(seed), noiseless=noiseless, **more
    )


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """Over independent randomisations."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))


# --- one entry: closed forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "delta"),
    [
        # Averages with noise against sums are in test_noisy_links.py, and of this link in test_continuation.py.
        pytest.param(0.5, "1/10", marks=pytest.mark.slow),
        pytest.param(2.0, "1/10", marks=pytest.mark.slow),
        pytest.param(0.9, "1/100000", marks=pytest.mark.slow),
    ],
)
def test_linear_link_with_noise_has_a_closed_form(alpha: float, delta: str) -> None:
    """G = 1/(V + Delta), so that q (1 - q + Delta + alpha) = alpha."""
    noise = float(Fraction(delta))
    b = 1 + noise + alpha
    exact = 0.5 * (b - math.sqrt(b * b - 4 * alpha))
    result = evolve(kernel_of("h", noise=delta), alpha, tol=1e-12)
    assert result.converged and result.estimation_error.how == "estimated"
    assert result.overlap[0, 0] == pytest.approx(exact, abs=1e-10)
    assert result.overlap_error[0, 0] < 1e-9


def test_linear_link_without_noise_is_least_squares() -> None:
    """alpha D equations for D unknowns."""
    result = evolve(kernel_of("h"), 0.4, tol=1e-12)
    assert result.overlap[0, 0] == pytest.approx(0.4, abs=1e-11)
    assert evolve(kernel_of("h"), 1.2).overlap[0, 0] > 0.99999


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_perceptron(alpha: float) -> None:
    """y = sign(h): g = y phi(t)/(sqrt(V) Phi(y t)) at t = omega/sqrt(V)."""
    q = evolve(kernel_of("sign(h)"), alpha, tol=1e-10).overlap[0, 0]

    def integrand(x: float) -> float:
        t = math.sqrt(q / (1 - q)) * x
        density = math.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
        return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * density**2 / max(ndtr(t) * ndtr(-t), 1e-300)

    g = quad(integrand, -8, 8, epsabs=1e-12)[0] / (1 - q)
    assert alpha * g / (1 + alpha * g) == pytest.approx(q, abs=1e-9)


# --- phase retrieval ------------------------------------------------------------------------------------------------


@cache
def phase_average(q: float) -> float:
    """E g^2 of y = h^2 over (omega, h) on a plain grid, g = (|h| tanh(|h| omega/V) - omega)/V."""
    v = 1 - q
    # Close to recovery the step in omega is narrow.
    x = np.linspace(-9, 9, 2401 if q > 0.9 else 1201)
    w = np.exp(-0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    omega = math.sqrt(q) * x[:, None]
    h = omega + math.sqrt(v) * x
    return float(w @ ((h * np.tanh(h * omega / v) - omega) / v) ** 2 @ w)


@pytest.mark.slow_for("0.02-abs(h)", "0.02-h**2 + 1/7", "0.95-abs(h)", "0.95-h**2 + 1/7")
@pytest.mark.parametrize("text", ["h**2", "abs(h)", "h**2 + 1/7"])
@pytest.mark.parametrize("q", [0.02, 0.5, 0.95])
def test_phase_retrieval_average(text: str, q: float) -> None:
    kernel = kernel_of(text)
    values, _ = scalar_link(kernel, kernel.parts[0])(q)
    assert values[1] == pytest.approx(phase_average(q), rel=3e-7)  # sharp tanh at q = 0.95: the step in omega
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_phase_retrieval_thresholds() -> None:
    """Weak recovery at 1/2, jump to perfect recovery at 1.128, perfect recovery possible from 1 on."""
    kernel = kernel_of("h**2")
    below = evolve(kernel, 0.49)
    assert not below.overlap.any() and below.stability[0] == pytest.approx(0.98, rel=1e-9)
    above = evolve(kernel, 0.52)
    assert 0.005 < above.overlap[0, 0] < 0.02 and math.isnan(above.stability[0])
    before, after = evolve(kernel, 1.11), evolve(kernel, 1.2)
    assert 0.7 < before.overlap[0, 0] < 0.85
    assert after.converged and after.overlap[0, 0] > 0.99999 and "recovered" in after.status
    assert evolve(kernel, 1.05, start="informed").overlap[0, 0] > 0.99999
    assert evolve(kernel, 0.9, start="informed").overlap[0, 0] < 0.9


@pytest.mark.slow
def test_phase_retrieval_next_to_its_jumps() -> None:
    """Half of the way nearer to the thresholds 1.128 and 1, where the iteration is slow."""
    kernel = kernel_of("h**2")
    after = evolve(kernel, 1.15)
    assert after.converged and after.overlap[0, 0] > 0.99999 and "recovered" in after.status
    assert evolve(kernel, 0.97, start="informed").overlap[0, 0] < 0.9


def test_informed_start_falls_to_the_same_fixed_point() -> None:
    kernel = kernel_of("h**2")
    low, high = evolve(kernel, 0.7, tol=1e-9), evolve(kernel, 0.7, start="informed", tol=1e-9, max_iter=400)
    assert low.converged and high.converged
    assert high.overlap[0, 0] == pytest.approx(low.overlap[0, 0], abs=1e-7)  # 1 - F' is about 0.3


def test_squares_of_combinations_are_one_dimensional() -> None:
    """(h_1 + h_2)^2 is 2 u^2 along (1, 1)/sqrt(2)."""
    one = evolve(kernel_of("h**2"), 0.8, tol=1e-10)
    two = evolve(kernel_of("(h[1] + h[2])**2"), 0.8, tol=1e-10)
    assert two.converged
    np.testing.assert_allclose(two.overlap, 0.5 * one.overlap[0, 0] * np.ones((2, 2)), atol=1e-8)
    assert "directions of zero overlap grows by 0 " in two.status
    each = evolve(kernel_of("h[1]**2; h[2]**2"), 0.8, tol=1e-10)
    np.testing.assert_allclose(each.overlap, one.overlap[0, 0] * np.eye(2), atol=1e-8)


# --- scalar routes against each other -----------------------------------------------------------------------------


@pytest.mark.slow_for("h**2-1/10")
@pytest.mark.parametrize(
    ("text", "noise"),
    [("h**2", "0"), ("max(h, 0)", "0"), ("sign(h)", "0"), ("h**3 - h", "0"), ("h**2", "1/10"), ("sign(h)", "1/4")],
)
def test_quadrature_agrees_with_samples(text: str, noise: str) -> None:
    """The same posterior on the nodes that serve several entries, averaged over random (omega, h)."""
    kernel = kernel_of(text, noise=noise)
    group = Group(kernel, kernel_of(text).parts)
    q, v = 0.45, 0.55
    rng = np.random.default_rng(3)
    found = []
    for stream in rng.spawn(8):
        x = normal_qmc(3, 10, stream)
        omega = math.sqrt(q) * x[:, :1]
        h = omega + math.sqrt(v) * x[:, 1:2]
        y, kinds = group.link(h)
        y = y + math.sqrt(kernel.noise) * x[:, 2:]
        g2, slope = np.zeros(len(x)), np.zeros(len(x))
        for kind in range(len(group.kinds)):
            rows = kinds == kind
            nodes = Nodes.make(group.dimension(kind), 256, rng)
            sums = group.posterior(kind, y[rows], omega[rows], np.array([[v]]), nodes, True)
            total = sums.zero.sum(axis=1)
            mean = sums.first.sum(axis=1)[:, 0] / total
            g2[rows] = (mean / v) ** 2
            slope[rows] = ((sums.second.sum(axis=1)[:, 0, 0] / total - mean**2) / v**2 - 1 / v) ** 2
        found.append([g2.mean(), slope.mean()])
    mean, error = mean_and_error(np.array(found))
    exact = np.array([fine for _, fine in scalar_link(kernel, kernel.parts[0])(q)])
    assert (np.abs(mean - exact) < 5 * error + 1e-4 * exact).all()  # Student, 7 degrees; inner rule
    assert (error < 0.05 * exact).all()


@pytest.mark.slow_for("0.2")
@pytest.mark.parametrize("q", [0.2, pytest.param(0.9, marks=pytest.mark.slow), 1 - 1e-4])
def test_narrow_noise_tends_to_none(q: float) -> None:
    """Noise far below the posterior's width changes nothing that it resolves; peaks are not skipped."""
    clean, noisy = kernel_of("h**2"), kernel_of("h**2", noise="1e-8")
    a, _ = scalar_link(clean, clean.parts[0])(q)
    b, _ = scalar_link(noisy, noisy.parts[0])(q)
    # With one peak G = E 1/(V + Delta/(4 h^2)), and E 1/(1 + h^2/c^2) < c sqrt(pi/2); 1e-4 for both quadratures.
    c = 0.5e-4 / math.sqrt(1 - q)
    assert a[1] * (1 - 1.26 * c - 1e-4) < b[1] < a[1] * (1 + 1e-5)


# --- several entries --------------------------------------------------------------------------------------------


def circle_average(s: float) -> float:
    """(1/2) E |g|^2 of y = h_1^2 + h_2^2 at q = s I: E[h | y] lies along omega with r I_1/I_0(r |omega|/V)."""
    v, reach = 1 - s, 9.0
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x, w = 0.5 * reach * (1 + nodes), 0.5 * reach * weights
    rho = math.sqrt(s) * x[:, None]
    low, high = np.maximum(rho - reach * math.sqrt(v), 0.0), rho + reach * math.sqrt(v)
    r, width = low + 0.5 * (1 + nodes) * (high - low), 0.5 * (high - low) * weights
    # Law of r given rho: Rice.
    kappa = r * rho / v
    rice = r / v * np.exp(-0.5 * (r - rho) ** 2 / v) * i0e(kappa)
    mean = r * i1e(kappa) / i0e(kappa)
    outer = w * x * np.exp(-0.5 * x * x)
    return float(outer @ ((mean - rho) ** 2 * rice * width).sum(axis=1) / (2 * v**2))


@pytest.mark.parametrize("s", [0.1, 0.5, 0.95])
def test_circle(s: float) -> None:
    averages = channel("h[1]**2 + h[2]**2")(s * np.eye(2))
    mean, error = mean_and_error(averages.g)
    assert not mean[0, 1]
    for i in range(2):
        # Half the width of the interval.
        assert abs(mean[i, i] - circle_average(s)) < error[i, i] < 1e-6 * mean[i, i]


def test_rotated_links_have_rotated_averages() -> None:
    """h_1 h_2 = (u^2 - v^2)/2 along the diagonals: other branches, another region, the full P x P overlap."""
    q = np.array([[0.3, 0.15], [0.15, 0.3]])
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    kernel, other = kernel_of("h[1]*h[2]"), kernel_of("(h[1]**2 - h[2]**2)/2")
    assert couplings(kernel, np.eye(2)).sum() == 2 and couplings(kernel, q).all()
    made = LinkChannel(kernel, samples=512, replicas=8, rng=np.random.default_rng(1), mask=couplings(kernel, q))
    mean, error = mean_and_error(made(q).g)
    turned, own = mean_and_error(
        LinkChannel(other, samples=512, replicas=8, rng=np.random.default_rng(2))(turn @ q @ turn).g
    )
    np.testing.assert_array_less(np.abs(turn @ turned @ turn - mean), 5 * (error + np.abs(turn) @ own @ np.abs(turn)))
    assert mean[0, 1] > 10 * error[0, 1]


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("h[1]*h[2]", "0"),
        ("h[1]*h[2]", "1/10"),
        ("h[1]*h[2]", "1/10000"),
        ("sign(h[1]*h[2])", "0"),
        ("max(h[1], h[2])", "0"),
    ],
)
def test_nishimori_identities(text: str, noise: str) -> None:
    """E g = 0, and E g g^T = - E dg/d omega, the second from posterior covariances."""
    q = np.array([[0.5, 0.2], [0.2, 0.4]])
    # The branches are those without noise.
    group = SampledGroup(
        kernel_of(text, noise=noise), kernel_of(text).parts, Sizes(512, 8, 1), np.random.default_rng(0)
    )
    scores = group(q, True)
    mean, error = mean_and_error(scores.score[:, :, 2].mean(axis=1))
    assert (np.abs(mean) < 5 * error).all()
    product = np.array([[scores.product(a, b)[0] for b in range(2)] for a in range(2)])
    difference = product + scores.change.mean(axis=(1, 2)).transpose(1, 2, 0)
    mean, error = mean_and_error(difference.transpose(2, 0, 1))
    size, _ = mean_and_error(product.transpose(2, 0, 1))
    assert (np.abs(mean) < 5 * error + 0.003 * size.max()).all()  # and the bias of the variance
    assert (error < 0.1 * size.max()).all()


def test_triangular_outputs_are_solved_one_after_the_other() -> None:
    """(h_1, h_1 h_2) says all of h: least squares for each index."""
    result = evolve(kernel_of("h[1]; h[1]*h[2]"), 0.5, samples=128, tol=1e-8)
    assert result.converged
    np.testing.assert_allclose(result.overlap, 0.5 * np.eye(2), atol=3e-6)


def test_two_tokens_of_one_index_are_attention() -> None:
    """(h_11^2, h_11 h_12) is what one tied linear layer shows of two tokens: threshold 1/6, and the same overlap."""
    from attnlimits.numerics.fixed_point.evolve import evolve as evolve_model
    from attnlimits.numerics.model.network import Network

    result = evolve(kernel_of("h[1,1]**2; h[1,1]*h[1,2]"), 0.3, samples=1024)
    exact = evolve_model(Network(1, 2), 0.3, tol=1e-9).overlap[0, 0]
    assert abs(result.overlap[0, 0] - exact) < 5 * result.overlap_error[0, 0]
    assert result.overlap_error[0, 0] < 0.02


def test_linear_parts_are_learned_together_and_products_after_them() -> None:
    """y = h_1 + h_1 h_2: E[h_1 | y] does not vanish, and then E[h_2 | y, omega_1] does not."""
    result = evolve(kernel_of("h[1] + h[1]*h[2]"), 0.5, samples=256)
    assert result.converged and np.isnan(result.stability).all()
    assert (result.overlap.diagonal() > 0.1).all()


def test_hard_parities_stay_at_zero() -> None:
    kernel = kernel_of("sign(h[1]*h[2]*h[3])")
    for start in ("uninformed", "informed"):
        result = evolve(kernel, 2.0, start=start, samples=64)
        assert result.converged and not result.overlap.any() and not result.overlap_error.any()
        np.testing.assert_allclose(result.stability, 0.0, atol=1e-12)


# --- growth against the thresholds --------------------------------------------------------------------------------


@pytest.mark.slow_for("h[1]*h[2]")
@pytest.mark.parametrize(
    "text",
    ["h[1]*h[2]", "sign(h[1]*h[2])", "h[1]**2 + h[2]**2", "sign(h[1]**2 + h[2]**2 - 1)", "h[1,1]*h[1,2]", "h**2"],
)
def test_growth_at_zero_overlap_is_the_inverse_threshold(text: str) -> None:
    """From posterior samples at q = 0 against closed forms and the quadrature of (15)."""
    kernel = kernel_of(text)
    _, matrix = channel(text, samples=512).operator(np.zeros((kernel.indices,) * 2))
    direction = threshold(kernel).eigenvector
    norms = np.einsum("ij,rijkl,kl->r", direction, matrix, direction)
    exact = 1 / float(threshold(kernel).value)
    error = norms.std(ddof=1) / math.sqrt(len(norms))
    assert abs(norms.mean() - exact) < 5 * error + 0.005 * exact  # inner nodes
    assert error < 0.06 * exact


def test_growth_given_a_learned_index() -> None:
    """At q_11 -> 1 the growth of the others is that of the next step of the staircase."""
    kernel = kernel_of("h[1]**2 + sign(h[1]*h[2]*h[3])")
    _, matrix = channel("h[1]**2 + sign(h[1]*h[2]*h[3])", samples=256).operator(np.diag([1 - 1e-6, 0, 0]))
    step = threshold(kernel, given=[1])
    norms = np.einsum("ij,rijkl,kl->r", step.eigenvector, matrix, step.eigenvector)
    error = norms.std(ddof=1) / math.sqrt(len(norms))
    assert abs(norms.mean() - 1 / float(step.value)) < 5 * error + 0.02 / float(step.value)  # inner nodes


def test_the_next_step_of_the_staircase_waits_for_its_growth() -> None:
    kernel = kernel_of("h[1]**2 + sign(h[1]*h[2]*h[3])")
    result = evolve(kernel, 0.8, samples=64)
    assert result.overlap[0, 0] > 0.02 and not result.overlap[1:, 1:].any()
    assert (0 <= result.stability[1:]).all() and (result.stability[1:] < 0.5).all()


@pytest.mark.parametrize("distance", [2e-5, 4e-5, 1e-4])
def test_small_overlaps_just_above_a_threshold_are_no_zeros(distance: float) -> None:
    """For phase retrieval q = (2 alpha - 1)/(1 - slope/2) to first order, with the slope of E g^2/q at zero."""
    kernel = kernel_of("h**2")
    result = evolve(kernel, 0.5 * (1 + distance))
    small = 1e-4
    channel = LinkChannel(kernel, samples=1, replicas=2, rng=np.random.default_rng(0))
    average = channel(np.array([[small]])).g.mean()
    # alpha G = q/(1 - q) and G = 2 q + slope q^2.
    slope = (average / small - 2) / small
    expected = distance / (1 - 0.5 * slope)
    q, error = result.overlap[0, 0], result.overlap_error[0, 0]
    # Closer to the threshold it may be stated that averages do not decide whether another fixed point is there.
    assert result.converged or (distance < 4e-5 and "too near a threshold" in result.status)
    # The next order of E g^2/q is about ten times `small`.
    assert abs(q - expected) <= error + 20 * small * expected
    assert 0 < error < 1e-3 * q


def test_just_below_a_threshold_what_was_learned_dies_out() -> None:
    result = evolve(kernel_of("h**2"), 0.5 * (1 - 1e-5), start="informed")
    assert result.converged
    assert result.overlap[0, 0] == 0


def test_a_growth_rate_that_is_one_within_its_error_is_in_doubt() -> None:
    # Samples serve this threshold, to two digits or three.
    kernel = kernel_of("h[1]*h[2] + h[3]*h[4]")
    found = threshold(kernel)
    assert found.how == "monte-carlo"
    assert found.error is not None
    result = evolve(kernel, float(found.value or 0) * (1 - found.error), samples=64)
    assert not result.converged
    assert "too near a threshold" in result.status


def test_onset_lies_between_the_sides_of_the_threshold() -> None:
    kernel = kernel_of("sign(h[1]*h[2])")
    critical = math.pi**2 / 4
    below = evolve(kernel, 0.97 * critical, samples=64)
    assert below.converged and not below.overlap.any()
    np.testing.assert_allclose(below.stability, 0.97, rtol=1e-9)
    above = evolve(kernel, 1.3 * critical, samples=512)
    assert above.converged and above.overlap[0, 0] > 3 * above.overlap_error[0, 0] > 0
    assert above.overlap[0, 0] == above.overlap[1, 1] and not above.overlap[0, 1]


# --- symmetries ---------------------------------------------------------------------------------------------------


def test_symmetries() -> None:
    zero = np.zeros((2, 2))
    assert couplings(kernel_of("h[1]*h[2]"), zero).sum() == 2
    assert couplings(kernel_of("(h[1] + h[2])**2"), zero).all()
    assert couplings(kernel_of("h[1]**2; h[2]"), zero).sum() == 2
    # The signs of index 2 cannot be told apart in each token, but together.
    assert couplings(kernel_of("h[1,1]*h[2,2] + h[1,2]*h[2,1]"), zero).sum() == 2
    assert couplings(kernel_of("tanh(h[1]) + tanh(h[2])"), zero).all()
    assert exchanges(kernel_of("h[1]*h[2]"), zero) == [(0, 1), (1, 0)]
    assert exchanges(kernel_of("h[1]*h[2]"), np.diag([0.1, 0.2])) == [(0, 1)]
    assert exchanges(kernel_of("h[1] - h[2]**3"), zero) == [(0, 1)]
    assert exchanges(kernel_of("h[1]**2; h[2]**2"), zero) == [(0, 1), (1, 0)]


# One of these is among the samples of tests/calibration/test_evolve_sampled.py.
@pytest.mark.slow
def test_seeds_scatter_as_the_errors_say() -> None:
    kernel = kernel_of("h[1]*h[2]")
    results = [evolve(kernel, 1.5, samples=64, rng=seed) for seed in range(3)]
    q = np.array([r.overlap[0, 0] for r in results])
    sigma = np.array([r.overlap_error[0, 0] for r in results])
    pulls = (q - np.average(q, weights=sigma**-2)) / sigma
    assert (np.abs(pulls) < 4).all() and (sigma < 0.2 * q).all()
    again = evolve(kernel, 1.5, samples=64, rng=0)
    np.testing.assert_array_equal(again.overlap, results[0].overlap)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alpha": -1.0}, "alpha must be finite"),
        ({"alpha": math.nan}, "alpha must be finite"),
        ({"samples": 0}, "samples"),
        ({"replicas": 1}, "replicas"),
        ({"inner": 0}, "inner"),
        ({"tol": 0.0}, "tol"),
        ({"start": "warm"}, "start"),
        ({"start": [[1.0, 0.0], [0.0, 0.0]]}, "0 <= q < I"),
        ({"noiseless": "other"}, "noiseless must be"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    if "noiseless" in arguments:
        arguments = {"noiseless": kernel_of("h[1] + h[2]**2")}
    with pytest.raises(ValueError, match=words):
        evolve(kernel_of("h[1]*h[2]"), **{"alpha": 0.5, "samples": 16, **arguments})


def test_couplings_that_cannot_stay_are_refused() -> None:
    with pytest.raises(ValueError, match="share no output"):
        evolve(kernel_of("h[1]**2; h[2]**2"), 0.5, start=[[0.3, 0.1], [0.1, 0.3]])


def test_outputs_that_cannot_be_solved_are_refused_and_served_with_noise() -> None:
    text = "h[1]*h[2]; h[1] + h[2]"
    with pytest.raises(ValueError, match=r"add noise \(--noise\)"):
        evolve(kernel_of(text), 0.5)
    averages = channel(text, "1/10", samples=64)(0.2 * np.eye(2))
    assert np.linalg.eigvalsh(averages.g.mean(axis=0))[0] > 0


def test_a_posterior_that_no_node_meets_is_refused() -> None:
    """Noise far narrower than the nodes are apart, and no branches to place them by."""
    kernel = kernel_of("h[1]*h[2]", noise="1e-12")
    with pytest.raises(ConvergenceError, match=r"not resolved by .* inner nodes"):
        evolve(kernel, 1.0, samples=16, start=0.3 * np.eye(2))
    served = channel("h[1]*h[2]", "1e-12", samples=256)(0.3 * np.eye(2))
    clean = channel("h[1]*h[2]", samples=256, seed=5)(0.3 * np.eye(2))
    (mean, error), (exact, own) = mean_and_error(served.g), mean_and_error(clean.g)
    assert (np.abs(mean - exact) < 5 * (error + own) + served.bias).all()


def test_non_convergence_is_marked_or_raised() -> None:
    result = evolve(kernel_of("h**2"), 0.8, max_iter=2)
    assert not result.converged and "raise max_iter or tol" in result.status
    with pytest.raises(ConvergenceError, match="not converged"):
        evolve(kernel_of("h**2"), 0.8, max_iter=2, throw=True)


# --- command line ---------------------------------------------------------------------------------------------------


def test_command_prints_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evolve", "--link", "h**2", "--alpha", "0.8", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    expected = evolve(kernel_of("h**2"), 0.8)
    assert float(record["value"]) == pytest.approx(expected.overlap[0, 0], abs=1e-6)
    assert record["how"] == "estimated" and 0 < record["error"] < 1e-4
    assert record["link"] == ["h_1_1**2"] and record["noise"] == 0 and record["hash"] == expected.kernel_hash
    assert cli.main(["evolve", "--link", "(h[1]+h[2])**2", "--alpha", "0.8"]) == 0
    assert "q_12 = " in capsys.readouterr().out
    assert cli.main(["evolve", "--link", "h**2", "--alpha", "0.8", "--noise", "1e-40"]) == 0
    assert "without noise, its limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--link", "h**2", "--alpha", "0.8", "--layers", "3"], "--layers describes a model"),
        (["--link", "h**2", "--alpha", "-1"], "--alpha"),
        (["--link", "h**", "--alpha", "1"], "link"),
        (["--link", "h**2", "--alpha", "1", "--nodes", "64"], "--nodes must be a multiple of 2048"),
        (["--alpha", "0.8", "--noise", "x"], "--noise must be a number"),
    ],
)
def test_command_refuses(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evolve", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["tanh(h[1]) + tanh(h[2])", "tanh(h[1] + h[2]) + h[2]", "erf(h[1])*h[2]"])
def test_indices_that_are_recovered_together(text: str) -> None:
    """What is left of one of their combinations is a hundred times what is left of the other, on the whole way."""
    found = al.evolve(al.Link(text), 2.5)
    assert found.converged and "recovered" in found.status
    assert (found.overlap.diagonal() >= 1 - 1.001e-6).all()
    assert found.overlap_error.max() <= 1.001e-6


def test_a_fixed_point_next_to_recovery_is_not_passed() -> None:
    """The slowest direction of F' is .966 there: plain steps come to it from below, and stay."""
    kernel = al.Link("Max(h[1], 0) + Max(h[2], 0)").kernel
    found = al.evolve(al.Link("Max(h[1], 0) + Max(h[2], 0)"), 2.5)
    assert found.converged
    channel = LinkChannel(kernel, samples=16, replicas=2, rng=np.random.default_rng(0))
    q = np.array([[0.9733, 0.0136], [0.0136, 0.9733]])
    away = []
    for _ in range(3):
        for _ in range(6):
            hat = 2.5 * channel(q).g.mean(axis=0)
            q = hat @ np.linalg.inv(np.eye(2) + hat)
        away.append(np.abs(q - found.overlap).max())
    assert away[2] < 0.85 * away[1] < 0.7 * away[0] < 1e-3
