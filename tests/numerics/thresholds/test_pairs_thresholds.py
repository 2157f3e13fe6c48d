"""Twenty-digit sums against other variables, other rules and other arithmetic."""

import math

import numpy as np
import pytest
from numba import njit

from attnlimits.numerics.arithmetic.pairs import Pairs
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError
from attnlimits.numerics.model.mixing_law import mixing_law
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import PAIRS
from attnlimits.numerics.thresholds.digits.threshold import precise_threshold
from attnlimits.numerics.thresholds.last_layer_sums import softmax
from attnlimits.numerics.thresholds.pairs import MAX_PAIR_DIGITS
from attnlimits.numerics.thresholds.pairs.mixing import pair_law
from attnlimits.numerics.thresholds.pairs.thresholds import pairs_threshold
from attnlimits.numerics.thresholds.pairs.tokens3 import degree, norm_three_tokens
from attnlimits.numerics.thresholds.pairs.tokens3_nodes import Steps, hidden_nodes, three_token_steps

ONE = Pairs(1.0)


# --- two tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "beta"),
    [
        (4.0, 0.3),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.3, 1.0), (1.0, 1.0), (0.1, 3.0))),
    ],
)
def test_two_layers_to_twenty_digits_against_ball_arithmetic(skip: float, beta: float) -> None:
    """The two share no code: other variables of h_1, other compression, other arithmetic.

    Decimals count as written: 0.3 is three tenths, and 20 digits would show the difference of the float64 next to it.
    """
    model = Network(skip=skip, beta=beta)
    assert pairs_threshold(model, 20).value == precise_threshold(model, 20).value


@pytest.mark.slow
def test_law_at_depth_two_against_float64() -> None:
    """Panels, grids and arithmetic differ; both have seven digits and more."""
    pairs, plain = pair_law(Pairs(1.5), Pairs(0.8), 2, 7.0), mixing_law(Network(skip=1.5, beta=0.8), 2, 0)
    s, t = pairs.s.hi[:, None], np.exp(pairs.log_t.hi)
    for f in (
        lambda s, t: s * s + 0 * t,
        lambda s, t: s**4 * t,
        lambda s, t: np.exp(-((1 + s) ** 2) - 2 * t) / t,
    ):
        value = float((pairs.weights.hi * f(s, t)).sum())
        assert value == pytest.approx(float((plain.weights * f(plain.s[:, None], plain.t)).sum()), rel=1e-7)


@pytest.mark.slow
def test_three_layers_to_twenty_digits() -> None:
    result = pairs_threshold(Network(3), 20)
    # refinements at 16, 20, 21 and 23 digits agree on these; ten of them by the recursion in float64, too
    assert result.value == "0.20717722470375716917"
    assert result.error < 1e-20


@pytest.mark.slow
def test_three_layers_against_float64() -> None:
    """As test_thresholds.py has them at c = beta = 1, to eight digits."""
    model = Network(3, skip=4.0, beta=0.3)
    precise = pairs_threshold(model, 7)
    # The coarsest level of the sums in float64 has eight digits and more.
    assert abs(float(precise.value) - 1 / softmax(model, 0)) <= precise.error + 1e-9


# --- three tokens -----------------------------------------------------------------------------------------------

ROTATION = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([3, 2, 6])[:, None]


def lattice(step: float, radius: float) -> np.ndarray:
    k = step * np.arange(-math.ceil(radius / step), math.ceil(radius / step) + 1)
    points = np.stack(np.meshgrid(k, k, k, indexing="ij"), axis=-1).reshape(-1, 3)
    return points[(points**2).sum(axis=1) < radius**2]


def mixing_on_lattice(skip: float, beta: float, step: float, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """B in the rotated basis at plain trapezoidal nodes of h_1, and the nodes' weights."""
    h = lattice(step, radius)
    scores = beta * h[:, :, None] * h[:, None, :]
    attention = np.exp(scores - scores.max(axis=2, keepdims=True))
    b = skip * np.eye(3) + attention / attention.sum(axis=2, keepdims=True)
    return ROTATION @ b @ ROTATION.T, step**3 * np.exp(-0.5 * (h**2).sum(axis=1)) / (2 * math.pi) ** 1.5


@pytest.mark.parametrize(("skip", "beta"), [(1.0, 1.0), (0.5, 0.5)])
def test_hidden_nodes_against_a_cubic_lattice(skip: float, beta: float) -> None:
    """Invariants of B under permutations: the lattice errs by exp(-const step^(-2/3)), some 1e-9 at step 0.25."""
    nodes = hidden_nodes(Pairs(skip), Pairs(beta), 0.2, 12.0, 12.0)
    assert abs(float(nodes.weights.sum().fraction() - 1)) < 1e-15  # no softmax in it: only the rules' own error
    b, weight = mixing_on_lattice(skip, beta, 0.25, 6.8)
    s_, t_ = (1 + skip) * nodes.s.hi, (1 + skip) * nodes.t.hi
    s, t = b[:, 0, 1:].T, np.moveaxis(b[:, 1:, 1:], 0, -1)
    for f in (
        lambda s, t: (s**2).sum(axis=0),
        lambda s, t: 1 / (t[0, 0] * t[1, 1] - t[0, 1] * t[1, 0]),
        lambda s, t: np.exp(-(t**2).sum(axis=(0, 1))),
        lambda s, t: np.exp(-((s[0] * t[0, 0] + s[1] * t[1, 0]) ** 2 + (s[0] * t[0, 1] + s[1] * t[1, 1]) ** 2)),
    ):
        assert float(nodes.weights.hi @ f(s_, t_)) == pytest.approx(float(weight @ f(s, t)), rel=2e-8)


def test_three_tokens_against_cartesian_sums() -> None:
    """The formula on cubic lattices of h_1 and of v: no directions, no radius, no expansion."""
    skip, beta = 1.0, 0.5
    b, weight = mixing_on_lattice(skip, beta, 0.65, 4.9)
    b, weight = b[len(b) // 2 :], weight[len(b) // 2 :] * np.where(np.arange(len(b) - len(b) // 2) == 0, 1.0, 2.0)
    inverse, mass = np.linalg.inv(b), weight / np.linalg.det(b) / (2 * math.pi) ** 1.5
    # h = B^{-1} v has |h| < 5.4 to five digits; v in units of the axes of B
    step, axes = 0.6, np.array([1 + skip, 1 + 0.6 * skip, 1 + 0.6 * skip])
    v = lattice(step, 5.6)
    v = v[len(v) // 2 :] * axes
    total = 0.0
    for part in np.array_split(v, 40):
        h = (part @ inverse.reshape(-1, 3).T).reshape(len(part), -1, 3)
        g = mass * np.exp(-0.5 * (h**2).sum(axis=2))
        z = g.sum(axis=1)
        n = np.swapaxes(h * g[:, :, None], 1, 2) @ h - z[:, None, None] * np.eye(3)
        total += float(((n**2).sum(axis=(1, 2)) / z).sum())
    # all v but the one at the origin, where the sum starts, come in pairs
    origin = mass.sum() * 3
    total = step**3 * axes.prod() * (2 * total - origin)
    value = float(norm_three_tokens(Pairs(skip), Pairs(beta), three_token_steps(skip, beta, 6), 6.0).fraction())
    assert value == pytest.approx(total, rel=2e-4)


@njit(error_model="numpy")
def norm_on_lattice(v: np.ndarray, copies: np.ndarray, inverse: np.ndarray, mass: np.ndarray) -> float:
    total = 0.0
    for n in range(len(v)):
        m = np.zeros(7)
        for k in range(len(mass)):
            a = inverse[k, 0, 0] * v[n, 0] + inverse[k, 0, 1] * v[n, 1] + inverse[k, 0, 2] * v[n, 2]
            b = inverse[k, 1, 0] * v[n, 0] + inverse[k, 1, 1] * v[n, 1] + inverse[k, 1, 2] * v[n, 2]
            c = inverse[k, 2, 0] * v[n, 0] + inverse[k, 2, 1] * v[n, 1] + inverse[k, 2, 2] * v[n, 2]
            x = a * a + b * b + c * c
            if x < 60.0:
                g = mass[k] * math.exp(-0.5 * x)
                m[0] += g
                m[1] += g * a * a
                m[2] += g * b * b
                m[3] += g * c * c
                m[4] += g * a * b
                m[5] += g * a * c
                m[6] += g * b * c
        if m[0] > 0:
            z = m[0]
            square = (m[1] - z) ** 2 + (m[2] - z) ** 2 + (m[3] - z) ** 2 + 2 * (m[4] ** 2 + m[5] ** 2 + m[6] ** 2)
            total += copies[n] * square / z
    return total


@pytest.mark.slow
def test_three_tokens_against_fine_lattices() -> None:
    """Plain cubic lattices of h_1 and of v in the tokens' own basis; one v in twelve, by permutations and the sign."""
    skip, beta, step_h, step_v, reach = 1.0, 1.0, 0.22, 0.4, 6.6
    h = lattice(step_h, reach)
    h = h[len(h) // 2 :]
    scores = beta * h[:, :, None] * h[:, None, :]
    attention = np.exp(scores - scores.max(axis=2, keepdims=True))
    b = skip * np.eye(3) + attention / attention.sum(axis=2, keepdims=True)
    mass = step_h**3 * np.exp(-0.5 * (h**2).sum(axis=1)) / (2 * math.pi) ** 3 / np.linalg.det(b)
    mass[1:] *= 2
    top = math.ceil(reach * np.linalg.norm(b, 2, axis=(1, 2)).max() / step_v)
    k = np.arange(-top, top + 1)
    v = np.stack(np.meshgrid(k, k, k, indexing="ij"), axis=-1).reshape(-1, 3)
    v = v[(v**2).sum(axis=1) <= top**2]
    ordered = np.sort(v, axis=1)
    v, copies = np.unique(
        np.where((ordered[:, 1] > 0)[:, None], ordered, -ordered[:, ::-1]), axis=0, return_counts=True
    )
    total = step_v**3 * norm_on_lattice(step_v * v, copies, np.linalg.inv(b), mass)
    # eleven digits from the nodes of h_1, and nine from those of v
    assert total == pytest.approx(1 / 0.09552861487568660, rel=2e-9)


# Of two layers of three tokens tests/calibration/test_deep.py has six digits beside fifteen.
@pytest.mark.slow
def test_three_tokens_do_not_depend_on_the_rules() -> None:
    """Other directions, other radii, other nodes of h_1: what is left is the error of seven digits."""
    first = norm_three_tokens(ONE, ONE, three_token_steps(1.0, 1.0, 6.5), 6.5)
    second = norm_three_tokens(ONE, ONE, Steps(0.24, 12.0, 0.13, 0.42, 5), 8.0)
    assert abs(float((first - second).fraction())) < 3e-6
    # known from refinements at 23 and 25 digits
    assert float(second.fraction()) == pytest.approx(1 / 0.0955286148756866, abs=1e-7)


@pytest.mark.slow
def test_three_tokens_to_fifteen_digits() -> None:
    assert pairs_threshold(Network(2, 3), 15).value == "0.0955286148756866"


def test_large_skip_hides_nothing_of_three_tokens() -> None:
    """For c -> infinity the hidden layer is the identity and alpha = 1/12, to first order in 1/c."""
    gaps = [
        12 - float(norm_three_tokens(Pairs(c), ONE, three_token_steps(c, 1.0, 5.0), 5.0).fraction())
        for c in (20.0, 80.0)
    ]
    assert 0 < gaps[1] < 0.35 * gaps[0]


def test_degree_bounds_the_chebyshev_tail() -> None:
    for reach in (0.1, 1.0, 4.0):
        n = degree(reach, 12.0)
        x = np.cos(math.pi * (np.arange(n) + 0.5) / n)
        for u in (0.0, 1.5, 5.0):
            series = np.polynomial.chebyshev.chebfit(x, np.exp(-0.5 * (u - reach * x) ** 2), n - 1)
            y = np.linspace(-1, 1, 301)
            error = np.polynomial.chebyshev.chebval(y, series) - np.exp(-0.5 * (u - reach * y) ** 2)
            assert np.abs(error).max() < 1e-11


# --- service ----------------------------------------------------------------------------------------------------


def test_every_digit_is_right_and_prefixes_agree() -> None:
    model = Network(skip=2.0, beta=0.7)
    full = pairs_threshold(model, 8)
    for digits in (1, 4):
        short = pairs_threshold(model, digits)
        assert short.value == f"{float(full.value):.{digits}g}"
        assert abs(float(short.value) - float(full.value)) <= short.error * (1 + 1e-9)


def test_progress_ends_at_its_total() -> None:
    seen: list[tuple[int, int]] = []
    pairs_threshold(Network(), 4, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize("digits", [0, MAX_PAIR_DIGITS + 1, True, 3.0, "4"])
def test_bad_digits_are_named(digits: object) -> None:
    with pytest.raises(ValueError, match="digits must be an integer from 1 to 22"):
        pairs_threshold(Network(), digits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "model", [Network(1), Network(2, 2, 2), Network(3, 3), Network(2, 4), Network(4, 2, activation="linear")]
)
def test_models_without_a_sum_are_named(model: Network) -> None:
    assert not PAIRS.serves(model)
    with pytest.raises(KernelNotFoundError, match="no sum in pairs"):
        pairs_threshold(model, 5)


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(ConvergenceError, match="nodes of h_1"):
        pairs_threshold(Network(2, 3, skip=0.01, beta=40.0), 20)
