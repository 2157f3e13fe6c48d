"""Posteriors of single outputs whose entries have an error each: sampled, or integrated over a fibre."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.results import How, Origin, Result
from ..core.standard_error import standard_error
from ..core.typing import Array

__all__ = ["EntrywiseDenoiserResult", "OneOutput", "combined", "largest_error", "scores"]


@dataclass(frozen=True, repr=False)
class EntrywiseDenoiserResult(Result):
    """Posterior summary of a batch of outputs (12), with an error of every entry.

    Attributes
    ----------
    log_z : ndarray, shape (...)
        log Z_out(y; omega, V): of the density of (y_12, y_21) for softmax over two tokens; of the log-ratios
        log(y_ab/y_aM) of a row that the other entries follow from for softmax over more, and of such entries y_ab for
        linear outputs (`derive.fibres`). Of a link: of the density of y, where some entries of y have only discrete
        values of their probability times the density of the others.
    g_out : ndarray, shape (..., P, M)
        V^{-1} (E[h | y] - omega).
    dg_out : ndarray, shape (..., P, M, P, M)
        V^{-1} Cov[h | y] V^{-1} - V^{-1} delta_{mm'}; [p, m, p', m'].
    log_z_error, g_error, dg_error : ndarray
        Errors of the entries, of the same shapes: standard ones where they are sampled.
    error : ndarray, shape (...)
        Largest error of log_z, of g_out relative to its largest entry or to tr(V)^{-1/2}, and of dg_out relative to
        its largest entry or to 1/tr(V), whichever is larger.
    nodes : ndarray of int, shape (...)
        Evaluations of the integrand.
    how : {"estimated", "monte-carlo"}
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


@dataclass(frozen=True)
class OneOutput:
    """Entries of a result for one output, in their order; `dg_out` is of shape (P, M, P, M)."""

    log_z: float
    g_out: Array
    dg_out: Array
    log_z_error: float
    g_error: Array
    dg_error: Array
    error: float
    nodes: int

    @staticmethod
    def stacked(
        outputs: "Sequence[OneOutput]", lead: tuple[int, ...], how: How, origin: Origin
    ) -> EntrywiseDenoiserResult:
        """A batch of outputs, with leading axes of the shape `lead`."""

        def column(name: str) -> Any:
            values = np.array([getattr(one, name) for one in outputs])
            return values.reshape((*lead, *values.shape[1:]))

        entries = {name: column(name) for name in (one.name for one in fields(OneOutput))}
        return EntrywiseDenoiserResult(**entries, how=how, origin=origin)


def scores(shift: Array, covariance: Array, precision: Array) -> tuple[Array, Array]:
    """g_out and dg_out from E[h | y] - omega, Cov[h | y] of shape (P, M, P, M) and V^{-1}."""
    dg = np.einsum("ap,pkql,qb->akbl", precision, covariance, precision)
    dg -= np.einsum("ab,kl->akbl", precision, np.eye(shift.shape[1]))
    return precision @ shift, dg


def largest_error(log_z_error: float, g: tuple[Array, Array], dg: tuple[Array, Array], V: Array) -> float:
    """`EntrywiseDenoiserResult.error` of one output, from g_out and dg_out with their errors."""
    width = float(np.trace(V))
    return max(
        log_z_error,
        float(g[1].max()) / max(float(np.abs(g[0]).max()), width**-0.5),
        float(dg[1].max()) / max(float(np.abs(dg[0]).max()), 1 / width),
    )


def combined(parts: Sequence[Array], V: Array, modes: Array, nodes: int) -> OneOutput:
    """Mean of independent estimates, weighted by their Z, with errors to first order in what scatters.

    Parameters
    ----------
    parts : three ndarrays, shapes (R,), (R, P, M) and (R, P, M, P, M)
        log Z, and the first and second moments of h - omega, in modes over the tokens.
    V : ndarray, shape (P, P)
    modes : ndarray, shape (M, M)
    nodes : int
        That all of them took.
    """
    log_z, means, seconds = parts
    z = np.exp(log_z - log_z.max())
    share = z / z.mean()
    mean = np.tensordot(share, means, 1) / len(z)
    off = share[:, None, None] * (means - mean)
    second = np.tensordot(share, seconds, 1) / len(z)
    crossed = np.multiply.outer(off, mean)
    moved = share[:, None, None, None, None] * (seconds - second) - crossed - np.einsum("rpkql->rqlpk", crossed)
    inverse = np.asarray(np.linalg.inv(V), np.float64)

    def turned(first: Array) -> Array:
        return np.asarray(np.einsum("qp,...pk,km->...qm", inverse, first, modes))

    def both(part: Array) -> Array:
        return np.asarray(
            np.einsum("ap,...pkql,qb,km,ln->...ambn", inverse, part, inverse, modes, modes, optimize=True)
        )

    g, dg = turned(mean), both(second - np.multiply.outer(mean, mean))
    dg -= np.einsum("pq,mn->pmqn", inverse, np.eye(len(modes)))
    log_error, g_error, dg_error = standard_error(share), standard_error(turned(off)), standard_error(both(moved))
    worst = largest_error(float(log_error), (g, g_error), (dg, dg_error), V)
    value = float(log_z.max() + math.log(z.mean()))
    return OneOutput(value, g, dg, float(log_error), g_error, dg_error, worst, nodes)
