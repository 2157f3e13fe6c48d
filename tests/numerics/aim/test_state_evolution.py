"""State evolution: reference tables, the iteration, limits and thresholds."""

import math

import numpy as np
import pytest
from mpmath import mp

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.free_energy import free_entropy, mutual_information, psi_out, psi_out_slope
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import alpha_at, curve, evolve, iterate, recovery
from attnlimits.numerics.aim.thresholds import (
    hardmax_tail,
    perfect_recovery,
    weak_recovery,
)
from attnlimits.numerics.core.errors import ConvergenceError

# Fraction of alpha_c, errors at rho = 0.5 and 1, for every channel that fixes K functionals.
COLLAPSE = [
    (0.1, 0.913255, 0.890322),
    (0.3, 0.681885, 0.632056),
    (0.5, 0.431612, 0.374823),
    (0.7, 0.214845, 0.163507),
    (0.9, 0.058648, 0.027370),
]
TABLE = {
    ("softmax", 0.5): [(0.05, 0.72368), (0.10, 0.39220), (0.15, 0.12813), (0.20, 0)],
    ("softmax", 1.0): [(0.05, 0.76492), (0.10, 0.49992), (0.15, 0.26145), (0.20, 0.08426)],
    ("linear", 0.5): [(0.05, 0.55506), (0.10, 0.12813), (0.15, 0)],
    ("linear", 1.0): [(0.05, 0.63206), (0.10, 0.26145), (0.15, 0.02737)],
    ("hardmax", 0.5): [(0.05, 0.87873), (0.1, 0.74511), (0.3, 0.37415), (1, 0.07893), (5, 0.00404), (10, 0.00102)],
    ("hardmax", 1.0): [(0.05, 0.90249), (0.1, 0.80325), (0.3, 0.48948), (1, 0.13447), (5, 0.00876), (10, 0.00231)],
    ("hardmax_published", 0.5): [
        (0.05, 0.93184),
        (0.1, 0.86044),
        (0.3, 0.62813),
        (1, 0.31559),
        (5, 0.08693),
        (10, 0.04647),
    ],
    ("hardmax_published", 1.0): [
        (0.05, 0.94981),
        (0.1, 0.90051),
        (0.3, 0.72993),
        (1, 0.42704),
        (5, 0.13301),
        (10, 0.07334),
    ],
    ("hardmax", 0.0): [(0.5, 0.95269), (1, 0.42959), (5, 0.01938)],
}


@pytest.mark.parametrize(("name", "tokens"), [("softmax", 2), ("softmax", 5), ("linear", 3)])
@pytest.mark.parametrize(("fraction", "half", "one"), COLLAPSE)
def test_errors_depend_on_rho_and_on_functionals_alone(name, tokens, fraction, half, one):
    output = channel(name, tokens)
    for rho, value in ((0.5, half), (1.0, one)):
        alpha = fraction * recovery(rho) / (2 * output.functionals)
        assert evolve(alpha, rho, output).mmse.value == pytest.approx(value, abs=5.1e-7)


@pytest.mark.parametrize(("name", "rho"), TABLE)
def test_reference_table(name, rho):
    for alpha, value in TABLE[name, rho]:
        point = evolve(alpha, rho, channel(name))
        assert point.converged
        assert point.mmse.value == pytest.approx(value, abs=5.1e-6), alpha
        assert point.overlap.value == pytest.approx(1 + rho - point.mmse.value, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "tokens", "rho", "alpha"),
    [("softmax", 2, 0.5, 0.1), ("softmax", 3, 0.02, 0.001), ("linear", 2, 2.0, 0.1), ("hardmax", 2, 0.1, 0.4)],
)
def test_the_iteration_ends_where_the_root_is(name, tokens, rho, alpha):
    output = channel(name, tokens)
    root, slow = evolve(alpha, rho, output), iterate(alpha, rho, output)
    assert slow.converged
    assert abs(root.mmse.value - slow.mmse.value) <= root.mmse.error + 1.2 * slow.mmse.error + 1e-10
    # From q = rho it can only learn.
    assert (np.diff(slow.history) < 1e-12).all()
    # And it is a fixed point: of both equations, by hand.
    V = root.mmse.value
    q_hat = 2 * alpha / V * output.information((1 + rho - V) / V).value
    assert mmse(rho, 1 / q_hat).value == pytest.approx(V, rel=1e-9)
    assert q_hat == pytest.approx(root.q_hat, rel=1e-9)


@pytest.mark.parametrize("name", ["softmax", "hardmax"])
@pytest.mark.parametrize("rho", [0.02, 0.5, 1.0, 5.0])
def test_alpha_falls_with_delta(name, rho):
    values = [alpha_at(float(x), rho, channel(name)).value for x in np.geomspace(1e-4, 1e3, 60)]
    assert (np.diff(values) < 0).all()


def test_the_bracket_holds_alpha():
    output = channel("hardmax")
    point = evolve(0.3, 0.5, output)
    below, above = (alpha_at(x, 0.5, output) for x in point.bracket)
    assert above.value + above.error < 0.3 < below.value - below.error


@pytest.mark.slow
def test_a_part_in_10_to_the_8_from_recovery():
    point = evolve(0.1875 * (1 - 1e-8), 0.5, channel("softmax"))
    assert 0 < point.mmse.value < 2e-8


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "alpha"), [(2, 1e5), (3, 1e4)])
def test_errors_of_hardmax_fall_as_the_square_far_out(tokens, alpha):
    """As the value at a thousand has it: corrections are of the order of 1/alpha."""
    near, far = (x**2 * evolve(x, 0.5, channel("hardmax", tokens)).mmse.value for x in (1e3, alpha))
    assert far == pytest.approx(near, rel=6e-3)


def test_limits_of_alpha():
    for name in ("softmax", "hardmax"):
        output = channel(name)
        assert evolve(0.0, 0.5, output).mmse.value == 1
        # MMSE = 1 - 2 alpha F(rho) + O(alpha^2)
        slope = (1 - evolve(1e-6, 0.5, output).mmse.value) / 2e-6
        assert slope == pytest.approx(output.information(0.5).value, rel=1e-4)
    softmax = channel("softmax")
    full = evolve(0.1875, 0.5, softmax)
    assert (full.mmse.value, full.mmse.error) == (0.0, 0.0) and math.isinf(full.q_hat)
    for close in (1e-3, 1e-5):
        point = evolve(0.1875 * (1 - close), 0.5, softmax)
        assert 0 < point.mmse.value < 2 * close
    # rho > 1: (rho - 1)/rho (1 - a); rho = 1: ((1 - a)/1.31)^{3/2}
    assert evolve(0.25 * (1 - 1e-5), 3.0, softmax).mmse.value == pytest.approx(2 / 3 * 1e-5, rel=1e-3)
    assert evolve(0.25 * (1 - 1e-6), 1.0, softmax).mmse.value == pytest.approx((1e-6 / 1.31) ** 1.5, rel=0.02)
    # rho to infinity: 1 - 2 alpha K
    assert evolve(0.1, 1e10, softmax).mmse.value == pytest.approx(0.6, rel=1e-4)


def test_small_width():
    softmax = channel("softmax")
    for c in (0.5, 1.0, 1.3, 1.9, 2.0, 3.0):
        wanted = 1.0 if c <= 1 else max(c * (2 - c), 0.0)
        assert evolve(c / 4, 0.0, softmax).mmse.value == pytest.approx(wanted, abs=1e-12)
    # A finite width tends to it, slowly.
    gaps = [abs(evolve(1.5 / 4 * rho, rho, softmax).mmse.value - 0.75) for rho in (5e-3, 5e-4, 5e-5)]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 3e-3 and gaps[0] == pytest.approx(0.75 - 0.728, abs=6e-4)
    hard = channel("hardmax")
    assert evolve(0.4034, 0.0, hard).mmse.value == 1
    assert evolve(0.41, 0.0, hard).mmse.value < 1
    with pytest.raises(ValueError, match="<= 1 at rho = 0"):
        alpha_at(1.5, 0.0, hard)


def test_noise_of_linear_outputs():
    """It stands beside V in every place: alpha (Delta) = (V + Delta_n)/(2 K Delta)."""
    noisy = channel("linear", noise=0.3)
    for rho in (0.5, 1.0):
        point = evolve(0.2, rho, noisy)
        assert point.q_hat == pytest.approx(2 * 0.2 * 3 / (point.mmse.value + 0.3), rel=1e-9)
        assert point.mmse.value == pytest.approx(mmse(rho, 1 / point.q_hat).value, rel=1e-9)
        assert point.mmse.value == pytest.approx(iterate(0.2, rho, noisy).mmse.value, rel=1e-7)
    # rho to infinity is scalar: V = Delta/(1 + Delta), a quadratic equation.
    V, a = evolve(0.2, 1e10, noisy).mmse.value, 2 * 0.2 * 3
    assert (V + 0.3) * (1 - V) == pytest.approx(a * V, rel=1e-6)
    assert evolve(0.1, 0.5, channel("linear", noise=1e-9)).mmse.value == pytest.approx(
        evolve(0.1, 0.5, channel("linear")).mmse.value, rel=1e-6
    )
    assert perfect_recovery(0.5, noisy).value == "inf"
    # At small width: V = 1 until alpha/rho = (1 + Delta_n)/(2 K).
    assert weak_recovery(noisy).exact == "13/60"
    at = 13 / 60
    assert evolve(at * (1 - 1e-6), 0.0, noisy).mmse.value == 1 > evolve(at * (1 + 1e-3), 0.0, noisy).mmse.value
    # Noise that is averaged over: V to Delta min(2 rho - rho^2, 1), Delta = Delta_n/(2 alpha K).
    assert evolve(1e6, 0.5, noisy).mmse.value == pytest.approx(0.75 * 0.3 / 6e6, rel=1e-4)


def test_curve_is_the_points():
    output, alphas = channel("hardmax"), [0.05, 0.3, 1.0]
    points = curve(alphas, 0.5, output)
    for alpha, point in zip(alphas, points, strict=True):
        assert point.mmse.value == pytest.approx(evolve(alpha, 0.5, output).mmse.value, rel=1e-9)


def test_what_does_not_converge_says_so():
    assert not iterate(0.18, 0.5, channel("softmax"), max_iter=3).converged
    with pytest.raises(ConvergenceError, match="raise max_iter"):
        iterate(0.18, 0.5, channel("softmax"), max_iter=3, throw=True)


@pytest.mark.parametrize(
    ("rho", "softmax", "linear"),
    [("0.1", "19/400", "19/600"), ("1/2", "3/16", "1/8"), (1, "1/4", "1/6"), (7, "1/4", "1/6")],
)
def test_perfect_recovery(rho, softmax, linear):
    for name, exact in (("softmax", softmax), ("linear", linear)):
        found = perfect_recovery(rho, channel(name))
        assert (found.exact, found.how) == (exact, "rigorous")
        # From the state evolution: V -> 0 where 2 alpha K passes lim MMSE/Delta.
        width = float(rho) if "/" not in str(rho) else 0.5
        limit = mmse(width, 1e-10).value / 1e-10 / (2 * channel(name).functionals)
        assert float(found.value) == pytest.approx(limit, rel=1e-5)
    assert perfect_recovery(rho, channel("hardmax")).value == "inf"


def test_weak_recovery():
    hard = weak_recovery(channel("hardmax"), digits=20)
    assert hard.value.startswith("0.4034106290") and len(hard.value) == 22
    assert 1 / (2 * channel("hardmax").information(0.0).value) == pytest.approx(float(hard.value), rel=1e-10)
    published = float(weak_recovery(channel("hardmax_published")).value)
    assert published / float(hard.value) == pytest.approx(4 * math.pi / 9, rel=1e-14)
    assert 1 / (2 * channel("hardmax_published").information(0.0).value) == pytest.approx(published, rel=1e-10)
    assert weak_recovery(channel("softmax", 3)).exact == "1/10"
    assert weak_recovery(channel("linear", 2)).exact == "1/6"
    assert 1 / (2 * float(hard.value)) == pytest.approx(1.2394319, abs=5e-8)


@pytest.mark.parametrize(("rho", "value"), [("0.5", 0.101543), (1, 0.240694), (2, 0.361040)])
def test_tail_of_hardmax(rho, value):
    tail = float(hardmax_tail(rho))
    assert tail == pytest.approx(value, abs=6e-7)
    # Corrections to it are of the order of 1/alpha, of which two values leave the square.
    at = [alpha**2 * evolve(alpha, float(rho), channel("hardmax")).mmse.value for alpha in (500.0, 1000.0)]
    assert 2 * at[1] - at[0] == pytest.approx(tail, rel=1e-3)


def test_constant_of_the_tail_is_an_integral():
    with mp.workdps(25):
        integral = mp.quad(lambda x: mp.npdf(x) ** 2 / (mp.ncdf(x) * mp.ncdf(-x)), [-mp.mpf(20), -5, 0, 5, 20])
        assert abs(integral - mp.mpf("1.8063946")) < 6e-8
        assert abs(mp.mpf(hardmax_tail(1, digits=20)) - mp.pi / (4 * integral**2)) < mp.mpf(10) ** -18


@pytest.mark.parametrize(("rho", "delta", "value"), [(0.5, 0.5, 0.232312), (1, 0.2, 0.401311), (2, 1, 0.168230)])
def test_mutual_information(rho, delta, value):
    assert mutual_information(rho, delta).value == pytest.approx(value, abs=6e-7)
    # dI/dqhat = MMSE/4, by a difference of fourth order.
    q_hat, h = 1 / delta, 1e-2 / delta
    at = [mutual_information(rho, 1 / (q_hat + k * h)).value for k in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    assert slope == pytest.approx(mmse(rho, delta).value / 4, rel=1e-6)


@pytest.mark.parametrize(("name", "noise"), [("softmax", 0.0), ("linear", 0.0), ("linear", 0.2), ("hardmax", 0.0)])
def test_slope_of_the_channel_part(name, noise):
    output, h = channel(name, noise=noise), 1e-3
    for V in (0.3, 1.1):
        at = [psi_out(V - k * h, 0.5, output).value for k in (-2, -1, 1, 2)]
        slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
        assert slope == pytest.approx(psi_out_slope(V, 0.5, output).value, rel=1e-7)


@pytest.mark.parametrize(("name", "alpha"), [("softmax", 0.1), ("hardmax", 0.3)])
def test_the_fixed_point_is_the_top_of_the_free_entropy(name, alpha):
    output = channel(name)
    V = evolve(alpha, 0.5, output).mmse.value
    top = free_entropy(alpha, V, 0.5, output).value
    h = 3e-3
    sides = [free_entropy(alpha, V + k * h, 0.5, output).value for k in (-1, 1)]
    assert top > max(sides)
    # Flat there: the odd part is of third order.
    assert abs(sides[1] - sides[0]) < 0.1 * (2 * top - sum(sides))
    far = [free_entropy(alpha, v, 0.5, output).value for v in (0.05, 0.95)]
    assert top > max(far)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: evolve(-0.1, 0.5, channel("softmax")), "alpha must be finite and >= 0"),
        (lambda: evolve(float("nan"), 0.5, channel("softmax")), "alpha must be finite"),
        (lambda: evolve(0.1, -1.0, channel("softmax")), "rho must be"),
        (lambda: evolve(0.1, 1e-40, channel("softmax")), "rho must be in"),
        (lambda: perfect_recovery(0, channel("softmax")), "rho must be"),
        (lambda: perfect_recovery("x", channel("softmax")), "rho must be a positive number"),
        (lambda: weak_recovery(channel("softmax"), digits=0), "digits"),
        (lambda: hardmax_tail(1, digits=99), "digits must be <= 50"),
        (lambda: hardmax_tail(1, tokens=11), "tokens must be <= 10"),
        (lambda: weak_recovery(channel("hardmax", 3), digits=11), "digits must be <= 10"),
        (lambda: channel("hardmax", 11), "served for T = 3 to 10"),
        (lambda: psi_out(3.0, 0.5, channel("softmax")), "V must be in"),
        (lambda: psi_out(0.3, 0.5, channel("hardmax_published")), "no free entropy"),
        (lambda: free_entropy(0.1, 1.2, 0.5, channel("softmax")), "range of the MMSE"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "rho", "alpha"),
    [
        pytest.param("softmax", 0.2, 0.09, marks=pytest.mark.slow),
        ("linear", 0.2, 0.06),
        pytest.param("linear", 0.2, 0.0599999999999999, marks=pytest.mark.slow),
    ],
)
def test_at_recovery_to_rounding(name, rho, alpha):
    """2 alpha K is one unit in the last place below 2 rho - rho^2, or 50."""
    found = evolve(alpha, rho, channel(name))
    assert found.converged and found.mmse.value <= found.mmse.error * 1.001 < 1e-11
    # Just below, it is a number again.
    below = evolve(alpha * (1 - 1e-6), rho, channel(name)).mmse
    assert below.error < 1e-3 * below.value


def test_no_iterate_is_asked_for_more_than_its_last_bits():
    """A tolerance below rounding would be met, or not, by how the last bits of iterates go round."""
    point = iterate(0.1, 0.5, channel("softmax"), tol=1e-20)
    assert point.converged and point.n_iter == iterate(0.1, 0.5, channel("softmax"), tol=8e-16).n_iter
    assert point.mmse.value == pytest.approx(evolve(0.1, 0.5, channel("softmax")).mmse.value, rel=1e-12)
