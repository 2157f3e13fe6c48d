"""Weak recovery of one layer by samples of the operator (15), whose inner moments are integrals over the fibre of y."""

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import Estimate
from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.quadrature.rules import normal_qmc

__all__ = ["threshold_of", "weak_recovery_operator", "weak_recovery_threshold"]

Array = NDArray[np.float64]


def weak_recovery_operator(
    layer: Network,
    *,
    log2_samples: int = 9,
    replicates: int = 8,
    rng: np.random.Generator | int | None = None,
    tol: float = 1e-8,
) -> Array:
    """Return independent estimates of the operator (15) of one layer, as matrices on P x P matrices.

    ``F(X) = E_y sum_{mm'} G_{mm'} X G_{mm'}^T``, G = E[h h^T | y] - I: the inner moment by the fibre integral, the mean
    over y = g(h), h ~ N(0, I), by randomised quasi-Monte Carlo.

    Returns
    -------
    ndarray, shape (replicates, P, P, P, P)
        [k, p, q, p', q']: F(X)_pq = sum F_pqp'q' X_p'q'. Their mean estimates the operator, their scatter its error.
    """
    generator = np.random.default_rng(rng)
    p, m = layer.indices, layer.tokens
    identity = np.einsum("pq,mn->pmqn", np.eye(p), np.eye(m))
    out = []
    for _ in range(replicates):
        h = normal_qmc(p * m, log2_samples, generator).reshape(-1, p, m)
        g = fibre_moments(layer, layer.link(h), tol=tol).second - identity
        out.append(np.einsum("ypmrn,yqmsn->pqrs", g, g, optimize=True) / len(h))
    return np.array(out)


def weak_recovery_threshold(
    layer: Network,
    *,
    log2_samples: int = 9,
    replicates: int = 8,
    rng: np.random.Generator | int | None = None,
    tol: float = 1e-8,
) -> Estimate:
    """Return alpha_c = 1/(largest eigenvalue of the operator (15)), (16); the error is one standard error."""
    return threshold_of(
        weak_recovery_operator(layer, log2_samples=log2_samples, replicates=replicates, rng=rng, tol=tol)
    )


def threshold_of(samples: Array) -> Estimate:
    """Return alpha_c and its standard error from independent estimates of the operator."""
    size = samples.shape[1] ** 2
    norms = np.array([_top_eigenvalue(sample, size) for sample in samples])
    norm = _top_eigenvalue(samples.mean(axis=0), size)
    error = float(standard_error(norms))
    if norm <= 3 * error:
        raise ConvergenceError(f"the operator (15) is {norm:.2g} +- {error:.2g}: no threshold; raise log2_samples")
    return Estimate(1 / norm, error / norm**2, "monte-carlo")


def _top_eigenvalue(operator: Array, size: int) -> float:
    matrix = operator.reshape(size, size)
    # G_{mm'} summed over both tokens makes it symmetric, up to rounding.
    return float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[-1])
