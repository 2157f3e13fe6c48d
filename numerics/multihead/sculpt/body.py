"""Step 3, paper: the convex body that contains the attention matrices, as linear constraints."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.shown import few_lines
from ...learning.blocks import Array
from .certification import INTERIOR
from .simplex import Patterns

__all__ = ["Body", "inequalities", "slabs", "violation"]

Index = NDArray[np.intp]


@few_lines
@dataclass(frozen=True)
class Body:
    """Constraints |query^T Theta difference - bound| <= t slack, or >= bound - t slack where one-sided.

    Attributes
    ----------
    query, difference : ndarray, shape (p, d)
        x_r and x_a - x_c; their outer product is the row M of the body.
    bound : ndarray, shape (p,)
        log(alpha_a / alpha_c).
    slack : ndarray, shape (p,)
        By how much the bound may be missed, at t = 1; increasing.
    """

    query: Array
    difference: Array
    bound: Array
    slack: Array

    def __len__(self) -> int:
        return len(self.bound)

    @property
    def rows(self) -> Array:
        """The matrices M, flattened, shape (p, d^2)."""
        return np.einsum("pa,pb->pab", self.query, self.difference).reshape(len(self), self.query.shape[1] ** 2)

    def tightest(self, number: int) -> "Body":
        """The constraints of smallest slack."""
        return Body(self.query[:number], self.difference[:number], self.bound[:number], self.slack[:number])

    def values(self, theta: Array) -> Array:
        """query^T Theta difference of every constraint, for Theta of shape (..., d, d)."""
        return np.einsum("pa,...ab,pb->...p", self.query, theta, self.difference, optimize=True)


class _Seen(NamedTuple):
    """Tokens, the patterns of their rows under the sum s of the W_i, and the noise of the outputs."""

    x: Array
    patterns: Patterns
    s: Array
    noise_std: float


def slabs(x: Array, patterns: Patterns, s: Array, noise_std: float, most: int | None = None) -> Body:
    """Two-sided constraints from weights inside the simplex: log(alpha_a/alpha_c) = x_r^T Theta (x_a - x_c) (paper).

    A row need not lie inside with all its weights: two above 0.02 fix the difference of their logits, whatever the
    others are (not in the paper; with four tokens and more, few rows have all weights inside).

    slack = (rho + sigma sqrt(d) + 1e-7) / |(x_a - x_c)^T S| (1/alpha_a + 1/alpha_c): the deviation of a head's pattern
    from the common one is at most rho over the least singular value of the matrix with rows (x_j - x_l)^T W_i. The
    W_i are unknown, so that t stands for the ratio of |(x_a - x_c)^T S| to that singular value.

    Parameters
    ----------
    x : ndarray, shape (n, k, d)
    patterns : Patterns
    s : ndarray, shape (d, d)
    noise_std : float
    most : int, optional
        Constraints kept, those of smallest slack; 20 d^2 by default, and 12000 at most.
    """
    inside = patterns.alpha > INTERIOR
    seen = _Seen(x, patterns, s, noise_std)
    parts = []
    k = x.shape[1]
    # Two-sided constraints per entry of Theta, and at most: as a matrix they take 8 d^2 bytes each.
    per_unknown, most_slabs = 20, 12_000
    most = min(per_unknown * x.shape[2] ** 2, most_slabs) if most is None else most
    for a in range(k):
        for c in range(a):
            rows = np.nonzero(inside[:, :, a] & inside[:, :, c])
            parts.append(_constraints(seen, rows, (a, c), patterns.alpha[(*rows, c)], most))
    return _join(parts, most)


def inequalities(x: Array, patterns: Patterns, s: Array, noise_std: float, most: int = 1000) -> Body:
    """One-sided constraints from rows on the boundary: a token left out has a logit below the others (paper).

    Where alpha_c <= eps = 0.02 < alpha_a, x_r^T Theta (x_a - x_c) >= log(alpha_a/eps) - t slack, with the slack of a
    weight eps. Parameters and result as in `slabs`. They make the box of the net smaller by a tenth to a third at the
    levels where it holds all heads, and by a factor of up to three at higher ones.
    """
    seen = _Seen(x, patterns, s, noise_std)
    parts = []
    k = x.shape[1]
    for a in range(k):
        for c in range(k):
            rows = np.nonzero((patterns.alpha[:, :, c] <= INTERIOR) & (patterns.alpha[:, :, a] > INTERIOR))
            if a != c and len(rows[0]):
                parts.append(_constraints(seen, rows, (a, c), np.full(len(rows[0]), INTERIOR), most))
    d = x.shape[2]
    return _join(parts, most) if parts else Body(np.empty((0, d)), np.empty((0, d)), np.empty(0), np.empty(0))


def violation(slab: Body, theta: Array) -> Array:
    """Least t for which every Theta_i, of shape (m, d, d), lies in the body of two-sided constraints, shape (m,)."""
    return np.asarray(np.max(np.abs(slab.values(theta) - slab.bound) / slab.slack, axis=-1))


def _constraints(seen: _Seen, rows: tuple[Index, ...], tokens: tuple[int, int], low: Array, most: int) -> Body:
    """Of the rows (n, r) and the tokens a and c, whose weight stands in `low`."""
    (n, r), (a, c), x = rows, tokens, seen.x
    high = seen.patterns.alpha[n, r, a]
    difference = x[n, a] - x[n, c]
    # Added to the residual: rounding of the outputs, and of log ratios of small weights.
    floor = 1e-7
    off = seen.patterns.rho[n, r] + seen.noise_std * np.sqrt(x.shape[2]) + floor
    slack = off / np.linalg.norm(difference @ seen.s, axis=1) * (1 / high + 1 / low)
    order = np.argsort(slack, kind="stable")[:most]
    return Body(x[n[order], r[order]], difference[order], np.log(high[order] / low[order]), slack[order])


def _join(parts: list[Body], most: int) -> Body:
    slack = np.concatenate([p.slack for p in parts])
    order = np.argsort(slack, kind="stable")[:most]
    return Body(
        np.concatenate([p.query for p in parts])[order],
        np.concatenate([p.difference for p in parts])[order],
        np.concatenate([p.bound for p in parts])[order],
        slack[order],
    )
