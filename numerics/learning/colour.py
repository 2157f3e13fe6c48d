"""Inputs with a covariance: their directions and scales.

x = Sigma^{1/2} x~ with Sigma = B diag(lambda) B^T, so that W x = U x~' for U = W B diag(lambda)^{1/2} and
x~' = diag(lambda)^{-1/2} B^T x, which is white. Message passing estimates U, of which the indices are made; the data
stay as they are, and each pass turns U into W and what it pulls at back. Along eigenvalues of zero nothing is seen.
"""

from dataclasses import dataclass

import numpy as np

from ..priors import Prior, Spectrum
from .blocks import Array, Floats

__all__ = ["Colour", "colour_of"]


@dataclass(frozen=True)
class Colour:
    """Covariance of D coordinates.

    Attributes
    ----------
    root : ndarray, shape (D,)
        Square roots of its eigenvalues.
    basis : ndarray of shape (D, D), or None
        Directions that have them, in columns; None where they are the coordinates.
    """

    root: Array
    basis: Array | None = None

    @property
    def _inverse(self) -> Array:
        return np.divide(1.0, self.root, out=np.zeros_like(self.root), where=self.root > 0)

    def scaled(self, weights: Array) -> Array:
        """U of W, shape (P, D)."""
        return np.asarray((weights if self.basis is None else weights @ self.basis) * self.root)

    def weights(self, scaled: Array) -> Array:
        """W of U; zero along directions that the inputs do not have."""
        found = scaled * self._inverse
        return np.asarray(found if self.basis is None else found @ self.basis.T)

    def pulled(self, pull: Array) -> Array:
        """Sum of g x~'^T from that of g x^T."""
        return np.asarray((pull if self.basis is None else pull @ self.basis) * self._inverse)

    def tint(self, x: Floats) -> None:
        """Give white inputs, shape (n, M, D), this covariance, in place."""
        x *= self.root.astype(x.dtype)
        if self.basis is not None:
            x[:] = (x.reshape(-1, x.shape[-1]) @ self.basis.T.astype(x.dtype)).reshape(x.shape)


def colour_of(prior: Prior, dimension: int) -> Colour | None:
    """Covariance of the inputs of D coordinates; None of white ones.

    Raises
    ------
    ValueError
        The spectrum is of another dimension.
    """
    if not isinstance(prior, Spectrum):
        return None
    return Colour(np.sqrt(prior.coordinates(dimension)), prior.basis)
