"""A multi-head layer with the interface of scikit-learn's estimators, which it does not need."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core.estimator import Estimator, determination
from ..core.progress import Bar
from ..learning.blocks import Array
from .checks import examples, tokens_of
from .layer import multihead
from .learn import Method, learn_multihead
from .results import MultiheadFit
from .watch import Watch

__all__ = ["MultiheadLearner", "fit"]


class MultiheadLearner(Estimator):
    """Estimator of F(X) = sum_i softmax(X Theta_i X^T) X W_i.

    Parameters
    ----------
    heads : int or "auto"
    method : {"auto", "sculpt", "restarts"}
    noise_std : float, optional
    starts : int
    rng : Generator, int or None
        As in `learn_multihead`.
    progress : bool or callable
        True draws a bar on stderr; a function is called with the number of descents done and the number that may be
        needed.

    Attributes
    ----------
    theta_, w_ : ndarray, shape (m, d, d)
    heads_ : int
    noise_std_ : float
    converged_ : bool
    n_features_in_ : int
        d.
    result_ : MultiheadFit
        With the evidence on the number of heads and the certificates.

    References
    ----------
    chen2024, the algorithm and identifiability.

    Examples
    --------
    >>> import attnlimits as al
    >>> theta, w = al.multihead.make_teacher("gauss", 2, 5, rng=1)
    >>> data = al.multihead.make_examples(theta, w, samples=800, tokens=2, rng=2)
    >>> learner = al.multihead.fit(data.X, data.Y)
    >>> learner.heads_, learner.converged_, round(learner.score(data.X, data.Y), 6)
    (2, True, 1.0)
    """

    def __init__(
        self,
        heads: int | Literal["auto"] = "auto",
        *,
        method: Method = "auto",
        noise_std: float | None = None,
        starts: int = 8,
        rng: np.random.Generator | int | None = 0,
        progress: bool | Callable[[int, int], None] = False,
    ) -> None:
        self.heads = heads
        self.method: Method = method
        self.noise_std = noise_std
        self.starts = starts
        self.rng = rng
        self.progress = progress

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:
        """Learn the layer.

        Parameters
        ----------
        X, Y : array_like, shape (n, k, d)
            Tokens in rows, of any real entries, and outputs with Gaussian noise or without.

        Returns
        -------
        MultiheadLearner
            Itself. A layer that is not accepted, or not the only one, comes with a `LearnWarning` and `converged_`
            False. After an interrupt it is the best layer so far, likewise.

        Raises
        ------
        ValueError
            Arguments of a wrong shape, range or type.
        NotIdentifiable, Degenerate, DegenerateSum, InsufficientCertifiedRows, LinearProgramFailure
            There is no layer to return.
        """
        with ExitStack() as stack:
            asked = self.progress
            shown = stack.enter_context(Bar("multihead", show=True)).to if asked is True else asked or None
            self.result_: MultiheadFit = learn_multihead(
                X,
                Y,
                self.heads,
                self.method,
                noise_std=self.noise_std,
                starts=self.starts,
                strict=False,
                rng=self.rng,
                watch=Watch(shown, partial=True),
            )
        self.theta_, self.w_ = self.result_.theta, self.result_.w
        self.heads_, self.noise_std_ = self.result_.heads, self.result_.noise_std
        self.converged_ = self.result_.converged
        self.n_features_in_ = self.theta_.shape[1]
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Outputs of the learned layer.

        Parameters
        ----------
        X : array_like, shape (n, k, d)
            k need not be that of the examples.

        Raises
        ------
        ValueError
            Not fitted yet, or a shape that does not fit.
        """
        if not hasattr(self, "theta_"):
            raise ValueError("MultiheadLearner is not fitted yet: call fit(X, Y) before predict(X)")
        tokens = tokens_of("X", X)
        if tokens.shape[2] != self.n_features_in_:
            raise ValueError(f"X must have d = {self.n_features_in_} as in fit, got {tokens.shape[2]}")
        return multihead(tokens, self.theta_, self.w_)

    def score(self, X: ArrayLike, Y: ArrayLike) -> float:
        """Coefficient of determination, 1 - |F(X) - Y|^2 / |Y - mean Y|^2 with the mean of each output coordinate.

        Parameters
        ----------
        X, Y : array_like, shape (n, k, d)

        Raises
        ------
        ValueError
            As `predict`, or outputs that do not vary.
        """
        tokens, outputs = examples(X, Y)
        return determination(self.predict(tokens), outputs, over=(0, 1))


def fit(X: ArrayLike, Y: ArrayLike, **settings: object) -> MultiheadLearner:
    """Learn a multi-head layer from examples.

    Parameters
    ----------
    X, Y : array_like, shape (n, k, d)
    settings : optional
        Parameters of `MultiheadLearner`: `heads`, `method`, `noise_std`, `starts`, `rng`, `progress`.

    Returns
    -------
    MultiheadLearner
        Fitted: `theta_`, `w_`, `heads_`, `converged_`, `result_`, `predict(X)`, `score(X, Y)`.

    Raises
    ------
    ValueError
        Arguments of a wrong shape, range, type or name.
    """
    return MultiheadLearner().set_params(**settings).fit(X, Y)
