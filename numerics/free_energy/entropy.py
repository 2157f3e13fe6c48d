"""Phi, the variational free entropy (10), as a function of the overlap alone: qhat at its infimum."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.results import Estimate
from ..core.shown import few_lines
from ..core.validation import within
from ..priors import Prior, as_prior, responses
from .psi_out import OutputEntropy

__all__ = ["FreeEntropy"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)


@few_lines
class FreeEntropy:
    """Phi(q) - Phi(0) = inf_qhat {psi(qhat) - Tr(q qhat)/2} + alpha (Psi_out(q) - Psi_out(0)).

    Parameters
    ----------
    output : OutputEntropy
    alpha : float
        Samples per dimension N/D, >= 0.
    prior : Prior, optional
        Of a row of W; by default Gaussian, where the infimum is (Tr q + log det(I - q))/2.

    Raises
    ------
    ValueError
        alpha is negative or not finite.

    References
    ----------
    troiani2025, (10), (96)-(103), (160).
    """

    def __init__(self, output: OutputEntropy, alpha: float, prior: Prior | str | None = None) -> None:
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"alpha must be finite and >= 0 (alpha = N/D), got {alpha!r}")
        within("alpha", float(alpha))
        self.output, self.alpha = output, float(alpha)
        self.prior = as_prior(prior)

    def lines(self) -> Iterator[str]:
        """Model, prior and alpha, and what a call gives."""
        size = self.output.size
        yield self.output.describe()
        yield f"{self.prior.describe()}, alpha = {self.alpha:g}; {self.output.how}, {self.output.route}"
        yield f"called with an overlap of shape ({size}, {size}): Phi(q) - Phi(0)"

    def __call__(self, q: ArrayLike) -> Estimate:
        """Phi(q) - Phi(0), 0 <= q < I, of shape (P, P)."""
        q = np.asarray(q, dtype=np.float64)
        out = self.output.value(q)
        share = self.output.channel.share
        value = share * self.prior.potential(q) + self.alpha * out.value
        return Estimate(value, share * self.prior.rounding(q) + self.alpha * out.error, out.how)

    def gradient(self, q: Array) -> tuple[Array, Array]:
        """(alpha G(q) - qhat(q))/2 on the symmetric matrices, and its error: zero at a fixed point of (14).

        The gradient of Phi over the share of each index (`Channel.share`).
        """
        mean, error = self.output.gradient(q)
        output, qhat = self.alpha * mean, self.prior.inverse(q)
        # A product and a difference are rounded.
        rounding = 0.5 * _EPS * (2 * np.abs(output) + 0.5 * np.abs(qhat))
        return output - 0.5 * qhat, self.alpha * error + 0.5 * self.prior.uncertainty(q) + rounding

    def hessian(self, x: Array) -> Array:
        """Second derivatives by the overlaps of the groups, over the share of each index.

        Parameters
        ----------
        x : ndarray, shape (n,)
            Overlaps of the groups of `output`.

        Returns
        -------
        ndarray, shape (n, n)
        """
        out = self.alpha * self.output.hessian(x)
        changes = responses(self.prior, self.output.matrix(x))
        for k, group in enumerate(self.output.groups):
            out[k, k] -= 0.5 * sum(changes[i] for i in group)
        return out

    def excess(self) -> float:
        """Return alpha k - P d, per D coordinates: how many more equations than unknowns there are, if positive.

        Towards q = I along V = v I, Phi = -(excess/2) log v + O(1), with k entries of h that y fixes, and the prior's
        dimension d: recovery is a maximum of Phi, infinitely high, as soon as the excess is positive.
        """
        dimension = self.output.channel.share * self.output.size * self.prior.dimension
        excess = self.alpha * self.output.solved - dimension
        # Rounding of alpha times the number of solved entries against the dimension of the prior.
        equal = 1e-9
        return excess if abs(excess) > equal * max(1.0, dimension) else 0.0

    def recovered(self) -> Estimate:
        """Limit of Phi(q) - Phi(0) for q -> I along V = v I: inf, -inf, or a number."""
        excess = self.excess()
        if excess:
            return Estimate(math.copysign(math.inf, excess), 0.0, self.output.how)
        return self.output.limit(self)
