"""The result at the overlap where a solver stands: errors, what is said of them, and the history."""

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Channel
from ..core.results import Estimate, EvolutionResult, How, Origin
from .error import TOO_NEAR
from .prediction_error import prediction_errors
from .solver import RECOVERED, Solver

__all__ = ["finish"]

Array = NDArray[np.float64]


def finish(solver: Solver, averages: Channel, seed: int, rng: np.random.Generator, origin: Origin) -> EvolutionResult:
    """Result at the overlap where the solver stands."""
    model = averages.model
    error, doubt = solver.measure()
    how = solver.how
    posterior_mean, plugin = prediction_errors(model, solver.q, error, rng=rng)
    size = model.indices
    estimation = Estimate(float(1 - np.trace(solver.q) / size), float(np.linalg.norm(error.diagonal()) / size), how)
    converged = solver.converged and not doubt
    if solver.converged and doubt:
        status = f"{TOO_NEAR}: {doubt}; {_finer(averages, how)}, or move alpha"
    elif solver.converged:
        status = f"converged after {solver.n_iter} evaluations: max |F(q) - q| = {solver.residual:.1e}"
        if any(solver.q[i, i] >= RECOVERED - 1e-9 for i in range(size)):
            status += "; an overlap is within 1e-6 of 1 (recovered)"
    else:
        status = (
            f"not converged: max |F(q) - q| = {solver.residual:.1e} > {solver.tolerance.value:.3g} after "
            f"{solver.n_iter} evaluations; raise max_iter or tol"
        )
    if solver.tolerance.why:
        status += f"; {solver.tolerance.why}"
    if solver.note:
        status += f"; {solver.note}"
    return EvolutionResult(
        alpha=solver.alpha,
        overlap=solver.q,
        overlap_error=error,
        estimation_error=estimation,
        prediction_error=posterior_mean,
        plugin_error=plugin,
        stability=solver.stability(),
        converged=converged,
        status=status,
        n_iter=solver.n_iter,
        residual=solver.residual,
        tol=solver.tolerance.value,
        history=_history(solver),
        seed=seed,
        kernel_hash=model.kernel_hash,
        origin=origin,
    )


def _history(solver: Solver) -> Array:
    """Iterates; the last one is the overlap that is returned, also where no averages were taken there."""
    last = solver.history[-1:]
    ends = bool(last) and np.array_equal(last[0], solver.q)
    return np.array([*solver.history, *([] if ends else [solver.q])])


def _finer(averages: Channel, how: How) -> str:
    """What makes averages more accurate."""
    if averages.accuracy is not None:
        return "ask for a smaller accuracy"
    return "raise samples" if how == "monte-carlo" else "it is the finest quadrature"
