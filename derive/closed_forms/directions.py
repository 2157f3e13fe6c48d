"""Thresholds of links of the ratios of indices, or of which one is the largest, at one token."""

import sympy as sp

from .coordinates import ANGLE, CIRCLE, HALF, RADIUS, V, both_signs, column, gauss
from .level_sets import Branch, Output, Threshold, integrate, threshold_of_link


def _line_of(direction: sp.Matrix) -> tuple[Branch, ...]:
    return both_signs(RADIUS * direction, ((RADIUS, *HALF),))


def ratio() -> Threshold:
    """Derive the threshold of h_1/h_2."""
    direction = column(sp.cos(ANGLE), sp.sin(ANGLE))
    return threshold_of_link([Output(_line_of(direction), ((ANGLE, sp.S.Zero, sp.pi),))])


def absolute_ratio() -> Threshold:
    """Derive the threshold of |h_1/h_2|."""
    cos, sin = sp.cos(ANGLE), sp.sin(ANGLE)
    branches = (*_line_of(column(cos, sin)), *_line_of(column(cos, -sin)))
    return threshold_of_link([Output(branches, ((ANGLE, sp.S.Zero, sp.pi / 2),))])


def direction_three() -> Threshold:
    """Derive the threshold of h_1 : h_2 : h_3."""
    polar, turn = sp.Symbol("p", positive=True), ANGLE
    direction = column(sp.sin(polar) * sp.cos(turn), sp.sin(polar) * sp.sin(turn), sp.cos(polar))
    # Half of the sphere: a line has one direction there.
    known = ((turn, *CIRCLE), (polar, sp.S.Zero, sp.pi / 2))
    return threshold_of_link([Output(_line_of(direction), known)])


def square_with_sign() -> Threshold:
    """Derive the threshold of h_1^2 sign(h_1 h_2)."""
    outputs = [Output(both_signs(column(RADIUS, sign * V), ((V, *HALF),)), ((RADIUS, *HALF),)) for sign in (1, -1)]
    return threshold_of_link(outputs)


def _largest(count: int) -> Threshold:
    # Given which index is the largest in absolute value, E[h h^T|y] - I is diagonal by the reflections: g for that
    # index and, as the mean over y vanishes, -g/(K - 1) for the others, so the top eigenvalue is g^2/(K - 1).
    # With T the largest of the others, E[h_1^2 - 1; |h_1| > T] = 2 E[T phi(T)], from (x phi(x))' = (1 - x^2) phi(x).
    density = RADIUS * sp.exp(-(RADIUS**2) / 2) / sp.sqrt(2 * sp.pi) * sp.erf(RADIUS / sp.sqrt(2)) ** (count - 2)
    density *= 2 * (count - 1) * gauss(RADIUS)
    g = count * 2 * integrate(density, ((RADIUS, *HALF),))
    return Threshold(sp.radsimp((count - 1) / g**2), sp.eye(count) / sp.sqrt(count))


def largest_of_two() -> Threshold:
    """Derive the threshold of argmax(|h_1|, |h_2|)."""
    quarter = sp.pi / 4
    polar = column(RADIUS * sp.cos(ANGLE), RADIUS * sp.sin(ANGLE))
    sectors = [(-quarter, quarter), (quarter, 3 * quarter)]
    return threshold_of_link([Output(both_signs(polar, ((RADIUS, *HALF), (ANGLE, *sector)))) for sector in sectors])


def largest_of_three() -> Threshold:
    """Derive the threshold of argmax(|h_1|, |h_2|, |h_3|)."""
    return _largest(3)
