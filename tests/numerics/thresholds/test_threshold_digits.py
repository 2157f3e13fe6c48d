"""Thresholds in ball arithmetic against other variables and rules, float64, stored digits, and their own claims."""

import json
import math
import random
import time
from decimal import Context, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.arithmetic.ball import working_bits
from attnlimits.numerics.arithmetic.balls import ball, matrix
from attnlimits.numerics.arithmetic.digit_runs import multiply_row
from attnlimits.numerics.arithmetic.fixed_digits import MOST_TERMS, Fixed, Scale, add_product, carried, dot, from_balls
from attnlimits.numerics.cli.main import main
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.network import Network, kernel
from attnlimits.numerics.thresholds.digits import threshold as driver
from attnlimits.numerics.thresholds.digits.law import softmax_law
from attnlimits.numerics.thresholds.digits.linear import choose_linear, linear_norm
from attnlimits.numerics.thresholds.digits.moments import compress, compression
from attnlimits.numerics.thresholds.digits.output import output_nodes
from attnlimits.numerics.thresholds.digits.powers import Norms, Window, gaussian_powers
from attnlimits.numerics.thresholds.digits.quotient import squares_over
from attnlimits.numerics.thresholds.digits.softmax import softmax_norm
from attnlimits.numerics.thresholds.digits.steps import choose
from attnlimits.numerics.thresholds.digits.table import tables
from attnlimits.numerics.thresholds.digits.threshold import MAX_DIGITS, precise_threshold
from attnlimits.numerics.thresholds.last_layer import last_layer
from attnlimits.numerics.thresholds.last_layer_sums import linear_two_layers, softmax
from attnlimits.papers.figures import Look
from attnlimits.papers.troiani2025.figures import cost_per_digit

STORED = json.loads((Path(__file__).parent / "data" / "thresholds_50_digits.json").read_text(encoding="utf-8"))


def silent(share: float) -> None:
    assert 0.0 <= share <= 1.0


# --- the second route: other variables, rules and expansions ----------------------------------------------------


def legendre(count: int, edges: list[float]) -> tuple[list[Any], list[Any]]:
    """Gauss-Legendre nodes and weights on panels, in balls."""
    nodes, weights = [], []
    base = [arb.legendre_p_root(count, k, weight=True) for k in range(count)]
    for low, high in pairwise(edges):
        half, middle = (arb(high) - arb(low)) / 2, (arb(high) + arb(low)) / 2
        nodes += [middle + half * x for x, _ in base]
        weights += [half * w for _, w in base]
    return nodes, weights


def hermite(count: int, x: list[Any]) -> list[list[Any]]:
    """He_0 .. He_{count - 1} at all x."""
    out = [[arb(1)] * len(x), list(x)]
    for n in range(2, count):
        out.append([a * b - (n - 1) * c for a, b, c in zip(x, out[-1], out[-2], strict=True)])
    return out


def second_route(skip: float, beta: float, digits: int) -> Any:
    """1/alpha for c >= 1: h_1 on Gauss-Legendre panels in z and a uniform grid in w; outputs on Gauss-Legendre panels.

    The Mehler expansion phi(u - A v) = phi(u) sum_n He_n(u) (A v)^n/n! takes the place of the power series, and every
    node of the hidden law meets every v: no interpolation. Its terms fall like (|A|/tau)^n <= (1 + c)^-n.
    """
    accuracy = (digits + 3) * math.log(10)
    reach = math.sqrt(2 * accuracy)
    c, b = ball(skip), ball(beta)
    order = max(12, int(0.75 * digits))
    # features of z at sqrt(2c/beta), and at pi/(beta x) for the largest x
    edge = min(math.sqrt(2 * skip / beta), math.pi / (beta * reach)) / 2
    edges = [0.0]
    while edge < reach:
        edges.append(edge)
        edge *= 1.7
    weight, a, tau = [], [], []
    for z, dz in zip(*legendre(order, [*edges, reach]), strict=True):
        rho = b * z * z
        size = float(rho)
        left = accuracy - size / (2 * beta)
        # some of the strip pi below the poles of tau, or of the width of the Gaussian
        step = 0.75 * min(2 * math.pi**2 / accuracy, math.pi * math.sqrt(2 / accuracy * beta * size))
        factor = 2 / arb.pi() * (-z * z / 2).exp() / (b * z) * dz * step
        for k in range(int(math.sqrt(max(0.0, 2 * beta * size * left)) / step) + 2):
            w = k * arb(step)  # a uniform grid to all digits
            total = rho.cosh() + w.cosh()
            t = c + rho.sinh() / total
            weight.append(factor * (-w * w / (2 * b * rho)).exp() / (2 if k == 0 else 1))
            a.append(w.sinh() / total / t)
            tau.append((1 + c) / t)
    u, du = legendre(order, [0.0, *np.linspace(1.5, reach * math.hypot(1, 1 / (1 + skip)), 6)])
    v, dv = legendre(order, [0.0, 0.4, 0.8, 1.3, 2.0, 3.0, 4.5, 6.5, 9.0, max(reach, 9.5)])
    terms = int(accuracy / math.log(1 + skip)) // 2 + 3
    powers, power = [], [w * t for w, t in zip(weight, tau, strict=True)]
    for _ in range(terms):
        powers += power
        power = [p * x * x for p, x in zip(power, a, strict=True)]
    gauss = [[(-((y * t) ** 2) / 2).exp() for y in v] for t in tau]
    left_sums = matrix(terms, len(a), powers)
    sums = []
    for power in range(3):
        factor = [t**power for t in tau]
        entries = [f * g for f, row in zip(factor, gauss, strict=True) for g in row]
        rows = (left_sums * matrix(len(a), len(v), entries)).tolist()
        scaled = [
            s * y ** (2 * n) / arb(2 * n).fac() for n, row in enumerate(rows) for s, y in zip(row, v, strict=True)
        ]
        sums.append(matrix(terms, len(v), scaled))
    he = hermite(2 * terms + 2, u)

    def outer(shift: int, which: int) -> Any:
        entries = [he[2 * n + shift][k] * (-x * x / 2).exp() for k, x in enumerate(u) for n in range(terms)]
        return (matrix(len(u), terms, entries) * sums[which]).tolist()

    z, pp, pm, mm = outer(0, 0), outer(2, 0), outer(1, 1), outer(0, 2)
    total = arb(0)
    for k, wu in enumerate(du):
        for j, wv in enumerate(dv):
            if z[k][j] > 10.0 ** (-digits - 6):
                n_mm = v[j] ** 2 * mm[k][j] - z[k][j]
                top = pp[k][j] ** 2 + 2 * (v[j] * pm[k][j]) ** 2 + n_mm**2
                total += wu * wv * top / z[k][j]
    return total * 2 / arb.pi()


@pytest.mark.parametrize(("skip", "beta"), [pytest.param(1.0, 1.0, marks=pytest.mark.slow), (2.0, 0.5)])
def test_second_route(skip: float, beta: float) -> None:
    with working_bits(120):
        alpha = 1 / second_route(skip, beta, 11)
        found = precise_threshold(Network(skip=skip, beta=beta), 15)
        assert abs(float(alpha - arb(found.value))) < 1e-11


@pytest.mark.slow
def test_thirty_digits_by_two_routes() -> None:
    with working_bits(200):
        alpha = 1 / second_route(1.0, 1.0, 31)
        text = precise_threshold(Network(), 30).value
        # half a unit of the last digit, and the second route's own 1e-31
        assert abs(alpha - arb(text)) < arb("6e-31"), (alpha, text)


# --- the pieces -------------------------------------------------------------------------------------------------


def test_entries_of_the_law_are_those_of_the_generated_kernel() -> None:
    """A and tau of (z, w) = node of a line against the first layer of the generated kernel."""
    rules = choose(0.7, 1.3, 12)
    with working_bits(rules.law_bits):
        law = softmax_law(ball(0.7), ball(1.3), rules.plane)
    layer = kernel(Network(), "mp").layer
    mp = MPContext()
    mp.prec = rules.law_bits
    place = 1  # after the node z = 0
    for k, line in enumerate(rules.plane.w, 1):
        z = rules.plane.z_scale * mp.sinh(k * mp.mpf(rules.plane.z.step))
        rho = mp.mpf("1.3") * z * z
        centre = mp.acosh(mp.cosh(rho) + mp.sinh(rho) / mp.mpf("0.7"))
        for j in {0, line.count // 2, line.count - 1}:
            y = j * mp.mpf(line.step)
            w = mp.sinh(y) * mp.sqrt(mp.pi**2 + (centre / mp.cosh(y)) ** 2)
            a_pp, a_pm, _, a_mm = layer(mp, w / (mp.mpf("1.3") * z), z, mp.mpf("0.7"), mp.mpf("1.3"))
            assert abs(a_pp - mp.mpf("1.7")) < 1e-20
            assert float(law.square[place + j]) == pytest.approx(float((a_pm / a_mm) ** 2), rel=1e-14, abs=1e-300)
            assert float(law.tau[place + j]) == pytest.approx(float(mp.mpf("1.7") / a_mm), rel=1e-15)
        place += line.count
    assert place == len(law)


@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.1, 2.0), (10.0, 10.0)])
def test_weights_of_the_law_sum_to_one(skip: float, beta: float) -> None:
    rules = choose(skip, beta, 20)
    with working_bits(rules.law_bits):
        law = softmax_law(ball(skip), ball(beta), rules.plane)
        assert abs(float(sum(law.weight) - 1)) < 1e-18
        # the triangle |A| <= tau - 1
        assert all(a2 <= (t - 1) * (t - 1) + 1e-20 for a2, t in zip(law.square, law.tau, strict=True))


@pytest.mark.slow_for("0.5-1.0")
@pytest.mark.parametrize(("skip", "beta"), [(0.5, 1.0), (0.05, 2.0), (1000.0, 1.0)])
def test_tables_are_the_plain_sums_over_the_law(skip: float, beta: float) -> None:
    rules = choose(skip, beta, 15)
    with working_bits(rules.law_bits):
        law = softmax_law(ball(skip), ball(beta), rules.plane)
        size = compression(law, rules.log_accuracy, rules.log_range)
        # small v see the largest tau = (1 + c)/c
        scale = min(1.0, skip)
        u = [arb(0), arb(1.5), arb(6)]
        v = [arb(0), arb(0.2) * scale, arb(2) * scale, arb(2.1), arb(3.5), arb(7)]
        table = tables(compress(law, size, silent), u, v)
        parts = [part.balls() for part in (table.z, table.pp, table.pm, table.mm)]
        for place, (x, y) in enumerate((x, y) for x in u for y in v):
            exact = [arb(0)] * 4
            for weight, a2, t in zip(law.weight, law.square, law.tau, strict=True):
                for a in (a2.sqrt(), -a2.sqrt()):
                    g = weight * t / 2 * (-((x - a * y) ** 2) / 2 - (t * y) ** 2 / 2).exp()
                    plus, minus = x - a * y, t * y
                    for i, m in enumerate((1, plus * plus - 1, plus * minus, minus * minus - 1)):
                        exact[i] += g * m
            for found, other in zip(parts, exact, strict=True):
                # second moments, up to 100 times a density that is tau at most, to 15 digits
                assert abs(float(found[place] - other)) < 1e-13 / scale
                assert found[place].rad() < 1e-15 / scale


@pytest.mark.parametrize("digits", [12, 20])
def test_bounds_of_the_truncation_hold(digits: int) -> None:
    """Sums cut where `compression` says, against sums cut far later."""
    rules = choose(1.0, 1.0, digits)
    with working_bits(rules.law_bits + 60):
        law = softmax_law(ball(1.0), ball(1.0), rules.plane)
        u, _, v, _ = output_nodes(rules.output)
        u, v = u[::5], v[::5]
        one, other = (
            tables(compress(law, compression(law, accuracy, rules.log_range), silent), u, v).z
            for accuracy in (rules.log_accuracy, 1.4 * rules.log_accuracy)
        )
        worst = np.abs((one - other).value).max()
    assert 0 < worst < 10.0**-digits


def test_output_nodes_cover_the_plane() -> None:
    rules = choose(1.0, 1.0, 15)
    with working_bits(100):
        u, wu, v, wv = output_nodes(rules.output)
        for x, w in ((u, wu), (v, wv)):
            mass = sum(weight * (-(node**2) / 2).exp() for node, weight in zip(x, w, strict=True))
            assert abs(float(mass - (arb.pi() / 2).sqrt())) < 1e-14


@pytest.mark.parametrize("fineness", [1.0, 1.3])
def test_accuracy_is_what_the_rules_aim_at(fineness: float) -> None:
    """The steps that the analysis gives reach their digits at c = beta = 1: no refinement is needed."""
    for digits in (10, 18):
        rules = choose(1.0, 1.0, digits, fineness)
        with working_bits(rules.bits):
            norm = softmax_norm(ball(1.0), ball(1.0), rules, silent)
        # the guard digits of the driver leave room for a factor of ten
        assert abs(1 / float(norm) - 0.185477840607376461) < 10.0 ** (1 - digits) + 1e-16
    rules = choose(1.0, 1.0, 18)
    with working_bits(rules.bits):
        alpha = 1 / softmax_norm(ball(1.0), ball(1.0), rules, silent)
        assert abs(float(alpha - arb(STORED[0]["value"]))) < 1e-17


def random_numbers(count: int, source: random.Random, size: int = 1) -> list[fmpq]:
    """Fractions up to size."""
    return [fmpq(size * source.randrange(-(10**40), 10**40), 10**40) for _ in range(count)]


def encloses(found: Fixed, exact: list[Any], most: float) -> None:
    """Every error is below its bound, and no bound above `most`."""
    for one, other in zip(found.balls(), exact, strict=True):
        assert one.overlaps(arb(other)), (one, other)
    assert 0 < found.error.max() < most


def test_sums_of_rows_enclose_the_exact_ones() -> None:
    """Powers, Chebyshev polynomials and their sums in digits, against the same in rationals."""
    scale = Scale.for_bits(100)
    source = random.Random(4)
    exact = [random_numbers(150, source) for _ in range(2)]
    with working_bits(300):
        numbers = [from_balls([arb(x) for x in row], scale) for row in exact]
        powers, angles = (np.zeros((scale.last + 1, 7, 150)) for _ in range(2))
        angles[0, 0] = 1
        powers[:, 0], angles[:, 1] = (row.digits for row in numbers)
        factor = np.ascontiguousarray(numbers[1].digits[:, None])
        for n in range(1, 7):
            multiply_row(powers, n, n - 1, factor, 0, -1)
        for k in range(2, 7):
            multiply_row(angles, k, k - k // 2, angles, k // 2, k % 2)
        levels = np.zeros((scale.last + 1, 7, 7), dtype=np.int64)
        add_product(levels, powers, angles)
        # relative to one: roundings of at most 12 products each, and 2.001 k^2 of those before the polynomials
        found = carried(levels, np.full((7, 7), 150 * 200 * scale.rounding))
        total = [
            sum((w * x**n * arb(x).chebyshev_t(k) for w, x in zip(*exact, strict=True)), arb(0))
            for n in range(7)
            for k in range(7)
        ]
        encloses(found, total, 2.0**-75)
        for row, values in zip(numbers, exact, strict=True):
            assert abs(row.digits).max() <= 2**21
            encloses(row, values, 2.0**-100)
            assert row.value == pytest.approx([float(arb(x)) for x in values], rel=1e-14)


def test_arithmetic_of_digits_encloses_the_exact_one() -> None:
    """Sums, products, shifts and matrices with all their bounds, on numbers up to 1000."""
    scale = Scale.for_bits(100)
    source = random.Random(5)
    x, y = random_numbers(12, source, 1000), random_numbers(12, source)
    with working_bits(400):
        one, other = (from_balls([arb(a) for a in row], scale) for row in (x, y))
        pairs = list(zip(x, y, strict=True))
        encloses(one + other, [a + b for a, b in pairs], 2.0**-100)
        encloses(one - other, [a - b for a, b in pairs], 2.0**-100)
        encloses(one * other, [a * b for a, b in pairs], 2.0**-75)
        encloses(one[:, None] * other[None], [a * b for a in x for b in y], 2.0**-75)
        encloses(one.cut(4), x, 2.0**-64)
        encloses(one.times_power(9, scale.last), [512 * a for a in x], 2.0**-80)
        left, right = (Fixed(row.digits.reshape(-1, 3, 4), row.error.reshape(3, 4)) for row in (one, other))
        total = [sum(x[4 * i + k] * y[4 * j + k] for k in range(4)) for i in range(3) for j in range(3)]
        encloses(dot(left, right), total, 2.0**-70)
        encloses(dot(left, right.cut(4)), total, 2.0**-50)
        # the last digits of squares count where the divisor is small
        z, numbers = [], []
        for shift in range(0, 60, 10):
            z.append(fmpq(source.randrange(10**9, 10**10), 10**10 * 2**shift))
            numbers.append([z[-1] * a for a in random_numbers(3, source, 100)])
        columns = [from_balls([arb(a) for a in row], scale) for row in zip(*numbers, strict=True)]
        found = squares_over(from_balls([arb(a) for a in z], scale), *columns)
        exact = [(a * a + 2 * b * b + d * d) / q for q, (a, b, d) in zip(z, numbers, strict=True)]
        encloses(found, exact, 2.0**-100)


@pytest.mark.parametrize("most", [5.0, 200.0])
def test_powers_under_a_gaussian(most: float) -> None:
    """t^n exp(-t/2) and the bounds of their errors; what is left out is below the floor."""
    count, scale = 30, Scale.for_bits(90)
    with working_bits(250):
        x = [arb(k) ** 2 / 7 for k in range(0, 40, 3)]
        y = [arb(most) ** fmpq(k, 9) for k in range(10)]
        # as E[(A^2/B)^n] falls
        log_sizes = -1.2 * np.arange(count + 1)
        norms = Norms.up_to(count)
        total = np.zeros((count + 1, len(x), len(y)), dtype=object)
        error, bound = np.zeros(total.shape), np.zeros(total.shape)
        for n, rows, found, size in gaussian_powers(x, y, norms, Window.of(log_sizes, -40.0), scale):
            total[n, rows] += np.array(found.balls(), dtype=object).reshape(size.shape)
            error[n, rows] += found.error
            bound[n, rows] += size
        floor = math.exp(-40.0)
        for n, product in enumerate(norms.products()):
            assert float(norms.rest()[n] * arb(2 * n).fac() * arb(product) ** 2) == pytest.approx(1.0, rel=1e-14)
            assert 0.99 < float(norms.rest()[n]) < 1.01
            for i, j in np.ndindex(len(x), len(y)):
                t = x[i] * y[j]
                exact = t**n * (-t / 2).exp() * product
                if bound[n, i, j] == 0:
                    assert arb(total[n, i, j]).mid() == 0 and float(exact) * math.exp(log_sizes[n]) < floor
                    continue
                assert arb(total[n, i, j]).overlaps(exact), (n, i, j)
                assert float(exact) <= bound[n, i, j]
                # far below 1e-24, in the unit of the sums
                assert error[n, i, j] * math.exp(log_sizes[n]) < 2.0**-80
        assert np.count_nonzero(bound) > 500 and np.count_nonzero(bound == 0) > 500


def test_most_terms_add_up_exactly() -> None:
    """The largest digits, as many as may be added at once: no rounding in float64."""
    scale = Scale.for_bits(20)
    left = np.full((scale.last + 1, 1, MOST_TERMS), 2.0**21)
    left[1, 0, ::2] = 2.0**21 - 1
    levels = np.zeros((scale.last + 1, 1, 1), dtype=np.int64)
    add_product(levels, left, left)
    digits = left.astype(object)
    for k in range(scale.last + 1):
        assert levels[k, 0, 0] == sum((digits[i, 0] * digits[k - i, 0]).sum() for i in range(k + 1))


# --- linear -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [2, 3])
def test_weak_linear_attention_of_any_token_number(tokens: int) -> None:
    """beta -> 0 leaves one layer: alpha = 1/(M(M + 1)), and the first correction is linear in beta/c."""
    gaps = []
    for beta in (1e-2, 1e-3):
        rules = choose_linear(1.0, beta, tokens, 8)
        with working_bits(rules.bits):
            norm = linear_norm(ball(1.0), ball(beta), tokens, rules, silent)
            gaps.append(float(tokens * (tokens + 1) - norm))
    assert 0 < gaps[1] < gaps[0]
    assert gaps[0] / gaps[1] == pytest.approx(100.0, rel=0.2)  # E log det is stationary: the first order drops out


# Either is held against more: fifteen digits below, and float64 against nested sums and scaling in test_thresholds.py.
@pytest.mark.slow
def test_linear_against_float64_and_scaling() -> None:
    one, other = (
        precise_threshold(Network(skip=s, beta=b, activation="linear"), digits)
        for s, b, digits in ((2, 1, 11), (6, 3, 5))
    )
    assert rounded(one.value, 5) == other.value
    assert float(one.value) == pytest.approx(
        1 / linear_two_layers(Network(skip=2, beta=1, activation="linear"), 1), rel=1e-11
    )


# --- digits -----------------------------------------------------------------------------------------------------


def rounded(text: str, digits: int) -> str:
    """Correctly rounded to so many significant digits."""
    return str(Context(prec=digits).create_decimal(text))


@pytest.mark.slow_for(
    "softmax-1.0-5.0",
    "softmax-0.5-2.0",
    "softmax-0.5-1.0",
    "softmax-1.0-2.0",
    "softmax-2.0-2.0",
    "softmax-5.0-3.0",
    "softmax-2.0-0.5",
    "softmax-3.0-1.0",
)
@pytest.mark.parametrize("case", STORED, ids=lambda c: f"{c['activation']}-{c['skip']}-{c['beta']}")
def test_fifteen_digits_are_the_rounded_prefix_of_fifty(case: dict[str, Any]) -> None:
    model = Network(skip=case["skip"], beta=case["beta"], activation=case["activation"])
    result = last_layer(model, digits=15)
    assert result.value == rounded(case["value"], 15)
    assert result.how == "estimated" and result.converged
    assert abs(Decimal(result.value) - Decimal(case["value"])) <= Decimal(result.error)


@pytest.mark.slow
@pytest.mark.parametrize("case", STORED, ids=lambda c: f"{c['activation']}-{c['skip']}-{c['beta']}")
def test_fifty_digits(case: dict[str, Any]) -> None:
    model = Network(skip=case["skip"], beta=case["beta"], activation=case["activation"])
    assert last_layer(model, digits=50).value == case["value"]


@pytest.mark.parametrize("digits", [1, 5, 13, 14, 22])
def test_every_digit_is_right(digits: int) -> None:
    for case in STORED[:1]:
        result = last_layer(Network(skip=case["skip"], beta=case["beta"]), digits=digits)
        assert result.value == rounded(case["value"], digits)


def test_skip_and_beta_are_decimals() -> None:
    """0.3 is three tenths: the binary fraction next to it differs from the 17th digit on."""
    with working_bits(200):
        assert abs(float(ball(0.3) * 10 - 3)) < 1e-55
        assert abs(float(arb(0.3) * 10 - 3)) > 1e-17


def test_half_way_cases_are_not_decided_early() -> None:
    with working_bits(100):
        assert driver._rounded(arb("0.12345"), arb("1e-7"), 4) is None
        assert driver._rounded(arb("0.12345"), arb("1e-7"), 6) == "0.123450"
        assert driver._rounded(arb("0.123456"), arb("1e-7"), 4) == "0.1235"
        assert driver._rounded(arb("12.3456"), arb("1e-7"), 1) is not None
        assert driver._rounded(arb("9.9996"), arb("1e-9"), 4) == "10.00"
        assert driver._rounded(arb("1.5"), arb(0), 2) == "1.5"


def test_progress_goes_up_and_precision_comes_back() -> None:
    before = ctx.prec
    seen: list[tuple[int, int]] = []
    precise_threshold(Network(), 15, lambda done, total: seen.append((done, total)))
    assert ctx.prec == before
    assert seen == sorted(seen) and len(seen) > 10 and {total for _, total in seen} == {100}
    with pytest.raises(ZeroDivisionError), working_bits(77):
        assert ctx.prec == 77
        1 / 0  # noqa: B018
    assert ctx.prec == before


def test_what_cannot_be_reached_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConvergenceError, match=r"so many digits need \d+ nodes"):
        precise_threshold(Network(skip=1e-4, beta=1e4), 50)
    # As many terms as that are few at three digits, but their sizes are beyond fixed point.
    with pytest.raises(ConvergenceError, match=r"2.7e\+07 is beyond the range 2\^21.*at most 13"):
        precise_threshold(Network(skip=1e-6), 3)
    monkeypatch.setattr(driver, "_LEVELS", 1)
    with pytest.raises(ConvergenceError, match="15 digits were not reached in 1 refinements"):
        precise_threshold(Network(), 15)


@pytest.mark.parametrize("value", [2.0**21, -(2.0**21) - 1, 1e30, -1e30])
def test_numbers_beyond_fixed_point_are_refused(value: float) -> None:
    scale = Scale.for_bits(60)
    assert from_balls([arb(2.0**20), arb(-(2.0**21))], scale).value.tolist() == [2.0**20, -(2.0**21)]
    with pytest.raises(OverflowError, match="beyond the range"):
        from_balls([arb(1), arb(value)], scale)


@pytest.mark.slow_for("0.001")
@pytest.mark.parametrize("skip", [1e-3, 1e-5])
def test_small_skips_in_float64_and_in_balls(skip: float) -> None:
    """Nearly no skip: tau of the hidden layer ranges up to 1/c."""
    model = Network(skip=skip)
    balls = precise_threshold(model, 5)
    # The lowest level has nine digits.
    assert abs(1 / softmax(model, 0) - float(balls.value)) <= balls.error + 1e-8


def test_digits_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match=f"digits must be an integer from 1 to {MAX_DIGITS}"):
        last_layer(Network(), digits=MAX_DIGITS + 1)
    with pytest.raises(ValueError, match="digits must be an integer from 1 to 13"):
        last_layer(Network(4, activation="linear"), digits=14)


def test_fifteen_digits_take_less_than_a_second() -> None:
    last_layer(Network(), digits=14)  # loads what there is to load
    start = time.process_time()
    last_layer(Network(), digits=15)
    assert time.process_time() - start < 1.0


def test_command_prints_the_digits_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["threshold", "--skip", "2", "--beta", "0.5", "--digits", "20", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (stored,) = (case for case in STORED if (case["skip"], case["beta"]) == (2.0, 0.5))
    assert record["value"] == rounded(stored["value"], 20)
    assert record["how"] == "estimated" and 0 < record["error"] < 1e-20


def test_measured_cost_belongs_to_right_digits(tmp_path: Path, repository: Path) -> None:
    record = json.loads((repository / "papers/troiani2025/figures/cost_per_digit.json").read_text(encoding="utf-8"))
    assert record["values"] == [rounded(STORED[0]["value"], digits) for digits in record["digits"]]
    assert record["digits"][-1] == 50 and record["seconds"] == sorted(record["seconds"])
    # between n^2 and n^4, give or take the noise of a clock
    assert 3 < cost_per_digit.growth(record) < 20
    cost_per_digit.FIGURE.render(record, Look(), tmp_path / "cost.png")
    assert (tmp_path / "cost.png").stat().st_size > 5000
    quartic = {"digits": [25, 50], "seconds": [1.0, 16.0]}
    assert cost_per_digit.growth(quartic) == pytest.approx(16.0)
