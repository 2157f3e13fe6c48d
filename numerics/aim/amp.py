"""Approximate message passing with the matrix denoiser inside (GAMP-RIE)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import ConvergenceError
from ..learning.blocks import Array, Source
from ..learning.damping import SizeDamping
from .channels import Channel
from .checks import CITE, above_zero, count
from .data import check_matrix, refuse_size
from .passes import Passes
from .results import AMPResult, AMPStep, SelfError
from .rie import denoise_matrix
from .self_error import self_error
from .spectrum import mmse

__all__ = ["AmpSettings", "amp"]


class AmpSettings(TypedDict, total=False):
    """Settings that others pass on to `amp`."""

    damping: float | Literal["adaptive"]
    covariance: Literal["gram", "scalar"]
    max_iter: int
    tol: float


@dataclass(frozen=True)
class _State:
    """S and its V with damping, V without, the estimate that is stated, and the last step before damping."""

    S: Array
    V: float
    newest: float
    estimate: Array
    change: float = math.inf


@dataclass(frozen=True)
class _Iteration:
    """Data, prior, treatment of the covariance and tolerance."""

    data: Passes
    rho: float
    covariance: Literal["gram", "scalar"]
    tol: float

    def start(self) -> _State:
        """The mean of the prior."""
        S = math.sqrt(self.rho) * np.eye(self.data.dimension)
        return _State(S, 1.0, 1.0, S)

    def advance(self, here: _State, q_hat: float, pull: Array, damp: SizeDamping) -> _State:
        """Denoise what a sweep over the data has found."""
        # Least V: below, S counts as recovered.
        floor = 1e-6
        # Beyond the floor of V the denoiser is the identity.
        delta = max(1 / q_hat, floor**2)
        new = denoise_matrix(here.S + pull / q_hat, self.rho, delta, divergence=False).estimate
        # The step before damping, so that a small one means that the fixed point is near.
        step = new - here.S
        change = float((step**2).sum()) / len(new)
        damp.adapt(step)
        S = (1 - damp.value) * new + damp.value * here.S
        newest = max(mmse(self.rho, delta).value, floor)
        V = (1 - damp.value) * newest + damp.value * here.V
        return _State(S, V, newest, self._to_scale(S), change)

    def _to_scale(self, S: Array) -> Array:
        """The estimate with the trace that it has exactly where outputs do not depend on it: see the notes of `amp`."""
        trace = float(np.trace(S))
        # In the smallest dimensions a first estimate may have none.
        return math.sqrt(self.rho) * len(S) / trace * S if self.data.output.scale_free and trace > 0 else S

    def locked(self, here: _State) -> str | None:
        """How the iteration has run into a fixed point that is none of the model, or None.

        At V = 0 it fits the samples by an S that is far from any of the prior, by its trace, or fits them no longer.
        """
        S, rho, data = here.S, self.rho, self.data
        d = len(S)
        # Of the trace, in standard deviations of the prior: what is further off is no estimate of the model.
        doubt = 5.0
        if abs(float(np.trace(here.estimate)) / (math.sqrt(rho) * d) - 1) > doubt * math.sqrt(2 / rho) / d:
            mean = f"{math.sqrt(rho):.3g} +- {math.sqrt(2) / d:.1g}"
            return f"Tr Shat/d = {np.trace(S) / d:.3g}, which is not of the prior, {mean}"
        # Of V, at least 5 tol: fixed points fit outputs better than V, and slow last steps to some 25 tol.
        unfitted, slow = 20.0, 5.0
        if data.functionals:
            square = data.residual(S, self.covariance)[0]
            if square > unfitted * max(here.V + data.output.noise, slow * self.tol):
                return f"Shat leaves outputs off by {square:.1e}, which is not of V = {here.V:.1e}"
        return None


def amp(
    x: ArrayLike | Source,
    y: ArrayLike | None,
    output: Channel,
    rho: float,
    *,
    damping: float | Literal["adaptive"] = "adaptive",
    covariance: Literal["gram", "scalar"] = "gram",
    max_iter: int = 200,
    tol: float = 1e-5,
    teacher: ArrayLike | None = None,
    callback: Callable[[AMPStep], object] | None = None,
    seed: int = -1,
    throw: bool = False,
) -> AMPResult:
    """Estimate S = W W^T/sqrt(r d) from tokens and outputs.

    omega = Tr(Shat Z) - V Sigma g_old, g = g_out(y, omega, V), qhat = (2/d^2) sum g^T Sigma g,
    R = Shat + (2/(d qhat)) sum g_ab Z_ab, Shat = RIE(R; 1/qhat), V = MMSE_rho(1/qhat).

    Parameters
    ----------
    x : array_like of shape (n, T, d), or callable
        Tokens, float32 or float64, entries of mean 0 and variance 1; memory-mapped if wanted. Or a function without
        arguments that gives an iterable of blocks (x, y), the same at every call, as `data.stream` makes it.
    y : array_like of shape (n, T, T), or None where x is a function
    output : Channel
    rho : float
        Width of the prior, r/d.
    damping : float in [0, 1), or "adaptive", keyword-only
        Share of the old estimate in the new one, in V and in the term of Onsager alike. "adaptive" starts at 0.3 and
        raises it where the steps no longer shrink: at finite d the iteration has slowly rotating modes. It starts again
        from 0.8 where the first try has locked, see the notes.
    covariance : {"gram", "scalar"}, keyword-only
        Sigma of each sample from its tokens, or 1 + delta_ab, its limit. At d of the order of 100 and few samples the
        latter can lock into V = 0.
    max_iter : int, keyword-only
    tol : float, keyword-only
        On ||Shat - Shat_old||^2/d, of the step before damping.
    teacher : array_like of shape (d, d), keyword-only, optional
        S, for the error.
    callback : callable, keyword-only, optional
        Called with an `AMPStep` after every iteration; a true value ends the run.
    seed : int, keyword-only
        Stored in the result; the algorithm itself draws nothing.
    throw : bool, keyword-only
        Raise if not converged, instead of marking it.

    Returns
    -------
    AMPResult

    Raises
    ------
    ValueError
        Data of a wrong shape or type, not finite, or empty; a parameter out of range.
    UnreachableOutputError
        Outputs that the channel does not give.
    ConvergenceError
        `throw` and no convergence.

    Notes
    -----
    x is read once per iteration: O(n T d^2 + d^3). At d = 100 the error is typically 2 to 7 per cent above its limit,
    more near perfect recovery.

    Where S has room for all samples the iteration has fixed points at V = 0 that interpolate them, and with few samples
    at small d it can run into one. Tr Shat is then off its mean by several standard deviations 2^{1/2} of Tr S, or the
    outputs that Shat gives are off by far more than V, and the result is not taken for converged.

    The estimate of ||S - Shat||^2/d without the teacher, `predicted` with its error, is not V: above recovery the
    iteration ends with any V. `self_error` has it.

    Hardmax labels of S are those of any multiple of it, and S/Tr S is independent of Tr S, as W W^T of Gaussian W is.
    So Tr E[S | data] = E Tr S = d rho^{1/2} exactly. The iteration has that in the limit of large d alone; its result
    is multiplied by what is missing. What stays is the spread of Tr S, an error of 2 (1 + rho)/(rho d^2).

    References
    ----------
    boncoraglio2025, AMP.
    """
    rho = above_zero("rho", rho, "rho = r/d")
    damp = SizeDamping(damping)
    if covariance not in ("gram", "scalar"):
        raise ValueError(f'covariance must be "gram" or "scalar" ({CITE}, AMP), got {covariance!r}')
    max_iter, tol = count("max_iter", max_iter, 1, "AMP"), above_zero("tol", tol, "AMP")
    data = Passes(x, y, output)
    d = data.dimension
    refuse_size(data.samples / d**2, d, output.tokens, f"x of d = {d}", scalar=covariance == "scalar")
    truth = None if teacher is None else check_matrix("teacher", teacher, d)

    def off(found: Array) -> float | None:
        return None if truth is None else float(((found - truth) ** 2).sum()) / d

    rounds = _Iteration(data, rho, covariance, tol)
    here, history, converged, status = _run(rounds, damp, max_iter, off, callback)
    table = np.array(history).reshape(-1, 5)
    if throw and not converged:
        raise ConvergenceError(status)
    own = SelfError(here.V, None, "")
    if converged:
        own = self_error(data, here.estimate, here.V, rho, covariance, tol)
        status = f"{status}; {own.status}"
    return AMPResult(
        estimate=here.estimate,
        predicted=own.value,
        predicted_error=own.error,
        V=here.V,
        mmse=off(here.estimate),
        alpha=data.samples / d**2,
        rho=rho,
        how="estimated",
        converged=converged,
        status=status,
        n_iter=len(history),
        history=table[:, :4],
        dampings=table[:, 4],
        seed=seed,
    )


def _run(
    rounds: _Iteration,
    damp: SizeDamping,
    max_iter: int,
    off: Callable[[Array], float | None],
    callback: Callable[[AMPStep], object] | None,
) -> tuple[_State, list[tuple[float, float, float, float, float]], bool, str]:
    """Where it ends, (change, V, qhat, error, damping) of each iteration, whether it has converged, and why."""
    here = start = rounds.start()
    history: list[tuple[float, float, float, float, float]] = []
    for iteration in range(1, max_iter + 1):
        q_hat, pull = rounds.data.sweep(here.S, here.V, here.newest, damp.value, rounds.covariance)
        if not (math.isfinite(q_hat) and q_hat > 0):
            status = f"not converged: qhat = {q_hat:.3g} after {iteration} iterations; raise the damping"
            return here, history, False, status
        here = rounds.advance(here, q_hat, pull, damp)
        error = off(here.estimate)
        history.append((here.change, here.V, q_hat, math.nan if error is None else error, damp.value))
        if callback is not None and callback(AMPStep(iteration, here.change, here.V, q_hat, error)):
            return here, history, False, f"not converged: stopped by the callback after {iteration} iterations"
        if here.change >= rounds.tol:
            continue
        locked = rounds.locked(here)
        if locked is None:
            return here, history, True, f"converged after {iteration} iterations: ||dS||^2/d = {here.change:.1e}"
        if iteration == max_iter or not damp.again():
            status = f"not converged: after {iteration} iterations {locked}; raise the damping to 0.9, or the samples"
            return here, history, False, status
        rounds.data.forget()
        here = replace(here, S=start.S, V=start.V, newest=start.newest)
    status = f"not converged: ||dS||^2/d = {here.change:.1e} >= {rounds.tol:g} after {max_iter} iterations; raise "
    return here, history, False, f"{status}max_iter or tol"
