r"""F(c) of hardmax labels of three to five tokens: from both of its ends.

At V = 1, F(c) = E S(omega), omega ~ N(0, c (1 + delta)), with S = sum_y Z_y sum_{a<=b} (1 + delta_ab) g_ab^2 over all
labels y. Small c is a Taylor series: F(0) = S(0), and F'(0), F''(0) by differences of S and by a cubature that is exact
to the fourth degree. As c -> infinity only omega within a standard deviation of a tie counts, and there the label is
that of a probit: every two entries of a row contribute c^{1/2} F = I0/(2 pi)^{1/2} P[the others of the row are below |
the two are equal], I0 = int phi^2/(Phi (1 - Phi)). Over F of two tokens, known to 11 digits, that is a cubic in
x = 1/(1 + c)^{1/2}, which varies by some per cent from x = 0 to 1. A fifth coefficient follows from the entropy of all
labels, int F/(2 (1 + c)) dc. The error stated is the sum of the last two terms.
"""

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..learning.blocks import Array
from ..quadrature.rules import gauss_hermite
from . import hardmax
from .checks import CITE
from .entries import pairs, variances
from .hardmax_entropy import two_tokens
from .label_chains import label_chains

__all__ = ["MOST_TOKENS", "information", "labels", "possible", "summed", "ties"]

Labels = NDArray[np.int64]
#: Beyond, there are more labels than can be summed.
MOST_TOKENS = 5


@lru_cache
def labels(tokens: int) -> Labels:
    """Labels of positive probability, shape (n, T): the largest entry of each row, without circles beyond two rows."""
    every = np.array(list(itertools.product(range(tokens), repeat=tokens)))
    return np.asarray(every[possible(every)], np.int64)


def possible(given: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether labels, shape (n, T), have positive probability: no circle of more than two rows that name each other."""
    end = np.broadcast_to(np.arange(given.shape[1]), given.shape)
    for _ in range(given.shape[1]):
        end = np.take_along_axis(given, end, 1)
    twice = np.take_along_axis(given, np.take_along_axis(given, end, 1), 1)
    return np.asarray((twice == end).all(axis=1))


def _orbits(matrix: Array) -> tuple[Labels, Array]:
    """One label of each class under the permutations of tokens that leave omega as it is, and the sizes of classes."""
    tokens = len(matrix)
    every = labels(tokens)
    place = tokens ** np.arange(tokens)
    code = np.full(len(every), tokens**tokens)
    for order in itertools.permutations(range(tokens)):
        p = np.array(order)
        if np.array_equal(matrix[np.ix_(p, p)], matrix):
            # Row p(a) of the permuted label is p(f(a)).
            code = np.minimum(code, p[every] @ place[p])
    _, first, count = np.unique(code, return_index=True, return_counts=True)
    return every[first], count.astype(np.float64)


def summed(omega: Array, tokens: int) -> tuple[float, float]:
    """S(omega) at V = 1 for one omega, and the distance of the sum of all probabilities from one.

    Parameters
    ----------
    omega : ndarray, shape (T (T + 1)/2,)
    tokens : int
    """
    rows, columns = pairs(tokens)
    matrix = np.zeros((tokens, tokens))
    matrix[rows, columns] = matrix[columns, rows] = omega
    kinds, sizes = _orbits(matrix)
    means = np.broadcast_to(omega, (len(kinds), len(omega)))
    log_z, _, g = label_chains(kinds, means, np.broadcast_to(np.sqrt(variances(tokens)), means.shape))
    weights = sizes * np.exp(log_z)
    return float(weights @ (g * g @ variances(tokens))), float(abs(weights.sum() - 1))


def ties(tokens: int) -> float:
    """Limit of (2 pi c)^{1/2} F(c)/I0: over rows and pairs, the probability that the others are below, given the tie.

    The value where a diagonal entry and another are tied is N(0, 2/3), of two others N(0, 1/2).
    """
    rule = gauss_hermite(60)
    with_own = float(rule.weights @ ndtr(rule.nodes * math.sqrt(2 / 3)) ** (tokens - 2))
    total = (tokens - 1) * with_own
    if tokens > 2:
        at = rule.nodes * math.sqrt(0.5)
        without = float(rule.weights @ (ndtr(at) ** (tokens - 3) * ndtr(at / math.sqrt(2))))
        total += math.comb(tokens - 1, 2) * without
    return tokens * total


def _kinds(tokens: int) -> tuple[dict[bool, tuple[int, int]], list[tuple[int, int, int]]]:
    """Entries of h, and pairs of them, that permutations of tokens map on each other: one of each kind, and how many.

    Single entries are classified by whether they are on the diagonal.
    """
    rows, columns = pairs(tokens)
    single: dict[bool, tuple[int, int]] = {}
    double: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for i, j in itertools.product(range(len(rows)), repeat=2):
        sets = [{int(rows[k]), int(columns[k])} for k in (i, j)]
        if i == j:
            own = len(sets[0]) == 1
            single[own] = (i, single.get(own, (0, 0))[1] + 1)
        elif i < j:
            kind = (*sorted(map(len, sets)), len(set.union(*sets)))
            double[kind] = (i, j, double.get(kind, (0, 0, 0))[2] + 1)
    return single, list(double.values())


@lru_cache
def _start(tokens: int) -> tuple[float, float, float, float]:
    """F(0), F'(0), F''(0), and the distance of the sum of all probabilities from one."""
    variance = variances(tokens)
    single, double = _kinds(tokens)
    base, error = summed(np.zeros(len(variance)), tokens)

    def at(*places: tuple[int, float]) -> float:
        omega = np.zeros(len(variance))
        for i, z in places:
            omega[i] = z * math.sqrt(variance[i])
        return summed(omega, tokens)[0]

    def sides(i: int, z: float) -> float:
        return at((i, z)) + at((i, -z)) - 2 * base

    # Of differences in omega for F', and the values of c for F'': errors of S, 1e-10, over their squares, and h^4 and
    # c^2.
    step, near = 0.02, (0.04, 0.08)
    slope = sum(n * (16 * sides(i, step) - sides(i, 2 * step)) / (24 * step**2) for i, n in single.values())

    def average(c: float) -> float:
        """E S to the second order in c: what one variable does and what two do, by rules of nodes 0 and +-z."""
        z = math.sqrt(3 * c)
        alone = {own: sides(i, z) for own, (i, _) in single.items()}
        total = base + sum(n * alone[own] / 6 for own, (_, n) in single.items())
        for i, j, number in double:
            # Sum of S - S_i - S_j + S_0 over four corners, each of weight 1/36.
            corners = sum(at((i, s * z), (j, t * z)) for s in (1, -1) for t in (1, -1))
            edges = alone[bool(variance[i] > 1)] + alone[bool(variance[j] > 1)]
            total += number * (corners - 2 * edges - 4 * base) / 36
        return total

    first, second = (2 * (average(c) - base - slope * c) / c**2 for c in near)
    return base, slope, first + (first - second) * near[0] / (near[1] - near[0]), error


class _Ratio(NamedTuple):
    """F over that of two tokens: coefficients in 1, x, x^2, x (1 - x)^2 and x (1 - x)^3, and the error at x = 1."""

    end: float
    linear: float
    square: float
    cubic: float
    quartic: float
    error: float

    def terms(self, x: float) -> tuple[float, float, float]:
        """What is up to x^2, and the last two terms."""
        low = self.end + x * (self.linear + x * self.square)
        return low, self.cubic * x * (1 - x) ** 2, self.quartic * x * (1 - x) ** 3


@lru_cache
def _ratio(tokens: int) -> _Ratio:
    (base, slope, curve, error), (base2, slope2, curve2, _) = _start(tokens), _start(2)
    end = ties(tokens) / 2
    r = base / base2
    dr = slope / base2 - r * slope2 / base2
    ddr = (curve - 2 * dr * slope2 - r * curve2) / base2
    # c = x^-2 - 1: dc/dx = -2 and d^2c/dx^2 = 6 at x = 1.
    first, second = -2 * dr, 4 * ddr + 6 * dr
    square = first - (r - end)
    linear = (r - end) - square
    found = _Ratio(end, linear, square, 0.5 * second - square, 0.0, r * (error + 1e-11))
    # The integral of F/x over x is the entropy of all labels.
    nodes, weights, two = two_tokens()
    known = float((weights * two / nodes) @ np.array([sum(found.terms(float(x))) for x in nodes]))
    quartic = (_entropy(tokens) - known) / float((weights * two) @ (1 - nodes) ** 3)
    return _Ratio(*found[:4], quartic, found.error)


def _entropy(tokens: int) -> float:
    """Of all labels at omega = 0."""
    kinds, sizes = _orbits(np.zeros((tokens, tokens)))
    means = np.zeros((len(kinds), len(variances(tokens))))
    log_z = label_chains(kinds, means, np.broadcast_to(np.sqrt(variances(tokens)), means.shape))[0]
    return -float((sizes * np.exp(log_z)) @ log_z)


def information(c: float, tokens: int) -> Estimate:
    """F(c).

    Parameters
    ----------
    c : float
        q/V, >= 0.
    tokens : int
        3 to 5; the first call takes seconds (T = 5: a quarter of a minute).

    Raises
    ------
    ConvergenceError
        The probabilities of all labels do not sum to one.

    References
    ----------
    boncoraglio2025, hardmax channel.
    """
    if _start(tokens)[3] > 1e-8:
        raise ConvergenceError(
            f"probabilities of the labels of {tokens} tokens sum to one within {_start(tokens)[3]:.1e} only ({CITE}, "
            "hardmax channel)"
        )
    two = hardmax.information_between(c)
    series = _ratio(tokens)
    low, cubic, quartic = series.terms(1 / math.sqrt(1 + c))
    ratio = low + cubic + quartic
    error = abs(cubic) + abs(quartic) + series.error
    return Estimate(two.value * ratio, two.value * error + two.error * ratio, "estimated")
