"""A row of weights that is a mixture of Gaussians, seen through y = qhat^{1/2} w + z: free entropy and posterior.

Given the component k, w ~ N(m_k, C_k) and y ~ N(qhat^{1/2} m_k, I + qhat^{1/2} C_k qhat^{1/2}); points are components
of no variance. With N_k the density of y, psi = E log sum_k p_k N_k(y)/N(y; 0, I).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import matrix_root
from .precision import positive

__all__ = ["Mixture", "Rounding", "Summary", "beyond_linear"]

Array = NDArray[np.float64]

# Standard deviations that a component reaches, and steps of the rule in one, two and three dimensions. Of one entry,
# down to where exp(-x^2/2) is nothing: what a rare wide component leaves of a narrow one peaks far out in its tail.
_REACH = {1: 38.0, 2: 9.0, 3: 9.0}
_STEPS = {1: 0.01, 2: 0.11, 3: 0.22}
# Scores of the likeliest component between which the ratio of densities is one plus something that keeps its digits.
_LEAST_SCORE, _MOST_SCORE = -1.0, 50.0
# Terms of the Taylor series of exp(x) - 1 - x where |x| is smaller than this: 2^-18/18! is below rounding.
_SMALL, _TERMS = 0.5, 17
# Roundings, of 2^-53 each, by which the terms of a score may be off: 14 of the square of y, 7 of its factor and one of
# their product; and those of an average relative to its terms: 26 of the sum, in pairs, of up to 2^14 products, 12 of
# the masses and 20 of the square of a mean. Of the exponential in a mass, its argument x^2/2 adds two for each unit.
_OF_SCORE, _OF_AVERAGE = 22, 58
_UNIT = 2.0**-53
# Least weight of a component that is divided by.
_TINY = 1e-300


@dataclass(frozen=True)
class Summary:
    """Averages of the row channel.

    Attributes
    ----------
    psi : float
    overlap : ndarray, shape (P, P)
        F(qhat) = E <w><w>^T.
    mmse : ndarray, shape (P, P)
        E Cov(w | y) = I - F(qhat); both keep their digits.
    square : float
        E |Cov(w | y)|_F^2.
    information : float
        Of w and y: Tr qhat/2 - psi, from sums that keep its digits where qhat is large, see `Mixture.summary`.
    """

    psi: float
    overlap: Array
    mmse: Array
    square: float
    information: float


class Rounding(NamedTuple):
    """What rounding may change averages of the row channel by, at most to first order."""

    psi: float
    overlap: Array
    mmse: Array
    information: float


class _Component(NamedTuple):
    """What y is under one component of the law of w, and what it says of w then."""

    share: float
    mean: Array
    centre: Array  # of y
    spread: Array  # covariance of y
    log_det: float  # of the spread, half
    shrink: Array  # (spread - 1) spread^{-1}
    constant: float  # of the score
    gain: Array  # E[w | y] = mean + gain (y - centre)
    covariance: Array  # of w given y

    @classmethod
    def of(cls, share: float, mean: Array, variance: Array, root: Array) -> "_Component":
        """At the square root of qhat."""
        excess = (root * variance) @ root
        spread = np.eye(len(root)) + excess
        inverse, centre, deviation = np.linalg.inv(spread), root @ mean, np.sqrt(variance)
        log_det = 0.5 * float(np.log1p(np.linalg.eigvalsh(excess)).sum())
        posterior = np.linalg.inv(np.eye(len(root)) + deviation[:, None] * (root @ root) * deviation)
        return cls(
            share,
            mean,
            centre,
            spread,
            log_det,
            excess @ inverse,
            0.5 * float(centre @ inverse @ centre) + log_det,
            variance[:, None] * (root @ inverse),
            deviation[:, None] * posterior * deviation,
        )

    def size(self, y: Array) -> Array:
        """Sum of the sizes of the terms of the score at each y."""
        linear, square = np.abs(y * self.centre).sum(axis=1), np.abs(0.5 * (y @ self.shrink) * y).sum(axis=1)
        return linear + square + np.abs(y * (self.shrink @ self.centre)).sum(axis=1) + abs(self.constant)


class _Posterior(NamedTuple):
    """What y says of w, for n values of y."""

    log_ratio: Array  # log of the density of y over that of N(0, I)
    mean: Array
    covariance: Array
    weight: Array  # of each component, shape (K, n)
    log_weight: Array
    moved: Array  # its mean less the mean of all, shape (K, n, P)


@dataclass(frozen=True)
class Mixture:
    """Law of a row of mean zero: weights, means (K, P) and variances (K, P) of components with independent entries."""

    weights: Array
    means: Array
    variances: Array

    @classmethod
    def of_entries(cls, weights: list[float], means: list[float], variances: list[float], size: int) -> "Mixture":
        """Law of `size` independent entries, each the same mixture."""
        choices = list(product(range(len(weights)), repeat=size))
        pick = [np.array([[values[k] for k in choice] for choice in choices]) for values in (weights, means, variances)]
        return cls(pick[0].prod(axis=1), pick[1], pick[2])

    def summary(self, qhat: Array, wider: float = 1.0) -> Summary:
        """Averages at qhat, by a trapezoidal rule around every component; its steps may be wider by a factor.

        E N(y; 0, I)/p(y) = 1, so that psi = E[log r + 1/r - 1] with r = p(y)/N(y; 0, I): a sum of positive terms, which
        keeps its digits where qhat is small, as E <w><w>^T does and I - E Cov(w | y) does not. Where the components are
        far apart, the mean of 1/r is that over rare y between them, and nothing is small.

        Where qhat is large, Tr qhat/2 - psi is small beside both. It is the information of w and y: that on the
        component, H(k) - H(k | y), and that on w within it, log det(I + qhat^{1/2} C_k qhat^{1/2})/2.
        """
        size = len(qhat)
        components = self._components(qhat)
        psi, overlap, mmse, square = 0.0, np.zeros((size, size)), np.zeros((size, size)), 0.0
        information = sum(one.share * (one.log_det - math.log(one.share)) for one in components)
        for k, (_, y, mass) in enumerate(_nodes(components, wider)):
            found = _posterior(y, components)
            information += float(_summed(mass, found.log_weight[k]))
            psi += float(_summed(mass, _of_psi(found, components)))
            overlap += _summed(mass, found.mean[:, :, None] * found.mean[:, None])
            mmse += _summed(mass, found.covariance)
            square += float(_summed(mass, (found.covariance**2).sum(axis=(1, 2))))
        return Summary(psi, overlap, mmse, square, information)

    def slopes(self, qhat: Array) -> Array:
        """E[C_ia C_bj] at qhat, C = Cov(w | y), shape (P, P, P, P): dF_ij along a change dqhat_ab."""
        components = self._components(qhat)
        found = np.zeros((len(qhat),) * 4)
        for _, y, mass in _nodes(components):
            covariance = _posterior(y, components).covariance
            found += np.einsum("n,nia,nbj->iabj", mass, covariance, covariance, optimize=True)
        return found

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Mean and covariance of w under exp(b.w - w^T A w/2) times its law, for each of n fields b.

        Parameters
        ----------
        precision : ndarray, shape (P, P)
            A.
        field : ndarray, shape (P, n)

        Returns
        -------
        mean : ndarray, shape (P, n)
        covariance : ndarray, shape (P, P)
            Its mean over the fields.
        """
        means, spreads, scores = [], [], []
        for share, mean, variance in zip(self.weights, self.means, self.variances, strict=True):
            deviation = np.sqrt(variance)
            inner = positive(np.eye(len(mean)) + deviation[:, None] * precision * deviation)
            spread = deviation[:, None] * np.linalg.inv(inner) * deviation
            pull = field - (precision @ mean)[:, None]
            moved = spread @ pull
            constant = math.log(share) - 0.5 * float(mean @ precision @ mean) - 0.5 * float(np.linalg.slogdet(inner)[1])
            scores.append(constant + mean @ field + 0.5 * (pull * moved).sum(axis=0))
            means.append(mean[:, None] + moved)
            spreads.append(spread)
        weight = np.exp(np.array(scores) - np.max(scores, axis=0))
        weight /= weight.sum(axis=0)
        at = np.array(means)
        middle = np.einsum("kn,kpn->pn", weight, at)
        apart = at - middle
        within = np.einsum("kn,kpq->pq", weight, np.array(spreads))
        between = np.einsum("kn,kpn,kqn->pq", weight, apart, apart, optimize=True)
        return middle, (within + between) / field.shape[1]

    def rounding(self, qhat: Array) -> Rounding:
        """What rounding may change the averages at qhat by.

        A score whose terms are off moves the weights w_k of the components: d<w> = sum_k w_k (<w>_k - <w>) ds_k, the
        covariance alike, d log r = sum_k w_k ds_k and d log w_k = ds_k - d log r. Averages are off by the mean of
        these, and by their own sums.
        """
        size = len(qhat)
        components = self._components(qhat)
        psi, overlap, mmse = 0.0, np.zeros((size, size)), np.zeros((size, size))
        # Terms of components: a logarithm of what 9 roundings made, or of a share, a product and a sum of all.
        terms = [one.share * (1 + abs(one.log_det) - math.log(one.share)) for one in components]
        information = _UNIT * (10 + len(terms)) * sum(terms)
        for k, (x, y, mass) in enumerate(_nodes(components)):
            found = _posterior(y, components)
            wrong = _OF_SCORE * _UNIT * found.weight * np.array([one.size(y) for one in components])
            each = _UNIT * (_OF_AVERAGE + (x * x).sum(axis=1))
            mean = np.abs(found.mean)
            moved = np.einsum("kn,knp->np", wrong, np.abs(found.moved))
            both = mean[:, :, None] * moved[:, None]
            overlap += _summed(mass, both + both.transpose(0, 2, 1))
            overlap += _summed(mass * each, mean[:, :, None] * mean[:, None])
            inner = np.array([one.covariance for one in components])[:, None]
            inner = inner + found.moved[:, :, :, None] * found.moved[:, :, None]
            mmse += _summed(mass, np.einsum("kn,knpq->npq", wrong, np.abs(inner - found.covariance)))
            mmse += _summed(mass * each, np.abs(found.covariance))
            others = (1 - found.weight[k]) * wrong[k] / np.maximum(found.weight[k], _TINY)
            others = others + wrong.sum(axis=0) - wrong[k] + 4 * _UNIT * (1 - math.log(components[k].share))
            information += float(_summed(mass, others + each * np.abs(found.log_weight[k])))
            slope = np.abs(np.expm1(-found.log_ratio)) if _close(components) else np.ones(len(y))
            psi += float(_summed(mass, slope * wrong.sum(axis=0) + each * np.abs(_of_psi(found, components))))
        return Rounding(psi, overlap, mmse, information)

    def _components(self, qhat: Array) -> list[_Component]:
        root = matrix_root(qhat)
        return [
            _Component.of(share, mean, variance, root)
            for share, mean, variance in zip(self.weights, self.means, self.variances, strict=True)
        ]


def _nodes(components: list[_Component], wider: float = 1.0) -> Iterator[tuple[Array, Array, Array]]:
    """Standard normal nodes around each component, their y, and masses that sum to one over all components."""
    for one in components:
        x, mass = _rule(len(one.mean), math.sqrt(float(np.linalg.eigvalsh(one.spread)[-1])), wider)
        yield x, one.centre + x @ matrix_root(one.spread), one.share * mass


def _close(components: list[_Component]) -> bool:
    return all(np.linalg.norm(one.centre) <= 1 for one in components)


def _of_psi(found: _Posterior, components: list[_Component]) -> Array:
    """What psi is the mean of."""
    return beyond_linear(-found.log_ratio) if _close(components) else found.log_ratio


def _summed(mass: Array, values: Array) -> Array:
    """Sum over nodes, in pairs: a sum one after another, as a product of matrices may be, rounds once for each term."""
    found: Array = np.multiply(values.T, mass, order="C").sum(axis=-1).T
    return found


def _posterior(y: Array, components: list[_Component]) -> _Posterior:
    """Posterior of w at each y.

    exp(s_k) is the density of y under component k over that of N(0, I). The components have mean zero together, so that
    r - 1 = sum_k p_k (exp(s_k) - 1 - c_k.y), and <w> = sum_k p_k ((exp(s_k) - 1) m_k + exp(s_k) gain_k (y - c_k))/r.
    """
    share = np.array([one.share for one in components])[:, None]
    linear, beyond, conditional = [], [], []
    for one in components:
        linear.append(y @ one.centre)
        beyond.append(0.5 * ((y @ one.shrink) * y).sum(axis=1) - y @ (one.shrink @ one.centre) - one.constant)
        conditional.append((y - one.centre) @ one.gain.T)
    score = np.array(linear) + np.array(beyond)
    top = score.max(axis=0)
    weight = share * np.exp(score - top)
    total = weight.sum(axis=0)
    near = (top > _LEAST_SCORE) & (top < _MOST_SCORE)
    bounded = np.where(near, score, 0.0)
    less_one = np.where(near, (share * (beyond_linear(bounded) + np.array(beyond))).sum(axis=0), 0.0)
    log_ratio = np.where(near, np.log1p(less_one), top + np.log(total))
    log_weight = (score - top) + (np.log(share) - np.log(total))
    weight /= total
    pull = np.where(near, share * np.expm1(bounded) / (1 + less_one), weight)
    means = np.array([one.mean for one in components])
    at = means[:, None] + np.array(conditional)
    middle = np.einsum("kn,kp->np", pull, means) + np.einsum("kn,knp->np", weight, np.array(conditional))
    moved = at - middle
    within = np.einsum("kn,kpq->npq", weight, np.array([one.covariance for one in components]))
    covariance = within + np.einsum("kn,knp,knq->npq", weight, moved, moved)
    return _Posterior(log_ratio, middle, covariance, weight, log_weight, moved)


def beyond_linear(x: Array) -> Array:
    """exp(x) - 1 - x, to rounding."""
    found = np.asarray(np.expm1(x) - x)
    small = np.abs(x) < _SMALL
    near = x[small]
    series = np.zeros_like(near)
    for k in range(_TERMS, 1, -1):
        series = near / k * (1 + series) if k > 2 else 0.5 * near * near * (1 + series)
    found[small] = series
    return found


@lru_cache(maxsize=4)
def _rule(size: int, widest: float, wider: float) -> tuple[Array, Array]:
    """Nodes x = a sinh(t) of a standard normal vector: close at zero, where a wide component meets a narrow one."""
    scale = min(1.0, 2.0 / widest)
    step = wider * _STEPS[size]
    t = step * np.arange(
        -math.ceil(math.asinh(_REACH[size] / scale) / step), math.ceil(math.asinh(_REACH[size] / scale) / step) + 1
    )
    x = scale * np.sinh(t)
    mass = scale * np.cosh(t) * step * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    nodes = np.stack([grid.ravel() for grid in np.meshgrid(*[x] * size, indexing="ij")], axis=1)
    weights = mass
    for _ in range(size - 1):
        weights = np.multiply.outer(weights, mass).ravel()
    keep = weights > (0.0 if size == 1 else 1e-18 * float(weights.max()))
    return nodes[keep], weights[keep]
