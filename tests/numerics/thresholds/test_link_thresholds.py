"""Thresholds of the user's own links against closed forms, one-dimensional integrals and Monte Carlo."""

import hashlib
import math
from dataclasses import replace
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

from attnlimits.derive.emit.link_source import write
from attnlimits.derive.links.link import link, rotated
from attnlimits.numerics.core.cache import cache_folder
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.model.link_store import Request, keep, stored
from attnlimits.numerics.model.links import LinkKernel, load_link
from attnlimits.numerics.posterior.link.adaptive import adaptive
from attnlimits.numerics.posterior.link.monotone import MonotonePieces
from attnlimits.numerics.posterior.link.rules import interval_moments
from attnlimits.numerics.thresholds.link.operator import correlation, operator
from attnlimits.numerics.thresholds.link.sampling import box_order
from attnlimits.numerics.thresholds.link.staircase import staircase
from attnlimits.numerics.thresholds.link.thresholds import LinkThreshold, threshold, unresolved_noise

Array = NDArray[np.float64]


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the samples, with errors that are stated as so much larger."""
    monkeypatch.setattr("attnlimits.numerics.thresholds.link.operator._LOG2_SAMPLES", 17)


@cache
def kernel(text: str, noise: str = "0", indices: int | None = None, axes: tuple[Any, ...] = ()) -> LinkKernel:
    """From the cache, as long as what derives links is the same, or derived here: SymPy is loaded once."""
    asked = Request(text, None, indices, noise, axes)
    if (found := stored(asked)) is not None:
        return found
    made = link(text, noise=noise, indices=indices)
    return keep(asked, write(rotated(made, axes) if axes else made, Path(mkdtemp())).read_bytes())


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
        ("(h_1 + 2*h_2 - h_3)**4", 0.5),
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
    assert (second.exact, second.how) == ("pi**2/4", "rigorous")
    assert alpha(second) == pytest.approx(math.pi**2 / 4, rel=1e-12)
    # and by quadrature, without the closed form
    found = operator(kernel("h_1**2 + sign(h_1*h_2*h_3)"), [0])
    assert 1 / np.linalg.norm(found.matrix.reshape(4, 4), 2) == pytest.approx(math.pi**2 / 4, rel=1e-9)


def test_staircase_with_a_linear_step() -> None:
    stairs = staircase(kernel("h_1 + h_1*h_2"))
    assert [step.value for step in stairs.steps] == ["0"]
    assert stairs.steps[0].subspace == "indices 1, 2"


def test_a_step_of_several_indices_needs_them_on_the_axes() -> None:
    stairs = staircase(kernel("h_1 + h_2"))
    assert not stairs.converged and "rotate the indices" in stairs.status


@pytest.mark.usefixtures("few_samples")
def test_a_step_with_two_coupled_entries_beside_a_known_one_is_sampled() -> None:
    # h_1 known, y = h_2 h_3 once divided by it
    result = threshold(kernel("h_1**2; h_1*h_2*h_3"), given=[1])
    assert result.how == "monte-carlo" and result.subspace == "indices 2, 3 given index 1"
    assert abs(alpha(result) - product_of_two()) < 4 * result.error


def along(text: str) -> Any:
    return lambda axes: kernel(text, axes=tuple(map(tuple, axes)))


def committee_given_the_sum() -> float:
    """Given u = (h_1 + h_2)/sqrt(2), y says whether |v| < |u|: E[v^2 - 1; |v| < u] = -2 u phi(u)."""

    def integrand(u: float) -> float:
        density = math.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
        inside = math.erf(u / math.sqrt(2))
        return 2 * density * (2 * u * density) ** 2 / (inside * math.erfc(u / math.sqrt(2)))

    return 1 / quad(integrand, 0, 8, epsrel=1e-12)[0]


@pytest.mark.slow_for("max(h_1, h_2)")
@pytest.mark.parametrize(
    ("text", "expected"),
    [("sign(h_1) + sign(h_2)", committee_given_the_sum), ("max(h_1, h_2)", lambda: 0.5)],  # max = (u + |v|)/sqrt(2)
)
def test_the_staircase_goes_on_along_what_was_learned(text: str, expected: Any) -> None:
    stairs = staircase(kernel(text), rotate=along(text))
    first, second = stairs.steps
    assert stairs.converged and stairs.directions == ((1, 1), (1, -1))
    assert first.value == "0" and second.subspace == "h_1 - h_2 given h_1 + h_2"
    assert alpha(second) == pytest.approx(expected(), rel=1e-8)
    np.testing.assert_allclose(second.eigenvector, [[0.5, -0.5], [-0.5, 0.5]], atol=1e-9)


def test_the_staircase_ends_where_nothing_is_left_to_say() -> None:
    text = "argmax(h_1, h_2, h_3)"
    stairs = staircase(kernel(text), rotate=along(text))
    assert stairs.converged and stairs.directions[2] == (1, 1, 1)
    assert [step.exact for step in stairs.steps] == ["0", "oo"]


def test_a_subspace_of_no_small_integers_stops_the_staircase() -> None:
    text = "h_1 + 13*h_2/7"
    stairs = staircase(kernel(text), rotate=along(text))
    assert not stairs.converged and "mixes indices 1, 2" in stairs.status


@pytest.mark.parametrize("edge", ["1e-150", "30"])
def test_thresholds_near_the_ends_of_float64(edge: str) -> None:
    """y = sign(|h| - t): alpha = P (1 - P)/(2 t phi(t))^2 with P = P(|h| > t)."""
    ctx = mpmath.mp.clone()
    ctx.dps = 400
    t = ctx.mpf(edge)
    far = ctx.erfc(t / ctx.sqrt(2))
    expected = far * (1 - far) / (2 * t * ctx.npdf(t)) ** 2
    for text in (f"sign(abs(h) - {edge})", *(["sign(h**2 - 1e-300)"] if edge != "30" else [])):
        result = threshold(kernel(text))
        assert abs(ctx.mpf(result.value) - expected) <= 2 * result.error
        assert result.error < 1e-11 * float(expected) and result.how == "rigorous"


def test_noise_below_rounding_is_named() -> None:
    with pytest.raises(ValueError, match=r"noise of deviation 1.0e-150 is below what float64 resolves"):
        threshold(kernel("sign(h_1*h_2)", f"1/{10**300}"))
    assert unresolved_noise(kernel("1e-20*h_1*h_2", "1e-30")) == ""
    assert unresolved_noise(kernel("h_1*h_2", "1e-30")) == ""
    assert unresolved_noise(kernel("1e9*h_1*h_2", "1e-30"))


@pytest.mark.parametrize("least", [5, 6, 7])
def test_rare_outputs_far_out_are_within_the_error(least: int) -> None:
    """Only |h| > least informs: 1/alpha = 2 (phi (t^3 + t) + 2 Q) beyond it, and (2 t phi)^2/(1 - 2 Q) within."""
    found = threshold(kernel(f"max(abs(h[1]), {least})"))
    with mpmath.workdps(40):
        t = mpmath.mpf(least)
        density, beyond = mpmath.npdf(t), mpmath.erfc(t / mpmath.sqrt(2)) / 2
        norm = 2 * density * (t**3 + t) + 4 * beyond + (2 * t * density) ** 2 / (1 - 2 * beyond)
        difference = abs(mpmath.mpf(found.value) - 1 / norm)
    assert found.converged
    assert difference <= found.error


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
    result = threshold(kernel("h_1*h_2", "0", 3))
    assert alpha(result) == pytest.approx(product_of_two(), rel=1e-7)
    assert result.subspace == "indices 1, 2"


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


@pytest.mark.slow_for("abs(h[1,1]*h[1,2])-0", "abs(h_1) + abs(h_2)-0", "cos(2*h)-0")
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
        pytest.param("h_1**4 - h_1**2 + cosh(h_1)", "1", marks=pytest.mark.slow),
    ],
)
def test_monte_carlo(text: str, noise: str, rng: np.random.Generator) -> None:
    model = kernel(text, noise)
    result = threshold(model)
    mean, sigma = pairs_estimate(model, result.eigenvector, rng, 50_000)
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


@pytest.mark.slow_for("abs(h_1)*h_2 + h_1", "h_1*tanh(h_2)", "h_1**2*h_2")
@pytest.mark.parametrize(
    "text", ["h_1*h_2", "max(h_1, h_2)", "h_1**2*h_2", "max(h_1*h_2, 0)", "h_1*tanh(h_2)", "abs(h_1)*h_2 + h_1"]
)
def test_probability_and_second_moments_are_conserved(text: str) -> None:
    found = operator(kernel(text))
    assert found.defect < 1e-8
    assert found.error < 1e-6


@pytest.mark.slow
def test_three_coupled_entries() -> None:
    """The quadrature, where a closed form is known: by symmetry every eigenvalue is 2/3."""
    found = operator(kernel("h_1**2 + h_2**2 + h_3**2"))
    assert np.linalg.norm(found.matrix.reshape(9, 9), 2) == pytest.approx(2 / 3, rel=1e-4)
    assert threshold(kernel("h_1**2 + h_2**2 + h_3**2")).exact == "3/2"


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


def chi_square_of_four() -> float:
    """y = |h|^2 in four dimensions: G = (y/4 - 1) I, and the eigenvalue of I is E (y/4 - 1)^2 = Var y/16 = 1/2."""
    return 2.0


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize(
    ("text", "noise", "expected"),
    [
        # four coupled entries
        pytest.param("cosh(h_1**2 + h_2**2 + h_3**2 + h_4**2)", "0", chi_square_of_four, marks=pytest.mark.slow),
        # two real outputs that are |h| of two orthogonal directions, not solved for h
        ("abs(h_1 + h_2); abs(h_1 - h_2)", "0", lambda: 0.5),
        # noise far below what a rule in the plane resolves
        pytest.param("h_1*h_2", "1/1000000", product_of_two, marks=pytest.mark.slow),
        # noise without which nothing is left of the branches
        ("h[1]**2", "1/10000000000", lambda: 0.5),
        # no entry can be solved for in closed form, as in the test of huge outputs
        # it says |h_1 + h_2| and h_1 h_2, thus h up to its sign and the order: the eigenvalue is 2
        pytest.param("h_1*h_2*(exp(h_1 + h_2) + exp(-h_1 - h_2)); h_1*h_2", "0", lambda: 0.5, marks=pytest.mark.slow),
    ],
)
def test_samples_serve_what_no_quadrature_does(text, noise, expected) -> None:
    result = threshold(kernel(text, noise))
    assert result.how == "monte-carlo" and result.n_iter > 1e5
    # one standard error and half of the extrapolation: four of them, and better than 2%
    assert abs(alpha(result) - expected()) < 4 * result.error
    assert result.error < 0.02 * alpha(result)


def test_box_order_joins_neighbours(rng: np.random.Generator) -> None:
    keys = rng.uniform(size=(2**12, 2))
    boxes = keys[box_order(keys, 4)].reshape(-1, 4, 2)
    # 2^10 boxes in the unit square: sides of 1/32 and a third more where points are scarce
    assert np.ptp(boxes, axis=1).mean() < 1.3 / 32
    assert sorted(map(tuple, boxes.reshape(-1, 2))) == sorted(map(tuple, keys))


def test_what_is_not_served_is_refused() -> None:
    with pytest.raises(ValueError, match="samples serve at most 3 outputs"):
        threshold(kernel("h_1*h_2; h_2*h_3; h_1*h_3; h_1*h_2*h_3 + h_1**2*h_2**2"))


def test_outputs_that_share_no_entry_add_their_operators() -> None:
    found = operator(kernel("abs(h_1) + abs(h_2); h_3**2 + h_4**2; sign(h_5*h_6)"))
    for start, text in ((0, "abs(h_1) + abs(h_2)"), (2, "h_1**2 + h_2**2"), (4, "sign(h_1*h_2)")):
        part = slice(start, start + 2)
        # the same integrals, along another order of integration at most
        np.testing.assert_allclose(found.matrix[part, part, part, part], operator(kernel(text)).matrix, atol=1e-8)
    assert not found.matrix[:2, :2, 2:, 2:].any()


def test_a_label_beside_a_real_output_by_monte_carlo(rng: np.random.Generator) -> None:
    model = kernel("h_1**2 + h_2**2; sign(h_1*h_2)")
    result = threshold(model)
    # |h| is independent of the angle: E[h_1^2 | y] = y/2, E[h_1 h_2 | y] = +- y/pi, E y^2 = 8, eigenvalues of
    # E[G (x) G] on diag and off-diagonal: E (y/2 - 1)^2 + E y^2/pi^2 = 1 + 8/pi^2
    assert alpha(result) == pytest.approx(1 / (1 + 8 / math.pi**2), rel=1e-8)
    h = rng.normal(size=(100_000, 2))
    y = model.link(h[:, :, None])
    h = h[np.lexsort([y[:, 0], y[:, 1]])]
    g = h[:, :, None] * h[:, None, :] - np.eye(2)
    each = np.einsum("ij,nia,ab,njb->n", result.eigenvector, g[0::2], result.eigenvector, g[1::2])
    sigma = each.std() / math.sqrt(len(each))
    assert 1 / alpha(result) == pytest.approx(each.mean(), abs=4 * sigma)


@pytest.mark.parametrize("text", ["cos(h) + h**2/5", "h*sin(h) + exp(h**2/9)", "abs(h)*exp(h**2) + 9*cos(2*h)"])
def test_links_of_one_entry_that_have_no_closed_inverse(text: str, rng: np.random.Generator) -> None:
    result = threshold(kernel(text))
    assert result.how == "estimated" and result.error < 1e-6 * alpha(result)
    mean, sigma = pairs_estimate(kernel(text), result.eigenvector, rng, 100_000)
    assert 1 / alpha(result) == pytest.approx(mean, abs=4 * sigma)


def test_bisection_and_closed_branches_agree() -> None:
    """The same link, solved by the quadratic formula and by bisection on monotone pieces."""
    model = kernel("h**4 - 6*h**2")
    closed = threshold(model)
    (part,) = model.parts
    (region,) = part.regions
    ((_, _, slope),) = region.branches[0].values()
    numeric = replace(model, parts=(replace(part, regions=(replace(region, branches=({0: (0, None, slope)},)),)),))
    assert alpha(threshold(numeric)) == pytest.approx(alpha(closed), rel=1e-7)


def test_two_wells_against_an_integral() -> None:
    """y = (h^2 - 3)^2 - 9 fixes s = |h^2 - 3|: h^2 is 3 + s, or 3 - s where that is positive."""

    def density(t: float) -> float:
        return math.exp(-t / 2) / math.sqrt(2 * math.pi * t) if t > 0 else 0.0

    def integrand(s: float) -> float:
        far, near = density(3 + s), density(3 - s)
        return (far * (2 + s) + near * (2 - s)) ** 2 / (far + near)

    # s = 3 - t^2 below 3, where the density of h^2 = 3 - s is singular
    norm = quad(lambda t: 2 * t * integrand(3 - t * t), 0, math.sqrt(3))[0] + quad(integrand, 3, 80)[0]
    assert alpha(threshold(kernel("h**4 - 6*h**2"))) == pytest.approx(1 / norm, rel=1e-8)


def test_monotone_pieces_against_roots_of_a_polynomial() -> None:
    pieces = MonotonePieces(lambda x: x**3 - 3 * x + 0 * x, lambda x: 3 * x**2 - 3, -4.0, 5.0)
    np.testing.assert_allclose(pieces.ends, [[-4, -1, 1], [-1, 1, 5]], atol=1e-12)
    for y in (-60.0, -1.5, 0.3, 1.9, 40.0, 200.0):
        found = sorted(z for k in range(pieces.count) if not math.isnan(z := float(pieces.solve(np.array([y]), k)[0])))
        roots = np.roots([1, 0, -3, -y])
        real = sorted(r.real for r in roots if abs(r.imag) < 1e-9 and -4 < r.real < 5)
        np.testing.assert_allclose(found, real, atol=1e-9)


def test_monotone_pieces_are_cut_at_poles() -> None:
    pieces = MonotonePieces(lambda x: 1 / (x - 0.3), lambda x: -1 / (x - 0.3) ** 2, -1.0, 1.0)
    assert pieces.count == 2
    found = [float(pieces.solve(np.array([5.0]), k)[0]) for k in range(2)]
    np.testing.assert_allclose([z for z in found if not math.isnan(z)], [0.5], atol=1e-12)


def test_a_tiny_operator_gives_a_lower_bound_and_no_infinity() -> None:
    result = threshold(kernel("cos(20*h)"))
    assert result.value is None and result.exact is None and not result.converged
    assert result.at_least is not None and result.at_least > 1e10 and "larger than" in result.status
    # the true value by Poisson's sum: about exp(400)
    assert math.log(result.at_least) < 400


@pytest.mark.usefixtures("few_samples")
def test_huge_outputs_overflow_into_place() -> None:
    # exp(100 h_1 h_2) overflows: where it does it still says h_1 h_2 > 7
    result = threshold(kernel("exp(100*h[1]*h[2]) + h[1]**2"))
    assert result.how == "monte-carlo" and 0.4 < alpha(result) < 0.6


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
    old = tmp_path / f"{hashlib.sha256(b'FORMAT = 0').hexdigest()}.py"
    old.write_bytes(b"FORMAT = 0")
    with pytest.raises(KernelNotFoundError, match="another layout"):
        load_link(old)
    old.write_bytes(b"FORMAT = 4")
    with pytest.raises(KernelNotFoundError, match="must be the sha256 of what it holds"):
        load_link(old)


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
    "text",
    ["h[1]**2*h[2] + h[3]", "exp(h[1]**3)", "argmax([h[1], h[1] + h[2], 0])", "sin(h[1] + h[2] + h[3] + h[4])"],
)
def test_linear_information_shows_in_acorrelation(text):
    """E[h f(y)] not zero means E[h | y] not zero: no quadrature is needed, and none of these may fail."""
    result = threshold(kernel(text))
    # by a moment, by monotonicity, or by bounds, which serve no more than three entries
    proved = "sin" not in text
    assert (result.value, result.exact, result.converged) == ("0", "0" if proved else None, True)
    assert result.how == ("rigorous" if proved else "estimated")
    assert ("proved: " if proved else "not proved") in result.status
    assert result.operator_norm == math.inf
    assert np.trace(result.eigenvector) > 0


@pytest.mark.parametrize("text", ["h[1]**2", "h[1]*h[2]", "sign(h[1]*h[2]*h[3])", "h[1]**2 + h[2]**4"])
def test_no_correlation_is_found_where_there_is_none(text):
    assert correlation(kernel(text)) is None


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


def test_outputs_said_twice_count_twice_with_noise():
    twice, once = threshold(kernel("h[1]**2; h[1]**2", "1")), threshold(kernel("h[1]**2", "1/2"))
    assert abs(alpha(twice) - alpha(once)) < twice.error + once.error


@pytest.mark.parametrize("text", ["h[1]**3 - 3*h[1]", "h[1]**2 + h[1]", "h[1]**3 + h[1]", "h[1]**5 - h[1]**2"])
def test_polynomials_with_linear_information_are_exactly_zero(text):
    result = threshold(kernel(text))
    assert (result.value, result.exact, result.how) == ("0", "0", "rigorous")
