"""Errors of predicting a new output at overlap q: Bayes-optimal (11) and plug-in.

Of links whose outputs are sums of functions of one combination of h, or that have at most three entries, they are
low-dimensional integrals, found by quadrature; of other models they are averages over random indices.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import matrix_root
from ..core.results import Estimate, How
from ..core.standard_error import standard_error
from ..model.links import LinkKernel
from ..posterior.protocol import Model
from ..quadrature.rules import normal_qmc
from .grid_prediction import GridErrors
from .link_prediction import LinkErrors

__all__ = ["prediction_errors"]

Array = NDArray[np.float64]


def prediction_errors(
    model: Model,
    q: Array,
    q_error: Array | None = None,
    *,
    how: How = "estimated",
    rng: np.random.Generator | int | None = 0,
    both_ends: bool = False,
) -> tuple[Estimate, Estimate]:
    """Mean squared error of the posterior mean and of the plug-in prediction.

    Bayes-optimal: E || g(h) - E[g(h) | omega] ||^2 = E || g(h) - g(h') ||^2 / 2 with h, h' independent given omega.
    Plug-in: E || g(h) - g(omega) ||^2. Here omega = q^{1/2} xi, h = omega + (I - q)^{1/2} z.
    Gaussian noise of the output is not part of them; with label noise both are errors of the label that is seen, y in
    the place of g(h), whose mean is E[y | omega].

    Parameters
    ----------
    model : Network or LinkKernel
    q : ndarray, shape (P, P)
        Overlap, 0 <= q <= I.
    q_error : ndarray, shape (P, P), optional
        Its error; carried to the results through the change of the errors over q +- q_error.
    how : {"rigorous", "estimated", "monte-carlo"}, optional
        Kind of the error of q, which is that of errors found by quadrature.
    rng : Generator, int or None, optional
        Of errors that are averages over random indices.
    both_ends : bool, optional
        Whether the change of these is that to the further end; the lower one is as good where the error is small.

    Returns
    -------
    posterior_mean, plugin : Estimate

    References
    ----------
    troiani2025, (11); the published code evaluates the plug-in error.
    """
    off = np.zeros_like(q) if q_error is None else q_error
    # Entries of which grids are small; and what rules may be off by, of what the overlap is.
    small, share = 2, 0.05
    if isinstance(model, LinkKernel):
        sums, grid = LinkErrors(model), GridErrors(model)
        # Without a kink panels of all entries converge as fast, and fewer of them are nodes.
        few = sums.smooth and model.indices * model.tokens <= small
        for errors in (grid, sums) if few else (sums, grid):
            if errors.served and (found := errors(q, share * float(off.max()))) is not None:
                error = found.off + _change(errors.values, found.coarse, q, off)
                kind: How = "monte-carlo" if how == "monte-carlo" and off.any() else "estimated"
                best, plugin = (Estimate(float(x), float(e), kind) for x, e in zip(found.value, error, strict=True))
                return best, plugin
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    p, m = model.indices, model.tokens
    replicas = 16
    log2_n = 12
    points = [normal_qmc(3 * p * m, log2_n, s).reshape(-1, 3, p, m) for s in generator.spawn(replicas)]
    values = np.array([_errors(model, q, x) for x in points])
    mean, sigma = values.mean(axis=0), standard_error(values)
    if off.any():
        shifts = []
        for sign in (-1, 1) if both_ends else (-1,):
            end = np.clip(q.diagonal() + sign * off.diagonal(), 0, 1)
            moved = q + np.diag(end - q.diagonal())
            shifts.append(np.abs(_errors(model, moved, points[0]) - values[0]))
        shift = np.max(shifts, axis=0)
        sigma = np.hypot(sigma, shift)
    return (
        Estimate(float(mean[0]), float(sigma[0]), "monte-carlo"),
        Estimate(float(mean[1]), float(sigma[1]), "monte-carlo"),
    )


def _change(values: Callable[[Array], Array], here: Array, q: Array, error: Array) -> Array:
    """What the error of q makes of prediction errors: their change with the diagonal, and with what is beside it.

    `here` are those at q by the same rule.

    A combination of learned indices that is not known itself, as their differences before they specialise, stays so.
    """
    total, kept = np.zeros(2), np.eye(len(q))
    if not error.any():
        return total
    learned = np.flatnonzero(q.diagonal() > 0)
    block = np.ix_(learned, learned)
    known, vectors = np.linalg.eigh(q[block])
    # Overlaps of combinations of indices that are zero but for rounding, over the largest.
    unknown = 1e-12
    inside = known > unknown * known.max(initial=0.0)
    room = float(np.minimum(known, 1 - known)[inside].min(initial=1.0))
    kept[block] = vectors[:, inside] @ vectors[:, inside].T
    diagonal = np.diag(error.diagonal())
    parts = [diagonal, error - diagonal]
    if inside.sum() == 1:
        # One direction is known, along which all parts are added.
        size, line = np.abs(vectors[:, inside][:, 0]), np.zeros_like(q)
        line[block] = (size @ error[block] @ size) * kept[block]
        parts = [line]
    # Changes of the overlap, over its distance to the ends of its range, to which errors change in proportion.
    linear = 1e-3
    for part in parts:
        moved = kept @ part @ kept
        size = float(np.abs(moved).max())
        if not 0 < size:
            continue
        if size < linear * room:
            # Over a longer way the change is not that of rounding.
            further = linear * room / size
            total += np.abs(values(_clipped(q - further * moved)) - here) / further
        else:
            total += np.max([np.abs(values(_clipped(q + sign * moved)) - here) for sign in (-1, 1)], axis=0)
    return total


def _clipped(q: Array) -> Array:
    """The overlap with its eigenvalues in [0, 1]."""
    values, vectors = np.linalg.eigh(q)
    if values[0] >= 0 and values[-1] <= 1:
        return q
    return np.asarray((vectors * np.clip(values, 0.0, 1.0)) @ vectors.T)


def _errors(model: Model, q: Array, normals: Array) -> Array:
    omega = _times(matrix_root(q), normals[:, 0])
    spread = matrix_root(np.eye(len(q)) - q)
    first = model.link(omega + _times(spread, normals[:, 1]))
    second = model.link(omega + _times(spread, normals[:, 2]))
    plug = model.link(omega)
    entries = tuple(range(1, plug.ndim))
    squares = [
        0.5 * ((first - second) ** 2).sum(axis=entries),
        0.5 * (((first - plug) ** 2).sum(axis=entries) + ((second - plug) ** 2).sum(axis=entries)),
    ]
    found = np.array([s.mean() for s in squares])
    if not isinstance(model, LinkKernel) or model.label_noise is None:
        return found
    centre = model.label_noise.centre
    known, *both = (float(((y - centre) ** 2).sum(axis=entries).mean()) for y in (plug, first, second))
    return model.label_noise.seen(np.append(found, [known, 0.5 * sum(both)]))


def _times(matrix: Array, vectors: Array) -> Array:
    """Product with each of many vectors; a diagonal matrix only scales them."""
    scales = matrix.diagonal()
    if np.array_equal(matrix, np.diag(scales)):
        return np.asarray(scales[:, None] * vectors)
    return np.asarray(matrix @ vectors)
