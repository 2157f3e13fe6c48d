"""Output channels of data: posterior scores of each sample's indices, given its output, in the form that GAMP takes.

Quantities that depend on the output alone (readout rows, a point of the fibre, the branch) are computed once, those
that depend on (omega, V) at every call.
"""

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numba import float64, njit, types
from numpy.typing import ArrayLike

from ...core.errors import UnreachableOutputError
from ...core.validation import numbers
from ...model.links import LinkKernel
from ...model.network import Network
from ...model.routes import require
from ...posterior.denoiser import check_covariance, check_tolerance, denoise_readout
from ...posterior.readout import invert_readout
from ..blocks import Array

__all__ = ["Model", "Output", "ReadoutOutput", "check_model", "check_outputs", "named_rows"]

#: A model that GAMP accepts.
Model: TypeAlias = Network | LinkKernel


class Output(Protocol):
    """Scores of a batch of outputs."""

    rows: int

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows.

        Parameters
        ----------
        omega : ndarray, shape (n, P, M)
            Prior means of their indices.
        V : ndarray, shape (P, P)
            Prior covariance.
        part : slice
            Which rows of the data these n are.

        Returns
        -------
        g : ndarray, shape (n, P, M)
            g_out, (12).
        curvature : ndarray, shape (P, P), or None
            - sum over samples and tokens of d g_m / d omega_m; None where only g is known.
        """


def check_model(model: Model) -> None:
    """Raise KernelNotFoundError if the model is not served."""
    require("gamp", model)


def named_rows(check: Callable[[Array], Array], y: Array) -> Array:
    """Return check(y), and where it refuses an output raise the same with the number of the first such sample."""
    try:
        return check(y)
    except UnreachableOutputError:
        first, last = 0, len(y)
        while last - first > 1:
            middle = (first + last) // 2
            try:
                check(y[first:middle])
                first = middle
            except UnreachableOutputError:
                last = middle
        try:
            check(y[first:last])
        except UnreachableOutputError as error:
            raise UnreachableOutputError(f"Y, sample {first}: {error}") from error
        raise


class ReadoutOutput:
    """Rank 1, depth 1 or two layers over two tokens: the kernel of `denoise_readout`.

    Parameters
    ----------
    model : Network
    y : ndarray, shape (n, M, M)
    tol : float
        Of the posterior moments.

    Attributes
    ----------
    readout : ndarray, shape (n, M)
        Readout row of each output, v up to its sign.
    """

    def __init__(self, model: Network, y: Array, tol: float) -> None:
        check_tolerance(tol)
        self.rows = len(y)
        self.model, self._tol = model, tol
        self.readout: Array = named_rows(lambda part: invert_readout(model, part)[0], y)

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Score the outputs of some rows."""
        if self.model.layers == 1:
            return _two_points(self.readout[part], omega, V)
        g, slopes = self.each(omega, V, part)
        return g, -np.einsum("nambm->ab", slopes)

    def each(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array]:
        """Scores (n, P, M) of some rows and their slopes (n, P, M, P, M); V may differ between them, (n, P, P)."""
        found = denoise_readout(self.model, self.readout[part], omega, V, tol=self._tol, workers=1)
        return found.g_out, found.dg_out


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


def check_outputs(model: Model, y: ArrayLike) -> Array:
    """Return outputs as float64 of shape (N, M, M), or (N, K) of a link, or raise ValueError."""
    array = numbers("Y", y)
    shape = model.output_shape
    return _shaped(array[:, None] if len(shape) == array.ndim == 1 else array, shape)


def _shaped(y: Array, shape: tuple[int, ...]) -> Array:
    if y.shape[1:] != shape or y.ndim != 1 + len(shape):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"Y must have shape (N, {wanted}), one output per sample (troiani2025 (1)), got {y.shape}")
    if not len(y):
        raise ValueError("Y must hold at least one output (troiani2025 (1)), got none")
    bad = ~np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Y must be finite, got NaN or infinity in {int(bad.sum())} of {len(y)} samples, the first is number "
            f"{int(bad.argmax())}; leave these samples out, of X too"
        )
    return y
