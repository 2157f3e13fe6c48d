"""Quantiles of laws by scipy.special: scipy.stats, which has them by name, takes half a second to load."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

__all__ = ["chi_squared_quantile"]


def chi_squared_quantile(probability: ArrayLike, freedom: float) -> NDArray[np.float64]:
    """Value below which a chi-squared variable of these degrees of freedom is with this probability.

    Parameters
    ----------
    probability : array_like
        From 0 to 1.
    freedom : float

    Returns
    -------
    ndarray
        Of the shape of `probability`.

    Examples
    --------
    >>> print(f"{chi_squared_quantile(0.95, 3):.4f}")
    7.8147
    """
    return np.asarray(2 * gammaincinv(freedom / 2, probability))
