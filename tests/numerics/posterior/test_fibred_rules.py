"""Rules whose nodes are grouped by the output: densities and moments of outputs that are known in closed form."""

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import iv, kv, ndtr

import attnlimits as al
from attnlimits.numerics.core.errors import NotServedError
from attnlimits.numerics.model.links import LinkKernel
from attnlimits.numerics.posterior.link.fibred import Fibration, FibredRule, Plan, Steps, best_plan
from attnlimits.numerics.posterior.link.mixing import GaussianMixing


def kernel_of(text: str) -> LinkKernel:
    return al.Link(text).kernel


@lru_cache
def rule_of(text: str, step: float = 0.15, noise: float = 0.0) -> FibredRule:
    kernel = kernel_of(text)
    (part,) = kernel.parts
    return Fibration(kernel, part, best_plan(kernel, part)).rule(Steps(step, (step,) * len(part.entries), 0.4), noise)


class Fibre(NamedTuple):
    points: np.ndarray
    weight: np.ndarray
    output: float
    measure: float


def fibres_of(rule: FibredRule) -> list[Fibre]:
    points, weight, ends, measure, _, output = rule.nodes
    found = [slice(*pair) for pair in pairwise(ends)]
    return [
        Fibre(points[own], weight[own], float(y), float(m)) for own, y, m in zip(found, output, measure, strict=True)
    ]


def normal(y: float, variance: float = 1.0) -> float:
    return math.exp(-0.5 * y * y / variance) / math.sqrt(2 * math.pi * variance)


# Density of the output, and E[h_1^2 | y]; the largest relative error of the latter.
CLOSED = {
    "h[1] - 2*h[2]": (lambda y: normal(y, 5.0), lambda y: (y / 5) ** 2 + 4 / 5, 1e-8),
    "h[1]*h[2]": (
        lambda y: kv(0, abs(y)) / math.pi,
        lambda y: abs(y) * kv(1, abs(y)) / kv(0, abs(y)),
        1e-6,
    ),
    "h[1]**2 + h[2]**2": (lambda y: 0.5 * math.exp(-0.5 * y), lambda y: 0.5 * y, 1e-8),
    "h[1]**2 + h[2]**2 + h[3]**2": (
        lambda y: math.sqrt(y) * math.exp(-0.5 * y) / math.sqrt(2 * math.pi),
        lambda y: y / 3,
        1e-5,
    ),
    "Max(h[1], h[2])": (
        lambda y: 2 * normal(y) * ndtr(y),
        lambda y: 0.5 * y * y + 0.5 * (1 - y * normal(y) / ndtr(y)),
        1e-6,
    ),
    "h[1] + h[2]*h[3]": (None, None, 1e-5),
    "exp(h[1])*h[2]": (None, None, 1e-5),
    "tanh(h[1]) + tanh(h[2])": (None, None, 1e-6),
}


@pytest.mark.parametrize("text", CLOSED)
def test_moments_of_h_are_those_of_the_normal_law(text):
    assert rule_of(text, 0.2).defect < CLOSED[text][2]


@pytest.mark.parametrize("text", [text for text, (density, *_) in CLOSED.items() if density])
def test_fibres_have_the_density_and_the_moments_of_their_output(text):
    density, square, off = CLOSED[text]
    rule = rule_of(text, 0.2)
    # Where there is mass: outputs far out and close to a critical value have few nodes.
    likely = [fibre for fibre in fibres_of(rule) if fibre.weight.sum() > 1e-3]
    assert len(likely) > 8
    for fibre in likely:
        found = fibre.weight.sum() / fibre.measure
        assert found == pytest.approx(density(fibre.output), rel=off)
        assert fibre.weight @ fibre.points[:, 0] ** 2 / fibre.weight.sum() == pytest.approx(
            square(fibre.output), rel=10 * off
        )


def test_nodes_lie_on_the_fibre_of_their_output():
    rule = rule_of("h[1]**2 + h[2]**2")
    for fibre in fibres_of(rule):
        assert (fibre.points**2).sum(axis=1) == pytest.approx(np.full(len(fibre.points), fibre.output), rel=1e-9)


def test_cells_of_a_discrete_output_have_their_orthant_probabilities():
    rule = rule_of("sign(h[1] + h[2]) + sign(h[1])")
    mass = {fibre.output: fibre.weight.sum() for fibre in fibres_of(rule)}
    # The angle between the two normals is a quarter turn's half.
    both = 0.25 + math.asin(math.sqrt(0.5)) / (2 * math.pi)
    assert mass == pytest.approx({2.0: both, 0.0: 1 - 2 * both, -2.0: both}, abs=1e-10)


def test_finer_steps_have_smaller_defects():
    defects = [rule_of("h[1]*h[2]", step).defect for step in (0.4, 0.3, 0.2)]
    assert defects[0] > 10 * defects[1] > 100 * defects[2]


def test_charts_that_share_a_circle_have_its_ends():
    # One chart alone loses sqrt(1e-16) of the mass where its slope vanishes.
    kernel = kernel_of("h[1]**2 + h[2]**2")
    (part,) = kernel.parts
    alone, shared = (
        Fibration(kernel, part, plan).rule(Steps(0.15, (0.15, 0.15), 1.0)) for plan in (Plan((0, 1)), Plan(shared=True))
    )
    assert alone.defect > 1e-10
    assert shared.defect < 1e-13
    assert best_plan(kernel, part) == Plan(shared=True)


def test_noise_mixes_the_fibres_into_the_density_of_noisy_outputs():
    rule = rule_of("h[1]**2 + h[2]**2", 0.1, noise=0.25)
    mixing = rule.mixing
    assert isinstance(mixing, GaussianMixing)
    mass = rule.nodes.mass
    ((near, density, measure),) = mixing.blocks(len(mixing.output))
    found = density @ mass[near]
    r = np.linspace(0, 12, 40001)
    for k in range(0, len(mixing.output), 7):
        y = mixing.output[k]
        exact = np.trapezoid(r * np.exp(-0.5 * r * r) * np.exp(-2 * (y - r * r) ** 2) / math.sqrt(0.5 * math.pi), r)
        assert found[k] == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert measure @ found == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("text", ["h[1]*h[2]*h[3]*h[4]", "h[1] + tanh(h[1]) + h[2] + erf(h[2])"])
def test_what_no_rule_serves_is_refused_with_the_reason(text):
    kernel = kernel_of(text)
    with pytest.raises(NotServedError):
        Fibration(kernel, kernel.parts[0]).rule(Steps(0.3, (0.3,) * kernel.size, 1.0))


def test_bessel_functions_are_the_averages_over_a_circle():
    # The mean of exp(k h_1) over the circle h_1^2 + h_2^2 = y is I_0(k sqrt(y)).
    for fibre in fibres_of(rule_of("h[1]**2 + h[2]**2", 0.12)):
        if 0.01 < fibre.output < 20:
            mean = fibre.weight @ np.exp(0.7 * fibre.points[:, 1]) / fibre.weight.sum()
            assert mean == pytest.approx(iv(0, 0.7 * math.sqrt(fibre.output)), rel=1e-9)
