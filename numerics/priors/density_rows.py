"""Averages over the channel y = qhat^{1/2} w + z of one entry whose law has a density, and of two that are coupled.

One entry: panels over y, on which its density is smooth: images of those of w, cut around what its kinks become, which
the noise has made smooth on the scale one.

Two entries: a trapezoidal rule over y along the axes of qhat, of the moments of pairs.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from .pairs import SPLINE_ERROR, Pairs, couplings, paired
from .panels import legendre
from .rows import Rounding, Summary, beyond_linear
from .tilted import Entry, Moments

__all__ = ["DensityRows"]

Array = NDArray[np.float64]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_EPS = float(np.finfo(float).eps)
# Nodes of panels in w and in y, and those of the coarser rule, whose difference is the error.
_FINE, _COARSE = 16, 11
# Deviations of the noise beyond which there is nothing, and cuts around kinks and ends.
_REACH, _CUTS = 9.0, (1.5, 3.0, 5.0, 7.0, 9.0)
# Edges of y closer than this are one.
_CLOSE = 0.75
# Share of the law of an entry whose y are left out.
_SHARE = 1e-22
# Below this qhat, and for |y| below this, averages keep the digits of what they differ from nothing by.
_WEAK, _NEAR = 1.0, 8.0
# Step of y for pairs, and the share of the law of an entry that is left out.
_OUTPUT_STEP, _LEFT_OUT = 0.5, 1e-14
# Moments of pairs at most.
_MOST_PAIRS = 1 << 27


class DensityRows:
    """Rows of one entry, or of two.

    Parameters
    ----------
    entry : Entry
    size : int
        1 or 2.
    """

    def __init__(self, entry: Entry, size: int) -> None:
        self._entry, self._size = entry, size

    def summary(self, qhat: Array, wider: float = 1.0) -> Summary:
        """Averages at qhat; by a coarser rule where `wider` is not one."""
        if self._size == 1:
            return self._one(float(qhat[0, 0]), _FINE if wider == 1.0 else _COARSE)
        return self._two(qhat, wider)

    def rounding(self, qhat: Array) -> Rounding:
        """What averages of one entry are off by: what a coarser rule differs by, and rounding of sums of one sign."""
        fine, coarse = self.summary(qhat), self.summary(qhat, 2.0)
        small = 64 * _EPS

        def off(a: float, b: float) -> float:
            return abs(a - b) + small * abs(a)

        information = off(fine.information, coarse.information) + small * (1 + abs(math.log(max(qhat[0, 0], _EPS))))
        return Rounding(
            off(fine.psi, coarse.psi) + (information if qhat[0, 0] >= _WEAK else 0.0),
            np.abs(fine.overlap - coarse.overlap) + small * fine.overlap,
            np.abs(fine.mmse - coarse.mmse) + small * fine.mmse,
            information,
        )

    def slopes(self, qhat: Array) -> Array:
        """E[C_ia C_bj] at qhat, C = Cov(w | y), shape (P, P, P, P)."""
        if self._size == 1:
            return np.full((1, 1, 1, 1), self.summary(qhat).square)
        law, (_, _, covariance) = self._pairs_over_y(qhat, 1.0)
        return np.asarray(np.einsum("n,nia,nbj->iabj", law, covariance, covariance, optimize=True))

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """Mean, shape (P, n), and mean covariance of w under exp(b.w - w^T A w/2) times its law, for n fields b."""
        if self._size == 1:
            found = self._entry.moments(float(precision[0, 0]), field[0])
            return found.mean[None], np.array([[found.variance.mean()]])
        pairs = paired(self._entry, self._reach(), precision, field.T)
        return pairs.mean.T, np.asarray(pairs.covariance.mean(axis=0))

    def _one(self, qhat: float, order: int) -> Summary:
        """Of one entry: see `rows.Mixture.summary`; F and 1 - F are sums of one sign, each keeps its digits."""
        if qhat == 0:
            return Summary(0.0, np.zeros((1, 1)), np.ones((1, 1)), 1.0, 0.0)
        root = math.sqrt(qhat)
        y, step = self._outputs(root, order)
        found = self._moments(qhat, root, y, order)
        law = step * np.exp(found.completed - _LOG_ROOT)
        overlap, mmse = law @ found.mean**2, law @ found.variance
        if qhat < _WEAK:
            psi = float(law @ beyond_linear(-found.log_mass))
            information = 0.5 * qhat - psi
        else:
            information = -float(law @ found.completed) - 0.5
            psi = 0.5 * qhat - information
        square = float(law @ found.variance**2)
        return Summary(psi, np.array([[overlap]]), np.array([[mmse]]), square, information)

    def _moments(self, qhat: float, root: float, y: Array, order: int) -> Moments:
        """At each y, b = qhat^{1/2} y; near zero with the digits of what is small."""
        weak = (np.abs(y) < _NEAR) if qhat < _WEAK else np.zeros(len(y), bool)
        parts = Moments(*np.empty((4, len(y))))
        for chosen, moments in ((weak, self._entry.near_zero), (~weak, self._entry.moments)):
            if chosen.any():
                for out, values in zip(parts, moments(qhat, root * y[chosen], order), strict=True):
                    out[chosen] = values
        return parts

    def _outputs(self, root: float, order: int) -> tuple[Array, Array]:
        """Nodes of y and their weights."""
        panels = self._entry.panels
        cuts = np.array(_CUTS)
        low, high = self._entry.quantiles(_SHARE)
        around = np.concatenate([panels.kinks, [low, high, 0.0]])
        around = around[(around >= low) & (around <= high)]
        near = (root * around[:, None] + np.concatenate([-cuts, [0.0], cuts])).ravel()
        inside = panels.edges[(panels.edges >= low) & (panels.edges <= high)]
        every = np.unique(np.concatenate([root * inside, near]))
        if self._entry.even:
            every = np.append(0.0, every[every > 0])
        kept = [float(every[0])]
        for edge in every[1:]:
            if edge - kept[-1] >= _CLOSE:
                kept.append(float(edge))
        ends = np.array(kept)
        x, weights = legendre(order)
        half = 0.5 * np.diff(ends)
        y = ((ends[:-1] + half)[:, None] + half[:, None] * x).ravel()
        return y, (half[:, None] * weights).ravel() * (2.0 if self._entry.even else 1.0)

    def _two(self, qhat: Array, wider: float) -> Summary:
        law, pairs = self._pairs_over_y(qhat, wider)
        psi = float(law @ beyond_linear(-pairs.log_mass))
        overlap = np.einsum("n,ni,nj->ij", law, pairs.mean, pairs.mean)
        mmse = np.einsum("n,nij->ij", law, pairs.covariance)
        square = float(law @ (pairs.covariance**2).sum(axis=(1, 2)))
        # What splines leave is no part of the difference of two steps of y.
        moved = 0.0 if wider == 1.0 else SPLINE_ERROR
        return Summary(psi + moved, overlap + moved, mmse + moved, square, 0.5 * float(np.trace(qhat)) - psi)

    def _reach(self) -> float:
        """Size of an entry beyond which there is nothing."""
        return max(map(abs, self._entry.quantiles(_LEFT_OUT)))

    def _pairs_over_y(self, qhat: Array, wider: float) -> tuple[Array, Pairs]:
        """Masses of y, along the axes of qhat, and the posterior of a row there."""
        values, axes = np.linalg.eigh(qhat)
        roots, reach = np.sqrt(np.maximum(values, 0.0)), self._reach()
        step = _OUTPUT_STEP * wider
        ends = np.ceil((roots * reach * np.abs(axes).sum(axis=0) + _REACH) / step)
        grids = [step * np.arange(-end, end + 1) for end in ends]
        count = couplings(float(qhat[0, 1]), reach) * math.prod(map(len, grids))
        if count > _MOST_PAIRS:
            raise ConvergenceError(
                f"two coupled entries of this density at qhat of up to {values[-1]:.3g} take {count:.1e} moments (10); "
                "take a smaller alpha, a diagonal overlap, or the Gaussian prior"
            )
        y = np.stack([one.ravel() for one in np.meshgrid(*grids, indexing="ij")], axis=1)
        pairs = paired(self._entry, reach, qhat, (y * roots) @ axes.T)
        return step * step * np.exp(pairs.log_mass - 0.5 * (y**2).sum(axis=1) - 2 * _LOG_ROOT), pairs
