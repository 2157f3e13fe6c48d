"""The law of S + sqrt(Delta) Z against the roots of its cubic, 30 digits, and matrices."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from mpmath.ctx_mp import MPContext
from numpy.polynomial.legendre import leggauss

from attnlimits.numerics.aim.data import teacher
from attnlimits.numerics.aim.law import spectrum
from attnlimits.numerics.aim.precise import mmse_digits
from attnlimits.numerics.aim.rie import denoise_matrix
from attnlimits.numerics.aim.spectrum import Spectrum, mmse, overlap_gain

EPS = np.finfo(float).eps
GRID = list(itertools.product((0.02, 0.1, 0.5, 1.0, 2.0, 30.0), (0.01, 0.3, 1.0, 7.0)))


def cubic(x, rho, delta):
    s = math.sqrt(rho)
    return np.roots([delta, -(x + delta * s), x * s + 1 - rho, -s])


def edges_by_quartic(rho, delta):
    """Images of the real roots of dz/dg = 0."""
    s = math.sqrt(rho)
    roots = np.roots([delta, -2 * delta * s, delta * rho + rho - 1, 2 * s, -rho])
    real = roots[np.abs(roots.imag) < 1e-9].real
    return np.sort(1 / real + rho / (s - real) + delta * real)


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_edges_are_those_of_the_quartic(rho, delta):
    # np.roots on the companion matrix: 1e-10 in x.
    assert np.allclose(Spectrum(rho, delta).edges.ravel(), edges_by_quartic(rho, delta), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_there_is_a_gap_exactly_where_the_cube_roots_say(rho, delta):
    gap = rho ** (1 / 3) + (rho * delta) ** (1 / 3) < 1
    assert len(Spectrum(rho, delta).intervals) == 1 + gap == len(edges_by_quartic(rho, delta)) // 2


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_density_and_shrinkage_are_those_of_the_cubic(rho, delta):
    spectrum = Spectrum(rho, delta)
    for low, high in spectrum.edges:
        for x in low + (high - low) * np.array([0.003, 0.2, 0.5, 0.83, 0.997]):
            roots = cubic(x, rho, delta)
            g = roots[np.argmax(roots.imag)]
            assert spectrum.density(x) == pytest.approx(g.imag / math.pi, rel=1e-8)
            assert spectrum.shrink(x) == pytest.approx(x - 2 * delta * g.real, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_outside_the_support_g_falls_with_x(rho, delta):
    spectrum = Spectrum(rho, delta)
    s = math.sqrt(rho)
    ends = spectrum.edges.ravel()
    gap = [0.5 * (ends[1] + ends[2])] if len(ends) == 4 else []
    for x in [ends[0] - 0.01, ends[0] - 3, ends[-1] + 1e-3, ends[-1] + 40, *gap]:
        real = cubic(x, rho, delta).real
        slope = -1 / real**2 + rho / (s - real) ** 2 + delta
        # Of the three real roots g of the law is the one that is analytic up to x = +-infinity.
        inside = real[slope < 0]
        g = inside[np.argmin(np.abs(inside - (x - spectrum.shrink(x)) / (2 * delta)))]
        assert spectrum.density(x) == 0
        assert spectrum.shrink(x) == pytest.approx(x - 2 * delta * g, rel=1e-8, abs=1e-8)
    # g = 1/x + s/x^2 + O(1/x^3) far out, where Delta g is what is left of x - f by cancellation.
    far = 1e3 + ends[-1]
    g = (far - spectrum.shrink(far)) / (2 * delta)
    assert g * far == pytest.approx(1 + s / far, abs=100 * (1 + rho) / far**2 + 2e-7 / delta)


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_mass_and_moments(rho, delta):
    """Mass 1; E f = E tr S = s; E f^2 = q = Q - MMSE, which is another route to the cubed density."""
    spectrum = Spectrum(rho, delta)
    mass = spectrum.mass()
    assert abs(mass.value - 1) < 1e-13
    first = spectrum.integrate(lambda e, p: delta * e * p.w / math.pi)
    second = spectrum.integrate(lambda e, p: (delta * e) ** 2 * p.w / math.pi)
    assert first.value == pytest.approx(math.sqrt(rho), rel=1e-12)
    assert second.value == pytest.approx(1 + rho - mmse(rho, delta).value, rel=1e-12)
    assert second.value == pytest.approx(rho + overlap_gain(rho, delta).value, rel=1e-12)


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 0.3), (0.1, 5.0), (2.0, 1.0), (0.05, 0.1)])
def test_mmse_against_a_plain_rule_in_x(rho, delta):
    """Gauss-Legendre in the angle of each interval, with the density from the cubic's roots."""
    nodes, weights = leggauss(150)
    cube = 0.0
    for low, high in edges_by_quartic(rho, delta).reshape(-1, 2):
        half, angle = 0.5 * (high - low), 0.5 * math.pi * nodes
        x = 0.5 * (low + high) + half * np.sin(angle)
        density = np.array([max(cubic(v, rho, delta).imag) for v in x]) / math.pi
        cube += 0.5 * math.pi * half * float(weights @ (density**3 * np.cos(angle)))
    assert mmse(rho, delta).value == pytest.approx(delta - 4 * math.pi**2 / 3 * delta**2 * cube, abs=1e-10)


@pytest.mark.parametrize(
    ("rho", "delta", "value"),
    [
        (0.5, 1, 0.39694864),
        (0.5, 0.1, 0.06654149),
        (1, 1, 0.44386874),
        (1, 0.1, 0.08054567),
        (2, 1, 0.47049641),
        (0.1, 10, 0.80545671),
    ],
)
def test_spot_values(rho, delta, value):
    assert mmse(rho, delta).value == pytest.approx(value, abs=5.1e-9)


@pytest.mark.slow_for("1e-3-1e-12")
@pytest.mark.slow_for("0.3-1e-20")
@pytest.mark.parametrize(
    ("rho", "delta"),
    [("1/2", "1"), ("0.1", "10"), ("0.3", "1e-6"), ("1", "1e-3"), ("1e-3", "1e-12"), ("3", "1e12"), ("0.3", "1e-20")],
)
def test_thirty_digits_duality_and_float64(rho, delta):
    """MMSE_rho(Delta) = Delta MMSE_{rho Delta}(1/Delta): mpmath uses it nowhere, float64 above Delta = 1."""
    ctx = MPContext()
    ctx.dps = 40
    r, d = (ctx.fdiv(*map(int, t.split("/"))) if "/" in t else ctx.mpf(t) for t in (rho, delta))
    direct = mmse_digits(rho, delta, digits=32)
    dual = mmse_digits(Fraction(rho) * Fraction(delta), 1 / Fraction(delta), digits=32)
    assert abs(d * ctx.mpf(dual.value) / ctx.mpf(direct.value) - 1) < ctx.mpf(10) ** -30
    found = mmse(float(r), float(d))
    assert abs(found.value - float(direct.value)) <= 2 * found.error + 4 * EPS * found.value
    assert found.error < 2e-11 * found.value


def test_more_digits_begin_with_the_fewer():
    few, many = mmse_digits("0.5", "0.1", digits=15), mmse_digits("0.5", "0.1", digits=60)
    with mp.workdps(70):
        assert abs(mp.mpf(few.value) - mp.mpf(many.value)) <= few.error * 1.01
    assert few.error < 1e-15 and many.error < 1e-60


@pytest.mark.slow_for("100000.0-1e-30", "1e-05-1e-30", "1e-30-1e-05", "1.0-1e-30", "1e-30-1e-12")
@pytest.mark.parametrize("rho", [1e-30, 1e-12, 1e-5, 1 - 1e-16, 1.0, 1 + 1e-15, 1e12])
@pytest.mark.parametrize("delta", [1e-30, 1e-5, 1.0, 1e5])
def test_corners(rho, delta):
    """Finite, between 0 and min(Delta, 1), near D Delta at small and 1 - 1/Delta at large Delta."""
    found = mmse(rho, delta)
    assert 0 <= found.value <= min(delta, 1)
    freedom = 2 * rho - rho**2 if rho < 1 else 1.0
    assert found.value <= freedom * delta * (1 + 1e-9) + found.error
    if delta <= 1e-5:
        # The next order: rho/|1 - rho| Delta at rho > 1, Delta^{2/3} at one.
        assert found.value == pytest.approx(freedom * delta, rel=1e-3, abs=found.error)
    if delta * min(rho, 1) >= 1e4:
        assert 1 - found.value == pytest.approx(1 / delta, rel=0.02)


def test_limits():
    for rho in (0.05, 0.5, 1.0, 4.0):
        # 1 - 1/Delta + O(1/(s Delta)^(3/2)..): the second free cumulant, then the third.
        assert overlap_gain(rho, 1e9).value * 1e9 == pytest.approx(1, rel=1e-4)
        assert mmse(rho, 1e-9).value / 1e-9 == pytest.approx(2 * rho - rho**2 if rho < 1 else 1, rel=1e-5)
    assert mmse(4.0, 1e-4).value == pytest.approx(1e-4 - 4 / 3 * 1e-8, abs=1e-11)
    assert mmse(1.0, 1e-6).value / 1e-6 == pytest.approx(1 - 1.31e-4, abs=6e-7)  # 1.31 is a fit
    assert mmse(1e12, 0.7).value == pytest.approx(0.7 / 1.7, rel=1e-6)
    for t in (0.3, 0.8, 1.5):
        # Small width, Delta = t/rho; corrections of the order of rho^{1/3} at the transition, of rho elsewhere.
        rho = 1e-6
        assert 1 + rho - mmse(rho, t / rho).value == pytest.approx(max(1 - t, 0) ** 2, abs=2e-5)


def test_nothing_is_lost_where_a_gap_opens():
    """On both sides of the cusp and at it, two branch points meet on the interval."""
    rho = 0.2
    cusp = (1 - rho ** (1 / 3)) ** 3 / rho
    for delta in cusp * np.array([1 - 1e-3, 1 - 1e-7, 1.0, 1 + 1e-7, 1 + 1e-3]):
        spectrum = Spectrum(rho, float(delta))
        assert abs(spectrum.mass().value - 1) < 1e-13
        exact = float(mmse_digits(rho, float(delta), digits=18).value)
        assert mmse(rho, float(delta)).value == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 0.5), (0.05, 0.1), (2.0, 1.0)])
def test_shrinkage_and_its_slope(rho, delta):
    """f rises; f' against a difference quotient, also outside the support."""
    spectrum = Spectrum(rho, delta)
    ends = spectrum.edges.ravel()
    x = np.linspace(ends[0] - 2, ends[-1] + 2, 301)
    x = x[np.abs(x[:, None] - ends).min(axis=1) > 0.02]
    h = 1e-6
    quotient = (spectrum.shrink(x + h) - spectrum.shrink(x - h)) / (2 * h)
    assert np.allclose(spectrum.shrink_slope(x), quotient, rtol=2e-6, atol=1e-7)
    inside = np.isfinite(spectrum.parameter(x))
    assert (spectrum.shrink(x[inside]) > 0).all()
    # Up to an edge f is continuous.
    for end in ends:
        around = spectrum.shrink(end + np.array([-1e-10, 1e-10]))
        assert abs(around[1] - around[0]) < 1e-3


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 0.5), (0.1, 0.05), (2.0, 1.0)])
def test_matrices_of_the_size_of_160(rho, delta, rng):
    """Error of the estimate, and its divergence, against MMSE: corrections are of the order of 1/d."""
    d = 160
    errors, divergences = [], []
    for _ in range(4):
        S = teacher(d, rho, rng)
        noise = rng.standard_normal((d, d))
        found = denoise_matrix(S + math.sqrt(delta / (2 * d)) * (noise + noise.T), rho, delta)
        errors.append(((S - found.estimate) ** 2).sum() / d)
        divergences.append(found.divergence)
    expected = mmse(rho, delta).value
    spread = np.std(errors, ddof=1) / 2
    assert abs(np.mean(errors) - expected) < 4 * spread + 2 / d * expected
    assert np.mean(divergences) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "1", True, 1e-40])
def test_refuses_what_is_no_width_or_noise(bad):
    for call in (lambda: mmse(bad, 1.0), lambda: mmse(1.0, bad), lambda: Spectrum(bad, 1.0)):
        with pytest.raises(ValueError, match=r"(rho|Delta) must be .*boncoraglio2025"):
            call()


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
    ],
)
def test_refuses_matrices(matrix, words):
    with pytest.raises(ValueError, match=words):
        denoise_matrix(matrix, 1.0, 1.0)


def test_refuses_digits():
    with pytest.raises(ValueError, match="digits"):
        mmse_digits(1, 1, digits=0)
    with pytest.raises(ValueError, match="<= 200"):
        mmse_digits(1, 1, digits=201)
    with pytest.raises(ValueError, match="rho must be"):
        mmse_digits("a", 1)


def exact_law(x, rho, delta):
    """Density and estimate from the roots of the cubic in 50 digits."""
    with mp.workdps(50):
        x, rho, delta = mp.mpf(x), mp.mpf(rho), mp.mpf(delta)
        s = mp.sqrt(rho)
        roots = mp.polyroots([delta, -(x + delta * s), x * s + 1 - rho, -s], maxsteps=500, extraprec=400)
        top = max(roots, key=lambda g: mp.im(g))
        if mp.im(top) > mp.mpf(10) ** -30 * abs(top):
            return mp.im(top) / mp.pi, x - 2 * delta * mp.re(top)
        (g,) = (mp.re(g) for g in roots if -1 / mp.re(g) ** 2 + rho / (s - mp.re(g)) ** 2 + delta < 0)
        return mp.mpf(0), x - 2 * delta * g


def test_density_and_estimate_have_the_error_of_their_rounding():
    # It was stated as zero; at an edge the density is off by more than itself, and so are estimates in a narrow gap.
    rng = np.random.default_rng(3)
    for rho, delta in [(2.2e-5, 9.8e-9), (1.7e-5, 2.9e-7), (0.04, 1.5e-9), (0.5, 0.1), (50.0, 5e4)]:
        edges = spectrum(rho, delta, at=[0.0]).edges
        low, high = edges.min(), edges.max()
        at = [low + (high - low) * u for u in rng.uniform(-0.3, 1.3, 2)]
        at += [a + (b - a) * u for a, b in edges for u in (1e-12, 1 - 1e-9, -1e-14)]
        found = spectrum(rho, delta, at=at)
        for k, x in enumerate(found.x):
            density, shrunk = exact_law(float(x), rho, delta)
            assert abs(found.density[k] - density) <= found.density_error[k]
            assert abs(found.shrunk[k] - shrunk) <= found.shrunk_error[k]
