"""Three layers of linear attention in pairs of float64: against exact identities, other variables, other methods."""

import math

import numpy as np
import pytest

from attnlimits.numerics.arithmetic.pairs import Pairs, Parts
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.quadrature.rules import normal_qmc
from attnlimits.numerics.thresholds import last_layer_sums
from attnlimits.numerics.thresholds.last_layer import last_layer
from attnlimits.numerics.thresholds.last_layer_sums import linear_deep
from attnlimits.numerics.thresholds.pairs.linear import norm_three_linear, output_moments
from attnlimits.numerics.thresholds.pairs.linear_table import COLUMNS, average_table, bound_index, evaluate
from attnlimits.numerics.thresholds.pairs.rules import double_exponential
from attnlimits.numerics.thresholds.pairs.thresholds import pairs_threshold

ONE = Pairs(1.0)


# --- the average over the first layer ---------------------------------------------------------------------------


def averages(kappa: float, l2: float, gap: float) -> np.ndarray:
    """The columns by trapezoidal sums over log q and over chi."""
    y = np.arange(-40.0, 4.3, 0.02)
    q = np.exp(y)[:, None]
    tau = 1 / (1 + 2 * kappa * q)
    # Periodic: 200 nodes leave out exp(-400^2/(2 gap/4)) of it, e^-213 at the largest gap.
    s2 = np.sin(math.pi / 2 * (np.arange(200) + 0.5) / 200) ** 2
    mass = 0.02 * q * np.exp(-q) * tau**2 * np.exp(-0.5 * (l2 + gap) * tau**2 - 0.5 * gap * (1 - tau**2) * s2) / 200
    f = [np.ones_like(s2), s2 * (1 - s2), s2 * s2]
    return np.array(
        [(mass * tau**j * f[k]).sum() for j, k in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]]
    )


@pytest.mark.parametrize("kappa", [1.0, *(pytest.param(k, marks=pytest.mark.slow) for k in (0.3, 4.0))])
def test_table_against_plain_averages(kappa: float) -> None:
    rule = double_exponential(1e-17, 45.0, 0.1)
    table = average_table(Pairs(kappa), rule, 13.0, 120.0, 1e5)
    work, out = np.empty((7, table.hi.shape[2] * COLUMNS)), Parts.zeros(COLUMNS)
    for l2, gap in [(0.3, 0.2), (2.0, 2.0), (1.99, 1e-9), (5.0, 7.0), (90.0, 0.5), (0.01, 130.0), (3.0, 1500.0)]:
        assert evaluate(table, (l2, 0.0), (gap, 0.0), work, out)
        expected = averages(kappa, l2, gap)
        # thirteen digits at the top of the panel; where nothing is left of the mass, 1 at most, fewer will do
        assert out.hi == pytest.approx(expected, rel=1e-11, abs=1e-17)
        assert table.bound[bound_index(l2 + gap, table.bound.size)] >= out.hi[0] * (1 - 1e-12)
    assert not evaluate(table, (1.0, 0.0), (1e7, 0.0), work, out)


# --- exact identities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "beta", "digits"),
    [
        (1.0, 1.0, 7.0),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in ((0.3, 2.0, 7.0), (0.3, 2.0, 9.0), (1.0, 1.0, 9.0), (0.5, 0.02, 9.0), (1.0, 1.0, 19.0))
        ),
    ],
)
def test_probability_and_variance_are_conserved(skip: float, beta: float, digits: float) -> None:
    """E[1] = 1 and E|h_3|^2 = 2 hold only if no tail, no direction and no Jacobian is missing."""
    rule, moments = output_moments(Pairs(skip), Pairs(beta), digits)
    one, along, across = ((moments[k] * rule.weights).sum() for k in range(3))
    # a digit less for the square, which weighs the tails
    assert abs(float((one - 1.0).fraction())) < 10.0**-digits
    assert abs(float((along + across - 2.0).fraction())) < 10.0 ** (1 - digits)


# --- other variables --------------------------------------------------------------------------------------------


def quarter_circle(step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cos, sin and weights: trapezoidal in x, log tan = 2 sinh x."""
    x = np.arange(-3.0, 3.0, step)
    y = 2 * np.sinh(x)
    return 1 / np.hypot(1, np.exp(y)), 1 / np.hypot(1, np.exp(-y)), step * np.cosh(x) / np.cosh(y)


def moments_on_fixed_axes(skip: float, beta: float, radii: np.ndarray) -> np.ndarray:
    """(Z, along, across) at R with h_1 on an axis and the direction of v uniform, B_2 in full, in float64."""
    k1, k2 = beta / skip, beta * skip
    y = np.arange(-3.4, 3.3, 0.2)
    q_nodes = np.exp(y - np.exp(-y))
    q_weights = 0.2 * q_nodes * (1 + np.exp(-y)) * np.exp(-q_nodes)
    y = np.arange(-2.8, 5.2, 0.14)
    w_nodes = np.exp(y - np.exp(-y))
    w_weights = 0.14 * w_nodes**2 * (1 + np.exp(-y))
    cos, sin, d_phi = quarter_circle(0.07)
    a, b, d_psi = quarter_circle(0.07)
    a, b, d_psi = np.concatenate([a, a]), np.concatenate([b, -b]), np.concatenate([d_psi, d_psi]) / math.pi
    out = np.zeros((3, radii.size))
    for q, q_weight in zip(q_nodes, q_weights, strict=True):
        t = 1 + 2 * k1 * q
        # all four quadrants of w are as one: the direction of v runs through half a circle
        mass = q_weight * np.outer(w_weights, d_phi) * 4 / (2 * math.pi * t)
        mass *= np.exp(-0.5 * np.outer(w_nodes**2, cos**2 / t**2 + sin**2))
        keep = mass > 1e-11
        w, c, s, mass = (np.broadcast_to(f, keep.shape)[keep] for f in (w_nodes[:, None], cos, sin, mass))
        g = k2 * w**2 / (1 + k2 * w**2)
        inverse = np.array([[(1 - g * c * c) / t, -g * c * s / t], [-g * c * s, 1 - g * s * s]])
        _, values, axes = np.linalg.svd(inverse.transpose(2, 0, 1))
        mass = mass / t / (1 + k2 * w**2) / (2 * math.pi)
        # angles of v from the direction that B_2^{-1} shrinks most: the lengths are known to all digits
        v1, v2 = (axes[:, 1, i, None] * a + axes[:, 0, i, None] * b for i in (0, 1))
        h1, h2 = (inverse[i, 0][:, None] * v1 + inverse[i, 1][:, None] * v2 for i in (0, 1))
        along, total = (h1 * v1 + h2 * v2) ** 2, (values[:, 1, None] * a) ** 2 + (values[:, 0, None] * b) ** 2
        for k, r in enumerate(radii):
            f = mass[:, None] * d_psi * np.exp(-0.5 * r * r * total)
            out[:, k] += f.sum(), r * r * (f * along).sum(), r * r * (f * (total - along)).sum()
    return out


@pytest.mark.slow
def test_moments_against_other_variables() -> None:
    """Far into the tails, of which one part in 10^5 of the norm lies beyond R = 10^4."""
    rule, moments = output_moments(ONE, ONE, 8.0)
    nodes = np.searchsorted(rule.nodes.hi, [0.3, 3.0, 100.0, 3e3, 1.5e4])
    expected = moments_on_fixed_axes(1.0, 1.0, rule.nodes.hi[nodes])
    # steps of 0.2 in log q and 0.14 in log |w|, and masses below 10^-11 left out, R^2 Z being 10^-3 at last
    assert moments.hi[:, nodes[:-1]] == pytest.approx(expected[:, :-1], rel=1e-6)
    assert moments.hi[:, nodes[-1]] == pytest.approx(expected[:, -1], rel=1e-4)


def linear_by_plain_sums(skip: float, beta: float) -> float:
    """Three linear layers: w in polar coordinates about v and a uniform direction of h_1, in float64."""
    k1, k2 = beta / skip, beta * skip
    y = np.linspace(-3.2, math.log(22.0), 32)
    q = np.exp(y - np.exp(-y))
    q_weight = q * (1 + np.exp(-y)) * (y[1] - y[0]) * np.exp(-q)
    t = 1 + 2 * k1 * q
    chi = math.pi * np.arange(24) / 24
    n = np.stack([np.cos(chi), np.sin(chi)])[:, None, :]
    eps, delta = (1 - 1 / t**2)[:, None], (1 - 1 / t)[:, None]
    mass = (q_weight / t**2)[:, None] / 24 / (2 * math.pi) ** 2
    z_ = np.arange(-2.7, math.log(13.0), 0.15)
    radii = np.exp(z_ - np.exp(-z_))
    radii_weight = radii * (1 + np.exp(-z_)) * 0.15
    psi = math.pi * (np.arange(20) + 0.5) / 20
    total = 0.0
    for r, dr in zip(radii, radii_weight, strict=True):
        z = along = across = 0.0
        for v, dv in zip(radii, radii_weight, strict=True):
            gamma = k2 * v * v / (1 + k2 * v * v)
            w_hat = np.stack([np.cos(psi), np.sin(psi)])
            x = r * (np.array([[1.0], [0.0]]) - gamma * w_hat[0] * w_hat)
            nw, nx = (np.tensordot(u.T, n[:, 0, :], axes=1)[:, None, :] for u in (v * w_hat, x))
            exponent = 0.5 * ((x**2).sum(axis=0)[:, None, None] + v * v - eps * (nw**2 + nx**2))
            g = mass * np.exp(-exponent) * (v * dv * 2 * math.pi / 20 / (1 + k2 * v * v))
            h = [x[i][:, None, None] - delta * n[i] * nx for i in range(2)]
            z += g.sum()
            along += (g * h[0] ** 2).sum()
            across += (g * h[1] ** 2).sum()
        total += dr * 2 * math.pi * r * ((along - z) ** 2 + (across - z) ** 2) / z
    return total


@pytest.mark.slow
def test_norm_against_plain_sums() -> None:
    value = float(norm_three_linear(Pairs(0.5), Pairs(0.02), 9.0).fraction())
    # the plain sums cut |w| and |v| at 13 units and q at 22, and step by 0.15
    assert value == pytest.approx(linear_by_plain_sums(0.5, 0.02), rel=1e-6)


@pytest.mark.parametrize("beta", [pytest.param(0.05, marks=pytest.mark.slow), 1.0])
def test_norm_against_monte_carlo(beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # A quarter of the points: the errors are stated as so much larger.
    monkeypatch.setattr(last_layer_sums, "normal_qmc", lambda dimension, _, rng: normal_qmc(dimension, 13, rng))
    sampled, _ = linear_deep(Network(3, beta=beta, activation="linear"), np.random.default_rng(0))
    # two digits more than the samples have
    value = float(norm_three_linear(ONE, Pairs(beta), 5.0).fraction())
    assert abs(value - sampled.value) < 3 * sampled.error


@pytest.mark.parametrize("layers", [6, 7, 12])
def test_outputs_beyond_float64_are_refused(layers: int) -> None:
    """They were a math domain error, an argument of a rule, and warnings of numpy."""
    with pytest.raises(ConvergenceError, match="beyond the range of float64"):
        last_layer(Network(layers, activation="linear"), digits=1)


# --- steps and service ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "beta"), [(2.0, 0.1), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1.0, 1.0), (0.5, 2.0)))]
)
def test_norm_does_not_depend_on_the_steps(skip: float, beta: float) -> None:
    first = float(norm_three_linear(Pairs(skip), Pairs(beta), 8.0).fraction())
    second = float(norm_three_linear(Pairs(skip), Pairs(beta), 8.0, 1.2).fraction())
    assert first == pytest.approx(second, rel=1e-8)


@pytest.mark.slow
def test_twenty_digits() -> None:
    result = pairs_threshold(Network(3, activation="linear"), 20)
    # refinements at 16, 18, 20, 22 and 24 digits approach it by three digits each
    assert result.value == "1.4737599900211840006"
    assert result.error < 1e-19
