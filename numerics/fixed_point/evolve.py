"""State evolution (14): fixed points from the uninformed and the informed start, with their errors."""

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.averages import Channel
from ..channel.choice import channel, is_costly
from ..channel.deep.averages import DeepAverages
from ..channel.deep.channel import serves as serves_deep
from ..channel.two_layers.channel import TwoLayerAverages, serves
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.results import Estimate, EvolutionResult, How, Origin
from ..core.validation import numbers
from ..model.attention import Attention
from ..posterior.fibres import LastLayer as UntiedHead
from .error import TOO_NEAR
from .prediction_error import prediction_errors
from .refined import RefinedSolver, Slopes
from .solver import RECOVERED, Solver, Tolerance

__all__ = ["check_effort", "check_overlap", "curve", "evolve", "finish", "seeded"]

Array = NDArray[np.float64]

# Of the quadrature, where there is one: relative at two layers, absolute beyond.
_ACCURACY, _DEEP_ACCURACY = 1e-3, 1e-2
# Largest residual, over the accuracy, of overlaps of deep models.
_REST = 0.1
# Points per randomisation of the first search.
_COARSE = 256


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
    model: Attention | UntiedHead,
    alpha: float,
    *,
    start: Literal["uninformed", "informed"] | ArrayLike = "uninformed",
    samples: int | None = None,
    replicas: int = 8,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
    nodes: int = 2048,
    accuracy: float | None = None,
    throw: bool = False,
) -> EvolutionResult:
    """Fixed point of q = F(alpha G(q)), F(qhat) = qhat (I + qhat)^{-1}, G = E sum_m g_m g_m^T.

    Parameters
    ----------
    model : Attention or fibres.LastLayer
        Rank 1 at depth >= 2; at depth 1 rank 1 to 3 if tied, and 1 if untied (`fibres.LastLayer`).
    alpha : float
        Samples per dimension N/D, >= 0.
    start : {"uninformed", "informed"} or array_like of shape (P, P)
        "uninformed": q = delta I with delta -> 0 after the iteration: layers join as their overlap turns unstable
        (17)-(18). "informed": q just below I. A matrix: iterate from it, all entries free.
    samples, replicas : int, optional
        Points per randomisation (a power of two is taken), and independent randomisations, which give the error.
        Default 4096 points; 256 beyond two layers or two tokens (at depth >= 2), where each point's posterior is
        sampled, too.
    tol : float, optional
        On max |F(q) - q|. By quadrature of three and more layers a tenth of `accuracy` where that is larger; the
        status then says so.
    max_iter : int, optional
        Evaluations of the channel averages.
    rng : Generator, int or None, optional
    workers : int, optional
        Threads; all cores by default.
    nodes : int, optional
        Nodes of each sampled posterior, a power of two >= 64; halve the error they leave by twice as many.
    accuracy : float, optional
        Of two and more softmax layers over two tokens, which are quadratures as far as they go unless `samples` is
        given: relative accuracy of the overlaps of two layers (default 1e-3), absolute accuracy of those of three and
        more (default 1e-2; where what can be done is not enough, the stated errors are larger).
    throw : bool, optional
        Raise if not converged, instead of marking it.

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
    _check_model(model)
    accuracy = _default_accuracy(model, samples, accuracy)
    samples = _default_samples(model, samples, 4096)
    check_effort(alpha, samples, replicas, tol, max_iter)
    _check_nodes(nodes)
    seed, generator = seeded(rng)
    averages = channel(
        model,
        samples=int(samples),
        replicas=int(replicas),
        rng=generator,
        workers=workers,
        nodes=nodes,
        accuracy=accuracy,
    )
    solver = _solver(averages, float(alpha), tol, int(max_iter), accuracy, {})
    if (
        isinstance(start, str)
        and start == "uninformed"
        and model.layers > 1
        and accuracy is None
        and samples >= 8 * _COARSE
        and max_iter >= 50
    ):
        # A few points find the neighbourhood of the fixed point, all of them the fixed point.
        rough = channel(model, samples=_COARSE, replicas=int(replicas), rng=generator, workers=workers, nodes=nodes)
        scout = Solver(rough, float(alpha), 1e-3, min(int(max_iter), 40))
        scout.grow(np.zeros((model.indices, model.indices)))
        solver.n_iter = scout.n_iter
        solver.history = scout.history
        solver.grow(scout.q)
    elif isinstance(start, str):
        if start not in ("uninformed", "informed"):
            raise ValueError(f'start must be "uninformed", "informed" or an overlap matrix, got {start!r}')
        if start == "uninformed":
            solver.grow(np.zeros((model.indices, model.indices)))
        else:
            informed = np.zeros((model.indices, model.indices))
            for layer in averages.layers:
                informed[layer, layer] = 1 - 1e-3
            active = list(averages.layers)
            solver.settle(informed, active)
            solver.release(active)
    else:
        q0 = check_overlap(start, model.indices)
        if solver.equal and np.abs(q0 - q0[0, 0] * np.eye(len(q0))).max() > 1e-12:
            raise ValueError(
                f"start must be a multiple of the identity for {model.describe()}: its link does not see rotations of "
                "the indices (troiani2025 (6))"
            )
        active = [int(i) for i in np.flatnonzero(q0.diagonal())]
        if active:
            coupled = np.abs(q0 - np.diag(q0.diagonal())).max() > 0
            solver.settle(q0, active, pairs=combinations(sorted(active), 2) if coupled else ())
        else:  # a fixed point, if perhaps an unstable one
            solver._zero()
    origin = Origin.of(
        model,
        start=start,
        samples=samples,
        replicas=replicas,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
        nodes=nodes,
        accuracy=accuracy,
    )
    result = finish(solver, averages, seed, generator, origin)
    if throw and not result.converged:
        raise ConvergenceError(result.status)
    return result


def curve(
    model: Attention | UntiedHead,
    alphas: Iterable[float],
    *,
    progress: Callable[[EvolutionResult], None] | None = None,
    samples: int | None = None,
    replicas: int = 8,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
    nodes: int = 2048,
    accuracy: float | None = None,
) -> list[EvolutionResult]:
    """Uninformed fixed points along increasing alpha, each continued from the one before.

    Parameters are those of `evolve`; `progress` is called with each result. Points and their order are shared, so
    neighbouring values have strongly correlated errors and the curve is smooth.
    """
    values = sorted(float(a) for a in alphas)
    if not values or not all(math.isfinite(a) and a >= 0 for a in values):
        raise ValueError("alphas must be a non-empty sequence of finite numbers >= 0")
    _check_model(model)
    accuracy = _default_accuracy(model, samples, accuracy)
    samples = _default_samples(model, samples, 1024)
    check_effort(values[0], samples, replicas, tol, max_iter)
    _check_nodes(nodes)
    seed, generator = seeded(rng)
    averages = channel(
        model, samples=samples, replicas=replicas, rng=generator, workers=workers, nodes=nodes, accuracy=accuracy
    )
    origin = Origin.of(
        model,
        start="continued",
        samples=samples,
        replicas=replicas,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
        nodes=nodes,
        accuracy=accuracy,
    )
    results = []
    slopes: Slopes = {}
    q = np.zeros((model.indices, model.indices))
    for alpha in values:
        solver = _solver(averages, alpha, tol, max_iter, accuracy, slopes)
        solver.grow(q)
        results.append(finish(solver, averages, seed, generator, origin))
        q = results[-1].overlap
        if progress is not None:
            progress(results[-1])
    return results


def _solver(
    averages: Channel, alpha: float, tol: float, max_iter: int, accuracy: float | None, slopes: Slopes
) -> Solver:
    if accuracy is None:
        return Solver(averages, alpha, tol, max_iter)
    assert isinstance(averages, TwoLayerAverages | DeepAverages)
    rough = _REST * accuracy
    if not isinstance(averages, DeepAverages) or rough <= tol:
        return RefinedSolver(averages, alpha, tol, max_iter, accuracy, slopes)
    solver = RefinedSolver(averages, alpha, rough, max_iter, accuracy, slopes)
    solver.tolerance = Tolerance(
        rough, f"the tolerance was {rough:.1e} instead of tol = {tol:g}: a tenth of the accuracy asked for"
    )
    return solver


def _check_model(model: Attention | UntiedHead) -> None:
    if isinstance(model, Attention) and set(model.ranks) != {1} and (model.layers > 1 or model.indices > 3):
        raise KernelNotFoundError(
            f"no state evolution for {model.describe()}; there is one for rank 1, any depth and number of tokens, and "
            "for rank 2 and 3 at depth 1"
        )
    if isinstance(model, UntiedHead) and model.tied:
        raise ValueError("model must be an untied fibres.LastLayer; for a tied layer give Attention(1, ..) (2)")


def _default_accuracy(model: Attention | UntiedHead, samples: int | None, accuracy: float | None) -> float | None:
    """Of the quadrature, where there is one and no sampling is asked for."""
    shallow = isinstance(model, Attention) and serves(model)
    deep = isinstance(model, Attention) and serves_deep(model)
    if accuracy is None:
        if samples is not None or not (shallow or deep):
            return None
        return _ACCURACY if shallow else _DEEP_ACCURACY
    if not (shallow or deep):
        raise ValueError(
            "accuracy is for two or more softmax layers, two tokens, rank 1 and c > 0; for "
            f"{model.describe()} raise samples"
        )
    least = 1e-10 if shallow else 1e-4
    if (
        isinstance(accuracy, bool)
        or not isinstance(accuracy, int | float | np.floating)
        or not least <= accuracy <= 1e-2
    ):
        raise ValueError(f"accuracy must be a number in [{least:g}, 1e-2] for {model.describe()}, got {accuracy!r}")
    return float(accuracy)


def _default_samples(model: Attention | UntiedHead, samples: int | None, exact: int) -> int:
    """Points per randomisation: fewer where every one of them costs a sampled posterior."""
    return samples if samples is not None else 256 if is_costly(model) else exact


def _check_nodes(nodes: int) -> None:
    if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 64 or nodes & (nodes - 1):
        raise ValueError(f"nodes must be a power of two >= 64, got {nodes!r}")


def check_effort(alpha: float, samples: int, replicas: int, tol: float, max_iter: int) -> None:
    """Refuse values out of range.

    Raises
    ------
    ValueError
        The message names the argument.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating | np.integer):
        raise ValueError(f"alpha must be a number >= 0, got {alpha!r}")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"alpha must be finite and >= 0 (alpha = N/D), got {alpha!r}")
    for name, value, least in (("samples", samples, 1), ("replicas", replicas, 2), ("max_iter", max_iter, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.floating) or not tol > 0:
        raise ValueError(f"tol must be a number > 0, got {tol!r}")


def seeded(rng: np.random.Generator | int | None) -> tuple[int, np.random.Generator]:
    """Seed that a result states (-1 for a generator of the caller's), and the generator."""
    if isinstance(rng, np.random.Generator):
        return -1, rng
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else int(rng)
    return seed, np.random.default_rng(seed)


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
