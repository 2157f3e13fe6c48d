"""Gaussian rows of a covariance of their own, and the link of independent rows that they are equal to.

With T = L L^T a row coordinate is w = L v with v ~ N(0, I), so that the indices are h = L k with k those of v: a link
g(h) is the link g(L k) of independent rows, and overlaps are q = L q_v L^T. State evolution, thresholds and free
energies are those of that link; message passing needs the posterior of w alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.shown import few_lines
from ..core.validation import numbers
from ..model.described import Model
from ..model.link import Link
from .gaussian import GAUSSIAN
from .precision import positive
from .protocol import Prior

__all__ = ["OF_V", "Rows", "independent"]

Array = NDArray[np.float64]

#: What is not along the rows of covariance T in a result.
OF_V = "the independent rows v, w = L v with T = L L^T"
_EPS = float(np.finfo(float).eps)
_SYMMETRIC = 1e-12
_ENTRY = re.compile(r"\bh_(\d+)_(\d+)\b")


@few_lines
class Rows:
    """Rows of weights that are Gaussian of covariance T: F(qhat) = T - (T^{-1} + qhat)^{-1}.

    Parameters
    ----------
    covariance : array_like, shape (P, P)
        T, positive definite with ones on the diagonal: scales of the indices belong to the link.

    Raises
    ------
    ValueError
        It is not symmetric, not positive definite, or has another diagonal.

    Examples
    --------
    >>> import attnlimits as al
    >>> rows = Rows([[1.0, 0.6], [0.6, 1.0]])
    >>> rows.whitened(al.Link("h[1]*h[2]")).text
    'h[1,1]*(0.6*h[1,1]+0.8*h[2,1])'
    """

    isotropic = False
    dimension = 1.0
    fourth_moment = 3.0

    def __init__(self, covariance: ArrayLike) -> None:
        T = numbers("covariance", covariance)
        if T.ndim != 2 or T.shape[0] != T.shape[1] or not len(T):
            raise ValueError(f"the covariance of rows must have shape (P, P), got {T.shape}")
        if not np.isfinite(T).all():
            raise ValueError("the covariance of rows must be finite, got NaN or infinity")
        if np.abs(T - T.T).max() > _SYMMETRIC or np.abs(T.diagonal() - 1).max() > _SYMMETRIC:
            raise ValueError(
                "the covariance of rows must be symmetric with ones on its diagonal, for weights have variance 1 "
                f"(troiani2025 (1)); put scales into the link; got {T.tolist()}"
            )
        least = float(np.linalg.eigvalsh(T)[0])
        if not least > len(T) * _EPS:
            raise ValueError(f"the covariance of rows must be positive definite, got the eigenvalue {least:.3g}")
        self.covariance: Array = 0.5 * (T + T.T)

    @cached_property
    def root(self) -> Array:
        """L, lower triangular, with T = L L^T."""
        return np.asarray(np.linalg.cholesky(self.covariance))

    def whitened(self, link: Link) -> Link:
        """The link of independent rows v, w = L v.

        Raises
        ------
        ValueError
            Another number of indices.
        """
        kernel = link.observed
        self._check(kernel.indices)
        root, text = self.root, kernel.text

        def entry(match: re.Match[str]) -> str:
            index, token = int(match[1]) - 1, match[2]
            terms = [(root[index, k], f"h[{k + 1},{token}]") for k in range(index + 1) if root[index, k]]
            made = "+".join(name if scale == 1 else f"{float(scale)!r}*{name}" for scale, name in terms)
            made = made.replace("+-", "-")
            return made if len(terms) == 1 and terms[0][0] == 1 else f"({made})"

        outputs = [_ENTRY.sub(entry, one) for one in text]
        joined = outputs[0] if len(outputs) == 1 else f"[{', '.join(outputs)}]"
        return replace(link, text=joined, tokens=kernel.tokens, indices=kernel.indices)

    def seen(self, q: Array) -> Array:
        """L q L^T: overlaps of w from those of v, shape (..., P, P)."""
        return np.asarray(self.root @ q @ self.root.T)

    def psi(self, qhat: Array) -> float:
        """Free entropy of the row channel, that of v at L^T qhat L."""
        return GAUSSIAN.psi(self.root.T @ qhat @ self.root)

    def overlap(self, qhat: Array) -> Array:
        """F(qhat)."""
        return self.seen(GAUSSIAN.overlap(self.root.T @ qhat @ self.root))

    def overlap_error(self, qhat: Array) -> Array:
        """None beside that of a few sums."""
        return np.zeros_like(qhat)

    def slope(self, qhat: Array, moved: Array) -> Array:
        """C dqhat C with the posterior covariance C."""
        left = self.mmse(qhat)
        return np.asarray(left @ moved @ left)

    def posterior(self, precision: Array, field: Array) -> tuple[Array, Array]:
        """C b with C = (T^{-1} + A)^{-1}, and C."""
        self._check(len(precision))
        inner = positive(np.eye(len(precision)) + self.root.T @ precision @ self.root)
        covariance = self.seen(np.asarray(np.linalg.inv(inner), dtype=np.float64))
        return covariance @ field, covariance

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Weights, shape (P, D)."""
        self._check(shape[0])
        return np.asarray(np.tensordot(self.root, rng.standard_normal(shape), 1))

    def mmse(self, qhat: Array) -> Array:
        """(T^{-1} + qhat)^{-1}."""
        self._check(len(qhat))
        return self.seen(GAUSSIAN.mmse(self.root.T @ qhat @ self.root))

    def inverse(self, q: Array) -> Array:
        """(T - q)^{-1} - T^{-1}."""
        return self._back(GAUSSIAN.inverse(self.white(q)))

    def uncertainty(self, q: Array) -> Array:
        """Of rounding."""
        size = np.abs(np.linalg.inv(self.root))
        return np.asarray(
            size.T @ (GAUSSIAN.uncertainty(self.white(q)) + len(q) * _EPS * np.abs(self.inverse(q))) @ size
        )

    def potential(self, q: Array) -> float:
        """That of v."""
        return GAUSSIAN.potential(self.white(q))

    def rounding(self, q: Array) -> float:
        """That of v."""
        return GAUSSIAN.rounding(self.white(q))

    def describe(self) -> str:
        """One line."""
        return f"Gaussian rows of covariance {self.covariance.tolist()}"

    def _check(self, size: int) -> None:
        if size != len(self.covariance):
            raise ValueError(
                f"the covariance of rows must have shape (P, P) = ({size}, {size}), got {self.covariance.shape}"
            )

    def white(self, q: Array) -> Array:
        """Overlaps of v from those of w."""
        inverse = np.linalg.inv(self.root)
        return np.asarray(inverse @ q @ inverse.T)

    def _back(self, qhat: Array) -> Array:
        inverse = np.linalg.inv(self.root)
        return np.asarray(inverse.T @ qhat @ inverse)


def independent(model: Model, prior: Prior | str | None) -> tuple[Model, Prior | str | None, Rows | None]:
    """The same model of independent rows, its prior, and the rows of covariance T that it stands for, if there are any.

    Networks are left as they are, and averages refuse them.

    Examples
    --------
    >>> import attnlimits as al
    >>> from attnlimits.numerics.priors import Rows, independent
    >>> link, prior, rows = independent(al.Link("h[1]*h[2]"), Rows([[1.0, 0.6], [0.6, 1.0]]))
    >>> prior.describe(), rows is not None
    ('Gaussian prior', True)
    """
    if not isinstance(prior, Rows) or not isinstance(model, Link):
        return model, prior, None
    return prior.whitened(model), GAUSSIAN, prior
