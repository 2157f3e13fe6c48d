"""Averages where little is left of h: their limits in closed form, and averages of known functions of what is left."""

import math

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.link.narrow import MULTIPLES, Ladder, Resolved, tangents

from .fibre_truths import check, group_of, radial


def _limits(text: str, ratios):
    kernel = al.Link(text).kernel
    (part,) = kernel.parts
    return tangents(part.regions[0], tuple(sorted(part.entries)), np.array(ratios))


def test_the_limit_of_a_linear_link_is_its_slope():
    ratios = [[2.0, 0.5], [0.5, 1.0]]
    score, change = _limits("h[1] - 2*h[2]", ratios)
    values, vectors = np.linalg.eigh(ratios)
    n = (vectors * np.sqrt(values)) @ vectors.T @ [1.0, -2.0]
    n /= np.linalg.norm(n)
    check(score, np.outer(n, n), 1e-8)
    check(change, np.multiply.outer(np.outer(n, n), np.outer(n, n)), 1e-8)


@pytest.mark.parametrize(
    ("text", "size", "fourth", "crossed"),
    [
        ("h[1]*h[2]", 2, 3 / 8, 1 / 8),  # of a uniform direction
        ("h[1]**2 + h[2]**2", 2, 3 / 8, 1 / 8),
        ("h[1]**2 + h[2]**2 + h[3]**2", 3, 1 / 5, 1 / 15),
        # n = (s, c) with a Cauchy ratio: E c^2 = 1/(1 + 2), by the angle.
        ("h[1]**2 + 2*h[2]**2", 2, None, None),
    ],
)
def test_the_limit_of_a_product_and_of_radii(text, size, fourth, crossed):
    score, change = _limits(text, np.eye(size))
    assert abs(np.trace(score.value) - 1) < 1e-12
    if fourth is None:
        check(score, np.diag([1 / 3, 2 / 3]), 1e-7)
        return
    check(score, np.eye(size) / size, 1e-6)
    assert abs(change.value[0, 0, 0, 0] - fourth) <= change.error[0, 0, 0, 0] < 1e-6
    assert abs(change.value[0, 1, 1, 0] - crossed) <= change.error[0, 1, 1, 0] < 1e-6


@pytest.mark.parametrize("term", [lambda v: v * np.log(v), np.asarray, lambda v: v * v * np.log(v)])
def test_a_ladder_is_exact_for_what_smooth_links_have(term):
    left = 1e-4 * np.diag([1.0, 2.0])
    ladder = Ladder.of(left, 5e-3)
    assert ladder.in_ratio and np.allclose([np.linalg.eigvalsh(rung)[0] for rung in ladder.rungs], ladder.values)
    limit, zero = np.diag([1.0, 2.0]), np.zeros((2, 2))
    inverse = np.diag(left.diagonal() ** -0.5)
    pairs = []
    for v, rung in zip(ladder.values, ladder.rungs, strict=True):
        own = np.diag(rung.diagonal() ** -0.5)
        pairs.append((own @ (limit + 7 * term(v)) @ own,) * 2)
    found = ladder.average(pairs, Resolved(limit, zero))
    assert np.allclose(found.value, inverse @ (limit + 7 * term(1e-4)) @ inverse, rtol=1e-9)


def test_a_direction_that_is_not_narrow_has_no_limit_of_its_own():
    assert not Ladder.of(np.diag([1e-4, 0.5]), 5e-3).in_ratio
    assert Ladder.of(np.diag([1e-4, 2e-4]), 5e-3).rungs[-1][1, 1] == pytest.approx(2 * MULTIPLES[-1] * 5e-3)


@pytest.mark.parametrize("v", [4e-3, 1e-3, 1e-5])
def test_radii_where_little_is_left(v):
    found = group_of("h[1]**2 + h[2]**2")((1 - v) * np.eye(2), False).score
    check(found, radial(2, v) * np.eye(2), 6e-5)


@pytest.mark.parametrize("v", [3e-3, 5e-4, 1e-5])
def test_a_product_where_little_is_left(v):
    """V E|g|^2 = 1 + V (log(1/V)/8 + c) + ..: at alpha = 1 perfect recovery of h[1,1]*h[1,2] hangs on its sign."""
    found = group_of("h[1]*h[2]")((1 - v) * np.eye(2), False).score
    from_closer, off = v * np.trace(found.value) - 1, v * np.trace(found.error)
    c = -0.5757
    assert abs(from_closer - v * (math.log(1 / v) / 8 + c)) <= off + v**2 * math.log(1 / v)
    assert off < 5e-5
