"""Frozen results of the attention-indexed model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.pictures import plots
from ..core.results import Estimate, How, Result, versions
from ..core.shown import few_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AMPResult", "AMPStep", "DescentResult", "EvolutionPoint", "PredictionErrors", "SelfError"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class EvolutionPoint(Result):
    """A fixed point of the state evolution.

    Attributes
    ----------
    alpha, rho : float
        n/d^2 and r/d. At rho = 0 (small width) alpha stands for alpha/rho.
    activation : str
    tokens : int
    mmse : Estimate
        (1/d) E ||S - E[S | data]||^2 = Q - q, between 1 and 0.
    overlap : Estimate
        q = Tr(S Shat)/d.
    q_hat : float
        1/Delta of the matrix denoiser; infinite where S is recovered, 0 at rho = 0, where it is rho/t.
    bracket : tuple of float
        Delta (t at rho = 0) between which the sign of alpha(Delta) - alpha changes, beyond its error; equal where
        there is nothing to solve.
    converged, status, n_iter, residual, history, versions
        Provenance: `residual` is the difference of alpha(Delta) from alpha, or of q from its update; `history` holds
        the errors of an iteration, and is empty for the parametric route.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    alpha: float
    rho: float
    activation: str
    tokens: int
    mmse: Estimate
    overlap: Estimate
    q_hat: float
    bracket: tuple[float, float]
    converged: bool
    status: str
    n_iter: int
    residual: float
    history: Array
    versions: dict[str, str] = field(default_factory=versions)


@few_lines
@dataclass(frozen=True)
class PredictionErrors:
    """Errors of predictions of an output without its noise, E sum_ab (y_ab - prediction)^2 over tokens not seen yet.

    Attributes
    ----------
    posterior_mean : Estimate
        By E[y | data], the least of all.
    plug_in : Estimate
        By the output at the estimated indices, Tr(Shat Z_ab).
    """

    posterior_mean: Estimate
    plug_in: Estimate


@few_lines
@dataclass(frozen=True)
class AMPStep:
    """Record of an iteration of AMP, passed to callbacks.

    Attributes
    ----------
    iteration : int
    change : float
        ||Shat - Shat_old||^2/d.
    V, q_hat : float
    error : float or None
        ||S - Shat||^2/d, if the teacher is known.
    """

    iteration: int
    change: float
    V: float
    q_hat: float
    error: float | None


@few_lines
@dataclass(frozen=True)
class SelfError:
    """Estimate of ||S - Shat||^2/d by the algorithm, without the teacher.

    Attributes
    ----------
    value : float
    error : float or None
        Estimated bound on the distance of the true error from `value`; None where it is not known.
    status : str
        How it was obtained, or why it is not known.
    """

    value: float
    error: float | None
    status: str


@dataclass(frozen=True, repr=False)
class AMPResult(Result):
    """An estimate by approximate message passing.

    Attributes
    ----------
    estimate : ndarray, shape (d, d)
        Shat.
    predicted : float
        Estimate of ||S - Shat||^2/d by the algorithm, without the teacher: see `self_error`.
    predicted_error : float or None
        Estimated bound on the distance of the true error from `predicted`; None where it is not known: not converged,
        or for the reason in the status.
    V : float
        Variance that the iteration ends with, its parameter. It is near ||S - Shat||^2/d below recovery, and 10 to 10^4
        times that above.
    mmse : float or None
        ||S - Shat||^2/d, if the teacher is known.
    alpha, rho : float
        n/d^2 and the width of the prior.
    how : {"rigorous", "estimated", "monte-carlo"}
    converged, status, n_iter, history, seed, versions
        Provenance; `history` holds a row (change, V, q_hat, error) of each iteration, with NaN for an unknown error.
    dampings : ndarray, shape (n_iter,)
        Share of the old estimate in each.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    estimate: Array
    predicted: float
    predicted_error: float | None
    V: float
    mmse: float | None
    alpha: float
    rho: float
    how: How
    converged: bool
    status: str
    n_iter: int
    history: Array
    dampings: Array
    seed: int
    versions: dict[str, str] = field(default_factory=versions)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw V over the iterations, and the error where the teacher is known; returns the matplotlib axes."""
        with plots().on_axes(axes) as axes:
            iterations = np.arange(1, self.n_iter + 1)
            axes.semilogy(iterations, self.history[:, 1], label="V")
            if self.mmse is not None:
                axes.semilogy(iterations, self.history[:, 3], ".-", label=r"error $\|S - \hat S\|^2/d$")
            axes.set(xlabel="iteration", title=rf"message passing at $\alpha$ = {self.alpha:g}")
            plots().legend_below(axes, 2)
            return axes


@dataclass(frozen=True, repr=False)
class DescentResult(Result):
    """An estimate by gradient descent on the weights of a student.

    Attributes
    ----------
    estimate : ndarray, shape (d, d)
        S of the student, or the mean of several.
    loss : ndarray, shape (runs,)
        Last loss of each student.
    mmse : float or None
        ||S - Shat||^2/d, if the teacher is known.
    single : float or None
        Mean of the same over the students, each for itself.
    students : int
    n_iter, converged, status, seed, versions
        Provenance.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    estimate: Array
    loss: Array
    mmse: float | None
    single: float | None
    students: int
    n_iter: int
    converged: bool
    status: str
    seed: int
    versions: dict[str, str] = field(default_factory=versions)

    def of_mean(self, students: int) -> float:
        """Error of the mean of so many students, from that of one and of the mean of those there are.

        Over the starts its expectation is A + B/k, of k students: A the error of the mean of all, B their variance.
        """
        if self.mmse is None or self.single is None or self.students < 2 or students < 1:
            raise ValueError("of_mean needs a teacher, at least two students, and the number >= 1 of those to average")
        spread = (self.single - self.mmse) * self.students / (self.students - 1)
        return self.single - spread + spread / students
