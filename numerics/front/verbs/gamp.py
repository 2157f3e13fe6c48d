"""Weights from data by message passing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.numerics.learning.blocks import Source
from attnlimits.numerics.learning.gamp import gamp as gamp_on
from attnlimits.numerics.learning.gamp.results import GAMPResult
from attnlimits.numerics.model.described import Model, of_data
from attnlimits.numerics.priors import Prior, Rows, SpectrumLike, as_prior, independent
from attnlimits.verbs.inputs import prior_of

if TYPE_CHECKING:
    import dask.array

__all__ = ["gamp"]


def gamp(
    model: Model,
    X: ArrayLike | Source | str | os.PathLike[str] | dask.array.Array,
    Y: ArrayLike | str | os.PathLike[str] | dask.array.Array | None = None,
    prior: Prior | str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Any,
) -> GAMPResult:
    """Weights estimated from data by generalised approximate message passing (Algorithm 1).

    Parameters
    ----------
    model : Network or Link
    X : array_like of shape (N, M, D), callable, path or dask array
        N samples of M tokens, entries of mean 0 and variance 1; or a function that gives pairs of blocks (X, Y); or the
        path of a folder of .npy files of row blocks, as `learning.write_data` makes it. With `client` a folder or a
        dask array.
    Y : array_like, shape (N, M, M), or (N, K) of a link; path where X is one
        Outputs.
    prior : Prior or str, optional
        Law of the rows of the weights, Gaussian by default.
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
        An array has the eigenvalues of the coordinates of X in their order; ``"data:X0.npy"`` has directions of its
        own, as have samples in memory by `attnlimits.learning.spectrum_of`: the weights are estimated in these, and X
        stays as it is. The mean of the variances of X is to be 1.
    settings : optional
        `teacher` (true weights, to measure overlaps), `damping` in [0, 1) or "adaptive", `max_iter`, `tol`, `start`,
        `prior`, `side_information` with `side_strength`, `known` (weights, NaN where one is not known), `variance`,
        `solver`, `denoiser_tol`, `nodes` of sampled posteriors, `callback`, `rng`, `workers`, `throw`; `client`, a Dask
        client or the address of a scheduler: the rows stay on its workers.

    Returns
    -------
    GAMPResult
        `weights` of shape (P, D) and `covariance`, and with a teacher `overlap`; a run that diverges ends with the best
        of its iterates, and `converged` False.

    Raises
    ------
    ValueError
        Data of a wrong shape or type, not finite, or empty; the message states what to do.
    UnreachableOutputError
        An output is outside the range of the link.
    ConvergenceError
        `throw`, and no convergence.
    ClusterError
        The cluster of `client` cannot be reached, or was lost.

    References
    ----------
    troiani2025, Algorithm 1 and (86)-(95).

    Examples
    --------
    >>> import attnlimits as al
    >>> model = al.Network(layers=1, tokens=2)
    >>> weights = al.teacher(model, 200, rng=1)
    >>> X, Y = al.make_data(model, weights, alpha=1.5, rng=1)
    >>> found = gamp(model, X, Y)
    >>> found.converged, found.weights.shape
    (True, (1, 200))
    """
    model, law, rows = independent(model, prior_of(model, prior, spectrum))
    if rows is None:
        return gamp_on(X, Y, of_data(model), prior=as_prior(law), **settings)
    for name in ("side_information", "known"):
        if settings.get(name) is not None:
            raise ValueError(f"{name} is of independent rows (113), and not served for {rows.describe()}")
    for name in ("start", "teacher"):
        if settings.get(name) is not None:
            settings[name] = np.linalg.solve(rows.root, np.asarray(settings[name], dtype=np.float64))
    return _of_rows(gamp_on(X, Y, of_data(model), prior=as_prior(law), **settings), rows)


def _of_rows(found: GAMPResult, rows: Rows) -> GAMPResult:
    """The estimate of rows of covariance T, from that of independent ones."""
    return replace(
        found,
        weights=rows.root @ found.weights,
        covariance=rows.seen(found.covariance),
        self_overlap=rows.seen(found.self_overlap),
        overlap=None if found.overlap is None else rows.seen(found.overlap),
        history=None if found.history is None else rows.seen(found.history),
        self_history=rows.seen(found.self_history),
        status=f"{found.status}; {rows.describe()}",
        origin=found.origin.with_settings(prior=rows.describe()),
    )
