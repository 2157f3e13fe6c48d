"""Averages E g g^T over fibres: against closed forms and plain integrals, with errors that are true everywhere."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

import attnlimits as al
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.channel.link.entries import turns

from .fibre_truths import check, group_of, radial

Array = np.ndarray


OVERLAPS = {
    "nothing": np.zeros((2, 2)),
    "one": np.diag([0.3, 0.0]),
    "unequal": np.diag([0.7, 0.2]),
    "together": np.array([[0.5, -0.3], [-0.3, 0.4]]),
    "nearly all": np.diag([0.985, 0.97]),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_linear_link_has_its_closed_form(overlap, noise):
    q, a = OVERLAPS[overlap], np.array([1.0, -2.0])
    found = group_of("h[1] - 2*h[2]", noise)(q, True)
    exact = np.outer(a, a) / (noise + a @ (np.eye(2) - q) @ a)
    check(found.score, exact, 1e-6)
    check(found.change, np.multiply.outer(exact, exact).swapaxes(1, 2), 1e-6)


@pytest.mark.parametrize("v", [0.9, 0.5, 0.1])
def test_two_entries_by_their_radius_are_bessel_functions(v):
    check(group_of("h[1]**2 + h[2]**2")((1 - v) * np.eye(2), False).score, radial(2, v) * np.eye(2), 1e-5)


@pytest.mark.parametrize("v", [0.7, 0.3])
def test_three_entries_by_their_radius(v):
    check(group_of("h[1]**2 + h[2]**2 + h[3]**2")((1 - v) * np.eye(3), False).score, radial(3, v) * np.eye(3), 1e-4)


@pytest.mark.parametrize("q", [(0.2, 0.5), (0.9, 0.6)])
def test_a_count_of_signs_is_a_sum_over_quadrants(q):
    x, w = np.polynomial.hermite_e.hermegauss(160)
    w = w / w.sum()
    grid = np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")])
    weight = np.outer(w, w).ravel()
    root = np.sqrt(1 - np.array(q))
    z = np.sqrt(q)[:, None] * grid / root[:, None]
    plus, slope = ndtr(z), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / root[:, None]
    minus = ndtr(-z)
    exact = np.zeros((2, 2))
    for zero, first in (
        (plus[0] * plus[1], (slope[0] * plus[1], plus[0] * slope[1])),
        (minus[0] * minus[1], (-slope[0] * minus[1], -minus[0] * slope[1])),
        (
            plus[0] * minus[1] + minus[0] * plus[1],
            (slope[0] * (minus[1] - plus[1]), slope[1] * (minus[0] - plus[0])),
        ),
    ):
        exact += np.array([[weight @ (a * b / np.maximum(zero, 1e-300)) for a in first] for b in first])
    found = group_of("sign(h[1]) + sign(h[2])")(np.diag(q), False).score
    assert found.value == pytest.approx(exact, abs=1e-6)
    assert found.error.max() < 1e-6


@pytest.mark.parametrize(
    "text", ["h[1]*h[2]", "erf(h[1])*h[2]", "Max(h[1], 0) + Max(h[2], 0)", "tanh(h[1]) + tanh(h[2])", "h[1] + h[2]**2"]
)
@pytest.mark.parametrize("q", [0.02, 0.4, 0.9])
def test_errors_cover_what_finer_resolutions_change(text, q, monkeypatch):
    found = group_of(text)(q * np.eye(2), False).score
    monkeypatch.setattr("attnlimits.numerics.channel.link.fibres._TOLERANCE", {2: 1e-4})
    rough = group_of(text)(q * np.eye(2), False).score
    assert rough.error.max() >= found.error.max()
    assert (np.abs(rough.value - found.value) <= rough.error + found.error).all()


def density_of_noise(g: Callable[[Array, Array], Array], noise: float) -> float:
    """-E log p(y) of y = g(h) + noise, with nothing known, by a plain sum over h and y."""
    h = np.arange(-8, 8.01, 0.05)
    weight = np.exp(-0.5 * h * h)
    weight /= weight.sum()
    mass, values = np.outer(weight, weight).ravel(), g(h[:, None], h[None]).ravel()
    # Outputs of equal bins: the step is small beside the noise.
    step = 0.004 * math.sqrt(noise)
    bins = np.round(values / step).astype(int)
    counts = np.bincount(bins - bins.min(), mass)
    half = round(8 * math.sqrt(noise) / step)
    kernel = np.exp(-0.5 * (step * np.arange(-half, half + 1)) ** 2 / noise) / math.sqrt(2 * math.pi * noise)
    density = np.convolve(counts, kernel)
    return -step * float(density @ np.log(np.maximum(density, 1e-300)))


def test_the_entropy_of_noisy_outputs():
    found = group_of("tanh(h[1]) + tanh(h[2])", 0.1).log_density(np.zeros((2, 2)))
    exact = density_of_noise(lambda a, b: np.tanh(a) + np.tanh(b), 0.1)
    assert -found[1] == pytest.approx(exact, abs=1e-5)
    assert abs(found[1] - found[0]) < 1e-6


def test_slopes_are_those_of_the_averages():
    group = group_of("h[1]*h[2]")
    q, step = np.diag([0.3, 0.5]), 1e-3
    change = np.diag([step, 0.0])
    difference = (group(q + change, False).score.value - group(q - change, False).score.value) / (2 * step)
    slopes = group.slopes(q)
    assert slopes[:, 0, :, 0] == pytest.approx(difference, rel=5e-3, abs=1e-4)


@pytest.mark.parametrize("text", ["h[1]*h[2]", "tanh(h[1]) + tanh(h[2])", "sign(h[1]) + sign(h[2])", "Max(h[1], h[2])"])
@pytest.mark.parametrize("known", [0.05, 0.5, 0.997])
def test_averages_of_few_digits_state_what_they_are_off_by(text: str, known: float) -> None:
    channel = LinkChannel(al.Link(text).kernel, samples=16, replicas=2, rng=np.random.default_rng(0))
    q = known * np.eye(2)
    found = channel.coarse(q)
    assert found is not None
    averages, slopes = found
    fine = channel(q)
    mean, off = averages.g.mean(axis=0), 0.5 * np.ptp(averages.g, axis=0) + averages.bias
    assert (np.abs(mean - fine.g.mean(axis=0)) <= 1.01 * off + 0.5 * np.ptp(fine.g, axis=0) + fine.bias).all()
    # A few digits: of the averages, and of their change with the overlap.
    assert np.abs(off).max() <= 0.02 * np.abs(mean).max()
    step = 1e-4 * (1 - known) * np.diag([1.0, 0.0])
    change = (channel(q + step).g.mean(axis=0) - channel(q - step).g.mean(axis=0)) / (2 * step[0, 0])
    assert np.abs(slopes[:, :, 0, 0] - change).max() <= 0.05 * np.abs(change).max()


_ODD = ("h[1]*h[2]", "tanh(h[1]) + h[2]", "h[1] + h[2]*h[3]")


@pytest.mark.parametrize(
    ("text", "noise"), [*((text, noise) for text in _ODD for noise in (0.0, 0.3)), ("sign(h[1]) + sign(h[2])", 0.0)]
)
def test_outputs_of_one_sign_stand_for_those_of_the_other(text: str, noise: float, monkeypatch) -> None:
    group = group_of(text, noise)
    assert group._turns
    q = np.diag([0.3, 0.2, 0.4][: len(group.entries)])
    half = group(q, True)
    whole = group_of(text, noise)
    monkeypatch.setattr(whole, "_turns", ())
    found = whole(q, True)
    check(half.score, found.score.value, 1e-6)
    assert np.abs(half.score.value - found.score.value).max() <= 1e-9
    assert half.change is not None and found.change is not None
    assert np.abs(half.change.value - found.change.value).max() <= 1e-8
    assert group.log_density(q)[-1] == pytest.approx(whole.log_density(q)[-1], abs=1e-9)
    assert group.solved == whole.solved


def test_which_signs_change_the_sign_of_the_output() -> None:
    def found(text: str) -> set[tuple[int, ...]]:
        kernel = al.Link(text).kernel
        return set(turns(kernel, kernel.parts[0]))

    assert found("h[1]*h[2]") == {(1, -1), (-1, 1)}
    assert found("tanh(h[1]) + h[2]**3") == {(-1, -1)}
    assert found("h[1] + h[2]*h[3]") == {(-1, 1, -1), (-1, -1, 1)}
    assert found("h[1]**2 + h[2]") == set()
    assert found("Max(h[1], h[2])") == set()
