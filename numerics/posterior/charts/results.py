"""What a sampled posterior of single outputs returns."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.results import How, Origin, Result

__all__ = ["SampledDenoiserResult"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class SampledDenoiserResult(Result):
    """Posterior summary of a batch of outputs (12), sampled.

    Attributes
    ----------
    log_z : ndarray, shape (...)
        log Z_out(y; omega, V): of the density of (y_12, y_21) for softmax over two tokens; of the log-ratios
        log(y_ab/y_aM) of a row that the other entries follow from for softmax over more, and of such entries y_ab for
        linear outputs (`derive.fibres`).
    g_out : ndarray, shape (..., P, M)
        V^{-1} (E[h | y] - omega).
    dg_out : ndarray, shape (..., P, M, P, M)
        V^{-1} Cov[h | y] V^{-1} - V^{-1} delta_{mm'}; [p, m, p', m'].
    log_z_error, g_error, dg_error : ndarray
        Standard errors, of the same shapes.
    error : ndarray, shape (...)
        Largest standard error of log_z, of g_out relative to its largest entry or to tr(V)^{-1/2}, and of dg_out
        relative to its largest entry or to 1/tr(V), whichever is larger.
    nodes : ndarray of int, shape (...)
        Evaluations of the integrand.
    how : str
        "monte-carlo".
    origin : Origin
    """

    log_z: Array
    g_out: Array
    dg_out: Array
    log_z_error: Array
    g_error: Array
    dg_error: Array
    error: Array
    nodes: NDArray[np.int64]
    how: How = "monte-carlo"
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Number of outputs, and the largest error."""
        yield f"{self.log_z.size} outputs of {' x '.join(map(str, self.g_out.shape[-2:]))} indices"
        if self.log_z.size:
            yield f"largest error {self.error.max():.1e} ({self.how})"
