"""State evolution (14): fixed points from the uninformed and the informed start, with their errors."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.averages import Channel
from ..core.cluster_pool import Workers
from ..core.errors import ConvergenceError
from ..core.random import seeded
from ..core.results import EvolutionResult
from ..core.validation import numbers, within
from ..model.network import Network
from ..priors import GAUSSIAN, Prior, as_prior, without_samples
from .accurate import Ways, as_accurate
from .balance import restricted, symmetric
from .effort import COARSE, EXACT, Effort, usual_samples
from .growth import at_rest, grown, released
from .iteration import Iteration
from .result import finish, stated_with
from .state import Problem, Slopes, Solution, State, Strategy, Tolerance

__all__ = ["INFORMED", "check_overlap", "curve", "evolve", "from_above"]

Array = NDArray[np.float64]

# Where the informed start is, below I.
INFORMED = 1e-3


def check_overlap(q: ArrayLike, size: int) -> Array:
    """Validate an overlap matrix: symmetric, 0 <= q < I, shape (P, P).

    Raises
    ------
    ValueError
        The message says which condition fails.
    """
    matrix = numbers("q", q)
    if matrix.shape != (size, size):
        raise ValueError(f"q must have shape (P, P) = ({size}, {size}), got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("q must be finite, got NaN or infinity")
    if np.abs(matrix - matrix.T).max() > 1e-12:
        raise ValueError("q must be symmetric (troiani2025 (13))")
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -1e-12 or values[-1] >= 1:
        raise ValueError(
            f"q must satisfy 0 <= q < I (troiani2025 (14)), got eigenvalues in [{values[0]:.6g}, {values[-1]:.6g}]"
        )
    return 0.5 * (matrix + matrix.T)


def evolve(
    model: Network,
    alpha: float,
    *,
    start: Literal["uninformed", "informed"] | ArrayLike = "uninformed",
    samples: int | None = None,
    replicas: int = 8,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    workers: Workers = None,
    nodes: int | None = None,
    accuracy: float | None = None,
    prior: Prior | str = GAUSSIAN,
    throw: bool = False,
) -> EvolutionResult:
    """Fixed point of q = F(alpha G(q)), with the F of the prior and G = E sum_m g_m g_m^T.

    Parameters
    ----------
    model : Network
        Any that `attnlimits models --routes` lists for `evolve`.
    alpha : float
        Samples per dimension N/D, >= 0.
    start : {"uninformed", "informed"} or array_like of shape (P, P)
        "uninformed": q = delta I with delta -> 0 after the iteration: layers join as their overlap turns unstable
        (17)-(18); where part of the weights is known (`priors.Informed`), from what is known. "informed": q just below
        I. A matrix: iterate from it, all entries free.
    samples, replicas : int, optional
        Points per randomisation (a power of two is taken), and independent randomisations, which give the error.
        Default 4096 points; 256 beyond two layers or two tokens (at depth >= 2), where each point's posterior is
        sampled, too. On charts, and where an accuracy is asked for, as many as it takes, unless they are given.
    tol : float, optional
        On max |F(q) - q|. By quadrature of three and more layers a tenth of `accuracy` where that is larger, by as many
        samples as it takes a two-hundredth; the status then says so.
    max_iter : int, optional
        Evaluations of the channel averages.
    rng : Generator, int or None, optional
    workers : int, ClusterPool or None
        Threads, all cores by default; or the workers of a cluster.
    nodes : int, optional
        Nodes of each sampled posterior, a power of two >= 64; halve the error they leave by twice as many. Default
        2048, on charts 512; or as many as `accuracy` takes, 512 first, on charts 64.
    accuracy : float, optional
        Of two layers over two tokens and of more softmax layers, which are quadratures as far as they go unless
        `samples` is given: relative accuracy of the overlaps of two layers (default 1e-3), absolute accuracy of those
        of three and more (default 1e-2). Of networks whose posterior is sampled, absolute, by as many samples as it
        takes (default 1e-2 on charts, elsewhere none). Where what can be done is not enough the stated errors are
        larger, `reached` of the result is false, and the status states it.
    prior : Prior, optional
        Law of the rows of the weights; Gaussian by default, F(qhat) = qhat (I + qhat)^{-1}. With another one averages
        of two and more layers are sampled unless an accuracy is asked for: next to recovery, where a discrete prior
        leads at once, quadratures take long.
    throw : bool, optional
        Raise if not converged, instead of marking it; an accuracy that is not reached does not raise.

    Returns
    -------
    EvolutionResult

    Raises
    ------
    ValueError
        An argument is outside its range.
    KernelNotFoundError
        No state evolution for this architecture.
    ConvergenceError
        `throw` and no convergence.

    Notes
    -----
    The points are the same at every q, so the iteration has a fixed point to converge to. Its error covers the fixed
    points of averages displaced by three of their errors, over three; where these do not exist, or cannot be told from
    zero overlap, the result is marked as too near a threshold (`fixed_point_error`).

    References
    ----------
    troiani2025, (13)-(14), (17)-(18), (95).
    """
    prior = as_prior(prior)
    if samples is None and accuracy is None and not prior.isotropic:
        samples = usual_samples(model)
    effort = Effort(samples, replicas, tol, max_iter, nodes, accuracy).checked(model, alpha, EXACT)
    seed, generator = seeded(rng)
    solution, averages = _solved(model, float(alpha), start, effort, rng=generator, workers=workers, prior=prior)
    result = stated_with(prior, finish(solution, averages, seed, generator, effort.origin(model, start, seed)))
    if throw and not result.converged:
        raise ConvergenceError(result.status)
    return result


def curve(
    model: Network,
    alphas: Iterable[float],
    *,
    progress: Callable[[EvolutionResult], None] | None = None,
    samples: int | None = None,
    replicas: int = 8,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    workers: Workers = None,
    nodes: int | None = None,
    accuracy: float | None = None,
) -> list[EvolutionResult]:
    """Uninformed fixed points along increasing alpha, each continued from the latest one that converged.

    Parameters are those of `evolve`; `progress` is called with each result. Points and their order are shared, so
    neighbouring values have strongly correlated errors and the curve is smooth.
    """
    values = sorted(float(a) for a in alphas)
    if not values or not all(math.isfinite(a) and a >= 0 for a in values):
        raise ValueError("alphas must be a non-empty sequence of finite numbers >= 0")
    within("alpha", values[-1])
    effort = Effort(samples, replicas, tol, max_iter, nodes, accuracy).checked(model, values[0], 1024).alike(model)
    seed, generator = seeded(rng)
    averages = effort.channel(model, generator, workers)
    origin = effort.origin(model, "continued", seed)
    results = []
    slopes: Slopes = {}
    q = np.zeros((model.indices, model.indices))
    for alpha in values:
        strategy = effort.strategy(averages, alpha)
        state = grown(strategy, State.start(strategy.problem, slopes), q)
        results.append(finish(strategy.postprocess(state), averages, seed, generator, origin))
        if results[-1].converged:
            q, slopes = results[-1].overlap, state.slopes
        if progress is not None:
            progress(results[-1])
    return results


def _solved(
    model: Network,
    alpha: float,
    start: str | ArrayLike,
    effort: Effort,
    *,
    rng: np.random.Generator,
    workers: Workers,
    prior: Prior,
) -> tuple[Solution, Channel]:
    """Fixed point, and the averages that it is one of."""
    given = without_samples(prior, model.indices)
    if isinstance(start, str) and start == "uninformed" and given.any():
        start = given
    begin, upwards = _beginning(start, model), isinstance(start, str) and start == "uninformed"
    if (first := effort.first(model)) is not None:
        assert effort.accuracy is not None
        ways = Ways(
            lambda fine: replace(effort, samples=fine.samples, nodes=fine.nodes).channel(model, rng, workers),
            lambda averages: effort.strategy(averages, alpha, prior),
            begin,
            _onward if isinstance(start, str) else begin,
        )
        return as_accurate(ways, effort.accuracy, first, effort.replicas)
    averages = effort.channel(model, rng, workers)
    strategy = effort.strategy(averages, alpha, prior)
    state = State.start(strategy.problem)
    if upwards and effort.worth_scouting(model):
        # A few points find the neighbourhood of the fixed point, all of them the fixed point.
        state = _scouted(state, strategy.problem, replace(effort, samples=COARSE).channel(model, rng, workers))
    return strategy.postprocess(begin(strategy, state)), averages


def _beginning(start: str | ArrayLike, model: Network) -> Callable[[Strategy, State], State]:
    """How a computation begins."""
    if not isinstance(start, str):
        q = check_overlap(start, model.indices)
        return lambda strategy, state: _from_overlap(strategy, state, q)
    if start == "informed":
        return from_above
    if start == "uninformed":
        return _onward
    raise ValueError(f'start must be "uninformed", "informed" or an overlap matrix, got {start!r}')


def _onward(strategy: Strategy, state: State) -> State:
    """Settle on the layers that are learned, and let others join."""
    return grown(strategy, state, state.q)


def _scouted(state: State, problem: Problem, few: Channel) -> State:
    """Neighbourhood of the fixed point by a few points, whose evaluations count."""
    # Tolerance of the search by few points, and its evaluations at most.
    scout_tol, scout_iter = 1e-3, 40
    most = min(problem.max_iter, scout_iter)
    rough = Problem(few, problem.alpha, Tolerance(scout_tol), most, prior=problem.prior)
    scout = grown(Iteration(rough), State.start(rough), state.q)
    return replace(state, q=scout.q, n_iter=scout.n_iter, history=scout.history)


def from_above(strategy: Strategy, begin: State | None = None) -> State:
    """Settle from just below I."""
    problem = strategy.problem
    active, q = list(problem.averages.layers), problem.zero
    q[active, active] = 1 - INFORMED
    state = State.start(problem) if begin is None else begin
    return released(problem, strategy.settle(state, q, active), active)[0]


def _from_overlap(strategy: Strategy, begin: State, q: Array) -> State:
    """Settle from an overlap, with all entries of its indices free if any off the diagonal is not zero."""
    problem = strategy.problem
    shared = problem.averages.shared
    if not symmetric(problem.averages, q):
        raise ValueError(
            f"start must be a multiple of the identity for {problem.averages.model.describe()}: its link does not see "
            "rotations of the indices (troiani2025 (6)); entries that must be equal: "
            + "; ".join(", ".join(f"q_{i + 1}{j + 1}" for i, j in entries) for entries in shared if len(entries) > 1)
            + "; those in none of these and off the diagonal must be zero"
        )
    # Keys of a layer that are known inform of its queries, and they of them.
    active = sorted(i for group in problem.averages.groups if q[list(group)].any() for i in group)
    if not active:  # a fixed point, if perhaps an unstable one
        return at_rest(problem, begin)
    # Where symmetry ties entries together, only those that it leaves are free.
    coupled = np.abs(q - np.diag(q.diagonal())).max() > 0 and not restricted(problem.averages)
    return strategy.settle(begin, q, active, tuple(combinations(active, 2)) if coupled else ())
