"""Untied, sequence-to-sequence and multi-head attention as sequence multi-index models: (19)-(45).

Every check runs the architecture on random weights at finite dimension by its definition, and compares with
the link on the indices alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlimits.derive.registry import CheckOutcome

from .forward import activate, network, random_weights, reference_mixing
from .tools import numeric

Array = NDArray[np.float64]

# Some thousand float64 operations on numbers of order one to a hundred, relative to the largest entry.
_ROUNDING = 1e-12


def _relative(value: Array, reference: Array) -> float:
    return float(np.abs(value - reference).max() / max(1.0, np.abs(reference).max()))


def _untied_link(h: Array, ranks: tuple[int, ...], skip: float, beta: float) -> Array:
    """Link (23) on the stacked indices: all keys, then all queries."""
    ends = np.cumsum(ranks)
    total = int(ends[-1])
    mixing = np.eye(h.shape[1])
    for number, (rank, end) in enumerate(zip(ranks, ends, strict=True), start=1):
        keys = h[end - rank : end] @ mixing.T
        queries = h[total + end - rank : total + end] @ mixing.T
        attention = activate(keys.T @ queries, beta)
        if number == len(ranks):
            return attention
        mixing = (skip * np.eye(h.shape[1]) + attention) @ mixing
    raise ValueError("at least one layer is needed")


def check_untied() -> CheckOutcome:
    """(21)-(24): network (19) against the link on the indices of the stacked weights."""
    rng = np.random.default_rng(24)
    residuals = []
    for tokens, ranks, dimension in ((2, (1, 1), 40), (3, (2, 1, 3), 50), (4, (1,), 30)):
        skip, beta = 0.6, 1.2
        keys, queries = random_weights(rng, ranks, dimension), random_weights(rng, ranks, dimension)
        sample = rng.standard_normal((dimension, tokens))
        state, attention = sample.T, np.empty((tokens, tokens))
        for key, query in zip(keys, queries, strict=True):
            attention = activate(state @ key.T @ query @ state.T / dimension, beta)
            state = skip * state + attention @ state
        h = np.vstack([*keys, *queries]) @ sample / np.sqrt(dimension)
        residuals.append(_relative(_untied_link(h, ranks, skip, beta), attention))
    return numeric(residuals, _ROUNDING, "untied network against its link on the stacked indices, M = 2, 3, 4")


def check_sequence() -> CheckOutcome:
    """(25)-(26): output sequence against B_L times the input, and B_L recovered from input and output."""
    rng = np.random.default_rng(26)
    residuals = []
    for tokens, ranks, dimension in ((2, (1, 1), 40), (3, (2, 1, 1), 60)):
        skip, beta = 0.9, 0.8
        weights = random_weights(rng, ranks, dimension)
        sample = rng.standard_normal((dimension, tokens))
        # A further weight makes the last layer of the sequence model an inner layer of the network.
        states, _ = network([*weights, weights[0]], sample, skip, beta)
        indices = [weight @ sample / np.sqrt(dimension) for weight in weights]
        mixing = reference_mixing(indices, skip, beta)[-1]
        residuals.append(_relative(mixing @ sample.T, states[-1]))
        recovered = np.asarray(np.linalg.lstsq(sample, states[-1].T, rcond=None)[0].T, dtype=np.float64)
        residuals.append(_relative(recovered, mixing))
    return numeric(residuals, _ROUNDING, "output sequence against B_L X_0, and B_L from (X_0, X_L) by least squares")


def _heads_link(h: Array, recombination: list[Array], heads: int, rank: int, skip: float, beta: float) -> list[Array]:
    """Link (44) on indices of shape (2, L, H, H, r, M): kind, layer, head, block."""
    tokens = h.shape[-1]
    mixing = [[np.eye(tokens) * (a == b) for b in range(heads)] for a in range(heads)]
    attentions: list[Array] = []
    for layer in range(h.shape[1]):
        attentions = []
        for a in range(heads):
            keys = sum((h[0, layer, a, b] @ mixing[a][b].T for b in range(heads)), np.zeros((rank, tokens)))
            queries = sum((h[1, layer, a, b] @ mixing[a][b].T for b in range(heads)), np.zeros((rank, tokens)))
            attentions.append(activate(keys.T @ queries, beta))
        weight = recombination[layer]
        mixing = [
            [
                skip * mixing[a][b] + sum(weight[a, e] * attentions[e] @ mixing[e][b] for e in range(heads))
                for b in range(heads)
            ]
            for a in range(heads)
        ]
    return attentions


def check_heads() -> CheckOutcome:
    """(31)-(32), (43)-(45): network (28)-(30) against the link on the indices of the block weights (43)."""
    rng = np.random.default_rng(45)
    residuals = []
    for heads, tokens, rank, layers, diagonal in (
        (2, 2, 1, 2, False),
        (3, 3, 2, 3, False),
        (2, 4, 1, 3, True),
    ):
        block, skip, beta = 24, 0.7, 0.9
        dimension = heads * block
        weights = rng.standard_normal((2, layers, heads, rank, block))
        mask = np.eye(heads) if diagonal else np.ones((heads, heads))
        recombination = [rng.standard_normal((heads, heads)) * mask for _ in range(layers)]
        sample = rng.standard_normal((dimension, tokens))

        states = [sample[a * block : (a + 1) * block].T for a in range(heads)]
        attentions: list[Array] = []
        for layer in range(layers):
            attentions = [
                activate(state @ weights[0, layer, a].T @ weights[1, layer, a] @ state.T / block, beta)
                for a, state in enumerate(states)
            ]
            states = [
                skip * states[a] + sum(recombination[layer][a, b] * attentions[b] @ states[b] for b in range(heads))
                for a in range(heads)
            ]

        # The SMI form: every weight meets every block, W = I_H (x) w, and h = W x / sqrt(D / H).
        stacked = np.vstack([np.kron(np.eye(heads), w) for w in weights.reshape(-1, rank, block)])
        h = (stacked @ sample / np.sqrt(block)).reshape(2, layers, heads, heads, rank, tokens)
        link = _heads_link(h, recombination, heads, rank, skip, beta)
        residuals += [_relative(value, expected) for value, expected in zip(link, attentions, strict=True)]
    return numeric(residuals, _ROUNDING, "multi-head network against its link on the block indices, H = 2, 3")
