"""Entropy of the labels of more than two tokens: the integral of F/x, x = (1 + c)^{-1/2}, a smooth function of x."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import Rule, gauss_legendre_panels
from . import hardmax

__all__ = ["label_entropy", "two_tokens"]


def _rule(end: float) -> Rule:
    nodes = 24
    return gauss_legendre_panels(np.array([0.0, end]), nodes)


@lru_cache
def two_tokens() -> tuple[Array, Array, Array]:
    """Nodes and weights in x on [0, 1], and F of two tokens there."""
    rule = _rule(1.0)
    values = np.array([hardmax.information_between(float(x) ** -2 - 1).value for x in rule.nodes])
    return rule.nodes, rule.weights, values


def label_entropy(c: float, information: Callable[[float], Estimate]) -> Estimate:
    """Entropy of the labels given omega ~ N(0, c (1 + delta)) at V = 1: int_c^inf F(c')/(2 (1 + c')) dc'.

    Parameters
    ----------
    c : float
        q/V, >= 0.
    information : callable
        F(c).

    References
    ----------
    boncoraglio2025, (45): dPsi_out/dq = F/(2 V).
    """
    rule = _rule(1 / math.sqrt(1 + c))
    found = [information(float(x) ** -2 - 1) for x in rule.nodes]
    weights = rule.weights / rule.nodes
    value = float(weights @ np.array([f.value for f in found]))
    return Estimate(value, float(weights @ np.array([f.error for f in found])), found[0].how)
