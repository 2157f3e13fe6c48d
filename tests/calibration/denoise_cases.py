"""Seeded inputs of the denoiser over its whole range, and its true error in the units that `DenoiserResult` states."""

from typing import Any, NamedTuple

import numpy as np
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.network import Network

CTX = MPContext()
CTX.dps = 60


class Case(NamedTuple):
    """One input of `denoise`."""

    model: Network
    y: np.ndarray
    omega: np.ndarray
    V: np.ndarray
    tol: float


def cases(layers: int, activation: str, count: int, seed: int) -> list[Case]:
    """Skip, beta, scale and correlation of V, omega/sqrt(V), how likely y is and tol, each over decades.

    One layer has 2 to 6 tokens, scales of V from 1e-300 to 1e300, and readouts of nearly equal entries; two layers have
    correlations up to 1 - 1e-15. Outputs that float64 does not hold (softmax entries that are zero) are drawn anew.
    """
    rng = np.random.default_rng(seed)
    out: list[Case] = []
    while len(out) < count:
        case = _one_layer(rng, activation) if layers == 1 else _two_layers(rng, activation)
        # Entries that are no doubles; of linear attention, also scores whose products overflow.
        low, high = (1e-300, 1.0) if activation == "softmax" else (-1e280, 1e280)
        if case is not None and ((case.y >= low) & (case.y <= high)).all():
            out.append(case)
    return out


def _one_layer(rng: np.random.Generator, activation: str) -> Case | None:
    tokens = int(rng.integers(2, 7))
    sd = 10.0 ** (rng.uniform(-150, 150) if rng.random() < 0.3 else rng.uniform(-8, 2))
    model = Network(1, tokens, 1, 1.0, 10.0 ** rng.uniform(-2, 2), activation)
    # In units of the prior width: near zero, as the prior has it, and far out.
    omega = rng.choice([0.0, 1.0, 10.0 ** rng.uniform(-2, 8)]) * rng.standard_normal(tokens)
    v = omega + rng.choice([1.0, 1.0, rng.uniform(0, 30)]) * rng.standard_normal(tokens)
    if rng.random() < 0.15:  # nearly equal tokens, where the inverse loses digits
        v = v[0] * (1 + 10.0 ** rng.uniform(-7, -1) * rng.standard_normal(tokens))
    with np.errstate(all="ignore"):
        return Case(model, _link(model, sd * v), sd * omega[None], np.array([[sd * sd]]), 1e-12)


def _two_layers(rng: np.random.Generator, activation: str) -> Case | None:
    model = Network(2, 2, 1, 10.0 ** rng.uniform(-1.5, 1.5), 10.0 ** rng.uniform(-2, 1.5), activation)
    sd = 10.0 ** (rng.uniform(-7, 0.3) + np.array([0.0, rng.choice([0.0, rng.uniform(-2, 2)])]))
    sd = np.minimum(sd, 2.0)
    rho = rng.choice([0.0, 0.3, 1 - 10.0 ** rng.uniform(-15, -0.3)]) * rng.choice([-1, 1])
    V = np.array([[sd[0] ** 2, rho * sd[0] * sd[1]], [rho * sd[0] * sd[1], sd[1] ** 2]])
    if V[0, 0] * V[1, 1] * (1 - 2e-15) <= V[0, 1] ** 2 or np.linalg.eigvalsh(V)[0] <= 1e-15 * V.max():
        return None
    omega = rng.choice([0.0, 1.0, 10.0 ** rng.uniform(-2, 8)]) * sd[:, None] * rng.standard_normal((2, 2))
    if np.abs(omega).max() > 30:
        return None
    root = np.array([[1.0, 0.0], [rho, np.sqrt((1 - rho) * (1 + rho))]])
    h = omega + rng.choice([1.0, 1.0, 1.0, rng.uniform(0, 8)]) * sd[:, None] * (root @ rng.standard_normal((2, 2)))
    with np.errstate(all="ignore"):
        return Case(model, _link(model, (h[1:] @ model.mixing(h).T)[0]), omega, V, 10.0 ** rng.uniform(-14, -2))


def _link(model: Network, v: np.ndarray) -> np.ndarray:
    try:
        return Network(1, model.tokens, 1, 1.0, model.beta, model.activation).link(v[None])
    except OverflowError:  # drawn anew
        return np.full((model.tokens, model.tokens), np.nan)


def moments_scale(case: Case, g: np.ndarray, dg: np.ndarray) -> np.ndarray:
    """Return r w_p of `DenoiserResult.error`, shape (P, M): unit of the errors of g_out; their products, of d g_out."""
    p, m = case.model.indices, case.model.tokens
    root = [[CTX.sqrt(CTX.mpf(float(case.V[0, 0])))]]
    inverse = [[1 / root[0][0]]]
    if p == 2:
        below = CTX.mpf(float(case.V[0, 1])) / root[0][0]
        last = CTX.sqrt(CTX.mpf(float(case.V[1, 1])) - below**2)
        root = [[root[0][0], CTX.mpf(0)], [below, last]]
        inverse = [[inverse[0][0], CTX.mpf(0)], [-below * inverse[0][0] / last, 1 / last]]
    factor = np.array(root, dtype=object)
    first = factor.T @ g
    second = [
        1 + first[k, t] ** 2 + sum(factor[a, k] * dg[a, t, b, t] * factor[b, k] for a in range(p) for b in range(p))
        for k in range(p)
        for t in range(m)
    ]
    reach = [sum(abs(inverse[row][column]) for row in range(p)) for column in range(p)]
    return CTX.sqrt(1 + max(0, *second)) * np.repeat(np.array(reach, dtype=object), m).reshape(p, m)


def ratios(case: Case, made: DenoiserResult, exact: Any) -> tuple[float, float]:
    """True over stated error, of the moments as g_out and d g_out have them, and of log Z.

    `exact` has log_z, g_out and dg_out as numbers of mpmath.
    """
    g, dg = np.array(exact.g_out), np.array(exact.dg_out)
    scale = moments_scale(case, g, dg)
    off = np.abs(exactly(made.g_out) - g) / scale
    off2 = np.abs(exactly(made.dg_out) - dg) / np.multiply.outer(scale, scale)
    worst = max(off.max(), off2.max())
    log_z = abs(exactly(made.log_z)[()] - exact.log_z)
    return float(worst / float(made.error)), float(log_z / float(made.log_z_error))


def exactly(array: np.ndarray) -> np.ndarray:
    """Return the float64 numbers of an array as numbers of mpmath."""
    out = np.empty(np.shape(array), dtype=object)
    for index in np.ndindex(out.shape):
        out[index] = CTX.mpf(float(array[index]))
    return out
