"""Thresholds of the user's own links against closed forms, one-dimensional integrals and Monte Carlo."""

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import kve, ndtr

from attnlimits.derive.link import link
from attnlimits.numerics.cache import cache_folder
from attnlimits.numerics.errors import KernelNotFoundError
from attnlimits.numerics.link_quadrature import adaptive, interval_moments
from attnlimits.numerics.link_thresholds import LinkThreshold, _correlation, operator, staircase, threshold
from attnlimits.numerics.links import LinkKernel, load_link

Array = NDArray[np.float64]


@cache
def kernel(text: str, noise: str = "0", indices: int | None = None) -> LinkKernel:
    return load_link(link(text, noise=noise, indices=indices).write(Path(mkdtemp())))


def alpha(result: LinkThreshold) -> float:
    assert result.converged, result.status
    assert result.value is not None and result.error is not None
    return float(result.value)


# --- values known otherwise ---------------------------------------------------------------------------------------


def product_of_two() -> float:
    """1/E[(E[h_1^2|y] - 1)^2 + y^2] with p(y) = K_0(|y|)/pi and E[h_1^2|y] = |y| K_1/K_0."""

    def integrand(y: float) -> float:
        return y * y * kve(1, y) ** 2 / kve(0, y) * math.exp(-y)

    # in log y, smooth where K_0 is singular; E y^2 = 1, and E[(a - 1)^2] = E a^2 - 1
    edges = [-40.0, -8.0, -3.0, 0.0, 2.0, 3.0, 4.5]
    parts = [
        quad(lambda s: integrand(math.exp(s)) * math.exp(s), a, b, epsrel=1e-13, epsabs=0)[0]
        for a, b in pairwise(edges)
    ]
    return 1 / (2 * sum(parts) / math.pi)


def staircase_first_step() -> float:
    """y = h_1^2 +- 1: E[h_1^2|y] mixes y - 1 and y + 1 with the densities of h_1^2 there."""
    ctx = mpmath.mp.clone()
    ctx.dps = 20

    def density(s: Any) -> Any:
        return ctx.exp(-s / 2) / ctx.sqrt(2 * ctx.pi * s) if s > 0 else ctx.mpf(0)

    def integrand(t: Any, start: int) -> Any:
        # y = start + t^2; exactly on the singular part
        own = t * t
        s = (own, own + 2) if start == 1 else (own - 2, own)
        p = [density(x) / 2 for x in s]
        total = p[0] + p[1]
        return 2 * t * (p[0] * (s[0] - 1) + p[1] * (s[1] - 1)) ** 2 / total if total > 0 else ctx.mpf(0)

    low = ctx.quad(lambda t: integrand(t, -1), ctx.linspace(0, ctx.sqrt(2), 5))
    high = ctx.quad(lambda t: integrand(t, 1), [0, 0.5, 1, 2, 4, 8, 12])
    return float(1 / (low + high))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(h)", 0.5),
        ("h**2", 0.5),
        ("sign(h_1*h_2)", math.pi**2 / 4),
        ("[h[1,1]**2, h[1,1]*h[1,2]]", 1 / 6),
        ("h_1**2 + h_2**2", 1.0),  # E (r^2/2 - 1)^2 I: eigenvalue 1
        ("abs(h_1 + h_2)", 0.5),  # |h| along a diagonal
        ("sign(h_1 - h_2)*sign(h_1 + h_2)", math.pi**2 / 4),  # sign(h_1 h_2) rotated by 45 degrees
    ],
)
def test_known_values(text: str, expected: float) -> None:
    result = threshold(kernel(text))
    assert alpha(result) == pytest.approx(expected, rel=1e-8)
    assert abs(alpha(result) - expected) <= result.error + 1e-15  # type: ignore[operator]
    assert np.linalg.norm(result.eigenvector) == pytest.approx(1)
    assert np.linalg.eigvalsh(result.eigenvector)[0] >= -1e-8  # PSD up to the quadrature


def test_product_of_two_indices() -> None:
    expected = product_of_two()
    for text in ("h_1*h_2", "h_1**2 - h_2**2"):  # twice the same, rotated
        result = threshold(kernel(text))
        assert alpha(result) == pytest.approx(expected, rel=1e-8)
        np.testing.assert_allclose(result.eigenvector, np.eye(2) / math.sqrt(2), atol=1e-6)
    assert result.operator_norm * expected == pytest.approx(1, rel=1e-8)


def test_grand_staircase() -> None:
    stairs = staircase(kernel("h_1**2 + sign(h_1*h_2*h_3)"))
    assert stairs.converged
    first, second = stairs.steps
    assert first.subspace == "index 1"
    assert alpha(first) == pytest.approx(staircase_first_step(), rel=1e-9)
    np.testing.assert_allclose(first.eigenvector, np.diag([1.0, 0, 0]), atol=1e-9)
    assert second.subspace == "indices 2, 3 given index 1" and second.given == (1,)
    # once h_1 is known, y tells sign(h_2 h_3)
    assert alpha(second) == pytest.approx(math.pi**2 / 4, rel=1e-9)


def test_staircase_with_a_linear_step() -> None:
    stairs = staircase(kernel("h_1 + h_1*h_2"))
    assert [step.value for step in stairs.steps] == ["0"]
    assert stairs.steps[0].subspace == "indices 1, 2"


def test_a_step_of_several_indices_needs_them_on_the_axes() -> None:
    stairs = staircase(kernel("h_1 + h_2"))
    assert not stairs.converged and "rotate the indices" in stairs.status


def test_known_index_leaves_a_continuous_output() -> None:
    # y - sign(h_1) h_2^2 .. given h_1, y fixes h_2 up to its sign
    result = threshold(kernel("h_2**2*sign(h_1) + 3*sign(h_1)"), given=[1])
    assert alpha(result) == pytest.approx(0.5, rel=1e-8)


@pytest.mark.parametrize("text", ["h", "h**3", "tanh(h)", "sign(h_1) + sign(h_2)", "sign(h_1) + sign(h_2) + sign(h_3)"])
def test_odd_links_have_no_threshold(text: str) -> None:
    result = threshold(kernel(text))
    assert (result.value, result.error, result.exact) == ("0", 0.0, "0")
    assert result.converged and result.operator_norm == math.inf
    p = kernel(text).indices
    # by symmetry the direction of the sum
    np.testing.assert_allclose(result.eigenvector, np.ones((p, p)) / p, atol=1e-9)


@pytest.mark.parametrize(("text", "noise"), [("sign(h_1*h_2*h_3)", "0"), ("sign(h_1*h_2*h_3)", "1/2")])
def test_no_quadratic_information_is_infinite_and_no_number(text: str, noise: str) -> None:
    result = threshold(kernel(text, noise))
    assert result.value is None and result.error is None and result.exact == "oo"
    assert result.converged and "infinite at this order" in result.status
    assert result.operator_norm == 0.0


def test_unused_indices_change_nothing() -> None:
    assert alpha(threshold(kernel("h_1*h_2", "0", 3))) == pytest.approx(alpha(threshold(kernel("h_1*h_2"))), rel=1e-7)
    assert threshold(kernel("h_1*h_2", "0", 3)).subspace == "indices 1, 2"


# --- Monte Carlo --------------------------------------------------------------------------------------------------


def pairs_estimate(model: LinkKernel, direction: Array, rng: np.random.Generator, n: int) -> tuple[float, float]:
    """<M, F(M)> from pairs of samples whose y are neighbours in order: given y they are independent."""
    h = rng.normal(size=(n, model.indices, model.tokens))
    y = model.link(h)[:, 0]
    if model.noise:
        y = y + math.sqrt(model.noise) * rng.normal(size=n)
    h = h[np.argsort(y, kind="stable")]
    flat = np.swapaxes(h, 1, 2).reshape(n, -1)  # token by token
    p, m = model.indices, model.tokens
    g = (flat[:, :, None] * flat[:, None, :] - np.eye(p * m)).reshape(n, m, p, m, p)
    one, two = g[0 : n - 1 : 2], g[1:n:2]
    each = np.einsum("ij,naibk,kl,najbl->n", direction, one, direction, two, optimize=True)
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each)))


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("h_1*h_2", "0"),
        ("h_1**2 + sign(h_1*h_2*h_3)", "0"),
        ("abs(h_1) + abs(h_2)", "0"),
        ("max(h_1**2 - 1, 0)", "0"),
        ("cos(2*h)", "0"),
        ("h_1/h_2", "0"),
        ("sign(h_1**2 + h_2**2 - 1)", "0"),
        ("Piecewise((h_1**2, abs(h_2) < 1), (h_2**2, True))", "0"),
        ("sign(h_1*h_2)", "0"),
        ("abs(h[1,1]*h[1,2])", "0"),
        ("abs(h)", "1"),
        ("sign(h_1*h_2)", "1/2"),
        ("h_1**4 - h_1**2 + cosh(h_1)", "1"),
    ],
)
def test_monte_carlo(text: str, noise: str, rng: np.random.Generator) -> None:
    model = kernel(text, noise)
    result = threshold(model)
    mean, sigma = pairs_estimate(model, result.eigenvector, rng, 400_000)
    # neighbours in order of y differ by O(1/n): far below sigma
    assert 1 / alpha(result) == pytest.approx(mean, abs=4 * sigma)
    assert sigma < 0.05 / alpha(result)


def test_zero_threshold_by_monte_carlo(rng: np.random.Generator) -> None:
    model = kernel("max(h_1, h_2)")
    found = operator(model)
    h = rng.normal(size=(400_000, 2))
    h = h[np.argsort(h.max(axis=1))]
    for i in range(2):
        for j in range(2):
            each = h[0::2, i] * h[1::2, j]
            sigma = each.std() / math.sqrt(len(each))
            assert found.linear[i, j] == pytest.approx(each.mean(), abs=4 * sigma)
    assert threshold(model).value == "0"


# --- what the quadrature promises -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["h_1*h_2", "max(h_1, h_2)", "h_1**2*h_2", "max(h_1*h_2, 0)", "h_1*tanh(h_2)", "abs(h_1)*h_2 + h_1"]
)
def test_probability_and_second_moments_are_conserved(text: str) -> None:
    found = operator(kernel(text))
    assert found.defect < 1e-8
    assert found.error < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), [("h_1**2 + h_2**2 + h_3**2", 1.5), ("argmax(h_1, h_2, h_3)", 0.0)])
def test_three_coupled_entries(text: str, expected: float) -> None:
    result = threshold(kernel(text))
    assert alpha(result) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["h_1*h_2*h_3", "h_1*h_2 + h_3**2", "sign(h_1*h_2 + h_2*h_3 + h_1*h_3)"])
def test_three_coupled_entries_by_monte_carlo(text: str, rng: np.random.Generator) -> None:
    result = threshold(kernel(text))
    assert result.error is not None and result.error < 1e-3 * alpha(result)
    mean, sigma = pairs_estimate(kernel(text), result.eigenvector, rng, 1_000_000)
    assert 1 / alpha(result) == pytest.approx(mean, abs=4 * sigma)


def test_two_noisy_outputs_of_separate_indices_are_two_links() -> None:
    one = threshold(kernel("abs(h)", "1"))
    two = threshold(kernel("[abs(h_1), abs(h_2)]", "1"))
    # the posterior factorises, so that the operator is diagonal with the same eigenvalue
    assert alpha(two) == pytest.approx(alpha(one), rel=1e-9)
    np.testing.assert_allclose(two.eigenvector, np.eye(2) / math.sqrt(2), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["h_1*h_2", "Piecewise((h_1**2, abs(h_1) > abs(h_2)), (h_2**2, True))"])
def test_noisy_coupled_indices_by_monte_carlo(text: str, rng: np.random.Generator) -> None:
    result = threshold(kernel(text, "2"))
    mean, sigma = pairs_estimate(kernel(text, "2"), result.eigenvector, rng, 1_000_000)
    assert 1 / alpha(result) == pytest.approx(mean, abs=4 * sigma)


def test_four_coupled_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 are supported"):
        threshold(kernel("h_1*h_2*h_3*h_4"))


def test_little_noise_changes_little_and_much_noise_a_lot() -> None:
    values = [alpha(threshold(kernel("sign(h_1*h_2)", noise))) for noise in ("1/100", "1/2", "4")]
    assert values == sorted(values)
    # two values 20 standard deviations apart are told apart
    assert values[0] == pytest.approx(math.pi**2 / 4, rel=1e-9)


def test_interval_moments_against_quadrature() -> None:
    ctx = mpmath.mp.clone()
    for low, high in ((-1.0, 0.5), (0.0, math.inf), (-math.inf, 1.2), (6.0, 7.0)):
        ends = [ctx.mpf(max(low, -40)), ctx.mpf(min(high, 40))]
        grid = [ends[0] + (ends[1] - ends[0]) * k / 16 for k in range(17)]
        for power, got in enumerate(interval_moments(low, high)):
            expected = ctx.quad(lambda x, k=power: x**k * ctx.npdf(x), grid)
            assert got == pytest.approx(float(expected), rel=1e-9, abs=1e-15)


def test_adaptive_resolves_singular_ends() -> None:
    def f(x: Array) -> Array:
        return np.stack([1 / np.sqrt(x), np.log(x), np.abs(x - 0.3)], axis=1)

    value, error = adaptive(f, np.array([0.0]), np.array([1.0]), np.array([0.1]), 1e-13)
    exact = np.array([2.0, -1.0, 0.5 * (0.09 + 0.49)])
    np.testing.assert_allclose(value, exact, atol=1e-10)
    # depth 24 leaves the kink in a panel of 4e-8, where the estimate is off by no more than its square
    assert (np.abs(value - exact) <= error + 1e-12).all()


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [0, 14, True, 2.5])
def test_digits_out_of_range(digits: Any) -> None:
    with pytest.raises(ValueError, match="digits must be an integer from 1 to 13"):
        threshold(kernel("abs(h)"), digits=digits)


@pytest.mark.parametrize("given", [[0], [3], [1, 2], ["x"]])
def test_given_out_of_range(given: Any) -> None:
    with pytest.raises(ValueError, match="given must name some, not all"):
        threshold(kernel("h_1*h_2"), given=given)


def test_digits_that_cannot_be_reached_are_not_claimed() -> None:
    result = threshold(kernel("h_1*h_2"), digits=13)
    assert not result.converged and "13 digits were not reached" in result.status
    assert abs(float(result.value or "nan") - product_of_two()) <= (result.error or 0)


def test_link_checks_its_argument() -> None:
    model = kernel("h_1*h_2")
    np.testing.assert_allclose(model.link([[2.0], [3.0]]), [6.0])
    with pytest.raises(ValueError, match="shape"):
        model.link([1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        model.link([[math.nan], [0.0]])


def test_kernels_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(KernelNotFoundError, match="no link kernel at"):
        load_link(tmp_path / "none.py")
    (tmp_path / "old.py").write_text("FORMAT = 0\n")
    with pytest.raises(KernelNotFoundError, match="another layout"):
        load_link(tmp_path / "old.py")


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path))
    assert cache_folder("links") == tmp_path / "links"
    monkeypatch.delenv("ATTNLIMITS_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("links") == tmp_path / "xdg" / "attnlimits" / "links"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder("links") == tmp_path / ".cache" / "attnlimits" / "links"


@pytest.mark.parametrize(
    "text", ["h[1]**2*h[2] + h[3]", "exp(h[1]**3)", "argmax([h[1], h[2], h[3]])", "h[1] + h[2]**2"]
)
def test_linear_information_shows_in_a_correlation(text):
    """E[h f(y)] not zero means E[h | y] not zero: no quadrature is needed, and none of these may fail."""
    result = threshold(kernel(text))
    assert (result.value, result.exact, result.converged) == ("0", "0", True)
    assert result.operator_norm == math.inf
    assert np.trace(result.eigenvector) > 0


@pytest.mark.parametrize("text", ["h[1]**2", "h[1]*h[2]", "sign(h[1]*h[2]*h[3])", "h[1]**2 + h[2]**4"])
def test_no_correlation_is_found_where_there_is_none(text):
    assert _correlation(kernel(text)) is None


@pytest.mark.parametrize("delta", ["1/100", "1/1000", "1/10000"])
def test_small_noise_of_phase_retrieval(delta):
    """Against one-dimensional integrals: E[h^2 | y] from the two points +-|h| that noise smears out."""
    result = threshold(kernel("abs(h[1])", delta))
    sigma = math.sqrt(float(Fraction(delta)))

    def moments(y):
        # Given y, |h| is a Gaussian of mean y/(1 + sigma^2) cut at zero.
        spread = sigma / math.sqrt(1 + sigma**2)
        mean = y / (1 + sigma**2)
        z = mean / spread
        ratio = math.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * ndtr(z))
        density = 2 * ndtr(z) * math.exp(-0.5 * y * y / (1 + sigma**2)) / math.sqrt(2 * math.pi * (1 + sigma**2))
        return density, mean * mean + spread**2 + mean * spread * ratio

    def integrand(y):
        density, second = moments(y)
        return density * (second - 1) ** 2

    norm = quad(integrand, -8 * sigma, 0, epsabs=1e-13)[0] + quad(integrand, 0, 9, epsabs=1e-13, limit=200)[0]
    assert result.converged
    assert abs(alpha(result) - 1 / norm) < result.error + 1e-10


def test_too_little_noise_is_refused():
    with pytest.raises(ValueError, match="too narrow for a quadrature"):
        threshold(kernel("h[1]**2", "1/10000000000"))


def test_outputs_said_twice_count_twice_with_noise():
    twice, once = threshold(kernel("h[1]**2; h[1]**2", "1")), threshold(kernel("h[1]**2", "1/2"))
    assert abs(alpha(twice) - alpha(once)) < twice.error + once.error


@pytest.mark.parametrize("text", ["h[1]**3 - 3*h[1]", "h[1]**2 + h[1]", "h[1]**3 + h[1]", "h[1]**5 - h[1]**2"])
def test_polynomials_with_linear_information_are_exactly_zero(text):
    result = threshold(kernel(text))
    assert (result.value, result.exact, result.how) == ("0", "0", "rigorous")
