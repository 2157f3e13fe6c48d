"""Stationary points: those of the state evolution, closed forms, all of a polynomial, types and stability."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.linear import LinearChannel
from attnlimits.numerics.core.results import load
from attnlimits.numerics.fixed_point import link as link_evolution
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy import FreeEntropy, OutputEntropy, output_entropy, stationary_points
from attnlimits.numerics.free_energy.balance import GroupBalance
from attnlimits.numerics.free_energy.two_layers import TwoLayerEntropy
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.papers.troiani2025.figures import branches


def one(value):
    return np.array([[float(value)]])


def slope(phi, q, k, step):
    """Derivative of Phi by the overlap of index k, by differences of fourth order of its values."""

    def at(shift):
        moved = q.copy()
        moved[k, k] += shift * step
        return phi(moved)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


# --- fixed points of the state evolution ----------------------------------------------------------------------------


@pytest.mark.slow_for("5")
@pytest.mark.parametrize("tokens", [2, 5, *(pytest.param(m, marks=pytest.mark.slow) for m in (3, 4))])
def test_one_layer_at_rest_is_stationary(tokens):
    """Phi from log Z_out at the fixed points of `evolve`: nothing in common but the model."""
    output = output_entropy(Network(1, tokens))
    # from the threshold on, and up to recovery at 1/M
    for share in np.linspace(1.2, 0.85 * (tokens + 1), 3):
        alpha = float(share) / (tokens * (tokens + 1))
        free = FreeEntropy(output, alpha)
        q = evolve(Network(1, tokens), alpha, tol=1e-10).overlap
        assert q[0, 0] > 0.02
        found = slope(lambda at, free=free: free(at).value, q, 0, 1e-3 * (1 - q[0, 0]))
        # differences of values that are good to 1e-13
        assert found == pytest.approx(0, abs=1e-8 / (1 - q[0, 0]))


@pytest.mark.parametrize(
    ("text", "alphas"),
    [
        ("h[1]**2", (0.55, 0.85, 1.1)),
        ("sign(h[1])", (0.2, 2.0, 20.0)),
        ("max(h[1],0)", (0.1, 0.9, 1.5)),
        pytest.param("h[1]**3 - h[1]", (0.2, 0.5), marks=pytest.mark.slow),
        pytest.param("min(abs(h[1]),1)", (1.0, 1.1, 1.2, 1.3, 1.4), marks=pytest.mark.slow),
    ],
)
def test_links_at_rest_are_stationary(text, alphas):
    kernel = kernel_of(text)
    output = output_entropy(kernel)
    for alpha in alphas:
        free = FreeEntropy(output, alpha)
        q = link_evolution.evolve(kernel, alpha, tol=1e-10).overlap
        assert 0.02 < q[0, 0] < 1 - 1e-5
        found = slope(lambda at, free=free: free(at).value, q, 0, 1e-3 * (1 - q[0, 0]))
        # the iteration takes the mean of two resolutions, the values the finer one
        spread = 0.5 * alpha * float(np.ptp(output.averages(q).g))
        assert found == pytest.approx(0, abs=spread + 1e-7 / (1 - q[0, 0]))
        assert spread < 1e-4 / (1 - q[0, 0])


@pytest.mark.slow_for("0.55", "0.35-0.5", "0.35-3.0")
@pytest.mark.parametrize("skip", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("alpha", [0.35, 0.55])
def test_two_layers_at_rest_are_stationary(alpha, skip):
    model = Network(skip=skip)
    averages, entropy = output_entropy(model, accuracy=1e-5, workers=1), TwoLayerEntropy(model, 1e-8, 1)
    output = OutputEntropy(averages.channel, entropy.log_density)
    free = FreeEntropy(output, alpha)
    q = evolve(model, alpha, tol=1e-8, accuracy=1e-5, workers=1).overlap
    q[0, 0] = 0.0
    if float(output.averages(q).growth[:, 0].mean()) * alpha < 1:
        assert q[1, 1] > 0.1
        found = slope(lambda at: free(at).value, q, 1, 0.02 * (1 - q[1, 1]))
        assert found == pytest.approx(0, abs=3e-5 / (1 - q[1, 1]))


def test_both_layers_at_rest_are_stationary():
    """A stored fixed point with both layers learned, found by bisection on G."""
    record = load(branches.DATA)
    row = record["skip"].index(1.0)
    at = record["q11"][row].index(0.2)
    q, alpha = np.diag([0.2, record["q22"][row][at]]), record["alpha"][row][at]
    free = FreeEntropy(output_entropy(Network(), accuracy=5e-3, workers=1), alpha)
    gradient, error = free.gradient(q)
    off = record["error"][row][at] / alpha
    # what alpha is off by moves the gradient by its share of G/2
    assert (np.abs(gradient).diagonal() <= error.diagonal() + 2 * off / (1 - q.diagonal())).all()
    values = [free(q + shift * np.diag([0.15, 0.0])) for shift in (-1, 0, 1)]
    assert values[1].value > max(values[0].value, values[2].value)


@pytest.mark.parametrize("distance", [pytest.param(1e-4, marks=pytest.mark.slow), 1e-6])
def test_both_points_just_below_a_spinodal_are_found(distance):
    """The spinodal of phase retrieval is the maximum of alpha(q) along the fixed points of the state evolution."""
    kernel = kernel_of("h**2")
    fold = 1.12847140667218
    alpha = fold * (1 - distance)
    below = stationary_points(FreeEntropy(output_entropy(kernel), alpha), closest=1e-4)
    assert [point.kind for point in below] == ["recovered", "maximum", "minimum", "minimum"]
    rest = link_evolution.evolve(kernel, alpha)
    assert abs(below[1].overlap[0, 0] - rest.overlap[0, 0]) <= below[1].overlap_error[0, 0] + rest.overlap_error[0, 0]
    above = stationary_points(FreeEntropy(output_entropy(kernel), fold * (1 + distance)), closest=1e-4)
    assert [point.kind for point in above] == ["recovered", "minimum"]


def test_the_search_finds_what_both_starts_find():
    kernel, alpha = kernel_of("h[1]**2"), 1.05
    points = stationary_points(FreeEntropy(output_entropy(kernel), alpha))
    for start in ("uninformed", "informed"):
        q = link_evolution.evolve(kernel, alpha, start=start).overlap[0, 0]
        nearest = min(points, key=lambda p: abs(p.overlap[0, 0] - q))
        assert nearest.overlap[0, 0] == pytest.approx(q, abs=1e-5)
        assert nearest.stable


# --- closed forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("noise", ["0.5", "0.01"])
def test_a_noisy_line_to_rounding(alpha, noise):
    """alpha/(v + Delta) = (1 - v)/v, and Phi = (1 - v + log v - alpha log((v + Delta)/(1 + Delta)))/2."""
    delta = float(noise)
    output = output_entropy(kernel_of("h[1]", noise=noise))
    assert isinstance(output.channel, LinearChannel)
    (point,) = stationary_points(FreeEntropy(output, alpha))
    half = 0.5 * (alpha - 1 + delta)
    v = math.sqrt(half**2 + delta) - half if half < 0 else delta / (math.sqrt(half**2 + delta) + half)
    assert point.overlap[0, 0] == pytest.approx(1 - v, abs=1e-12)
    phi = 0.5 * (1 - v + math.log(v) - alpha * math.log((v + delta) / (1 + delta)))
    assert point.free_entropy.value == pytest.approx(phi, abs=1e-12)
    assert point.kind == "maximum" and point.stable


# --- all points of a polynomial -------------------------------------------------------------------------------------


def everything(own, mixed, alpha):
    """All fixed points by brute force: eigenvalues of companion matrices along lines, and elimination over both."""
    channel_points = [(0.0, 0.0)]

    def line(a):
        # alpha a x = x/(1 - x)
        x = 1 - 1 / (alpha * a)
        return [x] if 1e-9 < x < 1 else []

    channel_points += [(x, 0.0) for x in line(own[0])] + [(0.0, x) for x in line(own[1])]

    # alpha (a + 2 b x_2^2) = 1/(1 - x_1), and likewise: x_1 as a function of x_2, on a fine grid with bisection
    def first(y):
        return 1 - 1 / (alpha * (own[0] + 2 * mixed * y * y))

    def wrong(y):
        return alpha * (own[1] + 2 * mixed * first(y) ** 2) - 1 / (1 - y)

    grid = np.linspace(1e-6, 1 - 1e-6, 200001)
    with np.errstate(all="ignore"):
        values = wrong(grid)
    for k in np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1])):
        if first(grid[k]) > 1e-6:
            channel_points.append((float(first(grid[k])), float(grid[k])))
    return np.array(sorted(channel_points))


@pytest.mark.parametrize(("own", "mixed", "alpha"), [((1.2, 3.0), 2.0, 0.7), ((0.5, 0.6), 4.0, 0.9), ((2, 2), 1, 1.0)])
def test_no_stationary_point_is_missed(polynomial, own, mixed, alpha):
    given_channel = polynomial(own, mixed)
    free = FreeEntropy(OutputEntropy(given_channel), alpha)
    points = stationary_points(free, starts=12)
    found = np.array(sorted(tuple(p.overlap.diagonal()) for p in points))
    expected = everything(own, mixed, alpha)
    assert len(expected) >= 3
    assert found == pytest.approx(expected, abs=1e-4)
    for point in points:
        x = point.overlap.diagonal()
        # the Hessian by differences of the closed form
        step = 1e-4
        grid = {
            (i, j): given_channel.psi(np.abs(x + step * np.array([i, j]))) * alpha
            + 0.5 * (np.abs(x + step * np.array([i, j])) + np.log(1 - np.abs(x + step * np.array([i, j])))).sum()
            for i, j in product((-1, 0, 1), repeat=2)
        }
        hessian = np.empty((2, 2))
        hessian[0, 0] = (grid[1, 0] - 2 * grid[0, 0] + grid[-1, 0]) / step**2
        hessian[1, 1] = (grid[0, 1] - 2 * grid[0, 0] + grid[0, -1]) / step**2
        hessian[0, 1] = hessian[1, 0] = (grid[1, 1] - grid[1, -1] - grid[-1, 1] + grid[-1, -1]) / (4 * step**2)
        if (x > 0).all():
            assert point.eigenvalues == pytest.approx(np.sort(np.linalg.eigvalsh(hessian))[::-1], rel=1e-2, abs=1e-3)
    assert sum(p.kind == "maximum" for p in points) >= 1
    assert points[0].kind == "maximum"


def test_stable_means_that_the_iteration_returns(polynomial):
    given_channel = polynomial((0.5, 0.6), 4.0)
    alpha = 0.9
    for point in stationary_points(FreeEntropy(OutputEntropy(given_channel), alpha), starts=12):
        x = point.overlap.diagonal()
        begin = np.clip(x + 1e-3 * np.where(x > 0, np.array([1.0, -1.0]), 1.0), 0, 1)
        at = begin.copy()
        for _ in range(4000):
            qhat = alpha * given_channel.g(at)
            at = qhat / (1 + qhat)
        assert (np.abs(at - x).max() < 1e-5) == point.stable


def test_overlaps_that_an_exchange_makes_equal_are_evaluated_once(monkeypatch):
    """The indices of h_1^2 + h_2^2 may be exchanged, those of h_1^2 + 2 h_2^2 not."""
    seen = []
    monkeypatch.setattr(GroupBalance, "_evaluate", lambda self, w: seen.append(w) or w + np.array([0.0, 1.0]))
    for text, evaluations in (("h[1]**2 + h[2]**2", 1), ("h[1]**2 + 2*h[2]**2", 2)):
        output = output_entropy(kernel_of(text))
        assert output.groups == ((0,), (1,))
        balance = GroupBalance(output, FreeEntropy(output, 1.0).prior)
        seen.clear()
        one, other = balance(np.array([0.5, 2.0])), balance(np.array([2.0, 0.5]))
        assert len(seen) == evaluations
        assert np.array_equal(one, other[::-1]) == (evaluations == 1)
        further = [np.array([0.5, 2.0]), np.array([0.7, 0.9]), np.array([0.9, 0.7])]
        assert len(balance.missing(further)) == evaluations
        balance.accept(np.array([0.1, 0.2]), np.array([3.0, 4.0]))
        assert balance(np.array([0.1, 0.2])).tolist() == [3.0, 4.0]
        assert (balance(np.array([0.2, 0.1])).tolist() == [4.0, 3.0]) == (evaluations == 1)


# --- properties, bad input --------------------------------------------------------------------------------------------


OUTPUT = output_entropy(kernel_of("min(abs(h[1]),1)"))
BALANCE = GroupBalance(OUTPUT, FreeEntropy(OUTPUT, 1.0).prior)


@settings(max_examples=1)
@given(alphas=st.lists(st.floats(0.05, 3), min_size=3, max_size=3))
def test_more_samples_never_hurt(alphas):
    """The Bayes-optimal overlap and its free entropy rise with alpha, and 0 <= q <= 1."""
    found = [stationary_points(FreeEntropy(OUTPUT, alpha), balance=BALANCE)[0] for alpha in sorted(alphas)]
    for low, high in pairwise(found):
        assert 0 <= low.overlap[0, 0] <= high.overlap[0, 0] + 1e-9 <= 1 + 1e-9
        assert -1e-12 <= low.free_entropy.value <= high.free_entropy.value + 1e-12
        assert np.linalg.eigvalsh(low.overlap)[0] >= 0


def test_nothing_is_learned_from_nothing():
    (point,) = stationary_points(FreeEntropy(OUTPUT, 0.0))
    assert not point.overlap.any()
    assert point.free_entropy.value == 0


@pytest.mark.parametrize("alpha", [-1.0, math.nan, math.inf])
def test_an_alpha_out_of_range_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be"):
        FreeEntropy(OUTPUT, alpha)


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="starts must be"):
        stationary_points(FreeEntropy(OUTPUT, 1.0), starts=-1)
    with pytest.raises(ValueError, match="closest must be"):
        stationary_points(FreeEntropy(OUTPUT, 1.0), closest=0.5)


def test_a_channel_may_be_given(rng):
    averages = channel(Network(1, 2), samples=16, replicas=2, rng=rng)
    assert output_entropy(averages).describe() == Network(1, 2).describe()
