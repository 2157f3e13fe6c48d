"""Gradient descent on the weights of a student, and the mean of several students, for comparison with AMP."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array, Floats, Source, stream
from ..learning.rules import Adam
from .channels import Channel, Linear, Noisy, OneToOne, Softmax
from .checks import CITE, above_zero, count
from .data import check_matrix, indices, matrix_of
from .heads import heads_width
from .parts import Parts
from .results import DescentResult

__all__ = ["descend", "fitted", "loss_and_gradient", "status_of", "unfinished"]


def descend(
    x: ArrayLike | Source,
    y: ArrayLike | None,
    output: Channel,
    rho: float,
    *,
    heads: int = 1,
    students: int = 1,
    rate: float = 0.1,
    steps: int = 1000,
    teacher: ArrayLike | None = None,
    rng: np.random.Generator | int | None = 0,
    callback: Callable[[int, int], object] | None = None,
) -> DescentResult:
    """Full-batch Adam on sum ||y - yhat||^2/d over W of shape (d, r), S = W W^T/sqrt(r d), from W standard Gaussian.

    Parameters
    ----------
    x : array_like of shape (n, T, d), or callable
        As in `amp`; the blocks of a function are put together, for every step is taken over all samples.
    y : array_like of shape (n, T, T), or None where x is a function
    output : Channel
        Softmax or linear: the gradient goes through it. Noise on the scores is not part of the loss.
    rho : float
        Width of the students, r = round(rho d).
    heads : int, keyword-only
        Heads whose scores are added, each of width rho: students have the columns of all, L round(rho d).
    students : int, keyword-only
        Independent starts; the estimate is the mean of their S ("averaged gradient descent").
    rate : float, keyword-only
        Of Adam: a step moves an entry of W, of the order of one, by about that much. 0.1 is the published protocol; at
        d = 60 it leaves a tenth of the loss that 0.03 and 0.3 leave after 600 steps.
    steps : int, keyword-only
        At most; a student that has fitted the data (a millionth of its first loss is left) stops.
    teacher : array_like of shape (d, d), keyword-only, optional
    rng : Generator, int or None, keyword-only
        Of the starts.
    callback : callable, keyword-only, optional
        Called with the number of a student and its step; a true value ends the run, and counts as not converged.

    Returns
    -------
    DescentResult
        `converged` is True if every student has fitted the data (a millionth of its first loss is left), or its
        loss moved by less than a thousandth over its last tenth of steps and is below that of S = 0.

    Raises
    ------
    ValueError
        Data of a wrong shape, not finite, or a channel without slopes.

    References
    ----------
    boncoraglio2025, gradient descent.
    """
    data = _checked(x, y, output)
    d = data.x.shape[2]
    columns = round(heads_width(heads, rho, d) * d)
    students, steps = count("students", students, 1, "starts"), count("steps", steps, 1, "Adam")
    rate = above_zero("rate", rate, "Adam")
    truth = None if teacher is None else check_matrix("teacher", teacher, d)
    seed = -1 if rng is None or isinstance(rng, np.random.Generator) else int(rng)
    draw = stream(rng, 2)
    nothing = data(np.zeros((d, columns)))[0]
    found, losses, why, taken, ended = [], [], "", 0, False
    for student in range(students):

        def tick(step: int, student: int = student) -> bool:
            nonlocal ended
            ended = callback is not None and bool(callback(student, step))
            return ended

        last, trace = _adam(data, draw.standard_normal((d, columns)), rate, steps, tick)
        found.append(matrix_of(last))
        losses.append(trace[-1])
        taken = max(taken, len(trace) - 1)
        why = why or unfinished(trace, steps, nothing)
        if ended:
            why = "stopped by the callback"
            break
    S = np.mean(found, axis=0)
    off = None if truth is None else [float(((s - truth) ** 2).sum()) / d for s in found]
    return DescentResult(
        estimate=S,
        loss=np.array(losses),
        mmse=None if truth is None else float(((S - truth) ** 2).sum()) / d,
        single=None if off is None else float(np.mean(off)),
        students=len(found),
        n_iter=taken,
        converged=not why,
        status=status_of(why, taken),
        seed=seed,
    )


def fitted(losses: list[float]) -> bool:
    """Whether a millionth of the first loss is left."""
    # Of the first loss: less than that is left of one that is fitted.
    fitted_by = 1e-6
    return losses[-1] < fitted_by * losses[0]


def unfinished(losses: list[float], steps: int, nothing: float) -> str:
    """Why a descent has not converged; empty where it has.

    Parameters
    ----------
    losses : list of float
        Before every step, and the last one.
    steps : int
        At most.
    nothing : float
        Loss of S = 0.
    """
    if fitted(losses):
        return ""
    tenth = losses[-1 - max(1, steps // 10) :]
    # A run is over where the loss moves by less over its last tenth.
    slow = 1e-3
    if losses[-1] < min((1 - slow) * tenth[0], losses[0]):
        return "the loss still falls; raise steps"
    if not losses[-1] < nothing:
        return "the loss ends above that of S = 0; lower rate"
    settled = max(tenth) - min(tenth) <= slow * max(tenth)
    return "" if settled else "the loss rises or turns; lower rate"


def status_of(why: str, steps: int) -> str:
    """Sentence of a descent that took so many steps, of what `unfinished` returns."""
    return f"not converged after {steps} steps: {why}" if why else f"converged after {steps} steps"


def loss_and_gradient(x: Floats, y: Array, output: Softmax | Linear, W: Array) -> tuple[float, Array]:
    """Return sum ||y - yhat||^2/d and its gradient in W.

    dL/dS = (sum_mu x^T G x - I sum_mu Tr G)/sqrt(d) with G = dL/dh, symmetric.
    """
    n, tokens, d = x.shape
    made = output.observe(indices(x, matrix_of(W)))
    if isinstance(output, Softmax) and output.logarithms:
        made, y = np.exp(made), np.exp(y)
    rest = made - y
    G = 2 / d * rest
    if isinstance(output, Softmax):
        G = output.beta * made * (G - (G * made).sum(axis=2, keepdims=True))
    G = 0.5 * (G + G.swapaxes(1, 2))
    flat = x.reshape(n * tokens, d)
    pull = flat.T @ (G @ x).reshape(n * tokens, d)
    pull = (pull - np.trace(G, axis1=1, axis2=2).sum() * np.eye(d)) / math.sqrt(d)
    return float((rest**2).sum()) / d, np.asarray((pull + pull.T) @ W / math.sqrt(W.size))


class _Loss(NamedTuple):
    """Data and output of a descent."""

    x: Floats
    y: Array
    output: Softmax | Linear

    def __call__(self, W: Array) -> tuple[float, Array]:
        return loss_and_gradient(self.x, self.y, self.output, W)


def _checked(x: ArrayLike | Source, y: ArrayLike | None, output: Channel) -> _Loss:
    """Data that can be descended on; the loss is that of outputs without noise."""
    clean = output.clean if isinstance(output, Noisy) else output
    if not isinstance(clean, Softmax | Linear) or isinstance(clean, OneToOne):
        raise ValueError(
            f"students descend by the slopes of softmax or linear outputs ({CITE}, gradient descent), got {clean.name}"
            "; take one of these"
        )
    tokens, labels = Parts(x, y, clean).whole()
    if not np.isfinite(tokens).all():
        raise ValueError(f"x must be finite ({CITE}, model), got NaN or infinity; leave such samples out, of y too")
    return _Loss(tokens, labels, clean)


def _adam(loss: _Loss, W: Array, rate: float, steps: int, tick: Callable[[int], bool]) -> tuple[Array, list[float]]:
    """Where the descent ends, at the latest when the data are fitted; losses before every step, and the last one."""
    rule, losses = Adam(rate, 0.0), []
    for step in range(1, steps + 1):
        value, slope = loss(W)
        losses.append(value)
        if fitted(losses) or tick(step):
            return W, losses
        W = rule(W, slope)
    return W, [*losses, loss(W)[0]]
