"""Prediction errors of links by quadrature: of outputs that are sums of functions of one combination of h each."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import ROUNDING, SAFETY
from ..model.link_terms import Term, terms_of
from ..model.links import LinkKernel, Loaded
from ..quadrature.conditional import Fineness, Marks, Piecewise, given, normal_rule, product_mean, resolved
from .finer_rules import by_finer_rules
from .predicted import Predicted, seen

__all__ = ["LinkErrors"]

Array = NDArray[np.float64]

# Panels, coarse to fine.
_RULES = (Fineness(2.0, 10, 10.0), Fineness(1.4, 13, 10.5), Fineness(0.9, 17, 11.0))
# Differences of the last two, over the variance of the output, from which on samples are as good.
_UNRESOLVED = 1e-6
# Where functions are compared, and the difference, but for a constant, of those that are equal.
_PLACES, _EQUAL = np.linspace(-4.9, 5.3, 103), 1e-13


class LinkErrors:
    """Errors of the posterior mean and of the plug-in prediction as functions of the overlap.

    Parameters
    ----------
    kernel : LinkKernel

    Notes
    -----
    For an output sum_k f_k(u_k), u_k = a_k . h, omega ~ N(0, q) and h given omega ~ N(omega, I - q),

        posterior mean: sum_k E Var(f_k | omega) - sum_{k != l} Cov(f_k(u_k), f_l(u_l')),
        plug-in: sum_kl E (f_k(h) - f_k(omega)) (f_l(h) - f_l(omega)),

    with u_k, u_l' of covariance a_k^T q a_l, as are u_k and a_l . omega; a_k . a_l = 0 for k != l. Terms k = l are
    averages of what is positive. With label noise they are of predicting the label that is seen.
    """

    def __init__(self, kernel: LinkKernel) -> None:
        self._kernel = kernel
        found = _sums(Loaded.of(kernel))
        self._outputs = [one for one in found if one is not None]
        #: Whether all outputs are such sums.
        self.served = len(self._outputs) == len(found)
        #: Whether no function has a jump or a kink.
        self.smooth = self.served and not any(len(f.cuts) for one in self._outputs for f in one.functions)

    def __call__(self, q: Array, wanted: float = 0.0) -> Predicted | None:
        """Both errors; None where the quadrature does not converge.

        Parameters
        ----------
        q : ndarray, shape (P, P)
        wanted : float, optional
            Relative error at which no finer panels are taken.
        """
        found = [_refined(one, self._overlap(one, q), wanted) for one in self._outputs]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        total, off, coarse = (np.sum(column, axis=0) for column in zip(*known, strict=True))
        return Predicted(total, off, coarse).seen(self._kernel.label_noise)

    def values(self, q: Array) -> Array:
        """Both errors by the coarsest panels: for their change with the overlap."""
        with np.errstate(all="ignore"):
            total = np.sum([_errors(one, self._overlap(one, q), _RULES[0]) for one in self._outputs], axis=0)
        return seen(total, self._kernel.label_noise)

    def _overlap(self, one: "_Sum", q: Array) -> Array:
        return np.asarray(one.weights @ np.kron(np.eye(self._kernel.tokens), q) @ one.weights.T)


class _Sum(NamedTuple):
    """An output: functions of one variable, and the unit vectors of the combinations of h that they are of.

    `left` is what the sum lacks to the output less the centre of the labels; NaN without label noise.
    """

    functions: tuple[Piecewise, ...]
    weights: Array
    left: float

    @classmethod
    def of(cls, terms: Sequence[Term], centre: float) -> "_Sum":
        with np.errstate(all="ignore"):
            functions = _once([resolved(term.value, term.cuts) for term in terms])
            # Any point at which no term jumps.
            h = np.linspace(0.3, 0.7, terms[0].kernel.size)
            own = sum(float(f.value(np.array(h @ t.weights))) for f, t in zip(functions, terms, strict=True))
            value = float(terms[0].kernel.link(h.reshape(terms[0].kernel.tokens, -1).T)[terms[0].output])
        return cls(functions, np.array([term.weights for term in terms]), value - own - centre)


@lru_cache(maxsize=32)
def _sums(loaded: Loaded) -> tuple[_Sum | None, ...]:
    """Outputs that are such sums, found once in a process; None for the others."""
    kernel = loaded.kernel
    found = [terms_of(kernel, output) for output in range(len(kernel.text))]
    centre = np.full(len(found), np.nan) if kernel.label_noise is None else kernel.label_noise.centre
    return tuple(None if terms is None else _Sum.of(terms, c) for terms, c in zip(found, centre, strict=True))


def _once(functions: Sequence[Piecewise]) -> tuple[Piecewise, ...]:
    """The functions, with one in the place of all that are equal up to a constant."""
    found: list[Piecewise] = []
    for f in functions:
        values = f.value(_PLACES)
        off = [g.value(_PLACES) - values for g in found]
        size = _EQUAL * max(1.0, float(np.abs(values).max()))
        alike = (g for g, o in zip(found, off, strict=True) if np.abs(o - o[0]).max() <= size and _same_ends(f, g))
        found.append(next(alike, f))
    return tuple(found)


def _same_ends(f: Piecewise, g: Piecewise) -> bool:
    return f.cuts.shape == g.cuts.shape and bool((np.abs(f.cuts - g.cuts) <= _EQUAL).all())


def _refined(one: _Sum, overlap: Array, wanted: float) -> Predicted | None:
    """Errors of one output at overlaps of its variables, by finer panels until two of them agree."""

    def by(rule: Fineness) -> tuple[Array, float]:
        size = sum(float(given(f, np.zeros(1), 1.0, rule)[1][0]) for f in one.functions)
        return _errors(one, overlap, rule), size

    refined = by_finer_rules(by, _RULES, _UNRESOLVED, wanted)
    if refined is None:
        return None
    off = SAFETY * refined.gap + len(one.functions) ** 2 * ROUNDING * refined.size
    return Predicted(refined.value, off, refined.coarse)


def _errors(one: _Sum, overlap: Array, rule: Fineness) -> Array:
    """Both errors of one output by these panels; with label noise also its squares at omega and at h."""
    total = np.zeros(2)
    # Equal functions of equal overlaps add the same.
    known: dict[tuple[int | float, ...], Array] = {}
    for (k, f), (other, g) in combinations_with_replacement(enumerate(one.functions), 2):
        both = float(overlap[k, k]), float(overlap[other, other]), float(overlap[k, other])
        key = id(f), id(g), k == other, *both
        if key not in known:
            own = k == other
            known[key] = _own(f, float(np.clip(both[0], 0.0, 1.0)), rule) if own else 2 * _joint(f, g, both, rule)
        total += known[key]
    if math.isnan(one.left):
        return total
    return np.append(total, [_square(one, overlap, rule), _square(one, np.eye(len(overlap)), rule)])


def _square(one: _Sum, overlap: Array, rule: Fineness) -> float:
    """E of the square of an output less the centre of its labels, of Gaussian variables with these overlaps."""
    total = one.left**2
    for k, f in enumerate(one.functions):
        mean, variance = (float(x[0]) for x in given(f, np.zeros(1), math.sqrt(overlap[k, k]), rule))
        total += variance + mean**2 + 2 * one.left * mean
        for other, g in list(enumerate(one.functions))[:k]:
            both = overlap[k, k], overlap[other, other], overlap[k, other]
            total += 2 * product_mean(f, g, both, rule)
    return total


def _own(f: Piecewise, q: float, rule: Fineness) -> Array:
    """E Var(f | omega), and E (f(h) - f(omega))^2."""
    sd = math.sqrt(1 - q)
    scale = math.sqrt(max(q, 1e-300))
    xi, w = normal_rule(rule, (Marks(f.edges / scale, 0.0), Marks(f.cuts / scale, sd / scale)))
    omega = math.sqrt(q) * xi
    mean, variance = given(f, omega, sd, rule)
    return np.array([w @ variance, w @ (variance + (mean - f.value(omega)) ** 2)]) / w.sum()


def _joint(f: Piecewise, g: Piecewise, overlap: tuple[float, float, float], rule: Fineness) -> Array:
    """What two different terms add in one order of both, shape (2,)."""
    s, t, c = overlap
    apart, together = product_mean(f, g, (1.0, 1.0, 0.0), rule), product_mean(f, g, (1.0, 1.0, c), rule)
    # f(h) g(omega), f(omega) g(h) and f(omega) g(omega).
    crossed = product_mean(f, g, (1.0, t, c), rule)
    crossed += crossed if f is g and s == t else product_mean(g, f, (1.0, s, c), rule)
    return np.array([apart - together, apart - crossed + product_mean(f, g, (s, t, c), rule)])
