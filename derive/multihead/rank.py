"""Rank of the layer's Jacobian on Boolean inputs, exactly: at almost all parameters the layer fixes them locally.

At Theta_i = log(2) T_i with integer T_i, and integer W_i, all attention weights are rational, and so is the Jacobian.
Where its rank modulo a prime is the number of parameters, so is its rank. The minors are analytic in the parameters,
and one of them does not vanish there: it vanishes on a set of measure zero at most.
"""

import random

import sympy as sp
from sympy.polys.matrices import DomainMatrix

__all__ = ["jacobian_rank"]

_PRIME = 2**31 - 1


def jacobian_rank(tokens: int, dim: int, heads: int, seed: int = 0) -> tuple[int, int]:
    """Rank modulo 2^31 - 1 of the derivatives of outputs at Boolean inputs in all Theta_i and W_i.

    Parameters
    ----------
    tokens, dim, heads : int
        k, d and m.
    seed : int
        Of T_i, W_i in -2..2 and of the inputs.

    Returns
    -------
    rank, unknowns : int
        The rank is at most that over the rationals; unknowns = 2 m d^2.

    References
    ----------
    chen2024, (21).
    """
    draw = random.Random(seed)
    heads_of = [
        [[[draw.randint(-2, 2) for _ in range(dim)] for _ in range(dim)] for _ in range(heads)] for _ in range(2)
    ]
    unknowns = 2 * heads * dim * dim
    rows: list[list[int]] = []
    while len(rows) < 2 * unknowns:
        x = [[draw.choice((1, -1)) for _ in range(dim)] for _ in range(tokens)]
        rows += _rows(x, heads_of[0], heads_of[1])
    field = sp.GF(_PRIME)
    return DomainMatrix([[field(v) for v in row] for row in rows], (len(rows), unknowns), field).rank(), unknowns


def _rows(x: list[list[int]], thetas: list[list[list[int]]], ws: list[list[list[int]]]) -> list[list[int]]:
    """Derivatives of the d outputs of row 1, by the formulas that `layer.derivative_identities` proves."""
    k, d = len(x), len(x[0])
    in_theta: list[list[int]] = [[] for _ in range(d)]
    in_w: list[list[int]] = [[] for _ in range(d)]
    for theta, w in zip(thetas, ws, strict=True):
        query = [sum(x[0][p] * theta[p][q] for p in range(d)) for q in range(d)]
        powers = [pow(2, sum(a * b for a, b in zip(query, token, strict=True)), _PRIME) for token in x]
        total = pow(sum(powers), -1, _PRIME)
        a = [power * total % _PRIME for power in powers]
        mean = [sum(a[j] * x[j][q] for j in range(k)) % _PRIME for q in range(d)]
        covariance = [
            [(sum(a[j] * x[j][q] * x[j][r] for j in range(k)) - mean[q] * mean[r]) % _PRIME for r in range(d)]
            for q in range(d)
        ]
        for c in range(d):
            spread = [sum(covariance[q][r] * w[r][c] for r in range(d)) % _PRIME for q in range(d)]
            in_theta[c] += [x[0][p] * spread[q] % _PRIME for p in range(d) for q in range(d)]
            in_w[c] += [mean[p] * (q == c) for p in range(d) for q in range(d)]
    return [one + other for one, other in zip(in_theta, in_w, strict=True)]
