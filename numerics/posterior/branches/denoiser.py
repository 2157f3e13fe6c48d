"""Posterior of the indices given single outputs that finitely many indices give, by two searches for all of them."""

import numpy as np

from ...core.typing import Array
from ...model.network import Network
from ..entrywise import OneOutput, largest_error, scores
from .posterior import Preimages

__all__ = ["denoise_branched"]


def denoise_branched(
    model: Network, given: tuple[Array, Array, Array], tol: float, most: int, rng: np.random.Generator
) -> list[OneOutput]:
    """Posteriors of some outputs; each error is the difference of two searches from starts of their own.

    Parameters
    ----------
    model : Network
        `Network.branched`.
    given : tuple of ndarray, shapes (n, M, M), (n, P, M) and (n, P, P)
        y, omega and V.
    tol : float
        Of the largest error of an output: starts are doubled until it is reached.
    most : int
        Starts of one output, in both searches.
    rng : numpy.random.Generator

    Raises
    ------
    UnreachableOutputError
        No indices were found that give an output.
    """
    return [_one(model, (y[None], omega[None], v[None]), tol, most, rng) for y, omega, v in zip(*given, strict=True)]


def _one(
    model: Network, given: tuple[Array, Array, Array], tol: float, most: int, rng: np.random.Generator
) -> OneOutput:
    v = given[2][0]
    # Units of rounding times the condition of V.
    rounding = 32 * float(np.finfo(float).eps) * float(np.linalg.cond(v))
    # Starts of each search at first.
    first = 512
    starts = first
    while True:
        one, other = (_entries(Preimages(model, own, 1, starts), *given) for own in rng.spawn(2))
        log_z, g, dg = one
        offs = [np.abs(a - b) + rounding * (1 + np.abs(a)) for a, b in zip(one, other, strict=True)]
        worst = largest_error(float(offs[0]), (g, offs[1]), (dg, offs[2]), v)
        if worst <= tol or 4 * starts > most:
            return OneOutput(float(log_z), g, dg, float(offs[0]), offs[1], offs[2], worst, 2 * starts)
        starts *= 2


def _entries(preimages: Preimages, y: Array, omega: Array, V: Array) -> tuple[Array, Array, Array]:
    """Log Z, g_out and dg_out of one output by one search."""
    found = preimages.summed(preimages.of_outputs(y), omega, V)
    indices, tokens = omega.shape[1:]
    flat = found.mean[0].ravel()
    covariance = (found.second[0] - np.outer(flat, flat)).reshape(indices, tokens, indices, tokens)
    g, dg = scores(found.mean[0] - omega[0], covariance, np.asarray(np.linalg.inv(V[0]), np.float64))
    return found.log_z[0], g, dg
