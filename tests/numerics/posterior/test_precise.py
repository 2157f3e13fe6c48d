"""The arbitrary-precision denoiser: against closed forms, itself at other precisions, and the stored reference."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.arithmetic.ball import BALLS, ball, working_bits
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.model.network import Network, kernel
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.precise import ellipses, rectangles
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp

CTX = MPContext()
CTX.dps = 45
REFERENCE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "denoiser_reference.json").read_text(encoding="utf-8")
)
EASY = Network(skip=5.0, beta=0.2)
V = np.array([[0.02, 0.01], [0.01, 0.4]])
OMEGA = np.array([[0.3, -0.5], [0.2, 0.7]])
Y = EASY.link(np.array([[0.35, -0.6], [-0.3, 0.9]]))


def cheapest(activation: str, category: str) -> dict[str, Any]:
    cases = [case for case in REFERENCE if (case["activation"], case["category"]) == (activation, category)]
    return min(cases, key=lambda case: case["nodes"])


def largest(values: Any) -> Any:
    return max(abs(value) for value in np.asarray(values, dtype=object).ravel())


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_one_layer(activation: str, tokens: int) -> None:
    """Posterior of h = +-v from its two weights, with v recovered by the exact inverse of the link."""
    model = Network(1, tokens, beta=1.3, activation=activation)
    h = [CTX.mpf(k) / 7 for k in (3, -5, 9)][:tokens]
    scores = [[CTX.mpf(1.3) * a * b for b in h] for a in h]
    if activation == "softmax":
        y = [[CTX.exp(s) / sum(CTX.exp(other) for other in row) for s in row] for row in scores]
    else:
        y = scores
    omega, variance = [CTX.mpf(k) / 9 for k in (2, 1, -4)][:tokens], CTX.mpf(3) / 8
    made = denoise_mp(model, y, [omega], [[variance]], digits=30)
    up = CTX.exp(sum(a * w for a, w in zip(h, omega, strict=True)) / variance)
    share = up / (up + 1 / up)
    norm = (2 * CTX.pi * variance) ** (-CTX.mpf(tokens) / 2)
    density = sum(
        norm * CTX.exp(-sum((sign * a - w) ** 2 for a, w in zip(h, omega, strict=True)) / (2 * variance))
        for sign in (1, -1)
    )
    jacobian = CTX.mpf(1)
    if tokens == 2 and activation == "linear":
        jacobian = 2 * CTX.mpf(1.3) * y[0][0]
    elif tokens == 2:
        jacobian = 2 * CTX.mpf(1.3) ** 2 * (h[0] - h[1]) ** 2 * y[0][0] * y[0][1] * y[1][0] * y[1][1]
    assert abs(made.log_z - CTX.log(density / jacobian)) < 1e-30
    for a in range(tokens):
        mean = (2 * share - 1) * h[a]
        assert abs(made.g_out[0, a] - (mean - omega[a]) / variance) < 1e-29
        for b in range(tokens):
            spread = h[a] * h[b] * 4 * share * (1 - share) / variance**2 - (a == b) / variance
            assert abs(made.dg_out[0, a, 0, b] - spread) < 1e-28
    floats = denoise(model, np.array(y, float), np.array([omega], float), np.array([[float(variance)]]))
    np.testing.assert_allclose(floats.g_out, made.g_out.astype(float), rtol=1e-12)
    np.testing.assert_allclose(floats.dg_out, made.dg_out.astype(float), rtol=1e-12, atol=1e-12)
    assert float(floats.log_z) == pytest.approx(float(made.log_z), abs=1e-12)


def sample(model: Network, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """(y, omega, V) of the model: V a random part of I, omega of covariance I - V, y from a forward pass."""
    axes, _ = np.linalg.qr(rng.normal(size=(2, 2)))
    spread = rng.uniform(0.05, 1.0, 2)
    covariance = axes @ np.diag(spread) @ axes.T
    covariance = (covariance + covariance.T) / 2
    omega = axes @ (np.sqrt(1 - spread)[:, None] * rng.normal(size=(2, 2)))
    return model.link(omega + np.linalg.cholesky(covariance) @ rng.normal(size=(2, 2))), omega, covariance


def gaps(one: Any, other: Any, covariance: Any) -> tuple[float, ...]:
    """Differences of log_z, g_out and dg_out in the units of `PreciseDenoiserResult.error`."""
    trace = float(np.trace(np.array(covariance, float)))
    return (
        float(abs(one.log_z - other.log_z) / max(1, abs(other.log_z))),
        float(largest(one.g_out - other.g_out) / max(largest(other.g_out), trace**-0.5)),
        float(largest(one.dg_out - other.dg_out) / max(largest(other.dg_out), 1 / trace)),
    )


@pytest.mark.slow_for("softmax-V_22 = 1e-3", "linear-V_11 = 1e-3", "linear-correlated")
@pytest.mark.parametrize("category", ["V_11 = 1e-3", "correlated", "V_22 = 1e-3"])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_fewer_digits_of_the_reference(activation: str, category: str) -> None:
    """A cruder cut of the plane and lower orders give the stored numbers to what they promise."""
    case = cheapest(activation, category)
    model = Network(2, 2, 1, case["skip"], case["beta"], case["activation"])
    made = denoise_mp(model, case["y"], case["omega"], case["V"], digits=9)
    assert made.how == "estimated" and made.error <= 1e-9 and made.nodes > 0
    exact = PreciseDenoiserResult(
        CTX.mpf(case["log_z"]),
        np.array([CTX.mpf(text) for text in case["g_out"]], dtype=object).reshape(2, 2),
        np.array([CTX.mpf(text) for text in case["dg_out"]], dtype=object).reshape(2, 2, 2, 2),
        case["error"],
        "estimated",
        21,
        0,
        "stored",
    )
    assert max(gaps(made, exact, case["V"])) <= made.error


@pytest.mark.slow_for("softmax-1.0-1.0")
@pytest.mark.parametrize(
    ("activation", "skip", "beta"), [("softmax", 1.0, 1.0), ("linear", 1.0, 1.0), ("softmax", 0.3, 2.0)]
)
def test_more_digits_agree(activation: str, skip: float, beta: float, rng: np.random.Generator) -> None:
    """The error shown bounds log_z, g_out and dg_out."""
    model = Network(2, 2, 1, skip, beta, activation)
    y, omega, covariance = sample(model, rng)
    low, high = (denoise_mp(model, y, omega, covariance, digits=digits) for digits in (8, 16))
    assert low.nodes < high.nodes
    assert low.error <= 1e-8 and high.error <= 1e-16
    assert max(gaps(low, high, covariance)) <= low.error


def test_plain_quadrature() -> None:
    """(169) as it stands, in tokens, B_1 by its definition (5), by plain trapezoidal sums."""
    model, covariance = Network(skip=3.0, beta=0.4), np.array([[0.04, 0.03], [0.03, 0.5]])
    y = model.link(np.array([[0.35, -0.6], [-0.3, 0.9]]))
    inverse = np.linalg.inv(covariance)
    first, second = np.log(y[0, 0] / y[0, 1]) / model.beta, np.log(y[1, 1] / y[1, 0]) / model.beta
    v = np.array([first, -second]) / math.sqrt(first + second)
    jacobian = 2 * model.beta**2 * (first + second) * y.prod()

    def weighted(first: Any) -> Any:
        """Both branches' weights times 1 and two entries of V^{-1} (h - omega), and their product, at each h_1."""
        scores = np.exp(model.beta * first[:, :, None] * first[:, None, :])
        mixing = model.skip * np.eye(2) + scores / scores.sum(axis=2, keepdims=True)
        out = 0.0
        for sign in (1, -1):
            last = np.linalg.solve(mixing, np.broadcast_to(sign * v[:, None], (len(first), 2, 1)))[:, :, 0]
            off = np.stack([first, last], axis=1) - OMEGA
            slope = inverse @ off
            weight = np.exp(-0.5 * (off * slope).sum(axis=(1, 2))) / np.abs(np.linalg.det(mixing))
            one, other = slope[:, 0, 1], slope[:, 1, 1]
            out += weight * np.array([np.ones_like(one), one, other, one * other])
        return out

    # Nine prior widths leave 1e-18, and steps of a quarter of one far less than rounding.
    width = math.sqrt(covariance[0, 0])
    sides = [mean + width * np.linspace(-9, 9, 73) for mean in OMEGA[0]]
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    mass, one, other, both = (0.25 * width) ** 2 * weighted(grid).sum(axis=1)
    made = denoise_mp(model, y, OMEGA, covariance, digits=14)
    norm = (2 * math.pi) ** 2 * np.linalg.det(covariance) * jacobian
    assert float(made.log_z) == pytest.approx(math.log(mass / norm), abs=1e-12)
    steep = np.abs(inverse).max()
    assert float(made.g_out[0, 1]) == pytest.approx(one / mass, abs=1e-12 * steep)
    assert float(made.g_out[1, 1]) == pytest.approx(other / mass, abs=1e-12 * steep)
    expected = both / mass - one * other / mass**2 - inverse[0, 1]
    assert float(made.dg_out[0, 1, 1, 1]) == pytest.approx(expected, abs=1e-12 * steep**2)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_continuation_is_analytic(activation: str, rng: np.random.Generator) -> None:
    """At real indices it is the generated kernel; at complex ones B_1 h_2 = v with B_1 from its definition (5)."""
    model = Network(skip=0.7, beta=1.3, activation=activation)
    undo = {"softmax": ellipses.continued_softmax, "linear": ellipses.continued_linear}[activation]
    x = rng.normal(size=(2, 40), scale=2.0)
    made = np.array([undo(*pair.astype(complex), 0.8, -0.6, model.skip, model.beta)[:3] for pair in x.T])
    exact = kernel(model, "numpy64").undo(x[0], x[1], 0.8, -0.6, model.skip, model.beta)
    np.testing.assert_allclose(made.T, exact, rtol=1e-12, atol=1e-14)
    xp, xm = x + 0.4j * rng.normal(size=(2, 40))
    root = math.sqrt(0.5)
    for k in range(40):
        h = np.array([xp[k] + xm[k], xp[k] - xm[k]]) * root
        scores = model.beta * np.outer(h, h)
        if activation == "softmax":
            scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        mixing = model.skip * np.eye(2) + scores
        a, b, inv_det, turning = undo(xp[k], xm[k], 0.8, -0.6, model.skip, model.beta)[:4]
        h2 = np.array([a + b, a - b]) * root
        np.testing.assert_allclose(mixing @ h2, np.array([0.2, 1.4]) * root, rtol=1e-9)
        assert abs(inv_det * np.linalg.det(mixing)) == pytest.approx(1, rel=1e-9)
        assert np.isfinite(turning) and turning != 0


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_singular_ellipses_are_seen(activation: str) -> None:
    """Rules along a line are used inside the ellipse of its first zero of det B_1 only, and up to near it.

    On lines x_- = y these zeros are, for linear attention, x_+ = i sqrt(c/beta + y^2), and for softmax beta x_+ y =
    +-arccosh(cosh u + sinh u/c) + i pi with u = beta y^2.
    """
    c, beta = 0.5, 2.0
    parameters = (0.4, -0.7, c, beta, 0.0, 0.0, 0.1, 0.2, 1.0, 0.1, 1.2)
    table, link = ellipses.GOOD, ellipses.Link(activation == "linear", parameters)
    lines = 0.5 + 1.5 * table.lines
    largest_modulus = [
        np.array(
            [ellipses.largest_on(link, ellipses.Line(0, complex(y), -1.0, 2.0), points) for points in table.points]
        )
        for y in lines
    ]
    for y, row in zip(lines, largest_modulus, strict=True):
        zero = 1j * math.sqrt(c / beta + y**2)
        if activation == "softmax":
            u = beta * y**2
            zero = (math.acosh(math.cosh(u) + math.sinh(u) / c) + 1j * math.pi) / (beta * y)
        limit = math.log(abs(zero + np.sqrt(zero - 1) * np.sqrt(zero + 1)))
        assert np.isinf(row[table.log_rho > limit]).all()
        assert np.isfinite(row[table.log_rho * 1.25 < limit]).all()


def test_cut_is_seamless(rng: np.random.Generator) -> None:
    """Neighbours share their edges bit by bit after any halving: a gap of one rounding once cost 4e-15 of the mass."""
    for axis_at in (*rng.normal(scale=10.0, size=20), 0.0, 1e-12, 1e3):
        radius = 7.3
        edges = rectangles.edges(radius, axis_at)
        assert edges[0] <= -radius and edges[-1] >= radius and (np.diff(edges) > 0).all()
        assert not abs(axis_at) < radius or abs(edges - axis_at).min() < 1e-2
        boxes = rectangles.product(edges, edges)
        for axis in (0, 1, 0, 1, 0, 1):
            boxes = rectangles.halves(boxes, axis)
        for axis in (0, 1):
            starts, ends = np.unique(boxes[:, axis]), np.unique(boxes[:, axis] + boxes[:, 2 + axis])
            np.testing.assert_array_equal(starts[1:], ends[:-1])


def test_derivatives_at_high_precision() -> None:
    """Central differences with step 1e-5 at 15 digits: the error is of order 1e-9, in log_z and in g_out."""
    y = EASY.link(np.array([[0.35, -0.6], [-0.3, 0.9]]))
    step = CTX.mpf("1e-5")
    down, middle, up = (
        denoise_mp(
            EASY, y, [[CTX.mpf("0.3"), CTX.mpf("-0.5") + k * step], [CTX.mpf("0.2"), CTX.mpf("0.7")]], V, digits=15
        )
        for k in (-1, 0, 1)
    )
    assert abs((up.log_z - down.log_z) / (2 * step) - middle.g_out[0, 1]) < 1e-8
    assert largest((up.g_out - down.g_out) / (2 * step) - middle.dg_out[:, :, 0, 1]) < 1e-7


def test_token_exchange() -> None:
    """Exchanging the tokens exchanges the entries, to the digits asked for: other rectangles, the same numbers."""
    model = Network(skip=0.6, beta=1.5)
    y = model.link(np.array([[0.9, -0.6], [-0.3, 1.2]]))
    one = denoise_mp(model, y, OMEGA, V, digits=16)
    other = denoise_mp(model, y[::-1, ::-1], OMEGA[:, ::-1], V, digits=16)
    assert abs(one.log_z - other.log_z) < 1e-16
    assert largest(one.g_out - other.g_out[:, ::-1]) < 1e-15 * largest(one.g_out)


def test_even_link_has_no_gradient_at_zero() -> None:
    made = denoise_mp(Network(), Network().link(np.array([[0.9, -0.6], [-0.3, 1.2]])), np.zeros((2, 2)), V, digits=15)
    assert largest(made.g_out) < 1e-15


@pytest.mark.parametrize(
    ("y", "covariance"),
    [
        # y_12 + y_21 is 1 - 1e-20, which doubles of y do not tell from the edge of the range: v is of order 1e10.
        ([["0.7", "0.3"], ["0.69999999999999999999", "0.30000000000000000001"]], [["1", "0.1"], ["0.1", "1e18"]]),
        # Eigenvalue 1e-8 in a direction of both layers.
        (None, [["0.50000001", "-0.5"], ["-0.5", "0.50000001"]]),
        # y_21 = 1e-30.
        ([["0.7", "0.3"], ["1e-30", "0.999999999999999999999999999999"]], [["1", "0.1"], ["0.1", "2"]]),
    ],
)
def test_corners(y: Any, covariance: Any) -> None:
    model = Network()
    if y is None:
        y = model.link(np.array([[0.31, -0.52], [0.19, 0.73]]))
    low, high = (denoise_mp(model, y, OMEGA, covariance, digits=digits) for digits in (7, 14))
    assert max(gaps(low, high, covariance)) <= low.error <= 1e-7


@pytest.mark.slow_for("0.437-1.46", "0.146-9.3")
@pytest.mark.parametrize(
    ("skip", "beta", "widths", "correlation", "size", "shrunk"),
    [
        (0.437, 1.46, (0.0053, 0.023), 0.999, 30.0, 1.0),
        (0.0643, 1.04, (4.8e-4, 0.69), 0.0, 5.0, 1.0),
        (0.146, 9.3, (0.018, 1e-4), -0.999, 5.0, 1.0),
        # Nearly equal tokens: y at the edge of its range, and far from what omega and V expect.
        (1.8, 4.21, (0.011, 3.3e-4), 0.999, 1.0, 1e-6),
    ],
)
def test_hard_inputs(
    skip: float,
    beta: float,
    widths: tuple[float, float],
    correlation: float,
    size: float,
    shrunk: float,
    rng: np.random.Generator,
) -> None:
    """Narrow, correlated, saturated: 20 digits agree with 30."""
    model = Network(skip=skip, beta=beta)
    spread = np.outer(widths, widths) * np.array([[1.0, correlation], [correlation, 1.0]])
    omega = size * rng.uniform(-1, 1, (2, 2))
    h = omega + np.linalg.cholesky(spread) @ rng.normal(size=(2, 2))
    v = model.mixing(h) @ h[1]
    v = v.mean() + shrunk * (v - v.mean())
    # Most entries are no doubles: they are within 1e-16 of zero or one.
    with working_bits(400):
        one, other = (ball(entry) for entry in v)
        rises = ball(beta) * one * (one - other), ball(beta) * other * (other - one)
        first, second = (1 / (1 + (-rise).exp()) for rise in rises)
        missing, lacking = (1 / (1 + rise.exp()) for rise in rises)
    low, high = (
        denoise_mp(model, [[first, missing], [lacking, second]], omega, spread, digits=digits) for digits in (20, 30)
    )
    assert max(gaps(low, high, spread)) <= low.error <= 1e-20


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("part", range(5))
def test_fifty_digits(activation: str, part: int) -> None:
    """Fifty random inputs in ten parts: 50 digits against float64 to 1e-12, and against 80 digits to 1e-48."""
    rng = np.random.default_rng((part, len(activation)))
    model = Network(activation=activation)
    worst = 0.0
    for _ in range(5):
        y, omega, covariance = sample(model, rng)
        made = denoise_mp(model, y, omega, covariance, digits=50)
        again = denoise_mp(model, y, omega, covariance, digits=80)
        worst = max(worst, *gaps(made, again, covariance))
        assert worst < 1e-48
        floats = denoise(model, y, omega, covariance)
        assert float(floats.log_z) == pytest.approx(float(made.log_z), abs=1e-12, rel=1e-12)
        for name in ("g_out", "dg_out"):
            exact = getattr(made, name).astype(float)
            assert np.abs(getattr(floats, name) - exact).max() < 1e-12 * max(1.0, np.abs(exact).max())
    print(f"{activation}, inputs {5 * part + 1} to {5 * part + 5}: within {worst:.1e} of 80 digits")


@pytest.mark.slow
@pytest.mark.parametrize("category", ["V_22 = 1e-3", "near-singular", "unlikely y"])
def test_reference_again(category: str) -> None:
    """Narrow and unlikely posteriors in full."""
    case = cheapest("softmax", category)
    model = Network(2, 2, 1, case["skip"], case["beta"], case["activation"])
    made = denoise_mp(model, case["y"], case["omega"], case["V"], digits=18)
    exact = np.array([CTX.mpf(text) for text in case["g_out"]], dtype=object)
    assert largest(made.g_out.ravel() - exact) < 1e-18 * max(largest(exact), np.trace(case["V"]) ** -0.5)
    assert abs(made.log_z - CTX.mpf(case["log_z"])) < 1e-18 * max(1, abs(made.log_z))


def test_exact_input() -> None:
    with working_bits(100):
        assert ball("0.1") * 10 - 1 == 0 or abs(ball("0.1") * 10 - 1) < 1e-28
        assert ball(0.1) == flint.arb(3602879701896397) / 2**55
        assert ball(Fraction(1, 4)) == ball("0.25") == ball(Decimal("0.25")) == ball(CTX.mpf("0.25"))
        assert ball(np.float64(0.5)) == ball(np.int64(1)) / 2
        for wrong in ("nan", "inf", "1 +/- 2", "pi", "", None, True, math.inf, [1], 1j):
            with pytest.raises(ValueError, match="number"):
                ball(wrong)


def test_balls_enclose_the_kernel() -> None:
    """The emitted mp kernels run on balls and enclose what mpmath gives."""
    for activation in ("softmax", "linear"):
        mp = kernel(Network(activation=activation), "mp")
        with working_bits(100):
            enclosed = mp.undo(BALLS, "0.7", "-1.1", "0.4", "0.9", "1", "1.5")
        for value, exact in zip(enclosed, mp.undo(CTX, "0.7", "-1.1", "0.4", "0.9", "1", "1.5"), strict=True):
            with working_bits(200):
                assert abs(value - flint.arb(CTX.nstr(exact, 44))) < 1e-28 and float(value.rad()) < 1e-28


def test_floats_are_exact_and_text_is_decimal() -> None:
    as_floats = denoise_mp(Network(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]])
    as_text = denoise_mp(Network(1), [["0.7", "0.3"], ["0.2", "0.8"]], [["0.1", "0.2"]], [["0.5"]])
    gap = abs(as_floats.log_z - as_text.log_z)
    assert 1e-20 < gap < 1e-14  # 0.7 is no binary number
    exact = [[CTX.mpf(0.7), CTX.mpf(0.3)], [CTX.mpf(0.2), CTX.mpf(0.8)]]
    as_mpf = denoise_mp(Network(1), exact, [[CTX.mpf(0.1), CTX.mpf(0.2)]], [[CTX.mpf(0.5)]])
    assert abs(as_mpf.log_z - as_floats.log_z) < 1e-30


def test_global_precision_is_left_alone() -> None:
    before, bits = mpmath.mp.dps, flint.ctx.prec
    try:
        mpmath.mp.dps = 5
        made = denoise_mp(Network(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]], digits=30)
        assert mpmath.mp.dps == 5 and flint.ctx.prec == bits
        with pytest.raises(UnreachableOutputError):
            denoise_mp(Network(1), [[0.4, 0.6], [0.5, 0.5]], [[0.1, 0.2]], [[0.5]], digits=30)
        assert flint.ctx.prec == bits
    finally:
        mpmath.mp.dps = before
    again = denoise_mp(Network(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]], digits=30)
    assert made.log_z == again.log_z


@pytest.mark.parametrize(
    ("arguments", "options", "error", "word"),
    [
        ((EASY, Y, OMEGA, V), {"digits": 4}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 1000}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 10.0}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 10, "max_nodes": 100}, ConvergenceError, "max_nodes"),
        ((EASY, Y[None], OMEGA, V), {}, ValueError, "y must be a single one"),
        ((EASY, Y, OMEGA[0], V), {}, ValueError, "omega must be a single one"),
        ((EASY, Y, OMEGA, np.eye(3)), {}, ValueError, "V must be a single one"),
        ((EASY, Y, OMEGA * np.nan, V), {}, ValueError, "finite"),
        ((EASY, Y, OMEGA, -V), {}, ValueError, "positive definite"),
        ((EASY, Y, OMEGA, [[1, 1], [1, 1]]), {}, ValueError, "pivot 2"),
        ((EASY, Y, OMEGA, [[1, 0.5], [0.4, 1]]), {}, ValueError, "symmetric"),
        ((EASY, Y, OMEGA, [["1", "x"], ["0", "1"]]), {}, ValueError, "V: expected a number"),
        ((EASY, [["0.7", "0.3"], ["0.7", "0.3"]], OMEGA, V), {}, UnreachableOutputError, "177"),
        ((EASY, Y, 1e9 * OMEGA, V), {}, ConvergenceError, "prior widths"),
        ((EASY, [[0.4, 0.6], [0.5, 0.5]], OMEGA, V), {}, UnreachableOutputError, "177"),
        ((Network(5), Y, np.zeros((5, 2)), np.eye(5)), {}, ConvergenceError, "over 8 dimensions .* fewer digits"),
        ((Network(1, rank=2), Y, np.zeros((2, 2)), np.eye(2)), {}, KernelNotFoundError, "rank 1"),
    ],
)
def test_bad_input(arguments: Any, options: dict[str, Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        denoise_mp(*arguments, **options)
