"""The result of state evolution: a solution with the errors of prediction, and the sentence on how it was found."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Channel
from ..core.results import Estimate, EvolutionResult, How, Origin
from ..posterior.protocol import Model
from ..priors import Prior, as_setting, is_standard
from .error import TOO_NEAR
from .prediction_error import prediction_errors
from .state import Solution
from .unconverged import COVERED

__all__ = ["finish", "stated_with", "status_of"]

Array = NDArray[np.float64]


def finish(
    solution: Solution,
    averages: Channel,
    seed: int,
    rng: np.random.Generator,
    origin: Origin,
    predicted: Model | None = None,
) -> EvolutionResult:
    """Result of a solution by these averages, with the errors of predicting the outputs of another model if given."""
    model = averages.model
    q, error, how = solution.q, solution.error, solution.how
    posterior_mean, plugin = prediction_errors(
        predicted or model, q, error, how=how, rng=rng, both_ends=not solution.converged
    )
    size = model.indices
    # Errors that cover a way of all overlaps together add up.
    total = np.linalg.norm(error.diagonal()) if solution.converged else error.diagonal().sum()
    converged = solution.converged and not solution.doubt
    return EvolutionResult(
        alpha=solution.alpha,
        overlap=q,
        overlap_error=error,
        estimation_error=Estimate(float(1 - np.trace(q) / size), float(total / size), how),
        prediction_error=posterior_mean,
        plugin_error=plugin,
        stability=solution.rates,
        converged=converged,
        status=status_of(solution, averages),
        n_iter=solution.n_iter,
        residual=solution.residual,
        tol=solution.tolerance.value,
        history=_history(solution),
        seed=seed,
        kernel_hash=model.kernel_hash,
        # The one decision, which the command, sweeps and reports read.
        reached=converged and solution.reached,
        origin=origin,
    )


def stated_with(prior: Prior, result: EvolutionResult) -> EvolutionResult:
    """The same result with the prior in its origin and its status, unless it is the usual one."""
    if is_standard(prior):
        return result
    origin = result.origin.with_settings(**as_setting(prior))
    return replace(result, status=f"{result.status}; {prior.describe()}", origin=origin)


def status_of(solution: Solution, averages: Channel) -> str:
    """How the solution was found, with what limits it."""
    if solution.converged and solution.doubt:
        status = f"{TOO_NEAR}: {solution.doubt}; {_finer(averages, solution.how)}, or move alpha"
    elif solution.converged:
        status = f"converged after {solution.n_iter} evaluations: max |F(q) - q| = {solution.residual:.1e}"
        if solution.recovered:
            status += "; an overlap is within 1e-6 of 1 (recovered)"
    else:
        status = (
            f"not converged: max |F(q) - q| = {solution.residual:.1e} > {solution.tolerance.value:.3g} after "
            f"{solution.n_iter} evaluations; {COVERED}; raise max_iter or tol"
        )
    return "; ".join(part for part in (status, solution.tolerance.why, solution.note) if part)


def _history(solution: Solution) -> Array:
    """Iterates; the last one is the overlap that is returned, also where no averages were taken there."""
    last = solution.history[-1:]
    ends = bool(last) and np.array_equal(last[0], solution.q)
    return np.array([*solution.history, *([] if ends else [solution.q])])


def _finer(averages: Channel, how: How) -> str:
    """What makes averages more accurate."""
    if averages.accuracy is not None:
        return "ask for a smaller accuracy"
    return "raise samples" if how == "monte-carlo" else "it is the finest quadrature"
