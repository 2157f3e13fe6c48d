"""Gradient descent on the square loss: all samples at a time, or batches that are used again (section 3.3)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConvergenceError
from ...core.results import Origin
from ...core.validation import choice, not_negative, positive, whole
from ...fixed_point.evolve import seeded
from ..data import Source, check_weights, stream
from ..outputs.channel import Model, check_model
from ..symmetry import symmetry
from .gradient import layer_rows
from .objective import Objective
from .results import DescentResult, DescentStep
from .rules import METHODS, Adam, Method, Plain, Rule
from .similarity import cosines

__all__ = ["descend"]

Array = NDArray[np.float64]

# Rates where nobody gives them.
_RATES = {"sgd": 0.2, "gd": 0.5, "adam": 0.03}
# Size of the entries of a start from nothing: layers that are small are learned one after the other.
_START = 0.1
# Batches of an epoch, over alpha, where nobody gives their size.
_PARTS = 5
# Times the larger of the first loss and that of the best constant, beyond which a run has diverged, and the size of a
# weight beyond which it has.
_GROWN, _LARGEST = 3.0, 1e4
# Size of the weights that counts as zero.
_DEAD = 1e-8


def descend(
    X: ArrayLike | Source,
    Y: ArrayLike | None,
    model: Model,
    *,
    method: Method = "sgd",
    rate: float | None = None,
    weight_decay: float = 0.0,
    batch: int | None = None,
    reuse: int = 1,
    epochs: int = 200,
    tol: float = 1e-3,
    start: ArrayLike | None = None,
    teacher: ArrayLike | None = None,
    callback: Callable[[DescentStep], object] | None = None,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
    throw: bool = False,
) -> DescentResult:
    """Descend the square loss of a sequence multi-index model from its inputs and outputs.

    l(W) = mean of ||y - g(W x / sqrt(D))||^2 / 2 over samples, W <- W - rate (D dl/dW + weight_decay W).

    Parameters
    ----------
    X, Y : array_like or callable
        Samples of shape (N, M, D) and outputs of shape (N, M, M), or (N, K) of a link; as in `gamp`.
    model : Attention, fibres.LastLayer or LinkKernel
        Any depth, tokens, ranks and activation; links without noise (their loss on noisy data is the same).
    method : {"sgd", "gd", "adam"}
        The step above on one batch after the other, or on all samples; or Adam on batches, with decoupled decay.
    rate : float, optional
        > 0; default 0.2 ("sgd"), 0.5 ("gd"), 0.03 ("adam").
    weight_decay : float
        >= 0.
    batch : int, optional
        Samples per batch, the last one of an epoch may be smaller; default D/5. At a given rate the noise of the steps
        depends on batch/D.
    reuse : int
        Consecutive steps on each batch.
    epochs : int
        Most passes over the data.
    tol : float
        On the norm of D dl/dW + weight_decay W, over that of W.
    start : array_like of shape (P, D), optional
        By default Gaussian of standard deviation 0.1, which knows nothing.
    teacher : array_like of shape (P, D), optional
        W, for overlaps and cosine similarities.
    callback : callable, optional
        Called with a `DescentStep` after every epoch; a true value ends the run.
    rng : Generator, int or None, optional
        Of the start and of the order of the samples.
    workers : int, optional
        Threads of passes over all samples; all cores by default.
    throw : bool, optional
        Raise if not converged, instead of marking it.

    Returns
    -------
    DescentResult
        A run that diverges ends with the weights of least loss and `converged` False.

    Raises
    ------
    ValueError
        Data or an argument that does not fit; the message says what to do.
    KernelNotFoundError
        A link without slopes.
    ConvergenceError
        `throw` and no convergence.

    Notes
    -----
    D dl/dW is of the size of W at any D, and so a rate means the same at any D. Every epoch ends with one pass over all
    samples, for loss and residual. A memory-mapped X is read batch by batch; what a function gives is split into
    batches block by block.

    References
    ----------
    troiani2025, section 3.3.
    """
    check_model(model)
    choice("method", method, METHODS, "section 3.3")
    rate = positive("rate", _RATES[method] if rate is None else rate, "section 3.3")
    decay = not_negative("weight_decay", weight_decay, "section 3.3")
    reuse = whole("reuse", reuse, 1, "section 3.3")
    epochs = whole("epochs", epochs, 1, "section 3.3")
    tol = not_negative("tol", tol, "section 3.3")
    if batch is not None:
        batch = whole("batch", batch, 1, "section 3.3")
    if method == "gd" and (batch is not None or reuse > 1):
        raise ValueError('batch and reuse belong to method "sgd" and "adam" (section 3.3); "gd" takes all samples')
    seed, generator = seeded(rng)
    generator = generator if seed < 0 else stream(seed, 4)
    objective = Objective(X, Y, model, workers)
    dimension = objective.dimension
    if start is None:
        weights = _START * generator.standard_normal((model.indices, dimension))
    else:
        weights = check_weights("start", start, model, dimension).copy()
    track = _Track(model, None if teacher is None else check_weights("teacher", teacher, model, dimension), decay)
    if batch is None and method != "gd":
        batch = -(-dimension // _PARTS)
    rule: Rule = (Adam if method == "adam" else Plain)(rate, decay)
    loss, gradient = objective.whole(weights)
    if not math.isfinite(loss):
        raise ValueError(
            "start must give finite outputs, and a finite loss with Y (troiani2025 (4)), got infinity or NaN; take a "
            "smaller start, or scale Y"
        )
    track.note(weights, loss, gradient)
    spread = objective.spread()
    most = _GROWN * max(loss, spread)
    # One batch of all samples: its gradient is already known.
    single = batch is None or (batch >= objective.rows and objective.blocks == 1)
    best, converged, status, epoch = (loss, weights, 0), False, "", 0
    for epoch in range(1, epochs + 1):
        parts = None if single else objective.batches(batch, generator)
        moved = _stepped(objective, rule, (weights, gradient), parts, reuse)
        if reason := _lost(moved):
            status = reason
        else:
            loss, gradient = objective.whole(moved)
            if not loss <= most:
                status = f"the loss has grown to {loss:.3g} from {track.losses[0]:.3g}"
        if status:
            status = f"diverged in epoch {epoch}: {status}; restored epoch {best[2]}; lower rate"
            weights = best[1]
            break
        weights = moved
        track.note(weights, loss, gradient)
        if loss < best[0]:
            best = (loss, weights, epoch)
        stop = callback is not None and callback(track.step(epoch, weights))
        if float(np.abs(weights).max()) < _DEAD:
            converged, status = True, f"converged after {epoch} epochs: the weights have decayed, nothing is learned"
        elif track.residuals[-1] <= tol:
            converged = loss <= spread
            settled = f"after {epoch} epochs at a loss of {loss:.2e} ({spread:.2e} of the best constant)"
            status = f"converged {settled}" if converged else f"stuck {settled}; lower rate, or start elsewhere"
        elif stop:
            status = f"ended by the callback after {epoch} epochs"
        if status:
            break
    else:
        status = f"not converged after {epochs} epochs: the gradient is {track.residuals[-1]:.1e} of W > {tol:g}"
        status += "; raise epochs or rate"
    if throw and not converged:
        raise ConvergenceError(status)
    own = weights @ weights.T / dimension
    overlap = track.overlap(weights)
    return DescentResult(
        weights=weights,
        loss=best[0] if status.startswith("diverged") else loss,
        spread=spread,
        layers=tuple(name for name, _ in layer_rows(model)),
        cosine=None if overlap is None else cosines(model, overlap, own, track.norms),
        overlap=overlap,
        self_overlap=own,
        losses=np.array(track.losses),
        residuals=np.array(track.residuals),
        cosines=None if overlap is None else track.cosines(),
        history=None if overlap is None else np.array(track.overlaps),
        self_history=np.array(track.selves),
        converged=converged,
        status=status,
        n_epochs=len(track.losses) - 1,
        residual=track.residuals[-1],
        method=method,
        rate=rate,
        weight_decay=decay,
        batch=batch,
        reuse=reuse,
        alpha=objective.rows / dimension,
        seed=seed,
        model=model.describe(),
        kernel_hash=model.kernel_hash,
        origin=Origin.of(
            model,
            method=method,
            rate=rate,
            weight_decay=decay,
            batch=batch,
            reuse=reuse,
            epochs=epochs,
            tol=tol,
            start="random" if start is None else "given",
            seed=seed,
        ),
    )


def _stepped(
    objective: Objective,
    rule: Rule,
    here: tuple[Array, Array],
    batches: Iterator[tuple[NDArray[Any], Array]] | None,
    reuse: int,
) -> Array:
    """Weights after an epoch from weights and their gradient; None for one batch of all samples.

    Steps that leave float64 are known by where they lead, and need no warning of NumPy.
    """
    weights, gradient = here
    with np.errstate(over="ignore", invalid="ignore"):
        if batches is None:
            moved = rule(weights, gradient)
            for _ in range(reuse - 1):
                moved = rule(moved, objective.whole(moved)[1])
            return moved
        moved = weights
        for x, y in batches:
            for _ in range(reuse):
                moved = rule(moved, objective.gradient(x, y, moved))
        return moved


def _lost(weights: Array) -> str:
    """Why weights are none any more; empty if they are."""
    largest = float(np.abs(weights).max())
    return "" if largest < _LARGEST else f"a weight has grown to {largest:.3g}"


@dataclass
class _Track:
    """What is kept of each epoch."""

    model: Model
    teacher: Array | None
    decay: float
    losses: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    overlaps: list[Array] = field(default_factory=list)
    selves: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gauge = symmetry(self.model)
        truth = np.zeros((self.model.indices, 1)) if self.teacher is None else self.teacher
        self.norms = truth @ truth.T / truth.shape[1]

    def overlap(self, weights: Array) -> Array | None:
        return None if self.teacher is None else self.gauge.align(self.teacher @ weights.T / weights.shape[1])

    def note(self, weights: Array, loss: float, gradient: Array) -> None:
        size = float(np.linalg.norm(weights))
        self.losses.append(loss)
        # Infinite where the decay takes the weights out of float64.
        with np.errstate(over="ignore", invalid="ignore"):
            slope = float(np.linalg.norm(gradient + self.decay * weights))
        self.residuals.append(slope / size if size > 0 else 0.0)
        self.selves.append(weights @ weights.T / weights.shape[1])
        overlap = self.overlap(weights)
        if overlap is not None:
            self.overlaps.append(overlap)

    def cosines(self) -> Array:
        return cosines(self.model, np.array(self.overlaps), np.array(self.selves), self.norms)

    def step(self, epoch: int, weights: Array) -> DescentStep:
        known = self.teacher is not None
        return DescentStep(
            epoch,
            weights.copy(),
            self.losses[-1],
            self.residuals[-1],
            self.overlaps[-1] if known else None,
            cosines(self.model, self.overlaps[-1], self.selves[-1], self.norms) if known else None,
        )
