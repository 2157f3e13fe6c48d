"""Untied, sequence-to-sequence and multi-head attention as sequence multi-index models: (19)-(45).

The numerical checks run the architecture on random weights at finite dimension by its definition, and compare
with the link on the indices alone: the paper's, written out here, and the derived one.
"""

from collections.abc import Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive import mixing as derived
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.primitives import elementary
from attnlimits.derive.registry import CheckOutcome

from .forward import activate, network, random_weights, reference_mixing
from .tools import matrix, numeric, relative, symbolic

Array = NDArray[np.float64]

# Some thousand float64 operations on numbers of order one to a hundred, relative to the largest entry.
_ROUNDING = 1e-12


def _derived_link(
    model: Architecture, indices: Array, skip: float, beta: float, readouts: Sequence[Array] = ()
) -> Array:
    """Value of the derived link at indices (P, M) in the order of the architecture."""
    symbols = [entry for layer in model.index_matrices() for entry in layer]
    weights = [entry for readout in model.readouts for entry in readout]
    values = [*indices.reshape(-1), *(entry for readout in readouts for entry in readout.reshape(-1))]
    function = sp.lambdify(
        [*symbols, *weights, model.skip, model.beta], elementary(derived.link(model)), "numpy", cse=True
    )
    return np.asarray(function(*values, skip, beta), dtype=np.float64)


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
    for tokens, ranks, dimension in ((2, (1, 1), 40), (3, (2, 1), 40), (3, (2, 1, 3), 50), (4, (1,), 30)):
        skip, beta = 0.6, 1.2
        keys, queries = random_weights(rng, ranks, dimension), random_weights(rng, ranks, dimension)
        sample = rng.standard_normal((dimension, tokens))
        state, attention = sample.T, np.empty((tokens, tokens))
        for key, query in zip(keys, queries, strict=True):
            attention = activate(state @ key.T @ query @ state.T / dimension, beta)
            state = skip * state + attention @ state
        h = np.vstack([*keys, *queries]) @ sample / np.sqrt(dimension)
        residuals.append(relative(_untied_link(h, ranks, skip, beta), attention))
        if len(ranks) > 2:
            continue  # nested expressions of three layers take ten seconds to compile
        # The architecture stacks its rows layer by layer, keys before queries.
        rows = [w for pair in zip(keys, queries, strict=True) for w in pair]
        ordered = np.vstack(rows) @ sample / np.sqrt(dimension)
        model = Architecture(layers=len(ranks), tokens=tokens, ranks=ranks, tied=False)
        residuals.append(relative(_derived_link(model, ordered, skip, beta), attention))
    return numeric(residuals, _ROUNDING, "untied network against its stated and derived links, M = 2, 3, 4")


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
        residuals.append(relative(mixing @ sample.T, states[-1]))
        recovered = np.asarray(np.linalg.lstsq(sample, states[-1].T, rcond=None)[0].T, dtype=np.float64)
        residuals.append(relative(recovered, mixing))
        if len(ranks) > 2:
            continue  # as above
        model = Architecture(layers=len(ranks), tokens=tokens, ranks=ranks, output="sequence")
        residuals.append(relative(_derived_link(model, np.vstack(indices), skip, beta), mixing))
    return numeric(residuals, _ROUNDING, "output sequence against B_L X_0, and B_L by least squares and derived")


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
        residuals += [relative(value, expected) for value, expected in zip(link, attentions, strict=True)]
        if layers > 2:
            continue  # as above
        model = Architecture(layers=layers, tokens=tokens, ranks=rank, tied=False, heads=heads)
        # Its rows go layer by layer, head by head, keys before queries, block by block.
        ordered = h.transpose(1, 2, 0, 3, 4, 5).reshape(-1, tokens)
        found = _derived_link(model, ordered, skip, beta, recombination[: layers - 1])
        residuals.append(relative(found, np.vstack(attentions)))
    return numeric(residuals, _ROUNDING, "multi-head network against its stated and derived links, H = 2, 3")


def _blocks(name: str, heads: int, rank: int, block: int) -> list[sp.Matrix]:
    return [matrix(f"{name}{a}", rank, block) for a in range(heads)]


def _rows(weights: sp.Matrix, heads: int) -> sp.Matrix:
    """Assemble the weights of one head from the rows (37)-(39): at position b of block row b, zeros elsewhere."""
    zero = sp.zeros(*weights.shape)
    rows = [sp.Matrix.hstack(*[weights if place == b else zero for place in range(heads)]) for b in range(heads)]
    return sp.Matrix.vstack(*rows)


def check_27() -> CheckOutcome:
    """Cut the product of the block weights and the input: every head weight meets every block of coordinates."""
    heads, rank, block, tokens = 3, 2, 2, 2
    weights, sample = matrix("w", rank, block), matrix("x", heads * block, tokens)
    scale = sp.sqrt(sp.Integer(block))
    projected = sp.Matrix(sp.kronecker_product(sp.eye(heads), weights)) * sample / scale
    differences = {}
    for b in range(heads):
        own = weights * sample[b * block : (b + 1) * block, :] / scale
        differences[f"block {b + 1}"] = projected[b * rank : (b + 1) * rank, :] - own
    return symbolic(differences, "blocks of W x / sqrt(D / H) against w x^(b) / sqrt(D / H), H = 3")


def check_33() -> CheckOutcome:
    """Stack the block display (33)-(42) row by row: Kronecker products, and 2 H^2 sum_l r_l rows in all."""
    heads, block, ranks = 3, 2, (2, 1)
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    stacks: list[sp.Matrix] = []
    for kind in ("k", "q"):
        for layer, rank in enumerate(ranks):
            per_head = _blocks(f"{kind}{layer}", heads, rank, block)
            for a, weights in enumerate(per_head):
                assembled = _rows(weights, heads)
                stated = sp.Matrix(sp.kronecker_product(sp.eye(heads), weights))
                differences[f"{kind}, layer {layer + 1}, head {a + 1}"] = assembled - stated
                stacks.append(assembled)
    total = sp.Matrix.vstack(*stacks)
    differences["number of indices"] = sp.Integer(total.rows - 2 * heads**2 * sum(ranks))
    differences["number of indices, derived"] = sp.Integer(
        total.rows - Architecture(layers=2, tokens=2, ranks=ranks, tied=False, heads=heads).indices
    )
    differences["number of coordinates"] = sp.Integer(total.cols - heads * block)
    return symbolic(differences, "weights stacked by the rows of the display against I_H kron w, and P, H = 3, L = 2")
