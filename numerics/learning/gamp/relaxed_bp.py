"""Relaxed belief propagation on the factor graph (76)-(85): the algorithm that GAMP approximates, for small sizes."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConvergenceError
from ...core.validation import choice
from ...model.routes import require
from ...posterior.choice import posterior
from ...posterior.data.readout import ReadoutPosterior
from ...posterior.protocol import Model, Posterior
from ..blocks import Array, Floats, rows_of
from ..data import check_samples
from ..heads import require_one_head
from ..side import Side, side_of
from .course import DivergedError, guarded, resolved
from .loop import Loop
from .results import GAMPResult, GAMPStep

__all__ = ["relaxed_bp"]


def relaxed_bp(
    X: ArrayLike,
    Y: ArrayLike,
    model: Model,
    *,
    damping: float | Literal["adaptive"] = 0.3,
    max_iter: int = 500,
    tol: float = 1e-3,
    start: ArrayLike | None = None,
    side_information: ArrayLike | None = None,
    side_strength: float | None = None,
    teacher: ArrayLike | None = None,
    callback: Callable[[GAMPStep], object] | None = None,
    variance: Literal["slope", "nishimori"] = "slope",
    coupling: Literal["mean", "edge"] = "mean",
    denoiser_tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
    throw: bool = False,
) -> GAMPResult:
    """Estimate the weights with one message per weight and sample: for small N D, as the check of `gamp`.

    For each sample mu and weight i (a column of W), what and C being mean and covariance of the message of i to mu:
    omega^{mu->i} = sum_{j != i} what_{j->mu} x_j / sqrt(D), V^{mu->i} = sum_{j != i} C_{j->mu} / D,
    g^{mu->i} = g_out(y, omega^{mu->i}, V^{mu->i}), b^{mu->i} = sum_m x_im g_m / sqrt(D),
    A^{mu->i} = -sum_{m,m'} x_im x_im' dg_m / d omega_m' / D, C_{i->mu} = (I + sum_{nu != mu} A^{nu->i})^{-1},
    what_{i->mu} = C_{i->mu} sum_{nu != mu} b^{nu->i}.

    Parameters
    ----------
    X : array_like, shape (N, M, D)
        As in `gamp`, in memory.
    Y : array_like, shape (N, M, M), or (N, K) of a link
    model, damping, max_iter, tol, start, side_information, side_strength, teacher, callback
        As in `gamp`; damping acts on the messages.
    variance : {"slope", "nishimori"}
        Take A from the slopes of g, or from g g^T, which is the same in the mean. Where only g is known it is always
        the latter, as in `gamp`.
    coupling : {"mean", "edge"}
        A with x_im x_im' at its mean delta_mm' (90), or as it is (83). What an edge adds to the fluctuations of A is of
        order 1/sqrt(D), and at D of a few hundred often leaves a weight without a positive precision: `edge` then ends
        as diverged. With `edge` slopes are used at rank 1 with one layer, or two over two tokens, and for links of
        one token.
    denoiser_tol, nodes, rng, throw
        As in `gamp`.

    Returns
    -------
    GAMPResult
        `weights` are the means of the marginals, `covariance` is the mean over weights of theirs.

    Raises
    ------
    ValueError
        As `gamp`, and where the messages would not fit into 1 GiB.
    UnreachableOutputError, KernelNotFoundError, ConvergenceError
        As `gamp`.

    Notes
    -----
    The formulas follow from belief propagation (76) in four steps. The message of a sample to one of its weights is an
    average over the others; with the index as a variable of its own, through a Fourier transform (77), these enter as a
    product (78). Expanded to second order in 1/sqrt(D), each factor holds only mean and covariance (79) of its message,
    and the product is the characteristic function of a Gaussian with mean omega and covariance V (80). So the message
    is Z_out(y, omega^{mu->i} + w x_i / sqrt(D), V^{mu->i}); log Z_out to second order in w has the slopes g and dg (81)
    and gives the Gaussian (82) with A and b (83). Prior times all such messages but one is the Gaussian (84).

    Sums without one term are the whole sum less the term, without approximation: an iteration takes O(N D) time and as
    many calls of the denoiser. Covariances are the exception: those between tokens, C x_im x_im' / D summed, are of
    order 1/sqrt(D) and left out, for denoisers have one V for all tokens; it is the mean over tokens of x_im^2 C
    (exact for one token). And where V cannot differ within a call it is that of the sample less the mean of what
    single weights add, which differs by O(1/D) (105).

    References
    ----------
    troiani2025, (76)-(85), (116).
    """
    require("gamp", model)
    require_one_head("relaxed belief propagation", model)
    loop = Loop(model, damping, max_iter, tol, variance=variance, rng=rng)
    choice("coupling", coupling, ("mean", "edge"), "(83), (90)")
    x = check_samples(X, model)
    n, _, dimension = x.shape
    _check_size(n, dimension, model.indices, model.tokens)

    def channel(y: ArrayLike) -> Posterior:
        return posterior(model, y, tol=denoiser_tol, nodes=nodes, rng=loop.node_seed)

    scores = _Scores(channel, Y, n, dimension)
    messages = _Messages(x, scores, model.indices, loop.slopes, coupling == "mean")
    side = side_of(side_information, side_strength, None, model, dimension)

    def advance(weights: Array, covariance: Array, old: float) -> tuple[Array, Array, Array]:
        return messages.advance(weights, covariance, old, side)

    return loop.run(
        advance,
        dimension,
        lambda: n,
        start=start,
        teacher=teacher,
        callback=callback,
        throw=throw,
        algorithm="relaxed_bp",
        side=side,
        denoiser_tol=denoiser_tol,
        nodes=nodes,
        coupling=coupling,
    )


def _check_size(n: int, dimension: int, p: int, m: int) -> None:
    # what, C, b and A of each edge, and one more of C while it is renewed; x; the output and a point of its fibre.
    needed = 8 * n * dimension * (2 * p + 3 * p * p + m + m * m + p * m)
    # Bytes that the messages may take.
    most = 1 << 30
    if needed > most:
        raise ValueError(
            f"relaxed_bp keeps messages on N D = {n} x {dimension} edges (troiani2025 (85)), {needed / 2**30:.1f} GiB "
            f"here and at most {most / 2**30:g} GiB; take fewer samples or dimensions, or gamp, which needs no edges"
        )


class _Scores:
    """Scores of edges: each sample's output at D cavities."""

    def __init__(self, channel: Callable[[ArrayLike], Posterior], y: ArrayLike, rows: int, copies: int) -> None:
        one = channel(y)
        if one.rows != rows:
            raise ValueError(f"Y must have one output per sample of X (troiani2025 (1)): {one.rows} for {rows}")
        repeated = np.repeat(np.asarray(y, np.float64), copies, axis=0)
        self._output = channel(repeated)

    def __call__(self, omega: Array, V: Array, first: int) -> tuple[Array, Array | None, Array | None]:
        """Score samples from `first` on.

        Parameters
        ----------
        omega : ndarray, shape (n, D, P, M)
        V : ndarray, shape (n, D, P, P)
        first : int

        Returns
        -------
        g : ndarray, shape (n, D, P, M)
        slopes : ndarray of shape (n, D, P, M, P, M), or None
            Of each edge, where they are known.
        curvature : ndarray of shape (n, D, P, P) or (n, 1, P, P), or None
            - sum over tokens of d g_m / d omega_m, of each edge or their mean.
        """
        n, copies, p, m = omega.shape
        if isinstance(self._output, ReadoutPosterior):
            part = slice(first * copies, (first + n) * copies)
            made = self._output.moments(omega.reshape(-1, p, m), resolved(V).reshape(-1, p, p), part)
            slopes = made.dg.reshape(*omega.shape, p, m)
            return made.g.reshape(omega.shape), slopes, -np.einsum("nipmqm->nipq", slopes)
        g, curvature = np.empty(omega.shape), np.empty((n, 1, p, p))
        known = True
        for k in range(n):
            part = slice((first + k) * copies, (first + k + 1) * copies)
            g[k], total = self._output(omega[k], resolved(V[k].mean(axis=0)), part)
            if total is None:
                known = False
            else:
                curvature[k] = 0.5 * (total + total.T) / copies
        return g, None, curvature if known else None


class _Messages:
    """Means and covariances on every edge, (N, D, P) and (N, D, P, P), and an iteration of them."""

    def __init__(self, x: Floats, scores: _Scores, p: int, slopes: bool, averaged: bool) -> None:
        n, _, dimension = x.shape
        # Entries of weight i in sample mu over sqrt(D): (N, D, M).
        self._x = np.ascontiguousarray(np.swapaxes(x, 1, 2), np.float64) / math.sqrt(dimension)
        bad = ~np.isfinite(self._x).all(axis=(1, 2))
        if bad.any():
            raise ValueError(
                f"X must be finite, got NaN or infinity in sample {int(bad.argmax())}; leave such samples out, of Y too"
            )
        self._scores, self._slopes, self._averaged = scores, slopes, averaged
        self._mean = np.empty((n, dimension, p))
        self._begun = False
        self._covariance = np.empty((n, dimension, p, p))

    def advance(self, weights: Array, covariance: Array, old: float, side: Side) -> tuple[Array, Array, Array]:
        """One iteration; a first one takes its messages from the estimate."""
        mean = self._mean
        dimension, p = mean.shape[1:]
        if not self._begun:
            mean[:], self._covariance[:], self._begun = weights.T, covariance, True
        field, coupling = np.empty(mean.shape), np.empty(self._covariance.shape)
        # Edges whose scores are computed at a time.
        edges = 1 << 14
        try:
            for part in rows_of(mean, max(1, edges // dimension)):
                field[part], coupling[part] = self._to_weights(part)
        except ConvergenceError as error:
            raise DivergedError(str(error)) from error
        if not (np.isfinite(field).all() and np.isfinite(coupling).all()):
            raise DivergedError("scores are not finite")
        total_field = field.sum(axis=0) + np.transpose(side.field)
        total = coupling.sum(axis=0) + (1 + side.strength) * np.eye(p)
        for part in rows_of(mean, max(1, edges // dimension)):
            spread = _inverse(total - coupling[part])
            new = (spread @ (total_field - field[part])[..., None])[..., 0]
            mean[part] = (1 - old) * new + old * mean[part]
            self._covariance[part] = (1 - old) * spread + old * self._covariance[part]
        spread = _inverse(total)
        newest = spread.mean(axis=0)
        moved = (1 - old) * (spread @ total_field[..., None])[..., 0].T + old * weights
        return guarded(moved), (1 - old) * newest + old * covariance, newest

    def _to_weights(self, part: slice) -> tuple[Array, Array]:
        """Fields b and couplings A (83) of some samples' messages to their weights."""
        x, mean = self._x[part], self._mean[part]
        term = mean[..., None] * x[:, :, None, :]
        omega = term.sum(axis=1, keepdims=True) - term
        spread = self._covariance[part] * (x**2).mean(axis=2)[..., None, None]
        variance = spread.sum(axis=1, keepdims=True) - spread
        g, slopes, curvature = self._scores(omega, variance, part.start)
        field = np.einsum("nim,nipm->nip", x, g)
        if self._averaged:
            if curvature is None or not self._slopes:
                curvature = np.einsum("nipm,niqm->nipq", g, g)
            return field, np.broadcast_to(curvature / len(mean[0]), spread.shape)
        if slopes is None and curvature is not None and x.shape[2] == 1:
            slopes = -curvature[:, :, :, None, :, None]
        if slopes is None or not self._slopes:
            return field, field[..., :, None] * field[..., None, :]
        return field, -np.einsum("nim,nipmqk,nik->nipq", x, slopes, x)


def _inverse(precision: Array) -> Array:
    """(I + A)^{-1} on every edge; raises DivergedError where it is no covariance."""
    least = float(np.linalg.eigvalsh(precision).min())
    if not least > 0:
        raise DivergedError(f"the posterior precision I + A of a message has the eigenvalue {least:.3g}")
    return np.asarray(np.linalg.inv(precision), np.float64)
