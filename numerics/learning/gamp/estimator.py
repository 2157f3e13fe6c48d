"""GAMP with the interface of scikit-learn's estimators, which it does not need."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ...channel.averages import matrix_root
from ...core.estimator import Estimator, determination
from ...core.validation import numbers
from ...posterior.protocol import Model
from ...priors import GAUSSIAN, Prior
from ...quadrature.rules import normal_qmc
from ..blocks import Array, Source, rows_of
from ..data import check_samples, check_weights
from ..heads import require_one_head
from .algorithm import gamp
from .results import GAMPResult, GAMPStep

if TYPE_CHECKING:
    import dask.array
    from distributed import Client

__all__ = ["GAMP"]


class GAMP(Estimator):
    """Estimator of the weights of a sequence multi-index model.

    Parameters
    ----------
    model : Network or LinkKernel
    damping, max_iter, tol, variance, solver, denoiser_tol, nodes, rng, workers, prior
        As in `gamp`.

    Attributes
    ----------
    weights_ : ndarray, shape (P, D)
        Estimated weights.
    covariance_ : ndarray, shape (P, P)
        Posterior covariance of each of their columns.
    result_ : GAMPResult
    converged_ : bool
    n_iter_ : int
    n_features_in_ : int
        D.

    References
    ----------
    troiani2025, Algorithm 1.
    """

    def __init__(
        self,
        model: Model,
        *,
        damping: float | Literal["adaptive"] = 0.3,
        max_iter: int = 500,
        tol: float = 1e-3,
        variance: Literal["slope", "nishimori"] = "slope",
        solver: Literal["damped", "double-loop"] = "damped",
        denoiser_tol: float = 1e-4,
        nodes: int | None = None,
        rng: np.random.Generator | int | None = 0,
        workers: int | None = None,
        prior: Prior | str = GAUSSIAN,
    ) -> None:
        self.model = model
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.variance = variance
        self.solver = solver
        self.denoiser_tol = denoiser_tol
        self.nodes = nodes
        self.rng = rng
        self.workers = workers
        self.prior = prior

    def fit(
        self,
        X: ArrayLike | Source | str | os.PathLike[str] | dask.array.Array,
        Y: ArrayLike | str | os.PathLike[str] | dask.array.Array | None = None,
        *,
        start: ArrayLike | None = None,
        side_information: ArrayLike | None = None,
        side_strength: float | None = None,
        known: ArrayLike | None = None,
        teacher: ArrayLike | None = None,
        callback: Callable[[GAMPStep], object] | None = None,
        client: Client | str | None = None,
    ) -> Self:
        """Estimate the weights; arguments and errors are those of `gamp`."""
        params = self.get_params()
        self.result_: GAMPResult = gamp(
            X,
            Y,
            params.pop("model"),
            **params,
            start=start,
            side_information=side_information,
            side_strength=side_strength,
            known=known,
            teacher=teacher,
            callback=callback,
            client=client,
        )
        self.weights_, self.covariance_ = self.result_.weights, self.result_.covariance
        self.converged_, self.n_iter_ = self.result_.converged, self.result_.n_iter
        self.n_features_in_ = self.weights_.shape[1]
        return self

    def predict(self, X: ArrayLike, *, method: Literal["mean", "plugin"] = "mean") -> Array:
        """Predict the outputs of new samples.

        Parameters
        ----------
        X : array_like, shape (N, M, D)
        method : {"mean", "plugin"}
            "mean": E[g(h)] over the posterior of the indices, h ~ N(What x / sqrt(D), C), which has the least squared
            error (11). "plugin": g at its mean.

        Returns
        -------
        ndarray, shape (N, M, M), or (N, K) of a link

        Raises
        ------
        ValueError
            Not fitted yet, a shape that does not fit, or another method.
        """
        if not hasattr(self, "weights_"):
            raise ValueError("GAMP is not fitted yet: call fit(X, Y) before predict(X)")
        if method not in ("mean", "plugin"):
            raise ValueError(f'method must be "mean" or "plugin" (troiani2025 (11)), got {method!r}')
        require_one_head("predict", self.model)
        x = check_samples(X, self.model)
        if x.shape[2] != self.n_features_in_:
            raise ValueError(f"X must have D = {self.n_features_in_} as in fit, got {x.shape[2]}")
        weights = check_weights("weights_", self.weights_, self.model).astype(x.dtype)
        p, m = self.model.indices, self.model.tokens
        draws = np.zeros((1, p, m))
        # Draws of the posterior of each new sample's indices, as a power of two, and samples at a time.
        log2_draws, rows = 6, 4096
        if method == "mean":
            normals = normal_qmc(p * m, log2_draws, np.random.default_rng(0)).reshape(-1, p, m)
            # Each with its mirror image: functions linear in h have no error.
            draws = matrix_root(self.covariance_) @ np.concatenate([normals, -normals])
        out = []
        for part in rows_of(x, max(1, rows // len(draws))):
            flat = np.ascontiguousarray(x[part]).reshape(-1, x.shape[2])
            mean = np.swapaxes((flat @ weights.T).reshape(-1, m, p), 1, 2) / math.sqrt(x.shape[2])
            y = self.model.link((mean.astype(np.float64)[:, None] + draws).reshape(-1, p, m))
            out.append(y.reshape(len(mean), len(draws), *y.shape[1:]).mean(axis=1))
        return np.concatenate(out)

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:
        """Coefficient of determination of `predict`, 1 - |F(X) - Y|^2 / |Y - mean Y|^2 with the mean of each output.

        Parameters
        ----------
        X : array_like, shape (N, M, D)
        Y : array_like, shape (N, M, M), or (N, K) of a link

        Raises
        ------
        ValueError
            As `predict`, outputs of another shape, not finite, or that do not vary over the samples.
        """
        predicted, outputs = self.predict(X), numbers("Y", Y)
        if outputs.shape != predicted.shape:
            raise ValueError(f"Y must have shape {predicted.shape}, one for each sample of X, got {outputs.shape}")
        if not np.isfinite(outputs).all():
            raise ValueError("Y must be finite, got NaN or infinity; leave such samples out, of X too")
        return determination(predicted, outputs)
