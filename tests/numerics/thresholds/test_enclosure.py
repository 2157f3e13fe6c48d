"""The rigorous threshold: each bound of papers/troiani2025/enclosure.md on its own, then the interval."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx

from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.enclosure.bounds import PHASE, OuterBounds, cell_exponent, support
from attnlimits.numerics.thresholds.enclosure.law import Node, admissible, disc, inner_rule, lens, sector
from attnlimits.numerics.thresholds.enclosure.sum import Lattice, Orders, Table, _exponential, lattice_sum, orders
from attnlimits.numerics.thresholds.enclosure.threshold import enclose_last_layer, inner_sensitivity
from attnlimits.numerics.thresholds.last_layer import last_layer

SKIPS = (0.5, 1.0, 4.0)


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(100):
        yield
        assert ctx.prec == 100


def _rule(error=1e-3, skip=1.0, beta=1.0):
    return inner_rule(skip, beta, error)


def _summed(rule, step_u, step_v, exponent=45.0, bits=100):
    """The lattice sum of a law, so far out that its tail cannot be seen, and its lattice."""
    law = support(rule.skip)
    lattice = Lattice.within(law, step_u, step_v, exponent)
    with ctx.workprec(bits):
        return lattice_sum(rule, lattice, orders(law, lattice, 45.0)), lattice


def _exact_nodes(rule):
    """The nodes to more bits than the sums of these tests ask for."""
    with ctx.workprec(200):
        return list(rule.nodes())


def _arrays(rule):
    """The law as floats: A >= 0 and tau, with weights that hold both signs of A."""
    nodes = list(rule.nodes())
    a = np.array([math.sqrt(max(0.0, float(node.a2))) for node in nodes]) * float(support(rule.skip).slope)
    return a, np.array([float(node.tau) for node in nodes]), np.array([float(node.weight) for node in nodes])


def _moments(law, u, v):
    """Z and M_++, M_+-, M_-- at (u, v), complex allowed, by the definition."""
    a, tau, weight = (np.concatenate([x, x]) for x in law)
    a = np.concatenate([a[: a.size // 2], -a[a.size // 2 :]])
    plus, minus = u - a * v, tau * v
    terms = weight / 2 * tau * np.exp(-(plus**2 + minus**2) / 2) / (2 * math.pi)
    return [np.sum(terms * x) for x in (1, plus**2, plus * minus, minus**2)], np.sum(np.abs(terms))


# --- the law and the sum ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", SKIPS)
def test_the_law_keeps_to_its_support(skip):
    rule = _rule(1e-4, skip)
    law = support(skip)
    for node in rule.nodes():
        a = (node.a2 * law.slope**2).nonnegative_part().sqrt()
        # Balls: "not above" is all that can be asked of the nodes on the boundary.
        assert not a > node.tau - law.tau_min
        assert not node.tau > law.tau_max and not node.tau < law.tau_min
        assert not node.b > 1 and not node.b < -1
    # The weights add up to 1 within the proven error, and to no better than the rule is.
    total = sum((node.weight for node in rule.nodes()), arb(0))
    assert abs(total - 1) < rule.error


def test_the_table_is_the_definition():
    rule = _rule()
    law = _arrays(rule)
    table = Table(support(1.0), rule.nodes(), 30, 60)
    u, v = [0.25, 1.5, 4.0], [0.1, 2.0, 5.5]
    rows = table.integrand([arb(x) for x in u], [arb(x) for x in v], [3, 3, 3])
    for x, row in zip(v, rows, strict=True):
        for y, ball in zip(u, row, strict=True):
            (z, plus, mixed, minus), _ = _moments(law, y, x)
            want = (plus**2 + 2 * mixed**2 + minus**2) / z
            got = float(ball) * math.exp(-(y**2) / 2) / (2 * math.pi)
            # float64 sums of positive terms; M_+- may cancel, beside terms of the size of F.
            assert got == pytest.approx(want, rel=1e-11)
            assert ball.rad() < 1e-15 * ball


def test_integer_sums_hold_the_sums_of_balls():
    nodes = _exact_nodes(_rule(1e-2))
    table = Table(support(1.0), iter(nodes), 6, 9)
    for n, power in ((0, 1), (5, 1), (7, 2)):
        for b in (0, 1, 8, 9):
            with ctx.workprec(200):
                want = sum((x.weight * x.tau**power * _power(x.a2, n) * x.b.chebyshev_t(b) for x in nodes), arb(0))
            got = table.moments[n + (power - 1) * 8, b]
            # The two radii are of the same order, and far from that of float64.
            assert got.overlaps(want) and got.rad() < 1e-28


def _power(x, n):
    value = arb(1)
    for _ in range(n):
        value *= x
    return value


@pytest.mark.parametrize("order", [4, 9, 40])
@pytest.mark.parametrize("w", [0.01, 3.0, 20.0])
def test_what_the_chebyshev_series_leaves_out(w, order):
    middle, half = arb(1.5), arb(1.25)
    coefficients, rest = _exponential(arb(w), middle, half, order)
    errors = []
    for i in range(-10, 11):
        x = arb(i) / 10
        partial = sum((value * x.chebyshev_t(b) for b, value in enumerate(coefficients)), arb(0))
        exact = (-arb(w) * (middle + half * x)).exp()
        assert (partial + rest).overlaps(exact)
        errors.append(abs(partial - exact))
    # At x = -1 all terms have one sign, so the bound is met there.
    assert rest.rad() < 1.01 * errors[0].upper() + 1e-25


def test_what_the_power_series_leaves_out():
    u, v, law = [arb(3)], [arb(4)], support(1.0)
    nodes = _exact_nodes(_rule(1e-2))
    exact = next(Table(law, iter(nodes), 60, 60).integrand(u, v, [1]))[0]
    for powers in (5, 8, 12, 20):
        short = next(Table(law, iter(nodes), powers, 60).integrand(u, v, [1]))[0]
        assert short.contains(exact)
        assert short.rad() > exact.rad()


def test_half_the_precision_widens_and_never_moves_off():
    rule = _rule(1e-2)
    lattice = Lattice.within(support(1.0), 0.25, 0.25, 20.0)
    order = Orders(powers=60, chebyshev=120, bits=0)  # so long that rounding is all there is
    balls = []
    for bits in (60, 120, 240):
        with ctx.workprec(bits):
            balls.append(lattice_sum(rule, lattice, order))
    for coarse, fine in pairwise(balls):
        assert coarse.contains(fine)
        assert coarse.rad() > 1e10 * fine.rad()


# --- the outputs -----------------------------------------------------------------------------------------------------


def test_the_exponent_of_a_cell_is_least():
    law = support(1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        u, low, width = rng.uniform(0, 8), rng.uniform(0, 8), rng.uniform(0.01, 1)
        bound = float(cell_exponent(law, arb(u), arb(low), arb(low + width)))
        a = rng.uniform(0, 0.5, 400)
        tau = rng.uniform(a + 0.5, 1.0)
        x, v = u + rng.exponential(0.1, 400) * (rng.random(400) < 0.5), rng.uniform(low, low + width, 400)
        assert bound <= np.min((x - a * v) ** 2 + (tau * v) ** 2) * (1 + 1e-12)
    # A cell that is a point has the least exponent of that point.
    a = np.linspace(0, 0.5, 20001)
    for u, v in ((3.0, 0.4), (3.0, 2.0), (3.0, 5.0), (0.5, 7.0)):
        least = np.min((u - a * v) ** 2 + ((a + 0.5) * v) ** 2)
        assert float(cell_exponent(law, arb(u), arb(v), arb(v))) == pytest.approx(least, rel=1e-6)


def test_the_tail_is_below_its_bound():
    rule = _rule()
    outer = OuterBounds(1.0, 14.0)
    step = arb(0.25)
    full, _ = _summed(rule, 0.25, 0.25)
    previous = None
    for exponent in (4.0, 8.0, 12.0, 16.0):
        part, lattice = _summed(rule, 0.25, 0.25, exponent)
        tail, bound = full - part, outer.tail(step, step, lattice.covers)
        assert tail > 0 and tail < bound
        # It falls as the tail does; what stays is the factor between the worst law of the support and this one.
        if previous is not None:
            assert bound / previous[1] < 0.3 and bound / tail < 30 * previous[1] / previous[0]
        previous = tail, bound


@pytest.mark.parametrize("skip", SKIPS)
def test_z_on_the_strips(skip):
    outer = OuterBounds(skip, 14.0)
    law = _arrays(_rule(1e-4, skip))
    least, low_b, high_b = math.cos(PHASE), float(outer.law.b_min), float(outer.law.b_max)
    rng = np.random.default_rng(1)
    for u, v in rng.uniform(0.05, 6, (150, 2)) * np.array([1, 1 / float(outer.law.tau_max)]):
        (z, *_), _ = _moments(law, u, v)
        a, b = float(outer.shift_u(arb(v))), float(outer.shift_v(arb(u), arb(v)))
        for part in (0.3, 1.0):
            k = part * a
            shifted = abs(_moments(law, u + 1j * k, v)[0][0])
            assert shifted >= least * math.exp(k**2 / 2) * z * (1 - 1e-12)
            k = part * b
            (value, *moments), moduli = _moments(law, u, v + 1j * k)
            assert abs(value) >= least * moduli * (1 - 1e-12)
            assert z * math.exp(k**2 * low_b / 2) <= moduli * (1 + 1e-12)
            assert moduli <= z * math.exp(k**2 * high_b / 2) * (1 + 1e-12)
            # F itself, against the bound (2) of the moments
            plus, mixed, minus = moments
            size = abs((plus**2 + 2 * mixed**2 + minus**2) / value)
            assert size <= _fourth(law, u, v, k**2 * high_b) * math.exp(k**2 * high_b / 2) / least * (1 + 1e-12)


def _fourth(law, u, v, extra):
    a, tau, weight = law
    return sum(
        np.sum(
            weight / 2 * tau * np.exp(-((u - x) ** 2 + (tau * v) ** 2) / 2) / (2 * math.pi)
            * ((u - x) ** 2 + (tau * v) ** 2 + extra) ** 2
        )
        for x in (a * v, -a * v)
    )  # fmt: skip


@pytest.mark.slow_for("0.3")
@pytest.mark.parametrize("step", [0.3, 0.5])
def test_the_outer_bounds_dominate_at_a_price_of_six_in_the_step(step):
    # A = +-slope, tau = tau_max is a corner of the support: there Z ~ cosh(u v A) has zeros just beyond the strips.
    law = support(1.0)
    corner = [Node(arb(1), arb(1), law.tau_max, arb(1))]

    def total(step_u, step_v):
        table = Table(law, iter(corner), 60, 90)
        lattice = Lattice.within(law, step_u, step_v, 45.0)
        u = [lattice.u(k) for k in range(max(lattice.counts))]
        v = [lattice.v(j) for j in range(len(lattice.counts))]
        values = arb(0)
        for row in table.integrand(u, v, lattice.counts):
            values += sum(((-x * x / 2).exp() * value for value, x in zip(row, u, strict=False)), arb(0))
        return values * 4 * step_u * step_v / (2 * arb.pi())

    outer, fine = OuterBounds(1.0, 20.0), 0.12
    exact = total(fine, fine)
    for found, bound in (
        (abs(total(step, fine) - exact), outer.error_u),
        (abs(total(fine, step) - exact), lambda h: outer.error_v(h, arb(fine))),
    ):
        assert 1e-10 < found < bound(arb(step))
        assert bound(arb(step / 6)) < found


@pytest.mark.parametrize("skip", SKIPS)
def test_the_outer_bounds_fall_with_the_step(skip):
    outer = OuterBounds(skip, 16.0)
    for bound in (outer.error_u, lambda h: outer.error_v(h, arb(0.1))):
        values = [float(bound(arb(0.2 / 1.5**i))) for i in range(5)]
        assert all(low < high for high, low in pairwise(values))


# --- the first layer -------------------------------------------------------------------------------------------------


def _shifted(skip, first, second, shift):
    """Check (8) and what it rests on at complex arguments of p and r."""
    p, r = 1 / (1 + np.exp(-first)), 1 / (1 + np.exp(-second))
    t, s = skip + p + r - 1, p - r
    bounds = [float(x) for x in shift]
    slack = 1e-12
    assert np.min(t.real) >= bounds[0] - slack
    assert np.max(np.abs(s.real)) <= bounds[1] + slack
    assert max(np.max(np.abs(t.imag)), np.max(np.abs(s.imag))) <= bounds[2] + slack
    tau = 1 / t
    a = s * tau / (1 + skip)
    rng = np.random.default_rng(3)
    for u, v in rng.uniform(0, 20, (20, 2)):
        growth = np.real(-((u - a * v) ** 2 + (tau * v) ** 2) / 2)
        assert np.max(growth) <= 1e-9


@pytest.mark.parametrize("skip", SKIPS)
def test_the_contours_of_the_first_layer(skip):
    c, rng, size = arb(skip), np.random.default_rng(2), 4000
    angle = rng.uniform(0, 2 * math.pi, size)
    k1, k2 = 1 - np.cos(angle) + np.sin(angle), 1 - np.cos(angle) - np.sin(angle)
    radius = rng.exponential(4.0, size) * rng.choice([0.1, 1.0, 5.0], size)
    for trial in (0.2, 0.4, 0.6, 0.75):
        shift = sector(c, arb(trial))
        if admissible(c, shift):
            q = radius * np.exp(1j * trial * rng.uniform(-1, 1, size))
            _shifted(skip, k1 * q, k2 * q, shift)
        shift = disc(c, arb(trial))
        if admissible(c, shift):
            q = trial * np.sqrt(rng.random((2, size))) * np.exp(2j * math.pi * rng.random((2, size)))
            _shifted(skip, *q, shift)
    for phase in (0.3, 0.6, 1.0, 1.5):
        sag = 0.1 * skip
        shift = lens(c, arb(phase), arb(sag))
        if admissible(c, shift):
            x = rng.normal(0, 3, size)
            y = -x - 2 * sag + rng.exponential(2.0, size) * (rng.random(size) < 0.7)
            turn = phase * rng.choice([-1, -0.5, 0, 0.3, 1], (2, size))
            _shifted(skip, x + 1j * turn[0], y + 1j * turn[1], shift)
    assert admissible(c, disc(c, arb(0.2))) and not admissible(c, lens(c, arb(3.0), arb(0)))


@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.5, 1.0), (4.0, 0.5), (1.0, 3.0)])
def test_the_inner_error_is_below_its_bound(skip, beta):
    fine = _arrays(_rule(1e-10, skip, beta))
    for error in (1e-1, 1e-2, 1e-4):
        rule = _rule(error, skip, beta)
        assert rule.error <= error
        coarse = _arrays(rule)
        worst = 0.0
        for u, v in ((0.1, 0.2), (1.0, 1.0), (2.0, 4.0), (5.0, 2.0), (0.5, 8.0)):
            height = float(rule.tau) / (2 * math.pi)
            plus, minus = u + float(rule.slope) * v, float(rule.tau) * v
            heights = [height, height * plus**2, height * plus * minus, height * minus**2]
            pairs = zip(_moments(coarse, u, v)[0], _moments(fine, u, v)[0], heights, strict=True)
            worst = max(worst, *(abs(x - y) / scale for x, y, scale in pairs))
        assert worst < rule.error
        assert worst > 1e-12 or error < 1e-1  # the coarsest rule errs visibly, or the line above says nothing


def test_a_change_of_law_moves_the_sum_by_less_than_its_bound():
    fine, _ = _summed(_rule(1e-9), 0.3, 0.3, 20.0)
    for error in (1e-1, 1e-3):
        rule = _rule(error)
        found, lattice = _summed(rule, 0.3, 0.3, 20.0)
        change, bound = abs(found - fine), rule.error * inner_sensitivity(rule, lattice)
        assert change < bound
        # For a law whose weights are all too large by a factor, F changes by that factor: the bound must see it.
        assert found * error < bound * error / rule.error


# --- the interval ----------------------------------------------------------------------------------------------------


@cache
def enclosed(skip, beta):
    """An interval that several tests take."""
    return enclose_last_layer(Network(skip=skip, beta=beta), width=1e-4)


@pytest.mark.parametrize(("skip", "beta"), [pytest.param(1.0, 1.0, marks=pytest.mark.slow), (4.0, 0.5)])
def test_the_interval_holds_the_estimate(skip, beta):
    model = Network(skip=skip, beta=beta)
    result = enclosed(skip, beta)
    estimate = last_layer(model, digits=12)
    assert Fraction(result.lower) < Fraction(estimate.value) < Fraction(result.upper)
    assert result.width <= 1e-4
    # 1/alpha moves by width/alpha^2; the parts of the error make up what the interval spans.
    parts = result.tail + result.discretisation_outer + result.discretisation_inner + result.rounding
    assert 2 * parts * float(result.lower) ** 2 == pytest.approx(result.width, rel=1e-2)
    assert min(result.tail, result.discretisation_outer, result.discretisation_inner, result.rounding) > 0


# The interval above holds a finer estimate, as one of five digits does in test_thresholds.py.
@pytest.mark.slow
def test_intervals_are_nested_and_the_precision_is_left_alone():
    wide, narrow = enclose_last_layer(Network(skip=4.0, beta=0.5), width=1e-3), enclosed(4.0, 0.5)
    assert ctx.prec == 100
    assert Fraction(wide.lower) <= Fraction(narrow.lower) < Fraction(narrow.upper) <= Fraction(wide.upper)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("skip", "width", "estimate"),
    [
        # No proof, but other variables: sinh rules in z and w = beta x z for h_1, and in v. Two refinements agree.
        (1.0, 1e-30, "0.185477840607376461456196281210806078"),
        (0.5, 1e-12, "0.202711844620790383138"),
    ],
)
def test_thirty_digits(skip, width, estimate):
    model = Network(skip=skip)
    result = enclose_last_layer(model, width=width)
    assert result.width <= width
    assert Fraction(result.lower) < Fraction(estimate) < Fraction(result.upper)
    rough = last_layer(model, digits=12)
    error = Fraction(float(rough.error))
    assert Fraction(result.lower) - error < Fraction(rough.value) < Fraction(result.upper) + error


@pytest.mark.parametrize(
    "change",
    [{"layers": 3}, {"tokens": 3}, {"rank": 2}, {"activation": "linear"}],
)
def test_other_architectures_are_refused(change):
    with pytest.raises(KernelNotFoundError, match="two softmax layers"):
        enclose_last_layer(replace(Network(), **change))


@pytest.mark.parametrize(
    ("model", "width", "name"),
    [
        (Network(), 0.0, "width"),
        (Network(), float("nan"), "width"),
        (Network(), 1.0, "width"),
        (Network(skip=0.01), 1e-6, "skip"),
        (Network(beta=100.0), 1e-6, "beta"),
    ],
)
def test_numbers_out_of_range_are_refused(model, width, name):
    with pytest.raises(ValueError, match=f"{name} must be in"):
        enclose_last_layer(model, width=width)
