"""Gradient descent on the square loss: all samples at a time, or batches that are used again (section 3.3)."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConvergenceError
from ...core.random import seeded
from ...core.results import Origin
from ...core.validation import choice, not_negative, positive, whole
from ...model.routes import require
from ...posterior.protocol import Model
from ..blocks import Array, Source, stream
from ..data import check_weights
from ..heads import blocks_of, weight_blocks, weight_rows
from ..rules import METHODS, Adam, Method, Plain, Rule
from .objective import Objective
from .results import DescentResult, DescentStep
from .similarity import cosines
from .track import Track

__all__ = ["descend"]


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
    model : Network or LinkKernel
        Any architecture, softmax or linear; links without noise (their loss on noisy data is the same).
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
    start : array_like of shape (P, D), or (rows, D/H) of H heads, optional
        By default Gaussian of standard deviation 0.1, without information on the teacher.
    teacher : array_like of the same shape, optional
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
    require("descend", model)
    settings = _Settings(method, rate, weight_decay, batch, reuse, epochs, tol).checked()
    seed, generator = seeded(rng)
    generator = generator if seed < 0 else stream(seed, 4)
    objective = Objective(X, Y, model, workers)
    dimension = objective.dimension
    weights = _first(start, model, dimension, generator)
    truth = None if teacher is None else check_weights("teacher", teacher, model, dimension)
    track = Track(model, truth, settings.weight_decay)
    settings = settings.for_dimension(dimension * blocks_of(model))
    run = _Run(objective, settings, track, generator, callback)
    weights, loss, converged, status = run.descend(weights)
    if throw and not converged:
        raise ConvergenceError(status)
    own = weights @ weights.T / dimension
    overlap = track.overlap(weights)
    asked = {key: value for key, value in asdict(settings).items() if key not in ("epochs", "tol")}
    return DescentResult(
        weights=weights,
        loss=loss,
        spread=run.spread,
        layers=tuple(name for name, _ in weight_blocks(model)),
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
        alpha=objective.rows / (dimension * blocks_of(model)),
        seed=seed,
        model=model.describe(),
        kernel_hash=model.kernel_hash,
        origin=Origin.of(model, **asdict(settings), start="random" if start is None else "given", seed=seed),
        **asked,
    )


def _first(start: ArrayLike | None, model: Model, dimension: int, rng: np.random.Generator) -> Array:
    if start is None:
        # Size of the entries of a start from nothing: layers that are small are learned one after the other.
        return 0.1 * rng.standard_normal((weight_rows(model), dimension))
    return check_weights("start", start, model, dimension).copy()


@dataclass(frozen=True)
class _Settings:
    """As `descend` takes them."""

    method: Method
    rate: float | None
    weight_decay: float
    batch: int | None
    reuse: int
    epochs: int
    tol: float

    def checked(self) -> "_Settings":
        """The same with the method's rate; refuses values out of range."""
        method, batch, reuse = self.method, self.batch, self.reuse
        choice("method", method, METHODS, "section 3.3")
        # Rates where nobody gives them.
        rates = {"sgd": 0.2, "gd": 0.5, "adam": 0.03}
        rate = positive("rate", rates[method] if self.rate is None else self.rate, "section 3.3")
        decay = not_negative("weight_decay", self.weight_decay, "section 3.3")
        reuse = whole("reuse", reuse, 1, "section 3.3")
        epochs = whole("epochs", self.epochs, 1, "section 3.3")
        tol = not_negative("tol", self.tol, "section 3.3")
        if batch is not None:
            batch = whole("batch", batch, 1, "section 3.3")
        if method == "gd" and (batch is not None or reuse > 1):
            raise ValueError('batch and reuse belong to method "sgd" and "adam" (section 3.3); "gd" takes all samples')
        return _Settings(method, rate, decay, batch, reuse, epochs, tol)

    def for_dimension(self, dimension: int) -> "_Settings":
        """The same with the size of batches at this dimension."""
        # Batches of an epoch, over alpha, where nobody gives their size.
        parts = 5
        if self.batch is None and self.method != "gd":
            return replace(self, batch=-(-dimension // parts))
        return self


class _Run:
    """A descent: objective, rule and what is kept of it."""

    def __init__(
        self,
        objective: Objective,
        settings: _Settings,
        track: Track,
        rng: np.random.Generator,
        callback: Callable[[DescentStep], object] | None,
    ) -> None:
        assert settings.rate is not None
        self._objective, self._settings, self._track, self._rng = objective, settings, track, rng
        self._rule: Rule = (Adam if settings.method == "adam" else Plain)(settings.rate, settings.weight_decay)
        self._callback = callback
        # One batch of all samples: its gradient is already known.
        batch = settings.batch
        self._single = batch is None or (batch >= objective.rows and objective.blocks == 1)
        self.spread = math.nan

    def descend(self, weights: Array) -> tuple[Array, float, bool, str]:
        """Weights at the end, their loss, whether that is converged, and why it ended."""
        track, objective, epochs = self._track, self._objective, self._settings.epochs
        loss, gradient = objective.whole(weights)
        if not math.isfinite(loss):
            raise ValueError(
                "start must give finite outputs, and a finite loss with Y (troiani2025 (4)), got infinity or NaN; take "
                "a smaller start, or scale Y"
            )
        track.note(weights, loss, gradient)
        self.spread = objective.spread()
        # Times the larger of the first loss and that of the best constant, beyond which a run has diverged.
        grown = 3.0
        most = grown * max(loss, self.spread)
        best = (loss, weights, 0)
        for epoch in range(1, epochs + 1):
            moved = self._stepped(weights, gradient)
            reason = _lost(moved)
            if not reason:
                loss, gradient = objective.whole(moved)
                reason = "" if loss <= most else f"the loss has grown to {loss:.3g} from {track.losses[0]:.3g}"
            if reason:
                status = f"diverged in epoch {epoch}: {reason}; restored epoch {best[2]}; lower rate"
                return best[1], best[0], False, status
            weights = moved
            track.note(weights, loss, gradient)
            if loss < best[0]:
                best = (loss, weights, epoch)
            stop = self._callback is not None and self._callback(track.step(epoch, weights))
            if ended := self._ended(weights, epoch):
                return weights, loss, *ended
            if stop:
                return weights, loss, False, f"ended by the callback after {epoch} epochs"
        status = f"not converged after {epochs} epochs: the gradient is {track.residuals[-1]:.1e} of W > "
        return weights, loss, False, f"{status}{self._settings.tol:g}; raise epochs or rate"

    def _ended(self, weights: Array, epoch: int) -> tuple[bool, str] | None:
        """Whether it has converged, and a status, where there is nothing more to descend."""
        # Size of the weights that counts as zero.
        dead = 1e-8
        if float(np.abs(weights).max()) < dead:
            return True, f"converged after {epoch} epochs: the weights have decayed, nothing is learned"
        if not self._track.residuals[-1] <= self._settings.tol:
            return None
        loss, spread = self._track.losses[-1], self.spread
        settled = f"after {epoch} epochs at a loss of {loss:.2e} ({spread:.2e} of the best constant)"
        if loss <= spread:
            return True, f"converged {settled}"
        return False, f"stuck {settled}; lower rate, or start elsewhere"

    def _stepped(self, weights: Array, gradient: Array) -> Array:
        """Weights after an epoch from weights and their gradient.

        Steps that leave float64 are known by where they lead, and need no warning of NumPy.
        """
        objective, rule, reuse = self._objective, self._rule, self._settings.reuse
        with np.errstate(over="ignore", invalid="ignore"):
            if self._single:
                moved = rule(weights, gradient)
                for _ in range(reuse - 1):
                    moved = rule(moved, objective.whole(moved)[1])
                return moved
            moved = weights
            for x, y in objective.batches(self._settings.batch, self._rng):
                for _ in range(reuse):
                    moved = rule(moved, objective.gradient(x, y, moved))
            return moved


def _lost(weights: Array) -> str:
    """Reason why weights have diverged; empty if they have not."""
    largest = float(np.abs(weights).max())
    # Size of a weight beyond which a run has diverged.
    most = 1e4
    return "" if largest < most else f"a weight has grown to {largest:.3g}"
