"""State evolution (14): fixed points from the uninformed and the informed start, with their errors."""

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .channel_averages import Averages, Channel, channel, is_costly
from .errors import ConvergenceError, KernelNotFoundError
from .fibres import LastLayer as UntiedHead
from .models import Attention
from .prediction_error import prediction_errors
from .results import Estimate, EvolutionResult, How
from .thresholds import last_layer
from .two_layers.channel import serves

__all__ = ["Solver", "check_effort", "check_overlap", "curve", "evolve", "finish", "seeded"]

Array = NDArray[np.float64]

# The largest overlap that is resolved; beyond it the weights count as recovered.
_RECOVERED = 1 - 1e-6
# Where a layer that has just turned unstable starts.
_SEED = 0.05
_MEMORY = 4
# Least overlap of an active layer, and the overlap below which a layer may be dropped again.
_TINY = 1e-9
_DEAD = 1e-5
# Evaluations after which a share of the statistical error is enough, for averages that need it.
_PATIENCE, _ROUGH = 24, 0.1
# Of the quadrature, where there is one.
_ACCURACY = 1e-3
# Points per randomisation of the first search.
_COARSE = 256


def check_overlap(q: ArrayLike, size: int) -> Array:
    """Validate an overlap matrix: symmetric, 0 <= q < I, shape (P, P).

    Raises
    ------
    ValueError
        The message says which condition fails.
    """
    matrix = np.asarray(q, dtype=np.float64)
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
        On max |F(q) - q|.
    max_iter : int, optional
        Evaluations of the channel averages.
    rng : Generator, int or None, optional
    workers : int, optional
        Threads; all cores by default.
    nodes : int, optional
        Nodes of each sampled posterior, a power of two >= 64; halve the error they leave by twice as many.
    accuracy : float, optional
        Relative accuracy of the averages of two softmax layers over two tokens, which are quadratures unless `samples`
        is given; default 1e-3.
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
    The points are the same at every q, so the iteration has a fixed point to converge to; its statistical error is
    that of G carried through (1 - F')^{-1}, which grows near a threshold.

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
    solver = Solver(averages, float(alpha), tol, int(max_iter))
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
    result = finish(solver, averages, seed, generator)
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
    results = []
    q = np.zeros((model.indices, model.indices))
    for alpha in values:
        solver = Solver(averages, alpha, tol, max_iter)
        solver.grow(q)
        results.append(finish(solver, averages, seed, generator))
        q = results[-1].overlap
        if progress is not None:
            progress(results[-1])
    return results


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
    served = isinstance(model, Attention) and serves(model)
    if accuracy is None:
        return _ACCURACY if served and samples is None else None
    if not served:
        raise ValueError(
            f"accuracy is for two softmax layers, two tokens and rank 1; for {model.describe()} raise samples"
        )
    if (
        isinstance(accuracy, bool)
        or not isinstance(accuracy, int | float | np.floating)
        or not 1e-10 <= accuracy <= 1e-2
    ):
        raise ValueError(f"accuracy must be a number in [1e-10, 1e-2], got {accuracy!r}")
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


class Solver:
    """Anderson-accelerated iteration of q -> F(alpha G(q)) on the symmetric matrices over the active layers."""

    def __init__(self, averages: Channel, alpha: float, tol: float, max_iter: int, *, relative: bool = False) -> None:
        self.averages = averages
        # Whether `tol` is in units of 1 - q (plain steps from near recovery are short wherever they lead), and a tenth
        # of the statistical error is enough for averages that are not smooth.
        self.relative = relative
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.q = np.zeros((averages.model.indices,) * 2)
        self.latest: Averages | None = None
        self.residual = 0.0
        self.history: list[Array] = []
        self.n_iter = 0
        self.converged = False
        self.free: list[tuple[int, int]] = []
        # Indices that are learned together, and whether they share one overlap.
        self.groups: tuple[tuple[int, ...], ...] = getattr(averages, "groups", tuple((i,) for i in range(len(self.q))))
        self.equal: bool = getattr(averages, "equal", False)

    def image(self, g: Array) -> Array:
        """F(alpha g), for g of shape (..., P, P)."""
        qhat = self.alpha * g
        out: Array = qhat @ np.linalg.inv(np.eye(g.shape[-1]) + qhat)
        return 0.5 * (out + np.swapaxes(out, -1, -2))

    def grow(self, q: Array) -> None:
        """Settle on the layers of q, then let unstable layers join until none is left."""
        active = [int(i) for i in np.flatnonzero(q.diagonal())]
        while True:
            if active:
                self.settle(q, active)
                self.release(active)
            if not active:
                self._zero()
            unstable = [i for i, rate in enumerate(self.stability()) if rate > 1 and i not in active]
            if not unstable or not self.converged:
                return
            # The fastest direction first: it may change the stability of the others.
            rates = self.stability()
            joining = self._group(max(unstable, key=lambda i: float(rates[i])))
            active += joining
            q = self.q.copy()
            q[joining, joining] = _SEED

    def _group(self, index: int) -> list[int]:
        return list(next(group for group in self.groups if index in group))

    def release(self, active: list[int]) -> None:
        """Set overlaps that have died out to zero, and take their layers off the list, if they are stable there."""
        for group in [g for g in self.groups if g[0] in active and all(self.q[i, i] < _DEAD for i in g)]:
            q = self.q.copy()
            for i in group:
                q[i, :] = q[:, i] = 0.0
            latest = self.averages(q)
            self.n_iter += 1
            if not self.alpha * latest.growth[:, group[0]].mean() > 1:
                self.q, self.latest = q, latest
                self.free = [pair for pair in self.free if not set(pair) & set(group)]
                active[:] = [i for i in active if i not in group]

    def stability(self) -> Array:
        """Growth rate of a small overlap in each direction of zero overlap; NaN elsewhere and where not computed."""
        assert self.latest is not None
        rates = self.alpha * self.latest.growth.mean(axis=0)
        model = self.averages.model
        if not self.q.any() and model.layers > 1:
            last = model.layers - 1
            # The operator (15) has this one to many digits, where it is computed.
            norm = _last_layer_norm(model)
            rates[last] = rates[last] if norm is None else self.alpha * norm
        return rates

    def _zero(self) -> None:
        self.q = np.zeros_like(self.q)
        self.latest = self.averages(self.q)
        self.history.append(self.q.copy())
        self.n_iter += 1
        self.converged, self.residual, self.free = True, 0.0, []

    def settle(self, q: Array, active: list[int], *, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Iterate from q with the diagonal over the active layers free, and these entries off it."""
        diagonal = [(i, i) for i in sorted(active) if not self.equal or i == self._group(i)[0]]
        free = [*diagonal, *pairs]
        self.free = free
        rows, columns = np.array(free).T
        x = q[rows, columns].copy()
        points: list[Array] = []
        images: list[Array] = []
        self.converged = False
        self.q, self.residual = q.copy(), math.inf
        while self.latest is None or self.n_iter < self.max_iter:
            self.q = self._matrix(x)
            x = self.q[rows, columns]
            self.history.append(self.q.copy())
            self.latest = self.averages(self.q)
            self.n_iter += 1
            fx = self.image(self.latest.g.mean(axis=0))[rows, columns]
            self.residual = float(np.abs(fx - x).max())
            # The diagonal comes first.
            least, reached = (float(v[: len(diagonal)].min()) for v in (x, fx))
            allowed = self.tol
            if self.relative:
                allowed *= 1 - float(np.linalg.eigvalsh(self.q)[-1])
                if len(self.history) > _PATIENCE and self.averages.how == "monte-carlo":
                    # Sums over finitely many nodes jump where a link does: far below the statistical error is enough.
                    spread = self.image(self.latest.g)[:, rows, columns].std(axis=0, ddof=1)
                    allowed = max(allowed, _ROUGH * float(spread.max()) / math.sqrt(len(self.latest.g)))
            if self.residual <= allowed or (reached > _RECOVERED and least >= _RECOVERED - 1e-9):
                self.converged = True
                return
            points, images = [*points, x][-_MEMORY:], [*images, fx][-_MEMORY:]
            x = self._trusted(_anderson(points, images), x, fx)

    def _trusted(self, trial: Array, x: Array, fx: Array) -> Array:
        """Let an extrapolation from x go the way of the plain step to fx, and not much further.

        Extrapolation is drawn to unstable fixed points (q = 0, and q = I before recovery) as to stable ones; the plain
        step leads away from them. Beyond fx, q may shrink by 0.3 and 1 - q by 0.1, no more.
        """
        if all(i == j for i, j in self.free):
            bounded = np.clip(trial, 0.3 * fx, 1 - 0.1 * (1 - fx))
            return np.where((bounded - x) * (fx - x) >= 0, bounded, fx)
        far, near = (np.linalg.eigvalsh(self._block(point)) for point in (trial, fx))
        inside = far[0] >= 0.3 * near[0] and 1 - far[-1] >= 0.1 * (1 - near[-1])
        return trial if inside and (trial - x) @ (fx - x) >= 0 else fx

    def _block(self, x: Array) -> Array:
        """Matrix over the active layers."""
        q = np.zeros_like(self.q)
        for (i, j), value in zip(self.free, x, strict=True):
            q[i, j] = q[j, i] = value
        active = sorted({i for i, _ in self.free})
        block: Array = q[np.ix_(active, active)]
        return block

    def _matrix(self, x: Array) -> Array:
        q = np.zeros_like(self.q)
        for (i, j), value in zip(self.free, x, strict=True):
            q[i, j] = q[j, i] = value
        if all(i == j for i, j in self.free):
            for i, _ in self.free:
                value = min(max(q[i, i], _TINY), _RECOVERED)
                for same in self._group(i) if self.equal else [i]:
                    q[same, same] = value
            return q
        values, vectors = np.linalg.eigh(q)
        clipped: Array = (vectors * np.clip(values, 0.0, _RECOVERED)) @ vectors.T
        return clipped

    def standard_error(self) -> Array:
        """Standard error of q: that of F(alpha G) over the randomisations, times (1 - F')^{-1}."""
        error = np.zeros_like(self.q)
        if not self.free or self.latest is None:
            return error
        rows, columns = np.array(self.free).T
        if not math.isfinite(self.residual):  # the evaluations ran out before the first one here
            error[rows, columns] = error[columns, rows] = 1.0
            return error
        x = self.q[rows, columns]
        mean = self.image(self.latest.g.mean(axis=0))[rows, columns]
        spread = self.image(self.latest.g)[:, rows, columns] - mean
        jacobian = np.empty((len(x), len(x)))
        for k in range(len(x)):
            # One-sided, towards the inside; a rough slope suffices for an error bar.
            step = -0.02 * min(x[k], 1 - x[k]) if x[k] > 0 else 1e-3
            moved = x.copy()
            moved[k] += step
            other = self.image(self.averages(self._matrix(moved)).g.mean(axis=0))[rows, columns]
            jacobian[:, k] = (other - mean) / step
        response = np.linalg.pinv(np.eye(len(x)) - jacobian)
        deviations = spread @ response.T
        if self.averages.how == "monte-carlo":
            sigma = deviations.std(axis=0, ddof=1) / math.sqrt(len(deviations))
        else:
            sigma = np.abs(deviations).max(axis=0)
        sigma = sigma + np.abs(response @ (mean - x))
        if self.latest.bias is not None:
            moved = self.image(self.latest.g.mean(axis=0) + self.latest.bias)[rows, columns]
            sigma = sigma + np.abs(response @ (moved - mean))
        # An overlap cannot be off by more than its range.
        error[rows, columns] = error[columns, rows] = np.minimum(sigma, 1.0)
        if self.equal:
            for i, _ in self.free:
                same = self._group(i)
                error[same, same] = error[i, i]
        return error


def _anderson(points: list[Array], images: list[Array]) -> Array:
    """Next iterate of Anderson's method: the affine combination of images with the least residual."""
    last = images[-1]
    if len(points) < 2:
        return last
    residuals = np.array([f - x for x, f in zip(points, images, strict=True)])
    steps = residuals[-1] - residuals[:-1]
    gamma, *_ = np.linalg.lstsq(steps.T, residuals[-1], rcond=1e-10)
    moved = last - gamma @ (last - np.array(images[:-1]))
    # A wild extrapolation is cut to a multiple of the plain step.
    limit = 20 * float(np.abs(residuals[-1]).max())
    out: Array = points[-1] + np.clip(moved - points[-1], -limit, limit)
    inside = (out > 0) & (out < 1)
    return np.where(inside | (last < 0), out, last)


_NORMS: dict[tuple[object, ...], float | None] = {}


def _last_layer_norm(model: Attention) -> float | None:
    key = (model.layers, model.tokens, model.skip, model.beta, model.activation)
    if key not in _NORMS:
        try:
            _NORMS[key] = last_layer(model, digits=6).operator_norm
        except KernelNotFoundError:
            _NORMS[key] = None
    return _NORMS[key]


def finish(solver: Solver, averages: Channel, seed: int, rng: np.random.Generator) -> EvolutionResult:
    """Result at the overlap where the solver stands."""
    model = averages.model
    error = solver.standard_error()
    how: How = "monte-carlo" if averages.how == "monte-carlo" else "estimated"
    posterior_mean, plugin = prediction_errors(model, solver.q, error, rng=rng)
    size = model.indices
    estimation = Estimate(float(1 - np.trace(solver.q) / size), float(np.linalg.norm(error.diagonal()) / size), how)
    if solver.converged:
        status = f"converged after {solver.n_iter} evaluations: max |F(q) - q| = {solver.residual:.1e}"
        if any(solver.q[i, i] >= _RECOVERED - 1e-9 for i in range(size)):
            status += "; an overlap is within 1e-6 of 1 (recovered)"
    else:
        status = (
            f"not converged: max |F(q) - q| = {solver.residual:.1e} > {solver.tol:g} after {solver.n_iter} "
            "evaluations; raise max_iter or tol"
        )
    if averages.note:
        status += f"; {averages.note}"
    return EvolutionResult(
        alpha=solver.alpha,
        overlap=solver.q,
        overlap_error=error,
        estimation_error=estimation,
        prediction_error=posterior_mean,
        plugin_error=plugin,
        stability=solver.stability(),
        converged=solver.converged,
        status=status,
        n_iter=solver.n_iter,
        residual=solver.residual,
        history=np.array(solver.history),
        seed=seed,
        kernel_hash=model.kernel_hash,
    )
