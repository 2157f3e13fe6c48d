"""Steps of the staircase of a link at its own fixed points, against one-dimensional integrals written out here."""

import argparse
import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, owens_t

import attnlimits as al
from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.cli import link as link_cli
from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.fixed_point.branch import Branch
from attnlimits.numerics.fixed_point.opening import Onset, opening
from attnlimits.numerics.thresholds.link.directions import Known, named
from attnlimits.numerics.thresholds.link.self_consistent import _channel

Array = NDArray[np.float64]
SIGNS, LARGEST = "sign(h[1])+sign(h[2])", "max(h[1], h[2])"
BAND, EDGE = "sign(abs(h[1]) - 1)", 1.0


def phi(x: float) -> float:
    """Density of a standard normal number."""
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def signs(q: float) -> tuple[float, float]:
    """G along (1, 1)/sqrt(2) and the growth along (1, -1)/sqrt(2), over alpha, of sign(h1) + sign(h2).

    Given omega along the sum, h1 and h2 are normal of mean omega/sqrt(2), variance 1 - q/2 and covariance -q/2: the
    outputs are orthants, by Owen's function, and their derivatives are closed.
    """
    s, rho = math.sqrt(1 - q / 2), -q / (2 - q)
    c = math.sqrt(1 - rho * rho)

    def orthant(x: float) -> tuple[float, float, float]:
        both = phi(x) * phi(x * (1 - rho) / c) / c
        one = phi(x) * float(ndtr(x * (1 - rho) / c))
        value = float(ndtr(x)) - 2 * float(owens_t(x, math.sqrt((1 - rho) / (1 + rho))))
        return value, 2 * one / (math.sqrt(2) * s), -(x * one + (1 + rho) * both) / (s * s)

    def terms(omega: float) -> tuple[float, float]:
        high, low = orthant(omega / (math.sqrt(2) * s)), orthant(-omega / (math.sqrt(2) * s))
        cells = [high, (low[0], -low[1], low[2])]
        cells.append((1 - high[0] - low[0], low[1] - high[1], -high[2] - low[2]))
        # What cells add that are less probable than this is below 1e-11.
        cells = [cell for cell in cells if cell[0] > 1e-13]
        return sum(d * d / z for z, d, _ in cells), sum(e * e / z for z, _, e in cells)

    return averaged(terms, math.sqrt(q))


def largest(q: float) -> tuple[float, float]:
    """The same of max(h1, h2) = (u + |v|)/sqrt(2): given z = sqrt(2) y - omega, |v| is a normal number cut at zero."""

    def terms(z: float) -> tuple[float, float]:
        m, s = z / (2 - q), math.sqrt((1 - q) / (2 - q))
        ratio = math.exp(-0.5 * (m / s) ** 2 - float(log_ndtr(m / s))) / math.sqrt(2 * math.pi)
        mean, square = m + s * ratio, m * m + s * s + m * s * ratio
        weight = 2 * float(ndtr(m / s))
        return weight * ((z - mean) / (1 - q)) ** 2, weight * (square - 1) ** 2

    return averaged(terms, math.sqrt(2 - q))


def averaged(terms: Callable[[float], tuple[float, float]], deviation: float) -> tuple[float, float]:
    """Averages over a normal number."""
    first, second = (
        quad(lambda x, k=k: phi(x) * terms(deviation * x)[k], -9, 9, epsabs=1e-14, epsrel=1e-13, limit=200)[0]
        for k in range(2)
    )
    return first, second


def onset(averages: Callable[[float], tuple[float, float]]) -> tuple[float, float]:
    """Alpha at which the growth passes one where alpha = q/((1 - q) G(q)), and that q."""

    def excess(q: float) -> float:
        g, growth = averages(q)
        return math.log(q / ((1 - q) * g) * growth)

    q = brentq(excess, 0.05, 0.95, xtol=1e-14)
    return q / ((1 - q) * averages(q)[0]), q


def of_band(q: float) -> float:
    """Alpha at which the overlap of the band is q, by the probability that h is in it."""

    def terms(omega: float) -> tuple[float, float]:
        s = math.sqrt(1 - q)
        a, b = (-EDGE - omega) / s, (EDGE - omega) / s
        inside = float(ndtr(b) - ndtr(a))
        return ((phi(a) - phi(b)) / s) ** 2 / (inside * (1 - inside)), 0.0

    return q / ((1 - q) * averaged(terms, math.sqrt(q))[0])


@pytest.mark.parametrize(("text", "averages"), [(SIGNS, signs), (LARGEST, largest)])
def test_a_direction_comes_in_where_the_fixed_point_becomes_unstable(text: str, averages) -> None:
    stairs = al.staircase(al.Link(text))
    first, second = stairs.steps
    alpha, q = onset(averages)
    assert stairs.converged and stairs.given == "self-consistent" and stairs.directions == ((1, 1), (1, -1))
    assert first.value == "0" and first.subspace == "h_1 + h_2"
    assert second.subspace == "h_1 - h_2 given h_1 + h_2" and second.transition == "continuous"
    assert abs(float(second.value) - alpha) <= second.error < 1e-8
    np.testing.assert_allclose(second.overlap, np.full((2, 2), q / 2), atol=1e-9)
    np.testing.assert_allclose(second.eigenvector, [[0.5, -0.5], [-0.5, 0.5]], atol=1e-9)


def test_the_specialisation_of_two_signs_is_the_published_one_to_its_digits() -> None:
    assert round(onset(signs)[0], 5) == 2.05238
    perfect = al.staircase(al.Link(SIGNS), given="perfect").steps[1]
    assert abs(float(perfect.value) - 1.4308336605) <= perfect.error + 1e-10 and perfect.overlap is None


def test_curves_are_continuous_across_an_onset_that_they_name() -> None:
    alpha, _ = onset(signs)
    grid = [1.9, 2.0, alpha - 1e-6, alpha + 1e-6, 2.06, 2.1, 2.2]
    curve = al.curve(al.Link(SIGNS), grid)
    points = curve.points["uninformed"]
    (found,) = curve.onsets
    assert curve.converged and "h_1 - h_2 comes in at alpha = 2.05238" in curve.status
    assert found.direction == found.name == "h_1 - h_2" and abs(found.value - alpha) <= found.error < 1e-9
    assert np.abs(points[3].overlap - points[2].overlap).max() < 1e-6
    for point in points:
        assert (np.ptp(point.overlap) > 1e-8) == (point.parameter > alpha)
        state = al.evolve(al.Link(SIGNS), point.parameter)
        assert np.abs(point.overlap - state.overlap).max() <= (point.overlap_error + state.overlap_error).max() + 1e-9
    # It rises from zero as the step of the staircase says.
    rise = float(np.trace(points[4].overlap @ [[0.5, -0.5], [-0.5, 0.5]])) / (2.06 - alpha)
    said = al.staircase(al.Link(SIGNS)).steps[1].status
    assert rise == pytest.approx(float(said.split("by ")[-1].split()[0]), rel=1e-2)


class Polynomial(ChannelBase):
    """Averages G = q (1 + c q - d q^2) of one index: alpha = 1/((1 - q) (1 + c q - d q^2))."""

    model, layers, sampled = SimpleNamespace(indices=1), (0,), False

    def __init__(self, c: float, d: float) -> None:
        self._c, self._d = c, d

    def __call__(self, q: Array) -> Averages:
        g = q * (1 + self._c * q - self._d * q * q)
        return Averages.unbiased(np.array([g, g]), np.full((2, 1), np.nan), "estimated")

    def derivative(self, q: Array) -> Array:
        return np.full((1, 1, 1, 1), float(1 + 2 * self._c * q[0, 0] - 3 * self._d * q[0, 0] ** 2))


def test_first_order_steps_are_told_from_continuous_ones() -> None:
    def at(c: float, d: float) -> Onset:
        return opening(Polynomial(c, d), Estimate(1.0, 1e-12, "estimated"), np.zeros((1, 1)), np.eye(1))

    rises = at(0.5, 0.0)
    assert rises.transition == "continuous" and rises.rise == pytest.approx(2.0, rel=1e-2) and rises.spinodal is None
    assert at(1.0, 0.0).transition == "undecided"
    jumps = at(2.0, 2.5)
    fold = minimize_scalar(
        lambda q: 1 / ((1 - q) * (1 + 2 * q - 2.5 * q * q)),
        bounds=(0.01, 0.6),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert jumps.transition == "discontinuous" and jumps.spinodal is not None
    assert abs(jumps.spinodal.value - fold.fun) <= jumps.spinodal.error < 1e-3
    # Without a turn below recovery none is given.
    without = at(3.0, -50.0)
    assert without.transition == "discontinuous" and (without.spinodal is None) == ("not served" in without.why)


@pytest.mark.slow
def test_the_product_of_three_jumps() -> None:
    link = al.Link("h[1]*h[2]*h[3]")
    (step,) = al.staircase(link).steps
    assert step.transition == "discontinuous" and step.spinodal.value + step.spinodal.error < float(step.value)
    below, above = (al.evolve(link, factor * float(step.value)) for factor in (0.999, 1.001))
    assert not below.overlap.any() and above.overlap.diagonal().min() > 0.05


def test_branches_of_one_index_are_explicit() -> None:
    channel = _channel(al.Link(BAND).kernel, None)
    branch = Branch.beside(channel, np.zeros((1, 1)), np.eye(1))
    point = branch.at(0.4, np.array([0.4]), math.log(of_band(0.35)))
    assert abs(math.exp(point.t) / of_band(0.4) - 1) <= point.error + 1e-10
    slope = (math.log(of_band(0.401)) - math.log(of_band(0.399))) / 0.002
    assert point.slope == pytest.approx(slope, rel=1e-4)
    assert branch.at(0.99999999, np.array([0.9]), 0.0) is None


def test_weak_recovery_alone_is_one_step() -> None:
    (step,) = al.staircase(al.Link("h[1]**2+h[2]**2")).steps
    assert step.exact == "1" and step.transition == "continuous" and step.subspace == "indices 1, 2"


def test_what_is_recovered_counts_as_known() -> None:
    first, second = al.staircase(al.Link("h[1]**2 + sign(h[1]*h[2]*h[3])")).steps
    assert first.transition == "continuous" and second.given == (1,)
    assert (second.exact, second.how) == ("pi**2/4", "rigorous") and "counts as perfectly known" in second.status


def test_steps_lie_above_those_with_perfect_knowledge() -> None:
    link = al.Link("h[1]*h[2]**2")
    own, perfect = (al.staircase(link, given=given).steps[1] for given in ("self-consistent", "perfect"))
    assert own.subspace == perfect.subspace == "index 2 given index 1"
    assert float(own.value) - own.error > float(perfect.value) + perfect.error


def test_steps_beside_one_index_are_roots_of_an_explicit_function() -> None:
    link = al.Link("h[1]**2*(1 + h[2]**2)")
    step, channel = al.staircase(link).steps[1], _channel(link.kernel, None)

    def at(q: float) -> tuple[float, float]:
        averages, operator = channel.operator(np.diag([q, 0.0]))
        alpha = q / ((1 - q) * averages.g.mean(axis=0)[0, 0])
        return alpha, math.log(alpha * operator.mean(axis=0)[1, 1, 1, 1])

    q = brentq(lambda q: at(q)[1], 0.5, 0.99, xtol=1e-6)
    # Known as a point of the curve: next to recovery the growth is not seen beside cruder errors.
    assert abs(float(step.value) - at(q)[0]) <= step.error < 1e-3 * float(step.value)
    assert step.overlap[0, 0] == pytest.approx(q, abs=1e-4)


def test_what_is_never_learned_is_infinite() -> None:
    stairs = al.staircase(al.Link("h[1]+h[2]"))
    assert stairs.converged and [step.exact for step in stairs.steps] == ["0", "oo"]


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("argmax(h[1], h[2], h[3])", "self-consistent", "are sampled: ask for them with what is learned perfectly"),
        (SIGNS, "half", 'given must be "self-consistent" or "perfect"'),
    ],
)
def test_refusals_say_what_to_do(text: str, given, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        al.staircase(al.Link(text), given=given)


def test_given_belongs_to_the_staircase() -> None:
    asked = argparse.Namespace(link="abs(h)", noise="0", digits=None, staircase=False, given="perfect")
    with pytest.raises(ValueError, match="--given belongs to --staircase"):
        link_cli.threshold(asked)


def test_directions_are_named_by_indices_or_vectors() -> None:
    known = Known.nothing(3).joined(np.ones((3, 3)) / 3, 1e-6)
    assert known is not None and known.rank == 1 and known.vectors[0] == (1, 1, 1) and known.given == (1,)
    rest = np.eye(3) - known.projector
    assert known.named(rest) == "2*h_1 - h_2 - h_3, h_2 - h_3 given h_1 + h_2 + h_3"
    whole = known.joined(rest, 1e-6)
    assert whole is not None and whole.given == (1, 2, 3) and not whole.vectors
    odd = np.array([1.0, 13 / 7, 0.0]) / np.linalg.norm([1.0, 13 / 7, 0.0])
    assert named(np.outer(odd, odd)) == "0.474*h_1 + 0.88*h_2"
    assert Known.nothing(3).joined(np.outer(odd, odd), 1e-6) is None
