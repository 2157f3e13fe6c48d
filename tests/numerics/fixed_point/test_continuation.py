"""Curves of fixed points: against closed forms, single fixed points, brute force, and known thresholds and jumps."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.fixed_point import link as link_evolution
from attnlimits.numerics.fixed_point.continuation import curve
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer


class Analytic(ChannelBase):
    """A channel made so that layer l is at rest at alpha_l(x): G_l = x_l / ((1 - x_l) alpha_l(x))."""

    sampled = False

    def __init__(self, *alphas, noise=0.0, factor=1.0):
        self.alphas, self.noise, self.factor = alphas, noise, factor
        size = len(alphas)
        self.model = SimpleNamespace(indices=size, layers=size, kernel_hash="analytic", parameters={"link": "analytic"})
        self.layers = tuple(range(size))

    def __call__(self, q):
        x = q.diagonal()
        at = np.array([alpha(*x) for alpha in self.alphas]) / self.factor
        growth = np.where(x == 0, 1 / at, np.nan)
        sides = (1 + self.noise, 1 - self.noise)
        return Averages.unbiased(
            np.array([np.diag(x / ((1 - x) * at)) * side for side in sides]),
            np.array([growth * side for side in sides]),
            "estimated",
        )


def diagonals(points):
    return np.array([p.overlap.diagonal() for p in points])


# --- one layer ------------------------------------------------------------------------------------------------------


def cubic(strength):
    """alpha(x), with slope 6.5 - 30 s x (1 - x): two folds for strength s > 13/15, none below."""
    return lambda x: 1 + 6.5 * x + strength * (10 * x**3 - 15 * x**2)


def test_folds_of_one_layer_are_those_of_the_polynomial():
    alpha = cubic(1.0)
    values = np.linspace(0, 3, 13)
    result = curve(Analytic(alpha), values, start="both")
    low, high = sorted(np.roots([30.0, -30.0, 6.5]).real)
    up, down = result.jumps
    assert (up.direction, down.direction) == ("up", "down")
    assert up.value == pytest.approx(alpha(low), abs=1e-7)
    assert down.value == pytest.approx(alpha(high), abs=1e-7)
    assert up.before[0, 0] == pytest.approx(low, abs=1e-4)  # the fold is flat
    # beyond the fold the iteration rests at the other root of alpha(x) = alpha(fold)
    assert alpha(up.after[0, 0]) == pytest.approx(alpha(low), abs=1e-6)
    assert up.after[0, 0] > high > low > down.after[0, 0]
    for start, pick in (("uninformed", min), ("informed", max)):
        for point in result.points[start]:
            assert point.converged
            roots = np.roots([10.0, -15.0, 6.5, 1.0 - point.alpha])
            inside = [r.real for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1]
            if point.alpha <= 1:
                assert not point.overlap.any()
            elif inside and pick(inside) < 1 - 1e-6:
                assert point.overlap[0, 0] == pytest.approx(pick(inside), abs=1e-8)
                assert point.eigenvalues[0] < 1
            else:
                assert point.recovered == (0,)
                assert point.overlap[0, 0] == pytest.approx(1 - 1e-6, abs=1e-12)
    assert result.gap is not None and result.gap.beyond_error
    assert result.gap.parameter == 1.75  # the only value between the folds
    assert "the starts differ" in result.status


@pytest.mark.parametrize(("strength", "folds"), [(0.8, 0), (0.86, 0), (0.87, 2), (0.9, 2)])
def test_a_cusp_opens_where_the_slope_first_vanishes(strength, folds):
    # the slope first vanishes at x = 1/2, for strength 13/15 = 0.8667
    result = curve(Analytic(cubic(strength)), np.linspace(0, 2.5, 6), start="both")
    assert len(result.jumps) == folds
    assert result.converged


@pytest.mark.parametrize("start", ["uninformed", "informed"])
def test_a_layer_that_is_learned_at_once(start):
    # alpha falls from 1 to 0.5 at x = 1/2 and rises to 1.5 at x = 1
    result = curve(Analytic(lambda x: 1 - 2 * x + 2.5 * x**2), [0.5, 0.7, 0.95, 1.2], start=start)
    [jump] = result.jumps
    q = diagonals(result.points[start])[:, 0]
    roots = [float(max(np.roots([2.5, -2.0, 1 - a]).real)) for a in (0.7, 0.95, 1.2)]
    if start == "uninformed":
        assert jump.value == pytest.approx(1.0, abs=1e-9)
        assert not q[:3].any() and q[3] == pytest.approx(roots[2], abs=1e-8)
    else:
        assert jump.value == pytest.approx(0.6, abs=1e-8)
        assert q[0] == 0 and q[1:] == pytest.approx(roots, abs=1e-8)


def test_the_error_is_the_change_that_the_averages_may_be_off_by():
    noise = 1e-4
    exact, off = (curve(Analytic(cubic(0.8), noise=noise, factor=f), [1.3, 2.0]) for f in (1.0, 1 + noise))
    for here, moved in zip(exact.points["uninformed"], off.points["uninformed"], strict=True):
        change = moved.overlap[0, 0] - here.overlap[0, 0]
        assert here.overlap_error[0, 0] == pytest.approx(change, rel=0.02)
    assert exact.onsets[0].error == pytest.approx(noise, rel=1e-3)


@pytest.mark.parametrize("tokens", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_one_attention_layer_against_single_fixed_points(tokens):
    model = Network(layers=1, tokens=tokens)
    values = [0.0, 0.1, 0.25]
    result = curve(model, values, start="both")
    assert result.converged and not result.jumps
    assert result.onsets[0].value == pytest.approx(1 / (tokens * (tokens + 1)), rel=1e-12)
    assert result.gap is not None and not result.gap.beyond_error
    for value, point in zip(values, result.points["uninformed"], strict=True):
        single = evolve(model, value, tol=1e-9)
        # 1 - F' is at least 0.1 here
        assert point.overlap[0, 0] == pytest.approx(single.overlap[0, 0], abs=1e-7)
        if not point.overlap.any():
            assert point.growth[0] == pytest.approx(value * tokens * (tokens + 1), abs=1e-12)


def test_the_eigenvalue_is_the_rate_at_which_the_iteration_converges():
    model = Network(layers=1, tokens=2)
    point = curve(model, [0.3]).points["uninformed"][0]
    averages = channel(model, samples=16, replicas=2, rng=np.random.default_rng(0))

    def step(q):
        g = 0.3 * float(averages(np.array([[q]])).g.mean())
        return g / (1 + g)

    q = float(point.overlap[0, 0])
    slope = (step(q + 1e-5) - step(q - 1e-5)) / 2e-5
    assert point.eigenvalues[0] == pytest.approx(slope, abs=1e-5)


# --- links ----------------------------------------------------------------------------------------------------------


def link(text, noise="0"):
    return LinkChannel(kernel_of(text, noise=noise), samples=64, replicas=4, rng=np.random.default_rng(0))


def test_a_noisy_linear_link_has_a_closed_form():
    # G = 1/(1 - q + Delta) = x/((1 - x) alpha(x)): no threshold, q from the quadratic equation
    class Linear(Analytic):
        def __call__(self, q):
            g = np.array([[[1 / (1.5 - q[0, 0])]]] * 2)
            return Averages.unbiased(g, np.full((2, 1), np.nan), "estimated")

    assert link("h[1]", "1/2")(np.array([[0.3]])).g == pytest.approx(1 / 1.2, abs=1e-9)
    result = curve(Linear(None), [0.0, 0.2, 1.0, 3.0], start="both")
    assert result.converged and not result.jumps and not result.onsets
    for point in (p for points in result.points.values() for p in points):
        a = point.alpha
        exact = ((1.5 + a) - np.sqrt((1.5 + a) ** 2 - 4 * a)) / 2
        assert point.overlap[0, 0] == pytest.approx(exact, abs=1e-8)


def test_phase_retrieval_jumps_and_keeps_what_it_has():
    result = curve(link("h[1]**2"), [0.45, 0.8, 1.1, 1.2], start="both")
    assert result.converged
    assert result.onsets[0].value == pytest.approx(0.5, abs=1e-9)
    up, down = result.jumps
    # known: algorithmic recovery from alpha = 1.13, information-theoretic from alpha = 1
    assert up.value == pytest.approx(1.13, abs=0.005)
    assert down.value == pytest.approx(1.0, abs=1e-3)  # at the closest overlap, 1 - 1e-6
    assert [p.recovered for p in result.points["uninformed"]] == [(), (), (), (0,)]
    assert [p.recovered for p in result.points["informed"]] == [(), (), (0,), (0,)]
    # the iteration itself stays on either side of the fold
    below, above = (link_evolution.evolve(kernel_of("h[1]**2"), up.value + d).overlap[0, 0] for d in (-0.01, 0.01))
    assert below < up.before[0, 0] < 0.99 < above


def test_indices_that_are_learned_together_are_refused():
    with pytest.raises(ValueError, match="are learned together"):
        curve(link("sign(h[1]*h[2])"), [1.0])


# --- several layers -------------------------------------------------------------------------------------------------


def second(x, y):
    return 0.2 + 0.8 * y - 0.3 * x * y


def coupled(bend, **others):
    """Layer 2 is learned from alpha = 0.2; layer 1 once q_22 = 0.65, at alpha = 0.72, and helps layer 2."""
    return Analytic(lambda x, y: 1.5 - 1.2 * y + bend(x), second, **others)


def straight(x):
    return x


def bent(x):
    return 4 * x * (x - 0.9) * (x - 0.3)


def rest_of(bend, x):
    """Where both layers are at rest at the same alpha, linear in y: alpha, y."""
    y = (1.3 + bend(x)) / (2 - 0.3 * x)
    return second(x, y), y


@pytest.mark.parametrize("start", ["uninformed", "informed"])
def test_two_layers_that_grow_smoothly(start):
    values = np.linspace(0.1, 1.2, 12)
    result = curve(coupled(straight), values, start=start)
    assert result.converged and not result.jumps
    by_index = {one.indices: one.value for one in result.onsets}
    assert by_index[(0,)] == pytest.approx(0.72, abs=1e-7)
    # twice the residual through 1/(1 - F'), which is 20 there
    both = curve(coupled(straight), [0.5, 0.78], start="both").gap
    assert both is not None and not both.beyond_error and 0 < both.value + both.error < 1e-3
    for point in result.points[start]:
        x = float(point.overlap[0, 0])
        if point.alpha <= 0.2:
            wanted = (0.0, 0.0)
        elif point.alpha <= 0.72:
            wanted = (0.0, (point.alpha - 0.2) / 0.8)
        elif point.alpha < 0.83:  # q_22 reaches one at alpha = 0.8385, x = 7/13
            x = brentq(lambda v, a=point.alpha: rest_of(straight, v)[0] - a, 0, 0.6)
            wanted = (x, rest_of(straight, x)[1])
        else:
            wanted = (point.alpha - 0.3, 1 - 1e-6)
            assert 1 in point.recovered
        # residual 1e-5 through 1/(1 - F') < 20
        assert point.overlap.diagonal() == pytest.approx(wanted, abs=2e-4)
        assert (np.abs(point.overlap.diagonal() - wanted) <= point.overlap_error.diagonal() + 1e-6).all()


def test_two_layers_that_jump():
    result = curve(coupled(bent), np.linspace(0.1, 1.2, 12), start="both")
    assert result.converged
    up, down = result.jumps[0], result.jumps[-1]
    # brute force along the branch of both layers
    top = minimize_scalar(lambda x: -rest_of(bent, x)[0], bounds=(0, 0.4), method="bounded")
    bottom = minimize_scalar(lambda x: rest_of(bent, x)[0], bounds=(0.4, 0.9), method="bounded")
    assert (up.direction, down.direction) == ("up", "down")
    assert up.value == pytest.approx(-top.fun, abs=1e-4)
    assert down.value == pytest.approx(bottom.fun, abs=1e-4)
    assert result.gap is not None and result.gap.beyond_error and result.gap.value > 0.7


def test_errors_and_eigenvalues_of_two_layers():
    noise = 1e-4
    exact, off = (curve(coupled(straight, noise=noise, factor=f), [0.78], tol=1e-9) for f in (1.0, 1 + noise))
    [here], [moved] = exact.points["uninformed"], off.points["uninformed"]
    change = (moved.overlap - here.overlap).diagonal()
    error = here.overlap_error.diagonal()
    assert (np.abs(change) <= 1.2 * error).all()  # the noise of the layers may add up otherwise, to more
    assert (error <= 6 * np.abs(change)).all()
    made = coupled(straight)

    def step(q):
        g = 0.78 * made(np.diag(q)).g.mean(axis=0).diagonal()
        return g / (1 + g)

    q = here.overlap.diagonal()
    columns = [(step(q + d) - step(q - d)) / 2e-5 for d in 1e-5 * np.eye(2)]
    # the Jacobian is one of one-sided differences
    assert here.eigenvalues == pytest.approx(np.sort(np.linalg.eigvals(np.array(columns).T))[::-1], abs=0.005)


def test_along_another_parameter_it_jumps_where_alpha_does():
    def family(strength):
        return Analytic(lambda x: strength * cubic(1.0)(x))

    # alpha = 1 stands at strength * cubic: folds at 1/strength = 1.871.. and 1.628..
    values = np.linspace(0.5, 0.7, 9)
    ends = sorted(1 / cubic(1.0)(x) for x in np.roots([30.0, -30.0, 6.5]).real)
    up = curve(family, values, along="skip", alpha=1.0, start="uninformed")
    down = curve(family, values[::-1], along="skip", alpha=1.0, start="informed")
    assert up.converged and down.converged
    for result, before in ((up, True), (down, False)):
        [points] = result.points.values()
        for point in points:
            [jump] = result.jumps or [None]
            assert jump is None or jump.value == pytest.approx(ends[1] if before else ends[0], abs=1e-4)
            roots = np.roots([10.0, -15.0, 6.5, 1.0 - 1 / point.parameter])
            inside = [r.real for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1]
            assert min(abs(r - point.overlap[0, 0]) for r in inside) < 1e-4


def test_two_attention_layers_from_onset_to_evolve():
    model = Network()
    result = curve(model, [0.1, 0.4])
    assert result.converged
    [onset] = result.onsets
    exact = float(last_layer(model, digits=6).value)
    assert abs(onset.value - exact) <= onset.error + 1e-4 * exact  # averages to 1e-3, better where they are smooth
    for point in result.points["uninformed"][1:]:
        single = evolve(model, point.alpha, samples=64, workers=1)
        error = 4 * single.overlap_error[1, 1] + point.overlap_error[1, 1]
        assert abs(point.overlap[1, 1] - single.overlap[1, 1]) < error
        assert point.overlap[0, 0] == 0 and point.growth[0] < 1


def test_along_the_skip_strength_it_is_the_fixed_point_of_each_model():
    points = curve(Network(), [0.7, 1.0], along="skip", alpha=0.4).points["uninformed"]
    for point in points:
        [single] = curve(Network(skip=point.parameter), [0.4]).points["uninformed"]
        error = point.overlap_error[1, 1] + single.overlap_error[1, 1]
        assert abs(point.overlap[1, 1] - single.overlap[1, 1]) < error


@pytest.mark.slow
def test_both_attention_layers():
    result = curve(Network(), [0.4, 0.73, 0.8])
    assert result.converged and not result.jumps
    by_index = {one.indices: one for one in result.onsets}
    # two independent prototypes of other rules; the averages are good to a few times 1e-5 there
    assert abs(by_index[(0,)].value - 0.719636) <= by_index[(0,)].error
    single = evolve(Network(), 0.8, samples=2048)
    last = result.points["uninformed"][-1]
    error = 4 * single.overlap_error.diagonal() + last.overlap_error.diagonal()
    assert (np.abs((last.overlap - single.overlap).diagonal()) < error).all()


@pytest.mark.slow
def test_two_attention_layers_show_no_gap_between_the_starts():
    result = curve(Network(), [0.75, 0.85], start="both", accuracy=1e-2)
    assert result.converged and not result.jumps
    assert result.gap is not None and not result.gap.beyond_error
    assert result.gap.value < 1e-3 < 0.1 < result.points["informed"][0].overlap[1, 1]


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "others", "words"),
    [
        ([], {}, "non-empty"),
        ([-0.1], {}, ">= 0"),
        ([float("nan")], {}, "finite"),
        ([0.1], {"start": "cold"}, "start must be"),
        ([0.1], {"along": "depth"}, "along must be"),
        ([0.1], {"along": "skip"}, "alpha must be given"),
        ([0.1], {"alpha": 0.4}, "alpha must be given"),
        ([0.0, 1.0], {"along": "skip", "alpha": 0.4}, "must be > 0"),
        ([0.1], {"tol": 0.0}, "tol must be"),
        ([0.1], {"closest": 0.5}, "closest must be"),
        ([0.1], {"accuracy": 1.0}, "accuracy must be"),
    ],
)
def test_bad_arguments_are_named(values, others, words):
    with pytest.raises(ValueError, match=words):
        curve(Network(), values, **others)
