"""Rotationally invariant estimator: the optimal denoiser of a symmetric matrix keeps its eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.results import Result
from .data import check_matrix
from .spectrum import Spectrum

__all__ = ["Denoised", "denoise_matrix"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Denoised(Result):
    """A denoised matrix.

    Attributes
    ----------
    estimate : ndarray, shape (d, d)
        U diag(f(lambda)) U^T.
    eigenvalues, shrunk : ndarray, shape (d,)
        lambda of Y, ascending, and f(lambda).
    divergence : float
        (2 Delta/d^2) [sum f' + sum_{i<j} (f_i - f_j)/(lambda_i - lambda_j)], the estimator's own estimate of its error;
        MMSE_rho(Delta) as d grows. NaN where it was not requested.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    estimate: Array
    eigenvalues: Array
    shrunk: Array
    divergence: float


def denoise_matrix(Y: ArrayLike, rho: float, delta: float, *, divergence: bool = True) -> Denoised:
    """E[S | Y] of Y = S + sqrt(Delta) Z, asymptotically.

    Parameters
    ----------
    Y : array_like, shape (d, d)
        Symmetric; Z is GOE of off-diagonal variance 1/d.
    rho, delta : float
    divergence : bool, keyword-only
        Compute the divergence of the estimator as well.

    Returns
    -------
    Denoised

    Raises
    ------
    ValueError
        A parameter out of range, a matrix that is not symmetric or not finite.

    References
    ----------
    boncoraglio2025, matrix denoiser.
    """
    matrix = check_matrix("Y", Y)
    spectrum = Spectrum(rho, delta)
    values, vectors = np.linalg.eigh(matrix)
    shrunk = spectrum.shrink(values)
    estimate = (vectors * shrunk) @ vectors.T
    total = float("nan")
    if divergence:
        slope = spectrum.shrink_slope(values)
        gaps = values[:, None] - values
        # Equal eigenvalues: the quotient is the slope.
        close = np.abs(gaps) < 1e-9 * (1 + np.abs(values))
        quotients = np.where(close, slope[:, None], (shrunk[:, None] - shrunk) / np.where(close, 1.0, gaps))
        d = len(values)
        total = float(2 * delta / d**2 * (slope.sum() + 0.5 * (quotients.sum() - np.trace(quotients))))
    return Denoised(0.5 * (estimate + estimate.T), values, shrunk, total)
