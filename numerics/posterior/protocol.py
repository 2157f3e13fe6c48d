"""What a posterior is, for everything that asks for one: moments of the indices given outputs, h ~ N(omega, V) before.

`denoise`, GAMP and the averages over the output channel take the same objects.  What an output alone fixes, such as its
readout row or a point of its fibre, is computed when the posterior is made; what depends on (omega, V), at every call.
"""

from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..core.results import How
from ..core.typing import Array
from ..model.links import LinkKernel
from ..model.network import Network

__all__ = ["Crossed", "Model", "Moments", "Posterior", "Sampled", "Scores", "Settings"]

#: Models of which there is a posterior.
Model: TypeAlias = Network | LinkKernel


class Moments(NamedTuple):
    """Moments of n posteriors, with their errors.

    Attributes
    ----------
    log_z : ndarray, shape (n,)
        log Z_out.
    g : ndarray, shape (n, P, M)
        g_out = V^{-1} (E[h | y] - omega), troiani2025 (12).
    dg : ndarray, shape (n, P, M, P, M)
        V^{-1} Cov[h | y] V^{-1} - V^{-1}.
    error : ndarray, shape (n,)
        Largest error of the moments of V^{-1/2} (h - omega).
    log_z_error : ndarray, shape (n,)
    """

    log_z: Array
    g: Array
    dg: Array
    error: Array
    log_z_error: Array


class Settings(NamedTuple):
    """How accurate posteriors are made.

    Attributes
    ----------
    tol : float
        Of the moments, where a rule has one.
    nodes : int or None
        Nodes of each posterior that is sampled; None for the usual number.
    rng : numpy.random.Generator
        Of these nodes.
    """

    tol: float
    nodes: int | None
    rng: np.random.Generator


class Scores(Protocol):
    """Scores of a batch of outputs, which a pass over data asks for.

    Attributes
    ----------
    rows : int
        Number of outputs.
    """

    rows: int

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        """Scores of some of the outputs.

        Parameters
        ----------
        omega : ndarray, shape (n, P, M)
            Prior means of their indices.
        V : ndarray, shape (P, P)
            Prior covariance.
        part : slice
            Which of the outputs these n are.

        Returns
        -------
        g : ndarray, shape (n, P, M)
            g_out, (12).
        curvature : ndarray, shape (P, P), or None
            - sum over outputs and tokens of d g_m / d omega_m; None where only g is known.
        """


@runtime_checkable
class Sampled(Protocol):
    """Scores that are sampled, with an estimate of their errors."""

    @property
    def noise(self) -> Array:
        """Sum over outputs and tokens of the products of the errors of the latest scores, shape (P, P)."""


@runtime_checkable
class Crossed(Scores, Sampled, Protocol):
    """Sampled scores whose products are known without the squares of their errors."""

    def products(self, part: slice) -> Array:
        """Sum over some outputs and tokens of g g^T of the latest scores, shape (P, P), by independent nodes."""


class Posterior(Scores, Protocol):
    """Posteriors of the indices of a batch of outputs.

    Attributes
    ----------
    how : {"rigorous", "estimated", "monte-carlo"}
        Kind of the error of the moments.
    """

    how: How
