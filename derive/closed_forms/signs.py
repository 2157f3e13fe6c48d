"""Thresholds of links that depend on the signs of h_1, h_2, h_3 alone, at one token."""

from collections.abc import Callable, Sequence

import sympy as sp

from .coordinates import HALF, U, V, W, column
from .level_sets import Branch, Output, Threshold, threshold_of_link

_FLIP = sp.Symbol("epsilon", positive=True)


def _orthant(signs: Sequence[int], weight: sp.Expr = sp.S.One) -> Branch:
    coordinates = (U, V, W)[: len(signs)]
    h = column(*[sign * x for sign, x in zip(signs, coordinates, strict=True)])
    return Branch(h, tuple((x, *HALF) for x in coordinates), weight)


def _by_sign_pattern(count: int, label: Callable[[tuple[int, ...]], int]) -> list[Output]:
    """Return the outputs of a link that depends on the signs of h_1 .. h_count alone."""
    groups: dict[int, list[Branch]] = {}
    for code in range(2**count):
        signs = tuple(1 - 2 * (code >> k & 1) for k in range(count))
        groups.setdefault(label(signs), []).append(_orthant(signs))
    return [Output(tuple(branches)) for branches in groups.values()]


def sign() -> Threshold:
    """Derive the threshold of sign(h_1): any number of samples suffices."""
    return threshold_of_link(_by_sign_pattern(1, lambda s: s[0]))


def sign_product() -> Threshold:
    """Derive the threshold of sign(h_1 h_2)."""
    return threshold_of_link(_by_sign_pattern(2, lambda s: s[0] * s[1]))


def sign_triple() -> Threshold:
    """Derive the threshold of sign(h_1 h_2 h_3): it carries no quadratic information."""
    return threshold_of_link(_by_sign_pattern(3, lambda s: s[0] * s[1] * s[2]))


def committee_two() -> Threshold:
    """Derive the threshold of sign(h_1) + sign(h_2)."""
    return threshold_of_link(_by_sign_pattern(2, sum))


def committee_three() -> Threshold:
    """Derive the threshold of sign(h_1) + sign(h_2) + sign(h_3)."""
    return threshold_of_link(_by_sign_pattern(3, sum))


def all_equal() -> Threshold:
    """Derive the threshold of whether three signs are equal."""
    return threshold_of_link(_by_sign_pattern(3, lambda s: int(len(set(s)) == 1)))


def noisy_sign_product() -> Threshold:
    """Derive the threshold of sign(h_1 h_2), flipped with probability epsilon."""
    kept = [(1, 1), (-1, -1)], [(1, -1), (-1, 1)]
    outputs = [
        Output(tuple(_orthant(s, 1 - _FLIP if s in same else _FLIP) for s in (*kept[0], *kept[1]))) for same in kept
    ]
    return threshold_of_link(outputs, {_FLIP: sp.Rational(1, 10)})
