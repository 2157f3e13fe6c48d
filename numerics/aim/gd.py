"""Gradient descent on the weights of a student, and the mean of several students, for comparison with AMP."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array, Floats, stream
from .channels import Channel, Linear, Softmax
from .checks import CITE, above_zero, count
from .data import check_matrix, check_samples, indices
from .results import DescentResult

__all__ = ["descend", "loss_and_gradient"]

# Of Adam: memory of the mean and of the square, and what keeps the quotient finite.
_MEAN, _SQUARE, _EPSILON = 0.9, 0.999, 1e-8
# A run is over where its last tenth lowers the loss by less, or where less of the loss is left.
_SLOW, _FITTED = 1e-3, 1e-6


def descend(
    x: ArrayLike,
    y: ArrayLike,
    output: Channel,
    rho: float,
    *,
    students: int = 1,
    rate: float = 0.1,
    steps: int = 1000,
    teacher: ArrayLike | None = None,
    rng: np.random.Generator | int | None = 0,
) -> DescentResult:
    """Full-batch Adam on sum ||y - yhat||^2/d over W of shape (d, r), S = W W^T/sqrt(r d), from W standard Gaussian.

    Parameters
    ----------
    x : array_like, shape (n, T, d)
    y : array_like, shape (n, T, T)
    output : Channel
        Softmax or linear: the gradient goes through it.
    rho : float
        Width of the students, r = round(rho d).
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

    Returns
    -------
    DescentResult
        `converged` is True if every student has fitted the data (a millionth of its first loss is left), or its
        last tenth of steps lowered the loss by less than a thousandth.

    Raises
    ------
    ValueError
        Data of a wrong shape, not finite, or a channel without slopes.

    References
    ----------
    boncoraglio2025, gradient descent.
    """
    if not isinstance(output, Softmax | Linear):
        raise ValueError(f"{output.name} has no slopes to descend ({CITE}, gradient descent); use softmax or linear")
    tokens = check_samples(x, output.tokens)
    labels = output.check(y)
    if len(labels) != len(tokens):
        raise ValueError(f"x and y must have as many samples, got {len(tokens)} and {len(labels)} ({CITE}, model)")
    if not np.isfinite(tokens).all():
        raise ValueError(f"x must be finite ({CITE}, model), got NaN or infinity; leave such samples out, of y too")
    d = tokens.shape[2]
    width = max(1, round(above_zero("rho", rho, "rho = r/d") * d))
    students, steps = count("students", students, 1, "starts"), count("steps", steps, 1, "Adam")
    rate = above_zero("rate", rate, "Adam")
    truth = None if teacher is None else check_matrix("teacher", teacher, d)
    seed = -1 if rng is None or isinstance(rng, np.random.Generator) else int(rng)
    draw = stream(rng, 2)
    found, losses, slow, taken = [], [], [], 0
    for _ in range(students):
        W = draw.standard_normal((d, width))
        trace = _adam(tokens, labels, output, W, rate, steps)
        found.append(_matrix(W))
        losses.append(trace[-1])
        taken = max(taken, len(trace) - 1)
        slow.append(trace[-1] < _FITTED * trace[0] or trace[-1] > (1 - _SLOW) * trace[-1 - max(1, steps // 10)])
    S = np.mean(found, axis=0)
    off = None if truth is None else [float(((s - truth) ** 2).sum()) / d for s in found]
    done = all(slow)
    return DescentResult(
        estimate=S,
        loss=np.array(losses),
        mmse=None if truth is None else float(((S - truth) ** 2).sum()) / d,
        single=None if off is None else float(np.mean(off)),
        students=students,
        n_iter=taken,
        converged=done,
        status=f"{'converged' if done else 'not converged: a loss still falls; raise steps'} after {taken} steps",
        seed=seed,
    )


def _matrix(W: Array) -> Array:
    return np.asarray(W @ W.T / math.sqrt(W.size))


def loss_and_gradient(x: Floats, y: Array, output: Softmax | Linear, W: Array) -> tuple[float, Array]:
    """Return sum ||y - yhat||^2/d and its gradient in W.

    dL/dS = (sum_mu x^T G x - I sum_mu Tr G)/sqrt(d) with G = dL/dh, symmetric.
    """
    n, tokens, d = x.shape
    made = output.observe(indices(x, _matrix(W)))
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


def _adam(x: Floats, y: Array, output: Softmax | Linear, W: Array, rate: float, steps: int) -> list[float]:
    """Descend in place, until the data are fitted; the losses before every step, and the last one."""
    mean, square = np.zeros_like(W), np.zeros_like(W)
    losses = []
    for step in range(1, steps + 1):
        loss, slope = loss_and_gradient(x, y, output, W)
        losses.append(loss)
        if loss < _FITTED * losses[0]:
            break
        mean += (1 - _MEAN) * (slope - mean)
        square += (1 - _SQUARE) * (slope**2 - square)
        W -= rate * (mean / (1 - _MEAN**step)) / (np.sqrt(square / (1 - _SQUARE**step)) + _EPSILON)
    else:
        losses.append(loss_and_gradient(x, y, output, W)[0])
    return losses
