"""Weights of a teacher, and samples of it."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.core.typing import Array, Numbers
from attnlimits.numerics.learning.data import make_data as make_samples
from attnlimits.numerics.learning.data import teacher as drawn_weights
from attnlimits.numerics.model.described import Model, of_data
from attnlimits.numerics.priors import SpectrumLike

__all__ = ["make_data", "teacher"]


def teacher(model: Model, dimension: int, **settings: Any) -> Array:
    """Draw the weights of a teacher from the prior, by default independent standard normal entries.

    Parameters
    ----------
    model : Network or Link
    dimension : int
        D; of H heads a multiple of H.
    settings : optional
        `rng`, a generator or a seed; `prior`, such as `al.free_energy.Binary()`.

    Returns
    -------
    ndarray, shape (P, D)
        In the order of the model's indices; of several heads (rows, D/H).

    Raises
    ------
    ValueError
        The dimension is too small, no multiple of the number of heads, or too large for the memory.

    Examples
    --------
    >>> import attnlimits as al
    >>> teacher(al.Network(layers=2, tokens=2), 100, rng=0).shape
    (2, 100)
    """
    return drawn_weights(of_data(model), dimension, **settings)


def make_data(
    model: Model, weights: ArrayLike, alpha: float, *, spectrum: SpectrumLike | None = None, **settings: Any
) -> tuple[Numbers, Array]:
    """Draw Gaussian samples, and label them by a teacher: y = g(W x / sqrt(D)), with the noise of the model.

    Parameters
    ----------
    model : Network or Link
    weights : array_like, shape (P, D)
        Of the teacher, as `teacher` draws them.
    alpha : float
        Samples per dimension: N = round(alpha D), at least 1.
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
        Coordinate i gets the quantile at (i - 1/2)/D of a law from above; of an array or a file, which is to have D of
        them, its own eigenvalue; of data also their directions.
    settings : optional
        `rng`, a generator or a seed; `dtype` of X, np.float32 by default.

    Returns
    -------
    X : ndarray, shape (N, M, D)
    Y : ndarray, shape (N, M, M), or (N, K) of a link

    Raises
    ------
    ValueError
        Weights of a wrong shape, alpha < 0, or more samples than the memory has room for.

    References
    ----------
    troiani2025, (1).

    Examples
    --------
    >>> import attnlimits as al
    >>> link = al.Link("h[1]**2")
    >>> X, Y = make_data(link, teacher(link, 50, rng=0), alpha=2.0, rng=0)
    >>> X.shape, Y.shape
    ((100, 1, 50), (100, 1))
    """
    return make_samples(of_data(model), weights, alpha, spectrum=spectrum, **settings)
