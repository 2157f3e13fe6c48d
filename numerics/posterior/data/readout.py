"""Rank 1, one layer or two layers over two tokens: posteriors of the readout row that each output fixes."""

import math

import numpy as np
from numba import float64, njit, types

from ...core.results import How
from ...core.typing import Array
from ...model.network import Network
from ..denoiser import check_covariance, check_tolerance, denoise_readout
from ..protocol import Moments, Settings
from ..readout import invert_readout
from .outputs import named_rows

__all__ = ["ReadoutPosterior"]


class ReadoutPosterior:
    """Posteriors by the rules of `denoise_readout`.

    Parameters
    ----------
    model : Network
    y : ndarray, shape (n, M, M)
    settings : Settings

    Attributes
    ----------
    readout : ndarray, shape (n, M)
        Readout row of each output, v up to its sign.
    """

    how: How = "estimated"

    def __init__(self, model: Network, y: Array, settings: Settings) -> None:
        check_tolerance(settings.tol)
        self.rows = len(y)
        self.model, self._tol = model, settings.tol
        self.readout: Array = named_rows(lambda part: invert_readout(model, part)[0], y)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        if self.model.layers == 1:
            return _two_points(self.readout[part], omega, V)
        made = self.moments(omega, V, part)
        return made.g, -np.einsum("nambm->ab", made.dg)

    def moments(self, omega: Array, V: Array, part: slice) -> Moments:
        """Moments of some of the outputs; V may differ between them."""
        found = denoise_readout(self.model, self.readout[part], omega, V, tol=self._tol, workers=1)
        return Moments(found.log_z, found.g_out, found.dg_out, found.error, found.log_z_error)


def _two_points(v: Array, omega: Array, V: Array) -> tuple[Array, Array]:
    """Scores of one layer, whose index is v up to its sign, with the sum of slopes only."""
    variance = float(V[0, 0])
    if not 0 < variance < math.inf:
        check_covariance("V", V, 1)
    g = np.empty(omega.shape)
    slope = _fill_two_points(np.ascontiguousarray(v), omega, variance, g)
    return g, np.array([[slope]])


@njit(
    float64(float64[:, ::1], types.Array(float64, 3, "A", readonly=True), float64, float64[:, :, ::1]),
    error_model="numpy",
    cache=True,
    nogil=True,
)
def _fill_two_points(v, omega, variance, g):  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(len(v)):
        field, square = 0.0, 0.0
        for m in range(v.shape[1]):
            field += omega[s, 0, m] * v[s, m]
            square += v[s, m] * v[s, m]
        sign = math.tanh(field / variance)
        for m in range(v.shape[1]):
            g[s, 0, m] = (sign * v[s, m] - omega[s, 0, m]) / variance
        total += v.shape[1] - (1 - sign) * (1 + sign) * square / variance
    return total / variance
