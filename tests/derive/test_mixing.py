import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.mixing import (
    activate_score,
    layer_matrix_of_readout,
    link,
    mix,
    mixing_matrices,
)
from attnlimits.derive.primitives import elementary
from attnlimits.derive.softmax_pair import pair_chain, pair_layer, to_modes
from attnlimits.numerics.model import networks
from attnlimits.numerics.model.network import Network

SKIP, BETA = sp.Rational(3, 4), sp.Rational(5, 4)


def _forward_pass(weights, x, skip, beta, activation):
    """The network (2)-(3) itself: tokens as rows, D-dimensional embeddings, no indices."""

    def sigma(scores):
        if activation == "linear":
            return beta * scores
        powers = np.exp(beta * (scores - scores.max(axis=1, keepdims=True)))
        return powers / powers.sum(axis=1, keepdims=True)

    tokens = x.T
    dimension = tokens.shape[1]
    for number, w in enumerate(weights):
        keys = tokens @ w.T
        attention = sigma(keys @ keys.T / dimension)
        if number == len(weights) - 1:
            return attention
        tokens = (skip * np.eye(len(attention)) + attention) @ tokens
    raise AssertionError("no layers")


@pytest.mark.slow_for("4-2-1-softmax", "2-4-ranks5-softmax")
@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize(
    ("layers", "tokens", "ranks"),
    [
        (1, 2, 1),
        (2, 2, 1),
        (3, 2, 1),
        (4, 2, 1),
        (2, 3, (2, 1)),
        (2, 4, (1, 3)),
        pytest.param(3, 3, (1, 2, 1), marks=pytest.mark.slow),
    ],
)
def test_link_on_the_indices_equals_the_forward_pass(layers, tokens, ranks, activation, rng):
    model = Architecture(layers, tokens, ranks, activation, skip=SKIP, beta=BETA)
    h = model.index_matrices()
    compiled = sp.lambdify([entry for m in h for entry in m], elementary(link(model, h)), "numpy", cse=True)
    dimension = 17
    for _ in range(5):
        weights = [rng.normal(size=(rank, dimension)) for rank in model.rank_vector]
        x = rng.normal(size=(dimension, tokens))
        indices = np.concatenate([w @ x / np.sqrt(dimension) for w in weights])
        direct = _forward_pass(weights, x, float(SKIP), float(BETA), activation)
        # Both sides lose a few roundings per layer; linear outputs grow with depth, hence the scale.
        error = np.abs(compiled(*indices.ravel()) - direct).max() / max(1.0, np.abs(direct).max())
        assert error < 1e-12


@pytest.mark.slow_for(
    "2-2-1-3-True-sequence-softmax",
    "3-2-ranks3-1-False-sequence-softmax",
    "3-2-ranks3-1-False-sequence-tanh",
    "2-2-ranks5-2-False-last-softmax",
    "2-2-1-3-True-sequence-tanh",
    "2-2-ranks5-2-False-last-tanh",
)
@pytest.mark.parametrize("activation", ["softmax", "linear", sp.tanh])
@pytest.mark.parametrize(
    ("layers", "tokens", "ranks", "heads", "tied", "output"),
    [
        (1, 2, 1, 1, False, "last"),
        (2, 3, (2, 1), 1, False, "last"),
        (2, 2, 2, 1, True, "sequence"),
        (3, 2, (1, 2, 1), 1, False, "sequence"),
        (1, 3, 2, 2, True, "last"),
        (2, 2, (1, 2), 2, False, "last"),
        (2, 2, 1, 3, True, "sequence"),
        (1, 2, 1, 3, False, "sequence"),
    ],
)
def test_link_of_every_architecture_equals_the_forward_pass(
    layers, tokens, ranks, heads, tied, output, activation, rng
):
    model = Architecture(layers, tokens, ranks, activation, tied, SKIP, BETA, output, heads)
    readouts = [rng.normal(size=(heads, heads)) for _ in model.readouts]
    kind = np.tanh if activation is sp.tanh else activation
    network = Network(
        layers,
        tokens,
        ranks,
        heads=heads,
        tied=tied,
        output=output,
        skip=float(SKIP),
        beta=float(BETA),
        activation=kind,
        readouts=readouts,
    )
    names = [entry for matrix in (*model.index_matrices(), *model.readouts) for entry in matrix]
    compiled = sp.lambdify(names, elementary(link(model)), "numpy", cse=True)
    dimension = 12
    for _ in range(3):
        x = rng.normal(size=(dimension, tokens))
        weights = networks.random_weights(network, dimension, rng)
        h = networks.indices(x, weights, network)
        made = compiled(*h.ravel(), *np.ravel(readouts))
        moved = networks.apply_mixing(x, made, network) if output == "sequence" else made
        direct = networks.forward(x, weights, network)
        # Both sides lose a few roundings per layer; linear outputs grow with depth, hence the scale.
        assert np.abs(moved - direct).max() / max(1.0, np.abs(direct).max()) < 1e-12


def test_sequence_is_one_more_mixing_matrix():
    """B_L of L layers is the B that layer L + 1 would see, and the output of the sequence model."""
    deeper, model = Architecture(3, 2), Architecture(2, 2, output="sequence")
    made = mixing_matrices(model)
    assert len(made) == 3
    assert made == mixing_matrices(deeper)
    assert link(model) == made[-1]


def test_tied_is_untied_with_equal_indices():
    tied, untied = Architecture(2, 2), Architecture(2, 2, tied=False)
    h = tied.index_matrices()
    assert link(untied, [sp.Matrix.vstack(matrix, matrix) for matrix in h]) == link(tied, h)


def test_heads_that_do_not_mix_are_networks_of_their_own():
    """With o = I every head is a one-head model of its own block's indices."""
    model, single = Architecture(2, 2, heads=2), Architecture(2, 2)
    h = [sp.Matrix(matrix) for matrix in model.index_matrices()]
    for block in model.index_blocks:
        if block.head != block.block:
            h[block.layer - 1][2 * (block.head - 1) + block.block - 1, :] = sp.zeros(1, 2)
    made = link(model, h, [sp.eye(2)])
    for head in range(2):
        own = link(single, [matrix[3 * head, :] for matrix in h])
        assert made[2 * head : 2 * head + 2, :] == own


def test_other_architectures_are_refused_where_they_make_no_sense():
    for model in (Architecture(2, 2, tied=False), Architecture(2, 2, heads=2)):
        with pytest.raises(ValueError, match="tied attention with one head"):
            layer_matrix_of_readout(model, sp.zeros(1, 2))
        with pytest.raises(ValueError, match="tied attention with one head"):
            pair_layer(model, symbols.vp, symbols.vm)
    model = Architecture(2, 2, heads=2)
    with pytest.raises(ValueError, match="readouts must be 1 matrices"):
        link(model, readouts=[])
    with pytest.raises(ValueError, match="o of layer 1 must be 2 x 2"):
        link(model, readouts=[sp.eye(3)])
    with pytest.raises(ValueError, match="needs its readout weights"):
        mix(model, sp.eye(4), [sp.eye(2)] * 2)
    with pytest.raises(ValueError, match="h_1 must be 4 x 2"):
        link(model, [sp.zeros(2, 2), sp.zeros(4, 2)])


@pytest.mark.parametrize(
    ("activation", "message"),
    [
        (np.tanh, "must take one SymPy expression"),
        (lambda x: [x, x], "must return an expression"),
        (lambda x: 0.5 * x, "must be exact and finite"),
        (lambda x: sp.zoo, "must be exact and finite"),
    ],
)
def test_bad_activations_are_named(activation, message):
    with pytest.raises(ValueError, match=message):
        link(Architecture(1, 2, activation=activation))
    with pytest.raises(ValueError, match="the softmax acts on rows"):
        activate_score(Architecture(1, 2), symbols.vp)


def test_mixing_starts_at_the_identity_and_is_a_recursion():
    model = Architecture(3, 2)
    h = model.index_matrices()
    mixing = mixing_matrices(model, h)
    assert mixing[0] == sp.eye(2)
    assert len(mixing) == 3
    assert mixing[1] == layer_matrix_of_readout(model, h[0])


def test_shapes_are_checked():
    model = Architecture(2, 2)
    with pytest.raises(ValueError, match="h_1 must be 1 x 2"):
        link(model, [sp.zeros(2, 2), sp.zeros(1, 2)])
    with pytest.raises(ValueError, match="indices of 2 layers, got 1"):
        link(model, [sp.zeros(1, 2)])
    with pytest.raises(ValueError, match="2 x 2 matrix"):
        to_modes(sp.eye(3))
    with pytest.raises(ValueError, match="softmax and 2 tokens"):
        pair_layer(Architecture(2, 3), symbols.vp, symbols.vm)
    with pytest.raises(ValueError, match="one entry per layer each"):
        pair_chain(symbols.skip, [sp.S.One], [])


def test_the_names_of_many_heads_differ():
    # Head 1 on block 11 and head 11 on block 1.
    model = Architecture(2, 2, heads=11)
    names = [entry for matrix in (*model.index_matrices(), *model.readouts) for entry in matrix]
    assert len(set(names)) == len(names) == model.indices * 2 + 11**2
