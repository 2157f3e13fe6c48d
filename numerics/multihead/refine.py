"""Descent of the square loss from a start: Levenberg-Marquardt with the W_i eliminated, and L-BFGS."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from ..learning.blocks import Array
from .batch import Batch
from .regression import factor, solve_values

__all__ = ["Descent", "gram_blocks", "lbfgs", "levenberg_marquardt", "spreads"]

#: Called with Theta and W after a step; a true value ends the descent.
Stop = Callable[[Array, Array], bool]

# Entries of the products of rows that are in memory at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Descent:
    """Where a descent ended.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
    loss : float
        |F(X) - Y|^2 / |Y|^2 on the examples it was given.
    n_iter : int
    status : str
        Why it ended.
    """

    theta: Array
    w: Array
    loss: float
    n_iter: int
    status: str


def levenberg_marquardt(
    X: ArrayLike,
    Y: ArrayLike,
    theta: ArrayLike,
    *,
    max_iter: int = 200,
    tol: float = 1e-10,
    stall: float = 0.1,
    damping: float = 1e-2,
    stop: Stop | None = None,
) -> Descent:
    """Minimise |F(X) - Y|^2 over the Theta_i by damped Gauss-Newton steps, the W_i at their best at every step.

    Parameters
    ----------
    X, Y : array_like, shape (n, k, d)
    theta : array_like, shape (m, d, d)
        The start.
    max_iter : int
        Steps.
    tol : float
        Ends at a relative decrease of the loss below this in one step,
    stall : float
        or below this in ten steps: what then still moves is a slow valley of a local minimum.
    damping : float
        Of the first step, beside the diagonal of the normal equations.
    stop : callable, optional
        Called with Theta and W after every step; a true value ends it.

    Notes
    -----
    Variable projection with Kaufman's Jacobian. Not scipy's `least_squares`: its steps factor the Jacobian (n k d rows,
    2 m d^2 columns) by QR or SVD, and the W_i stay in. The rows of this Jacobian are products x_r (x) Cov_r W_i, whose
    normal equations cost d times less than a dense product, for half the unknowns. These square the condition
    number, which slows the last steps at most: the gradient is exact, and steps repeat.
    """
    batch = Batch(X, Y)
    at = np.array(theta, dtype=np.float64)
    m, d = len(at), batch.dim
    n_iter, status = 0, "no decrease"
    mixed, w, off, loss = _project(batch, at)
    growth = 2.0
    passed = [loss]
    # A loss this small is rounding of the outputs: (1e-15)^2 of their square.
    rounding = 1e-30
    # Attempts at a step with more and more damping, and the steps that `stall` looks back.
    trials, window = 12, 10
    for n_iter in range(1, max_iter + 1):
        normal, gradient, scale = _normal_equations(batch, at, w, mixed, off)
        accepted = False
        for _ in range(trials):
            shift = damping * scale
            damped = normal.copy()
            damped[np.diag_indices(len(damped))] += shift
            try:
                step = cho_solve(cho_factor(damped, lower=True, overwrite_a=True), -gradient)
            except np.linalg.LinAlgError:
                damping, growth = damping * growth, growth * 2
                continue
            new = at + step.reshape(m, d, d)
            mixed_new, w_new, off_new, loss_new = _project(batch, new)
            promised = float(step @ (shift * step - gradient))
            gain = (loss - loss_new) * batch.size / promised if promised > 0 else -1.0
            if loss_new < loss and gain > 0:
                damping *= max(1 / 10, 1 - (2 * gain - 1) ** 3)
                growth, accepted = 2.0, True
                break
            damping, growth = damping * growth, growth * 2
        if not accepted:
            break
        decrease = (loss - loss_new) / loss
        at, mixed, w, off, loss = new, mixed_new, w_new, off_new, loss_new
        if loss <= rounding:
            status = "loss at rounding"
            break
        passed.append(loss)
        if decrease <= tol or (n_iter >= window and loss > (1 - stall) * passed[-1 - window]):
            status = "loss settled"
            break
        if stop is not None and stop(at, w.reshape(m, d, d)):
            status = "stopped"
            break
    else:
        status = f"{max_iter} steps"
    return Descent(at, w.reshape(m, d, d), loss, n_iter, status)


def _project(batch: Batch, theta: Array) -> tuple[Array, Array, Array, float]:
    """Regressors, best values, residual and normalised loss at Theta."""
    mixed = batch.mixed(batch.attention(theta))
    w = solve_values(mixed, batch.y, factor(mixed @ mixed.T))
    off = w.T @ mixed - batch.y
    return mixed, w, off, float(np.vdot(off, off)) / batch.size


def _normal_equations(batch: Batch, theta: Array, w: Array, mixed: Array, off: Array) -> tuple[Array, Array, Array]:
    """J^T J and J^T r of the projected residual in Theta, and the diagonal that damps a step."""
    outer, cross, gradient = gram_blocks(batch, theta, w.reshape(theta.shape), mixed, off)
    scale = np.diag(outer).copy()
    scale = np.maximum(scale, 1e-3 * scale.mean() + np.finfo(float).tiny)
    lower = np.tril(factor(mixed @ mixed.T)[0])
    count, values, d = cross.shape
    # What the W_i take up: cross (P P^T)^{-1} cross^T for each output column.
    seen = solve_triangular(lower, cross.transpose(1, 0, 2).reshape(values, count * d), lower=True)
    seen = seen.reshape(values, count, d).transpose(1, 0, 2).reshape(count, values * d)
    return outer - seen @ seen.T, gradient, scale


def gram_blocks(batch: Batch, theta: Array, w: Array, mixed: Array, off: Array) -> tuple[Array, Array, Array]:
    """Blocks of J^T J and J^T r, without the Jacobian.

    Parameters
    ----------
    batch : Batch
    theta, w : ndarray, shape (m, d, d)
    mixed : ndarray, shape (m d, k n)
        Regressors of the W_i at Theta.
    off : ndarray, shape (d, k n)
        Residual.

    Returns
    -------
    outer : ndarray, shape (m d^2, m d^2)
        J_Theta^T J_Theta.
    cross : ndarray, shape (m d^2, m d, d)
        J_Theta^T J_W, whose last two axes are the rows of the stacked W_i and their columns. The remaining block,
        J_W^T J_W, is mixed mixed^T for every output column.
    gradient : ndarray, shape (m d^2,)
        J_Theta^T off.

    Notes
    -----
    With x a row's query and C = Cov W its spread, J_Theta = x (x) C, so that outer = sum over rows of
    (x x^T) (x) (C C^T): a product of matrices with d (d + 1)/2 and (m d)^2 columns.
    """
    m, d, rows = len(theta), batch.dim, batch.rows.shape[1]
    weights = batch.attention(theta)
    first, second = np.triu_indices(d)
    outer = np.zeros((len(first), (m * d) ** 2))
    cross = np.zeros((d * m * d, m * d * d))
    gradient = np.zeros((d, m * d))
    spread = spreads(batch, weights, w)
    step = max(1, _BLOCK // (m * d) ** 2)
    for begin in range(0, rows, step):
        part = slice(begin, begin + step)
        x, c, p = batch.rows[:, part], spread[part], mixed[:, part]
        count = c.shape[0]
        outer += (x[first] * x[second]) @ (c @ c.transpose(0, 2, 1)).reshape(count, -1)
        pairs = (x[:, None] * p[None]).reshape(d * m * d, count)
        cross += pairs @ c.reshape(count, -1)
        gradient += x @ np.einsum("nac,cn->na", c, off[:, part])
    full = np.empty((d, d, m, d, m, d))
    full[first, second] = outer.reshape(-1, m, d, m, d)
    full[second, first] = full[first, second]
    size = m * d * d
    return (
        full.transpose(2, 0, 3, 4, 1, 5).reshape(size, size),
        # (p, a, i, q, c) -> (i, p, q), a, c
        cross.reshape(d, m * d, m, d, d).transpose(2, 0, 3, 1, 4).reshape(size, m * d, d),
        gradient.reshape(d, m, d).transpose(1, 0, 2).ravel(),
    )


def spreads(batch: Batch, weights: Array, w: Array) -> Array:
    """Cov_{A_r}(x) W_i of every row, shape (k n, m d, d), rows as in the columns of the batch."""
    m, d, k, n = len(w), batch.dim, batch.tokens, batch.samples
    # x_j minus the mean under each row's attention, times the root of its weight: Cov = sum of its squares.
    mean = np.einsum("irjn,djn->irdn", weights, batch.x)
    centred = batch.x.transpose(1, 0, 2)[None, None] - mean[:, :, None]
    centred *= np.sqrt(weights)[:, :, :, None]
    factors = np.ascontiguousarray(centred.transpose(1, 4, 0, 3, 2)).reshape(k * n, m, d, k)
    values = factors.transpose(0, 1, 3, 2) @ w
    return (factors @ values).reshape(k * n, m * d, d)


def lbfgs(
    X: ArrayLike,
    Y: ArrayLike,
    theta: ArrayLike,
    w: ArrayLike | None = None,
    *,
    max_iter: int = 600,
    stop: Stop | None = None,
) -> Descent:
    """Minimise |F(X) - Y|^2 over Theta_i and W_i by scipy's L-BFGS-B.

    Parameters
    ----------
    X, Y : array_like, shape (n, k, d)
    theta : array_like, shape (m, d, d)
        The start.
    w : array_like, shape (m, d, d), optional
        Likewise; by default the best ones at `theta`.
    max_iter : int
        Iterations.
    stop : callable, optional
        Called with Theta and W after every tenth iteration; a true value ends it.

    Returns
    -------
    Descent
        With the best W_i for its Theta_i.
    """
    batch = Batch(X, Y)
    start = np.array(theta, dtype=np.float64)
    shape, half = start.shape, start.size
    values = _project(batch, start)[1] if w is None else np.asarray(w, dtype=np.float64)
    seen = 0

    def objective(z: Array) -> tuple[float, Array]:
        loss, d_theta, d_w = batch.loss(z[:half].reshape(shape), z[half:].reshape(shape))
        return loss, np.concatenate([d_theta.ravel(), d_w.ravel()])

    def callback(intermediate_result: object) -> None:
        nonlocal seen
        seen += 1
        if stop is not None and seen % 10 == 0:
            z = np.asarray(intermediate_result.x)  # type: ignore[attr-defined]
            if stop(z[:half].reshape(shape), z[half:].reshape(shape)):
                raise StopIteration

    found = minimize(
        objective,
        np.concatenate([start.ravel(), values.ravel()]),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 1e-15},
    )
    at = found.x[:half].reshape(shape)
    _, best, _, loss = _project(batch, at)
    return Descent(at, best.reshape(shape), loss, int(found.nit), str(found.message))
