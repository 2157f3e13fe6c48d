"""Step 2: rows on which the heads attend alike, found by regression on the simplex."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.quantiles import chi_squared_quantile
from ...core.shown import few_lines
from ...learning.blocks import Array
from .simplex import Patterns, simplex_regression

__all__ = ["INTERIOR", "Certification", "Round", "certify", "differences", "distinct", "interior", "noise_level"]

Mask = NDArray[np.bool_]

#: Network weights above this are inside the simplex.
INTERIOR = 0.02
_ROUNDS, _FIRST, _LAST = 30, 0.30, 0.02


@few_lines
@dataclass(frozen=True)
class Round:
    """One round of trimming.

    Attributes
    ----------
    quantile : float
    kept : int
        Rows that the sum was fitted on.
    spread : float
        Least eigenvalue of the second moment of the patterns alpha^T X of these rows.
    residual : float
        Root mean square of rho over them.
    """

    quantile: float
    kept: int
    spread: float
    residual: float


@few_lines
@dataclass(frozen=True)
class Certification:
    """An estimate of S = sum_i W_i and the best common pattern of every row under it.

    Attributes
    ----------
    s : ndarray, shape (d, d)
    patterns : Patterns
        Of all examples given.
    rounds : tuple of Round
    status : str
        Whether trimming ran to its end or was stopped by its guard, and why.
    """

    s: Array
    patterns: Patterns
    rounds: tuple[Round, ...]
    status: str


def distinct(x: Array) -> Mask:
    """Samples whose tokens are all different, shape (n,); equal tokens leave the pattern open."""
    equal = x @ x.swapaxes(1, 2) == x.shape[2]
    return np.asarray(equal.sum(axis=(1, 2)) == x.shape[1])


def interior(patterns: Patterns) -> Mask:
    """Rows whose attention weights are all above `INTERIOR`, shape (n, k)."""
    return np.asarray(patterns.alpha.min(axis=2) > INTERIOR)


def differences(patterns: Patterns) -> int:
    """Independent logit differences: of every row, one less than its attention weights above `INTERIOR`."""
    return int(np.maximum(np.sum(patterns.alpha > INTERIOR, axis=2) - 1, 0).sum())


def certify(x: Array, y: Array, s: Array, heads: int) -> Certification:
    """Refit S on the rows that one pattern explains best, fewer from round to round (paper's idea, our loop).

    A row with output y is certified if |y - alpha^T X S| is small for some alpha in the simplex: where heads attend
    alike, y = alpha^T X S exactly. The quantile that is kept falls geometrically, for rows inside the simplex and on
    its boundary by themselves, which saturated heads would otherwise leave to one kind. Of +-1 tokens few inputs are
    different up to the order and the common sign of the tokens, so that many rows have one and the same residual: rows
    that tie with the quantile are all kept, for which of them is the smallest is a matter of rounding.

    Parameters
    ----------
    x, y : ndarray, shape (n, k, d)
        Tokens of every sample distinct.
    s : ndarray, shape (d, d)
        First estimate of S.
    heads : int
        One head attends like itself everywhere: no trimming then.

    References
    ----------
    chen2024, certification.
    """
    n, k, d = x.shape
    # Rows used in the rounds; the last regression takes all.
    rows = 60_000
    # A fixed stride rather than a draw: samples come in no order.
    stride = max(1, math.ceil(n * k / rows))
    part, outputs = x[::stride], y[::stride]
    last = _FIRST if heads == 1 else min(_FIRST, max(_LAST, 6 * d / (len(part) * k)))
    rounds: list[Round] = []
    status = f"{_ROUNDS} rounds"
    face = None
    # Of the size of an output row: rounding of rho. A pattern solves normal equations whose pivots are 1e-12 of the
    # largest at least, so that alpha^T X S is off by a few eps / sqrt(1e-12) = 2e-10 of its size.
    tied = 1e-9
    margin = tied * math.sqrt(d * float(np.mean(y**2)))
    for quantile in np.geomspace(_FIRST, last, _ROUNDS):
        found = simplex_regression(part, outputs, s, face)
        face = found.face
        kept = _smallest(found.rho, interior(found), float(quantile), margin)
        mixed = (found.alpha @ part)[kept]
        moment = mixed.T @ mixed / max(len(mixed), 1)
        spread = float(np.linalg.eigvalsh(moment)[0])
        rounds.append(Round(float(quantile), len(mixed), spread, float(np.sqrt(np.mean(found.rho[kept] ** 2)))))
        # Of the least eigenvalue of the kept patterns' second moment. Below, they have moved to rows of one kind.
        # With one head there is nothing to collapse to: every row is certified.
        if len(mixed) < 4 * d or (heads > 1 and spread < 0.12):
            status = f"stopped at round {len(rounds)}: {len(mixed)} rows of spread {spread:.2g} would be left"
            break
        s = np.asarray(np.linalg.solve(moment, mixed.T @ outputs[kept] / len(mixed)), np.float64)
    start = face if stride == 1 else None
    return Certification(s, simplex_regression(x, y, s, start), tuple(rounds), status)


def noise_level(patterns: Patterns, dim: int) -> float:
    """Upper estimate of the noise's standard deviation from the rows that one pattern explains best (heuristic).

    On rows where the heads attend alike, rho^2 is sigma^2 times a chi-squared variable with at least d - k + 1 degrees
    of freedom; other rows only have larger residuals. So the ratio of a low quantile of rho to that of the
    chi-squared law is above sigma, and the least ratio is the best bound.
    """
    levels = np.array([0.02, 0.05, 0.1, 0.2])
    freedom = max(1, dim - patterns.alpha.shape[2] + 1)
    return float(np.min(np.quantile(patterns.rho, levels) / np.sqrt(chi_squared_quantile(levels, freedom))))


def _smallest(rho: Array, inside: Mask, quantile: float, margin: float) -> Mask:
    kept = np.zeros(rho.shape, bool)
    for group in (inside, ~inside):
        if group.any():
            kept |= group & (rho <= np.quantile(rho[group], quantile) + margin)
    return kept
