"""Reference computations in plain numpy, by the definitions: the network (2)-(3) and its link (5)-(6).

They are slow and obvious on purpose and share no code with the derivations or the kernels they are compared
with.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(scores: Array) -> Array:
    """Row-wise softmax."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def activate(scores: Array, beta: float, activation: str = "softmax") -> Array:
    """Activation of beta times the scores, row-wise softmax or linear."""
    return softmax(beta * scores) if activation == "softmax" else beta * scores


def random_weights(rng: np.random.Generator, ranks: Sequence[int], dimension: int) -> list[Array]:
    """Draw standard Gaussian weights w_l, shape (r_l, dimension) each."""
    return [rng.standard_normal((rank, dimension)) for rank in ranks]


def network(
    weights: Sequence[Array], sample: Array, skip: float, beta: float, activation: str = "softmax"
) -> tuple[list[Array], Array]:
    """Forward pass (2)-(3) on a sample of shape (D, M).

    Returns
    -------
    list of ndarray, ndarray
        X_0 .. X_{L-1} with tokens as rows (M, D), and the readout y (M, M).
    """
    tokens = sample.T
    dimension = sample.shape[0]
    states = [tokens]
    for weight in weights[:-1]:
        projected = weight @ tokens.T / np.sqrt(dimension)
        tokens = skip * tokens + activate(projected.T @ projected, beta, activation) @ tokens
        states.append(tokens)
    projected = weights[-1] @ tokens.T / np.sqrt(dimension)
    return states, activate(projected.T @ projected, beta, activation)


def reference_mixing(indices: Sequence[Array], skip: float, beta: float, activation: str = "softmax") -> list[Array]:
    """Mixing matrices B_0 .. B_l of the recursion (5) for index matrices h_1 .. h_l, each (r, M)."""
    tokens = indices[0].shape[1]
    mixing = [np.eye(tokens)]
    for h in indices:
        v = h @ mixing[-1].T
        mixing.append((skip * np.eye(tokens) + activate(v.T @ v, beta, activation)) @ mixing[-1])
    return mixing


def reference_link(indices: Sequence[Array], skip: float, beta: float, activation: str = "softmax") -> Array:
    """Link function (6): y = sigma(B_{L-1} h_L^T h_L B_{L-1}^T)."""
    v = indices[-1] @ reference_mixing(indices, skip, beta, activation)[len(indices) - 1].T
    return activate(v.T @ v, beta, activation)
