"""State evolution of one tied layer of rank one, for any number of tokens, up to a plane integral.

The label fixes h up to its sign, so that E[h | y] = h tanh(h . omega / V) and, with h . omega Gaussian
given r = |h|, everything is an integral over r and one Gaussian variable. It serves as an independent map
for (14)-(18).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@lru_cache(maxsize=16)
def _rule(tokens: int, nodes: int) -> tuple[Array, Array, Array, Array]:
    """Return r = |h| with the weights of E[r^2 f(r)], and z with the weights of a standard Gaussian."""
    legendre, weights = np.polynomial.legendre.leggauss(nodes)
    r = 5.0 * (legendre + 1.0)  # |h| <= 10 leaves out less than 1e-20
    log_norm = (tokens / 2.0 - 1.0) * math.log(2.0) + math.lgamma(tokens / 2.0)
    radial = np.exp((tokens + 1) * np.log(r) - r * r / 2.0 - log_norm) * 5.0 * weights
    z, dz = np.linspace(-9.0, 9.0, 2 * nodes + 1, retstep=True)
    return r, radial, z, np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) * dz


def conjugate_overlap(q: float, tokens: int, *, nodes: int = 60) -> float:
    """Return qhat / alpha = E sum_m g_out,m^2 of (14) at overlap q.

    Parameters
    ----------
    q : float
        Overlap, in (0, 1); in float64 accurate to about 1e-16 / q relative.
    tokens : int
        M >= 2.
    nodes : int
        Of the Gauss rule in r and of the trapezoid in the Gaussian variable.
    """
    variance = 1.0 - q
    r, radial, z, gauss = _rule(tokens, nodes)
    # h = omega + V^{1/2} z has unit variance and covariance q with omega: h . omega | r ~ N(q r^2, q V r^2).
    field = (q * r[:, None] ** 2 + math.sqrt(q * variance) * r[:, None] * z) / variance
    # E[omega . h tanh] = E[omega . omega] = M q (Nishimori) turns |h tanh - omega|^2 into a difference.
    return (float(radial @ np.tanh(field) ** 2 @ gauss) - tokens * q) / variance**2


def prior_map(conjugate: float) -> float:
    """F(qhat) = qhat / (1 + qhat)."""
    return conjugate / (1.0 + conjugate)


def evolve(alpha: float, start: float, tokens: int, iterations: int, *, side_information: float = 0.0) -> list[float]:
    """Iterate (14) from q_0, with lambda = side_information added to qhat at every step as in (118)."""
    history = [start]
    for _ in range(iterations):
        conjugate = alpha * conjugate_overlap(history[-1], tokens) + side_information
        history.append(prior_map(conjugate))
    return history
