"""The result of a threshold of a link."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.results import Estimate, How, Origin, Result, versions

__all__ = ["LinkThreshold"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class LinkThreshold(Result):
    """Threshold of a user's link (15)-(16).

    Attributes
    ----------
    value : str or None
        alpha = N/D in decimal; "0" if E[h | y] does not vanish; None if E[h h^T | y] = I for every y, where no
        number is: the threshold is infinite at this order.
    error : float or None
        Absolute error of `value`; None with it.
    how : {"rigorous", "estimated", "monte-carlo"}
        "monte-carlo" where no quadrature serves the link: the error is one standard error over independent samples,
        and the bias seen.
    exact : str or None
        Closed form, "0" and "oo" included, where it is proved.
    subspace : str
        Which indices become learnable.
    eigenvector : ndarray, shape (P, P)
        PSD, of unit Frobenius norm: where the operator attains its norm; for a zero threshold E of the squared
        E[h | y]; zero if nothing is learnable.
    operator_norm : float
        1 / alpha; infinite for a zero threshold, 0 for an infinite one.
    given : tuple of int
        Indices taken as perfectly known, counted from 1.
    at_least : float or None
        Where the operator is zero to its error, and nothing proves that it vanishes: alpha is larger than this.
    overlap : ndarray, shape (P, P), or None
        Of a step of the staircase at its fixed point: that one.
    transition : {"", "continuous", "discontinuous", "undecided"}
        Of such a step: whether the overlap of what comes in rises from zero.
    spinodal : Estimate or None
        Of a discontinuous one: where the branch with a small overlap turns that goes back in alpha, where served.
    converged, status, n_iter, kernel_hash, versions, origin
        Provenance; `n_iter` counts evaluations of the quadrature, or samples.
    """

    value: str | None
    error: float | None
    how: How
    exact: str | None
    subspace: str
    eigenvector: Array
    operator_norm: float
    given: tuple[int, ...]
    converged: bool
    status: str
    n_iter: int
    kernel_hash: str
    at_least: float | None = None
    overlap: Array | None = None
    transition: str = ""
    spinodal: Estimate | None = None
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Threshold, error, status."""
        exact = "" if self.exact is None else f" = {self.exact} exactly"
        yield f"alpha({self.subspace}) = {'infinite' if self.value is None else self.value}{exact}"
        if self.error is not None:
            yield f"error {self.error:.1e} ({self.how})"
        yield self.status
