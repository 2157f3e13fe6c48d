"""Weak-recovery thresholds of a user's own link: (15)-(16) at zero overlap."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.decimals import significant
from ...core.results import How, Origin
from ...model.link import MAX_DIGITS
from ...model.links import LinkKernel
from .leading import leading_direction, sampled_norm
from .operator import ZERO, Operator, correlation, operator
from .result import LinkThreshold

__all__ = ["LinkThreshold", "Maker", "threshold", "unresolved_noise"]

Array = NDArray[np.float64]


def threshold(kernel: LinkKernel, *, digits: int | None = None, given: Sequence[int] = ()) -> LinkThreshold:
    """Smallest alpha at which an index of the link can be learned from nothing.

    Parameters
    ----------
    kernel : LinkKernel
    digits : int, optional
        Significant digits to print, 1 to 13; by default as many as the error supports.
    given : sequence of int
        Indices, counted from 1, taken as perfectly known (a step of the grand staircase).

    Returns
    -------
    LinkThreshold
        `value` is "0" if E[h | y] does not vanish, and None if the operator does: "infinite at this order" where that
        is proved, and otherwise larger than `at_least`.

    Raises
    ------
    ValueError
        digits or given out of range, or more than three real outputs and known entries that belong together, for
        which neither a quadrature nor samples serve.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D. alpha_c is the inverse of the largest eigenvalue of the operator (15), whose
    eigenvector is PSD: the image of I under the projection on the top eigenspace.

    References
    ----------
    troiani2025, (15)-(18).
    """
    if digits is not None and (
        isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= MAX_DIGITS
    ):
        raise ValueError(f"digits must be an integer from 1 to {MAX_DIGITS} (float64 arithmetic), got {digits!r}")
    learned = tuple(sorted(set(given)))
    if any(not isinstance(i, int) or not 1 <= i <= kernel.indices for i in learned) or len(learned) >= kernel.indices:
        raise ValueError(f"given must name some, not all, of the indices 1 to {kernel.indices}, got {tuple(given)}")
    if reason := unresolved_noise(kernel):
        raise ValueError(f"{reason}; leave it out: the threshold without noise is its limit")
    known: tuple[str, float] | None = kernel.steps.get(learned)
    if not learned and kernel.exact is not None and kernel.exact_value is not None:
        known = (kernel.exact, kernel.exact_value)
    used = {entry % kernel.indices + 1 for part in kernel.parts for entry in part.entries}
    if used <= set(learned):
        known = ("oo", math.inf)
    exact = None if known is None else known[0]
    if known is not None and exact != "0":
        rest = tuple(i for i in range(kernel.indices) if i + 1 not in learned)
        size = len(rest)
        closed = Operator(rest, np.zeros((size,) * 2), np.zeros((size,) * 4), 0.0, 0.0, 0)
        make = Maker(kernel, closed, learned, known, digits)
        if exact == "oo":
            return make.infinite()
        return make.number(1 / known[1], 0.0, np.array(kernel.directions[learned])[np.ix_(rest, rest)])
    unsolved = exact == "0" and kernel.kind != "discrete"
    if not learned and (exact is None or unsolved) and (seen := correlation(kernel)) is not None:
        return Maker(kernel, seen, learned, known, digits).zero()
    found = operator(kernel, [i - 1 for i in learned])
    make = Maker(kernel, found, learned, known, digits)
    sampled = found.spread is not None
    linear = float(np.linalg.eigvalsh(found.linear)[-1])
    # E || E[h|y] ||^2 above this is not zero for sums in float64.
    surely = 1e-7
    if exact == "0" or linear > max(surely, 10 * found.error):
        return make.zero()
    if not linear <= ZERO + (3 if sampled else 1) * found.error:
        return make.undecided(f"E ||E[h|y]||^2 = {linear:.1e} is neither zero nor clearly not")
    norm, vector = leading_direction(found.matrix, found.error)
    error = found.error
    if found.spread is not None:
        norm, error = sampled_norm(found)
    # An operator known no better than this says neither that it vanishes nor what it is.
    useless = 0.1
    if not (math.isfinite(norm) and error <= useless * max(1.0, norm)):
        return make.undecided(f"the operator (15) is {norm:.1e} +- {error:.1e}")
    # Standard errors beyond which an average over samples is not zero.
    significant = 6.0
    if norm < max(ZERO, (significant if sampled else 1) * error):
        return make.bound(max(norm, 0.0) + (3 if sampled else 1) * error)
    return make.number(norm, error, vector)


@dataclass(frozen=True)
class Maker:
    """Builds the result for each outcome."""

    kernel: LinkKernel
    found: Operator
    learned: tuple[int, ...]
    known: tuple[str, float] | None
    digits: int | None

    @property
    def exact(self) -> str | None:
        """Closed form."""
        return None if self.known is None else self.known[0]

    @property
    def how(self) -> How:
        """How the error is known."""
        if self.known is not None:
            return "rigorous"
        return "estimated" if self.found.spread is None else "monte-carlo"

    def _result(
        self,
        value: str | None,
        error: float | None,
        matrix: Array,
        norm: float,
        status: str,
        converged: bool = True,
    ) -> LinkThreshold:
        p = self.kernel.indices
        full = np.zeros((p, p))
        full[np.ix_(self.found.rest, self.found.rest)] = matrix
        given = f" given {_names(i - 1 for i in self.learned)}" if self.learned else ""
        learned = _indices(full)
        return LinkThreshold(
            value=value,
            error=error,
            how=self.how,
            exact=self.exact,
            subspace=(_names(learned) if learned else "none") + given,
            eigenvector=full,
            operator_norm=norm,
            given=self.learned,
            converged=converged,
            status=status,
            n_iter=self.found.evaluations,
            kernel_hash=self.kernel.kernel_hash,
            origin=Origin.of(self.kernel, digits=self.digits, given=self.learned),
        )

    def zero(self) -> LinkThreshold:
        """E[h | y] does not vanish."""
        matrix = self.found.linear / np.linalg.norm(self.found.linear)
        why = "proved"
        if self.known is None:
            size = math.sqrt(float(np.trace(self.found.linear)))
            why = f"a correlation of size {size:.1g} that is beyond doubt, but not proved"
        elif self.kernel.reason and not self.learned:
            why = f"proved: {self.kernel.reason}"
        status = f"converged: E[h | y] does not vanish, so any alpha > 0 gives a positive overlap ({why})"
        return self._result("0", 0.0, matrix, math.inf, status)

    def infinite(self) -> LinkThreshold:
        """G vanishes."""
        zero = np.zeros((len(self.found.rest),) * 2)
        status = (
            "converged: infinite at this order; E[h h^T | y] = I for every y exactly, so no alpha of order one "
            "leaves zero overlap"
        )
        return self._result(None, None, zero, 0.0, status)

    def bound(self, norm: float) -> LinkThreshold:
        """G vanishes to its error, and nothing proves that it does."""
        zero = np.zeros((len(self.found.rest),) * 2)
        status = (
            f"not converged: alpha is larger than {1 / norm:.1e}; E[h h^T | y] = I for every y within the errors "
            f"({self.how}), which is no proof that alpha is infinite"
        )
        return replace(self._result(None, None, zero, 0.0, status, converged=False), at_least=1 / norm)

    def undecided(self, reason: str) -> LinkThreshold:
        """The quadrature cannot tell."""
        zero = np.zeros((len(self.found.rest),) * 2)
        status = f"not converged: {reason}; write the link so that its symmetry shows, or add noise"
        return self._result(None, None, zero, 0.0, status, converged=False)

    def number(self, norm: float, error: float, matrix: Array) -> LinkThreshold:
        """A positive threshold."""
        sampled = self.found.spread is not None
        alpha = 1 / norm if self.known is None else self.known[1]
        error = max(error * alpha * alpha, 4e-16 * alpha)
        # The last digit may be uncertain, so that rounding never adds more than the error itself.
        possible = max(1, min(MAX_DIGITS, math.ceil(-math.log10(2 * error / alpha))))
        digits = self.digits or possible
        text = _decimal(alpha, digits)
        unit = 10.0 ** (math.floor(math.log10(alpha)) - digits + 1)
        # Without digits asked for, three are the least that count as a result; two of samples, the last one uncertain.
        least = 2 if sampled and self.known is None else 3
        good = error <= 0.5 * unit if self.digits else error <= (2e-2 if least == 2 else 1e-3) * alpha
        status = f"{self.digits or least} digits were not reached: the error is {error:.1e}; ask for fewer digits"
        if good and self.known is not None:
            status = "converged: closed form"
        elif good and sampled:
            status = f"converged: {self.found.evaluations} samples, as {self.found.unserved}"
            if _indices(matrix) != _indices(leading_direction(self.found.matrix, 0.0)[1]):
                joined = _names(self.found.rest[i] for i in _indices(matrix))
                status += f"; the eigenvalues of {joined} are equal within the errors, and count as one subspace"
            if self.found.linear.any():
                linear = np.trace(self.found.linear)
                status += f"; E ||E[h|y]||^2 = {linear:.0e} +- {self.found.error:.0e} counts as zero"
        elif good:
            status = "converged: two refinements agree"
        return self._result(text, error + abs(float(text) - alpha), matrix, 1 / alpha, status, good)


def unresolved_noise(kernel: LinkKernel) -> str:
    """Why the noise of a link is nothing in float64; empty if it is something.

    It is nothing where its deviation is below the rounding of every output at typical h. As it falls to zero the
    operator (15) tends to that without noise: y + noise of variance s is a Brownian motion in s that starts at y, so
    what y alone says is the limit of a martingale.
    """
    if kernel.noise == 0:
        return ""
    noise_points = 1000
    h = np.random.default_rng(0).standard_normal((noise_points, kernel.indices, kernel.tokens))
    size = np.abs(kernel.link(h))
    rounding = np.finfo(float).eps * float(np.median(size[size > 0])) if size.any() else 0.0
    deviation = math.sqrt(kernel.noise)
    if deviation >= rounding:
        return ""
    return (
        f"noise of deviation {deviation:.1e} is below what float64 resolves of the outputs {'; '.join(kernel.text)}, "
        f"about {rounding:.0e}"
    )


def _decimal(value: float, digits: int) -> str:
    """Positional decimal with that many significant digits; with a power of ten where that has no end."""
    # Values from here on are printed with a power of ten.
    largest_positional = 1e15
    if value >= largest_positional:
        return f"{value:.{digits - 1}e}"
    return significant(value, digits)


def _indices(eigenvector: Array) -> list[int]:
    """Indices that a PSD eigenvector has a part in."""
    # Diagonal entries of an eigenvector of unit norm from here on are indices that are learned.
    part = 1e-6
    return [int(i) for i in np.flatnonzero(eigenvector.diagonal() > part)]


def _names(indices: Iterable[int]) -> str:
    numbers = [str(i + 1) for i in indices]
    return ("index " if len(numbers) == 1 else "indices ") + ", ".join(numbers)
